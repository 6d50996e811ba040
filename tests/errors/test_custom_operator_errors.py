"""Custom operators that cannot enter a graph."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

import pytest
import torch
from expecttest import assert_expected_inline

import torchair
from tests.custom_operators import define, ops
from tests.errors.texts import compile_error, converter, raised, text_of
from tests.ge.building import declared
from torchair import ge
from torchair.contracts import check_call
from torchair.errors import (
    AutoConversionError,
    ConverterResultError,
    MissingKernelError,
    MutationError,
    OperatorContractError,
    OutputCheckError,
    UnconvertedOperatorsError,
)

X = torch.ones(2, 3)


def require(config: torchair.CompilerConfig) -> None:
    config.experimental_config.require_prototype = True


# --- automatic conversion ---


def test_scalars() -> None:
    text = compile_error(lambda x: ops.scaled(x, 2.5), X, kind=AutoConversionError)
    assert_expected_inline(
        text,
        """\
Failed to auto-generated converter for custom_operators.scaled.default to AscendIR: [TA205]
  why:
    schema:    custom_operators::scaled(Tensor x, Scalar factor) -> Tensor
    argument 'factor' is of type Scalar, which no attribute type stands for: it may be an int or a float
    the rules are in docs/custom-operators.md
  fix:
    Register a converter that gives these arguments attribute types:

    @torchair.register_fx_node_ge_converter(torch.ops.custom_operators.scaled.default)
    def convert_scaled(x, factor):
        return torchair.ge.custom_op(
            "Scaled",
            inputs={"x": x},
            outputs=["out0"],
            attrs={"factor": torchair.ge.attr.Float(factor)},  # factor: choose Float or Int
        )
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_nobody_declared_it() -> None:
    text = compile_error(lambda x: ops.my_op(x, None, [], 0.5, 2), X, kind=AutoConversionError, configure=require)
    assert_expected_inline(
        text,
        """\
Failed to auto-generated converter for custom_operators.my_op.default to AscendIR: [TA205]
  why:
    schema:    custom_operators::my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor
    No AscendIR MyOp was found to be registered.
    the rules are in docs/custom-operators.md
  fix:
    Declare the prototype, as an operator project would:

    torchair.ge.declare_op(
        "MyOp",
        inputs={"x": "required", "y": "optional", "z": "dynamic"},
        outputs=["out0"],
        attrs={"attr1": "Float", "attr2": "Int"},
    )
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_nobody_declared_it_and_it_has_scalars() -> None:
    text = compile_error(lambda x: ops.scaled(x, 2.5), X, kind=AutoConversionError, configure=require)
    assert_expected_inline(
        text,
        """\
Failed to auto-generated converter for custom_operators.scaled.default to AscendIR: [TA205]
  why:
    schema:    custom_operators::scaled(Tensor x, Scalar factor) -> Tensor
    argument 'factor' is of type Scalar, which no attribute type stands for: it may be an int or a float
    No AscendIR Scaled was found to be registered.
    the rules are in docs/custom-operators.md
  fix:
    Declare the prototype, as an operator project would:

    torchair.ge.declare_op(
        "Scaled",
        inputs={"x": "required"},
        outputs=["out0"],
        attrs={"factor": "Float"},  # factor: choose Float or Int
    )

    and register a converter:

    @torchair.register_fx_node_ge_converter(torch.ops.custom_operators.scaled.default)
    def convert_scaled(x, factor):
        return torchair.ge.custom_op("Scaled", x, factor)
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_the_declared_prototype_differs() -> None:
    with declared(lambda: ge.declare_op("MyOp", inputs=["a", "b"], outputs=["c", "d"], attrs={"e": "Str"})):
        text = compile_error(lambda x: ops.my_op(x, None, [], 0.5, 2), X, kind=AutoConversionError)
    assert_expected_inline(
        text,
        """\
Failed to auto-generated converter for custom_operators.my_op.default to AscendIR: [TA205]
  why:
    schema:    custom_operators::my_op(Tensor x, Tensor? y, Tensor[] z, float attr1, int attr2) -> Tensor
    prototype: MyOp(a, b; e: Str) -> (c, d), declared
    it has 3 tensor arguments (x, y, z), MyOp has 2 inputs (a, b)
    it has 2 other arguments (attr1, attr2), MyOp has 1 attribute (e)
    it writes 0 arguments (none) and returns 1 further value, MyOp has 2 outputs (c, d)
    the rules are in docs/custom-operators.md
  fix:
    Declare MyOp as the schema has it:

    torchair.ge.declare_op(
        "MyOp",
        inputs={"x": "required", "y": "optional", "z": "dynamic"},
        outputs=["out0"],
        attrs={"attr1": "Float", "attr2": "Int"},
    )

    or register a converter that passes what the declared operator takes:

    @torchair.register_fx_node_ge_converter(torch.ops.custom_operators.my_op.default)
    def convert_my_op(x, y, z, attr1, attr2):
        c, _ = torchair.ge.custom_op("MyOp", x, y, attr1)
        return c
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_the_declared_prototype_writes_nothing() -> None:
    with declared(lambda: ge.declare_op("MyInplace", inputs=["x", "y"], outputs=["a", "b"])):
        text = compile_error(lambda x: ops.my_inplace(x, x), X.clone(), kind=AutoConversionError)
    assert_expected_inline(
        text,
        """\
Failed to auto-generated converter for custom_operators.my_inplace.default to AscendIR: [TA205]
  why:
    schema:    custom_operators::my_inplace(Tensor(a!) x, Tensor y) -> Tensor
    prototype: MyInplace(x, y) -> (a, b), declared
    it writes 1 argument (x), MyInplace has 0 outputs with the name of an input (none)
    the rules are in docs/custom-operators.md
  fix:
    An operator that writes an input has an output of the same name. Declare MyInplace so:

    torchair.ge.declare_op(
        "MyInplace",
        inputs={"x": "required", "y": "required"},
        outputs=["x", "b"],
    )
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_the_declared_prototype_has_another_order() -> None:
    def declare():
        return ge.declare_op(
            "MyOp",
            inputs={"x": "required", "y": "optional", "z": "dynamic"},
            outputs=["out"],
            attrs={"attr2": "Int", "mode": ("Str", "a"), "attr1": "Float"},
        )

    with declared(declare):
        text = compile_error(lambda x: ops.my_op(x, None, [], 0.5, 2), X, kind=AutoConversionError)
    assert text.partition("or register a converter")[2].startswith(
        """ that passes what the declared operator takes:

    @torchair.register_fx_node_ge_converter(torch.ops.custom_operators.my_op.default)
    def convert_my_op(x, y, z, attr1, attr2):
        return torchair.ge.custom_op("MyOp", x, y, z, attr2, None, attr1)
"""
    ), text


def test_the_declared_prototype_has_too_few_outputs() -> None:
    with declared(lambda: ge.declare_op("MyInplace", inputs=["a", "b"], outputs=["c"])):
        text = compile_error(lambda x: ops.my_inplace(x, x), X.clone(), kind=AutoConversionError)
    assert 'inputs={"a": "required", "b": "required"},\n        outputs=["a", "c"],' in text
    assert "custom_op(" not in text


def test_a_built_in_operator_of_that_name_differs() -> None:
    define("neg(Tensor x, Tensor y) -> Tensor", lambda x, y: x, lambda x, y: torch.empty_like(x))
    text = compile_error(lambda x: ops.neg(x, x), X, kind=AutoConversionError)
    assert_expected_inline(
        text,
        """\
Failed to auto-generated converter for custom_operators.neg.default to AscendIR: [TA205]
  why:
    schema:    custom_operators::neg(Tensor x, Tensor y) -> Tensor
    prototype: Neg(x) -> (y), built-in
    it has 2 tensor arguments (x, y), Neg has 1 input (x)
    the rules are in docs/custom-operators.md
  fix:
    Neg is a built-in operator. Register a converter to an operator of another name:

    @torchair.register_fx_node_ge_converter(torch.ops.custom_operators.neg.default)
    def convert_neg(x, y):
        return torchair.ge.custom_op(
            "CustomOperatorsNeg",
            inputs={"x": x, "y": y},
            outputs=["out0"],
        )
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_a_built_in_operator_of_that_name_has_other_results() -> None:
    define("rsqrt(Tensor x) -> Tensor", lambda x: x.double(), lambda x: torch.empty_like(x, dtype=torch.float64))
    text = compile_error(lambda x: ops.rsqrt(x), X, kind=ConverterResultError)
    assert_expected_inline(
        text,
        """\
The results of a converter are not those of the operator [TA204]
  why:
    automatic conversion to Rsqrt of custom_operators.rsqrt.default (FX node rsqrt): result 0 is float32[2, 3], promised float64[2, 3]
  fix:
    Register a converter to an operator of another name:

    @torchair.register_fx_node_ge_converter(torch.ops.custom_operators.rsqrt.default)
    def convert_rsqrt(x):
        return torchair.ge.custom_op(
            "CustomOperatorsRsqrt",
            inputs={"x": x},
            outputs=["out0"],
        )
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


# --- kernels ---


def test_no_kernel() -> None:
    with converter(
        ops.my_op.default, lambda x, y, z, attr1, attr2: ge.custom_op("Unknown", ge.Add(x, x), y, z, 1.0, 2)
    ):
        text = compile_error(lambda x: ops.my_op(x, None, [], 0.5, 2), X, kind=MissingKernelError)
    assert_expected_inline(
        text,
        """\
An Ascend IR operator has no kernel on this machine [TA402]
  why:
    Unknown (node Unknown) has no lowering, and no kernel is registered for it
    the kernel of custom_operators.my_op.default cannot stand in, since the converter is not one-to-one: its results would be those of one IR operator, whose inputs are the torch operator's tensors, all of them (under their names, or in their order), and whose attributes are its numbers, unchanged and all of them
  fix:
    Register a kernel, install an operator project that has one, or make the converter one-to-one:

    @torchair.ge.register_kernel("Unknown")
    def unknown(x0, x1, x2, *, attr1, attr2):
        ...  # compute out0
        return out0
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_no_kernel_in_place() -> None:
    def convert(x, y):
        return ge.Add(ge.custom_op("MyInplace", x, y)[1], y)

    with (
        declared(
            lambda: ge.declare_op("MyInplace", inputs=["x", "y"], outputs=["x", "z"], attrs={"mode": ("Str", "a")})
        ),
        converter(ops.my_inplace.default, convert),
    ):
        text = compile_error(lambda x: ops.my_inplace(x, x), X.clone(), kind=MissingKernelError)
    assert_expected_inline(
        text,
        """\
An Ascend IR operator has no kernel on this machine [TA402]
  why:
    MyInplace (node MyInplace) has no lowering, and no kernel is registered for it
    the kernel of custom_operators.my_inplace.default cannot stand in, since the converter is not one-to-one: its results would be those of one IR operator, whose inputs are the torch operator's tensors, all of them (under their names, or in their order), and whose attributes are its numbers, unchanged and all of them
  fix:
    Register a kernel, install an operator project that has one, or make the converter one-to-one:

    @torchair.ge.register_kernel("MyInplace")
    def my_inplace(x, y, *, mode):
        ...  # compute z
        return z
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


# --- what is written ---


def test_a_converter_that_does_not_write() -> None:
    with converter(ops.my_inplace.default, lambda x, y: ge.Add(x, y)):
        text = compile_error(lambda x, y: ops.my_inplace(x, y), X.clone(), X, kind=MutationError)
    assert_expected_inline(
        text,
        """\
A converter does not write an argument that its operator writes [TA212]
  why:
    custom_operators.my_inplace.default writes 'x' (its schema says so), and no node that its converter added has an output named like the input that 'x' went into
  fix:
    Use an Ascend IR operator whose prototype lists the written input also as an output:

    torchair.ge.declare_op("MyOp", inputs=["x"], outputs=["x"])

    or write a new value of it: torchair.ge.Assign(x, new_value)
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_an_operator_that_returns_what_it_writes() -> None:
    define("text_returns(Tensor(a!) x) -> Tensor(a!)", lambda x: x.add_(1), lambda x: x)
    define("text_list(Tensor(a!) x) -> Tensor[]", lambda x: [x], lambda x: [torch.empty_like(x)])
    define("text_view(Tensor(a) x) -> Tensor(a)", lambda x: x[0], lambda x: x[0])
    text = compile_error(
        lambda x: (ops.text_returns(x), ops.text_list(x), ops.text_view(x)), X.clone(), kind=MutationError
    )
    assert_expected_inline(
        text,
        """\
An operator writes its arguments in a way that a graph cannot express [TA212]
  why:
    custom_operators::text_returns(Tensor(a!) x) -> Tensor(a!): result 0 is the argument 'x' that the operator writes; an operator must not return what it writes
    custom_operators::text_list(Tensor(a!) x) -> Tensor[]: result 0 is of type List[Tensor]; an operator that writes arguments may return nothing or tensors
    custom_operators::text_view(Tensor(a) x) -> Tensor(a): result 0 is a view of an argument, which only PyTorch's own operators may return
  fix:
    Return nothing (-> ()) or a tensor of its own, and let callers use the argument; or write a functional pair by hand (a Functionalize kernel that calls a functional variant).
    Return tensors one by one; or write a functional pair by hand (a Functionalize kernel that calls a functional variant).
    Return a clone(), and remove the alias annotation from the schema; or write a functional pair by hand (a Functionalize kernel that calls a functional variant).
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_an_operator_that_returns_it_without_saying_so() -> None:
    define("text_hidden(Tensor(a!) x) -> Tensor", lambda x: x.add_(1), lambda x: x)
    text = compile_error(lambda x: ops.text_hidden(x), X.clone(), kind=MutationError)
    assert_expected_inline(
        text,
        """\
An operator writes memory in a way that a graph cannot express [TA212]
  why:
    schema: custom_operators::text_hidden(Tensor(a!) x) -> Tensor
    result 0 lies in the memory of an argument that it writes (x)
  fix:
    An operator must not return what it writes: return nothing, or a tensor of its own.
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_expanded_arguments() -> None:
    text = compile_error(
        lambda x, y: (ops.accumulate(x, y), ops.accumulate(y.sum().expand(2, 3), y)),
        torch.ones(3).expand(2, 3),
        X,
        kind=MutationError,
    )
    assert_expected_inline(
        text,
        """\
An operator writes its arguments in a way that a graph cannot express [TA212]
  why:
    custom_operators.accumulate.default writes the argument 'x', which is the input x: several of its elements lie at one place of memory (it is expanded)
    custom_operators.accumulate.default writes the argument 'x', which is the result of test_custom_operator_errors.py:LINE, in <lambda>: CODE
  fix:
    Pass x.clone(), or x.contiguous().
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_expanded_inputs_of_pytorch_operators() -> None:
    text = compile_error(lambda x: x.add_(1), torch.ones(3).expand(2, 3), kind=MutationError)
    assert_expected_inline(
        text,
        """\
A tensor is written whose elements share memory [TA212]
  why:
    expanded inputs: x
  fix:
    Pass a clone() of what is written.""",
    )


# --- wrong promises ---


def test_results_that_differ_from_the_meta_function() -> None:
    define("text_shape(Tensor x) -> Tensor", lambda x: x.sum(0), lambda x: torch.empty_like(x))
    define("text_dtype(Tensor x) -> Tensor", lambda x: x.double(), lambda x: torch.empty_like(x))
    config = torchair.CompilerConfig()
    config.engine = "reference"
    texts = []
    for program in (lambda x: ops.text_shape(x), lambda x: ops.text_dtype(x)):
        compiled = torch.compile(program, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
        with pytest.raises(OutputCheckError) as caught, torch.no_grad():
            compiled(X)
        texts.append(text_of(caught.value))
    assert_expected_inline(
        texts[0],
        """\
An operator returned a result of another type than its meta function promised [TA405]
  why:
    TextShape (node TextShape), result %text_shape: torch.float32 [3], promised torch.float32 [2, 3]
    The dim of Ascend GE graph NetOutput: [3] is not equal to FX graph NetOutput: [2, 3]. (output 0)
  fix:
    Correct the kernel, or the meta function of the torch operator.
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )
    assert_expected_inline(
        texts[1],
        """\
An operator returned a result of another type than its meta function promised [TA405]
  why:
    TextDtype (node TextDtype), result %text_dtype: torch.float64 [2, 3], promised torch.float32 [2, 3]
    The dtype in num[0] net output of Ascend output: [torch.float64] is not equal to FX graph NetOutput: [torch.float32].
  fix:
    Correct the kernel, or the meta function of the torch operator.
  where:
    test_custom_operator_errors.py:LINE, in <lambda>: CODE""",
    )


def test_a_contract_that_is_broken() -> None:
    define("text_contract(Tensor x) -> Tensor", lambda x: x.view(-1), lambda x: torch.empty_like(x))
    assert len(check_call(ops.text_contract.default, (X,), {}).problems) == 2
    config = torchair.CompilerConfig()
    config.engine = "reference"
    config.debug.verify_custom_ops = True
    backend = torchair.get_npu_backend(compiler_config=config)
    compiled = torch.compile(lambda x: ops.text_contract(x), backend=backend, fullgraph=True)
    with torch.no_grad():
        text = raised(lambda: compiled(X), OperatorContractError)
    assert_expected_inline(
        text,
        """\
A kernel does not do what its fake kernel and its schema promise [TA408]
  why:
    custom_operators.text_contract.default: result 0 has shape [6], its fake kernel promises [2, 3]
    custom_operators.text_contract.default: result 0 lies in the memory of tensor argument 0, and its fake kernel makes a tensor of its own
  fix:
    Correct the kernel, its fake kernel (torch.library.register_fake), or the schema.""",
    )


# --- PyTorch's own operators ---


def test_operators_without_an_ascend_form() -> None:
    def only_ascend(config: torchair.CompilerConfig) -> None:
        config.experimental_config.unconverted_ops = "error"

    def program(x):
        return torch.linalg.qr(x), torch.linalg.qr(x + 1), torch.linalg.eigvals(x @ x.t())

    text = compile_error(program, X, kind=UnconvertedOperatorsError, configure=only_ascend)
    assert_expected_inline(
        text,
        """\
Some operators cannot be converted to Ascend IR [TA201]
  why:
    aten.linalg_qr.default: no converter is registered (2 nodes, first linalg_qr)
    aten.linalg_eig.default: no converter is registered (1 node, first linalg_eig)
  fix:
    Register a converter:

    @torchair.register_fx_node_ge_converter(torch.ops.aten.linalg_qr.default)
    def convert_linalg_qr(A, mode="reduced"):
        return torchair.ge.custom_op(
            "LinalgQr",
            inputs={"A": A},
            outputs=["Q", "R"],
            attrs={"mode": torchair.ge.attr.Str(mode)},
        )
  where:
    test_custom_operator_errors.py:LINE, in program: CODE""",
    )
