"""Schemas, prototype files and ``op_plugin_functions.yaml`` that cannot be used."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

import json

import torch
from expecttest import assert_expected_inline

import torchair
from tests.errors.texts import raised
from torchair.customop import load_op_plugin_yaml, load_prototypes, prototype_json
from torchair.customop.output_rules import evaluate, parse_dtype, parse_size
from torchair.customop.schema_text import parse_schema
from torchair.errors import (
    ArgumentError,
    MissingKernelError,
    OperatorClashError,
    OperatorContractError,
    OperatorFileError,
    OperatorFileNotFoundError,
    OutputRuleError,
    SchemaError,
)
from torchair.opset.kernels import kernels

YAML = """\
custom:
- func: text_op(Tensor x, int n) -> Tensor
  op_api: all_version
  gen_opapi:
    out: {size: '{n, x.size(0)}', dtype: x}
    exec: aclnnTextOp
"""


def plain(text: str, path) -> str:
    return text.replace(str(path), "FILE")


def test_a_schema() -> None:
    text = raised(lambda: parse_schema("union(Tensor from, int n, int n) -> Tensor", namespace="mine"), SchemaError)
    assert_expected_inline(
        text,
        """\
A schema is not one that a custom operator can have [TA219]
  why:
    schema: union(Tensor from, int n, int n) -> Tensor
    the operator name 'union' is a keyword of C++
    the argument name 'from' is a keyword of Python
    there are two arguments 'n'
  fix:
    Write it like this: my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor""",
    )


def test_a_schema_that_json_cannot_express() -> None:
    text = raised(lambda: prototype_json("f(Tensor x, Scalar s, int? n) -> Tensor"), SchemaError)
    assert_expected_inline(
        text,
        """\
A schema has no JSON prototype [TA219]
  why:
    schema: f(Tensor x, Scalar s, int? n) -> Tensor
    argument 's' is of type Scalar, which no attribute type stands for; write float or int
    argument 'n' may be None, and an attribute of a JSON prototype always has a value
  fix:
    Change the schema (int n=-1 in place of int? n=None), or declare what Python can express: torchair.ge.declare_op.""",
    )


def test_a_prototype_file(tmp_path) -> None:
    path = tmp_path / "ops.json"
    document = [
        {
            "op": "textOp",
            "input_desc": [{"name": "x", "param_type": "maybe", "format": ["ND"], "type": ["flot"]}],
            "attr": [{"name": "n", "param_type": "optional", "type": "int"}],
        }
    ]
    path.write_text(json.dumps(document))
    text = plain(raised(lambda: load_prototypes(path), OperatorFileError), path)
    assert_expected_inline(
        text,
        """\
A file that describes operators is malformed [TA220]
  why:
    $[0].output_desc: the field is missing
    $[0].op: "textOp" is not a name in upper camel case: MyOp
    $[0].input_desc[0].param_type: "maybe" is none of required, optional, dynamic
    $[0].input_desc[0].type[0]: "flot" is not known; did you mean 'float'?
    $[0].attr[0].default_value: the field is missing, and the attribute is optional
  fix:
    Correct the file; docs/custom-operators.md shows one.
  where:
    FILE""",
    )


def test_a_file_that_is_not_there(tmp_path) -> None:
    path = tmp_path / "ops.json"
    text = plain(raised(lambda: load_prototypes(path), OperatorFileNotFoundError), path)
    assert_expected_inline(
        text,
        """\
A file that describes operators is malformed [TA220]
  why:
    the file does not exist
  fix:
    Correct the file; docs/custom-operators.md shows one.
  where:
    FILE""",
    )


def test_a_yaml_file(tmp_path) -> None:
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text("custom:\n- op_api: x\n- func: f(Tensor x) -> Tensor\n  gen_opapi: {out: {siz: x}, exec: [a]}\n")
    text = plain(raised(lambda: load_op_plugin_yaml(path, "text_yaml"), OperatorFileError), path)
    assert_expected_inline(
        text,
        """\
A file that describes operators is malformed [TA220]
  why:
    line 2: an entry has no func:
    line 4: no field is called 'siz'; did you mean 'size'?
    line 4: exec is a text, not a list
  fix:
    Correct the file; docs/custom-operators.md shows one.
  where:
    FILE""",
    )


def test_entries_of_a_yaml_file(tmp_path) -> None:
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text(YAML.replace("x.size(0)", "x.sise(0)"))
    report = load_op_plugin_yaml(path, "text_yaml")
    assert_expected_inline(
        plain(raised(report.require, OperatorFileError), path),
        """\
Entries of an operator file cannot be used [TA220]
  why:
    line 2, text_yaml::text_op: '{n, x.sise(0)}' is to give a size: the method 'sise' is not known; did you mean 'size'?
    arguments: x: tensor, n: int
  fix:
    Correct these entries, or register the operators from Python (torch.library).
  where:
    FILE""",
    )
    assert_expected_inline(
        plain(str(report), path),
        """\
FILE
  text_yaml::text_op  refused      '{n, x.sise(0)}' is to give a size: the method 'sise' is not known; did you mean 'size'?
                                   arguments: x: tensor, n: int""",
    )


def test_a_namespace(tmp_path) -> None:
    text = raised(lambda: load_op_plugin_yaml(tmp_path / "x.yaml", "aten"), ArgumentError)
    assert_expected_inline(
        text,
        """\
Operators cannot be defined in this namespace [TA210]
  why:
    the namespace 'aten' is one of PyTorch's own namespaces
  fix:
    load_op_plugin_yaml(path, namespace="my_namespace")""",
    )


def test_rules() -> None:
    schema = parse_schema("f(Tensor x, int n) -> Tensor")
    text = raised(lambda: parse_size("brodcast(x, {n})", schema), OutputRuleError)
    assert_expected_inline(
        text,
        """\
A rule for an output cannot be used [TA221]
  why:
    'brodcast(x, {n})' is to give a size: the function 'brodcast' is not known; did you mean 'broadcast'?
    arguments: x: tensor, n: int
  fix:
    Write an argument's name, '{4, x.size(0)}', 'n == 1 ? x.sizes() : {n}', or a function: array_to_small_vector, broadcast, broadcast_ops_npu_output_size, cat, infer_size, infershape_for_elewise, input_same_output_size, matmul, permute, reduce, reduce_ops_npu_output_size, same""",
    )
    text = raised(lambda: parse_dtype("n", schema), OutputRuleError)
    assert_expected_inline(
        text,
        """\
A rule for an output cannot be used [TA221]
  why:
    'n' is to give a dtype: it has a whole number where a dtype is needed
    arguments: x: tensor, n: int
  fix:
    Write an argument's name, at::kFloat, 'n == 1 ? at::kFloat : x.scalar_type()', or a function: promote, promoteTypes, promote_types, result_type, toComplexType, toRealValueType, to_real""",
    )


def test_a_rule_for_one_call() -> None:
    rule = parse_size("broadcast(x, {n, 1})", parse_schema("f(Tensor x, int n) -> Tensor"))
    text = raised(lambda: evaluate(rule, {"x": torch.ones(2, 3), "n": 4}), OutputRuleError)
    assert_expected_inline(
        text,
        """\
A rule for an output gives nothing for these arguments [TA221]
  why:
    size: broadcast(x, {n, 1})
    sizes [2, 3] and [4, 1] cannot be broadcast: 2 and 4 in dimension -2
    n: 4
    x: torch.float32 [2, 3]
  fix:
    Pass other arguments, or correct the rule.""",
    )


def test_clashes_and_kernels(tmp_path) -> None:
    path = tmp_path / "op_plugin_functions.yaml"
    path.write_text(YAML)
    load_op_plugin_yaml(path, "text_yaml_kernels").require()
    operator = torch.ops.text_yaml_kernels.text_op
    assert_expected_inline(
        raised(lambda: operator(torch.ones(2, 3), 4), MissingKernelError),
        """\
An Ascend IR operator has no kernel on this machine [TA402]
  why:
    text_yaml_kernels::text_op runs aclnnTextOp, and no kernel of TextOp is registered
  fix:
    Load the library that has it, or register one:

    @torchair.ge.register_kernel("TextOp")
    def text_op(x, *, n):
        ...  # compute and return the outputs
  where:
    op_plugin_functions.yaml:2""",
    )
    torchair.ge.register_kernel("TextOp")(lambda x, *, n: x.double())
    try:
        text = raised(lambda: operator(torch.ones(2, 3), 4), OperatorContractError)
    finally:
        kernels.forget("TextOp")
    assert_expected_inline(
        text,
        """\
A kernel does something else than the rules of its operator's outputs say [TA408]
  why:
    text_yaml_kernels::text_op, kernel TextOp: out has shape [2, 3], its rule says [4, 2]
    text_yaml_kernels::text_op, kernel TextOp: out has dtype torch.float64, its rule says torch.float32
    rule of out: size: {n, x.size(0)}, dtype: x
  fix:
    Correct the kernel (of a project: its size inference in op_host/*.cpp, too), or the rules.
  where:
    op_plugin_functions.yaml:2""",
    )
    path.write_text(YAML.replace("int n", "float n").replace("{n, ", "{"))
    text = plain(raised(lambda: load_op_plugin_yaml(path, "text_yaml_kernels"), OperatorClashError), path)
    assert_expected_inline(
        text,
        """\
An operator is defined with another schema [TA222]
  why:
    op_plugin_functions.yaml:2: text_yaml_kernels::text_op(Tensor x, float n) -> Tensor
    defined: text_yaml_kernels::text_op(Tensor x, int n) -> Tensor
  fix:
    Use another name or namespace; a schema that changed takes effect in a new process.
  where:
    FILE""",
    )
