"""What a torch schema says in the terms of a prototype, and the code that messages show."""

from __future__ import annotations

import ast

import pytest
import torch

from tests.custom_operators import define, ops
from torchair.convert.pasting import (
    converter_code,
    declaration_code,
    fake_kernel_code,
    parameters_of,
    positional_converter_code,
)
from torchair.convert.schemas import OperatorSchema, ir_name
from torchair.opset.prototype import REQUIRED, AttrSpec, InputSpec, OutputSpec, Prototype

define(
    "schema_of_everything(Tensor x, Tensor? y, Tensor[] z, Tensor?[] q, Tensor[]? r, Scalar s, int i, SymInt si, "
    "SymInt[] sil, float f, float[]? lf, bool b, bool[3] lb, str st, str[] ls, ScalarType d, Layout? l=None, "
    "Device? dev=None, MemoryFormat? mf=None, int[] i4=[1, 2], float inf=3.5, *, bool? pin=True, Tensor(a!) w, "
    "Tensor(b!)[] wl, Tensor(c!)? wo) -> (Tensor, Tensor)",
    None,
)
define("clash(Tensor out0, Tensor out0_) -> (Tensor, Tensor)", None)
EVERYTHING = OperatorSchema.of(ops.schema_of_everything.default)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ns::my_op", "MyOp"),
        ("my_inplace_op", "MyInplaceOp"),
        ("ns::my_op_functional", "MyOp"),
        ("ns::functional", "Functional"),
        ("ns::foo_", "Foo"),
        ("ns::MLAProlog_v3", "MlaprologV3"),
        ("ns::my_op.overload", "MyOp"),
        ("ns::my__op", "MyOp"),
    ],
)
def test_names(name, expected) -> None:
    assert ir_name(name) == expected


def test_kinds_of_arguments() -> None:
    kinds = {
        a.name: a.input_kind or a.attr_type or ("placement" if a.is_placement else None) for a in EVERYTHING.arguments
    }
    assert kinds == {
        "x": "required",
        "y": "optional",
        "z": "dynamic",
        "q": "dynamic",
        "r": "dynamic",
        "s": None,
        "i": "Int",
        "si": "Int",
        "sil": "ListInt",
        "f": "Float",
        "lf": "ListFloat",
        "b": "Bool",
        "lb": "ListBool",
        "st": "Str",
        "ls": "ListStr",
        "d": "DataType",
        "l": "placement",
        "dev": "placement",
        "mf": "placement",
        "i4": "ListInt",
        "inf": "Float",
        "pin": "Bool",
        "w": "required",
        "wl": "dynamic",
        "wo": "optional",
    }
    assert [a.name for a in EVERYTHING.written] == ["w", "wl", "wo"]
    assert [a.name for a in EVERYTHING.arguments if a.kwarg_only] == ["pin", "w", "wl", "wo"]
    assert {a.name: a.default for a in EVERYTHING.arguments if a.default is not REQUIRED} == {
        "l": None,
        "dev": None,
        "mf": None,
        "i4": (1, 2),
        "inf": 3.5,
        "pin": True,
    }
    types = {a.name: a.torch_type for a in EVERYTHING.arguments}
    assert (types["y"], types["q"], types["r"], types["s"], types["lf"]) == (
        "Tensor?",
        "Tensor?[]",
        "Tensor[]?",
        "Scalar",
        "float[]?",
    )


def test_results() -> None:
    assert EVERYTHING.returns == ("tensor", "tensor")
    assert EVERYTHING.returned_arguments == (None, None)
    assert OperatorSchema.of(ops.mixed.default).returns == ("tensor", "list", "tensor")
    add = OperatorSchema.of(torch.ops.aten.add_.Tensor)
    assert (add.returns, add.returned_arguments) == ((), ("self",))
    out = OperatorSchema.of(torch.ops.aten.max.dim_max)
    assert (out.returns, out.returned_arguments) == ((), ("max", "max_values"))


def test_values_of_a_call() -> None:
    schema = OperatorSchema.of(ops.attributes.default)
    pairs = schema.pairs((1, 2, 3.0), {"b": True, "oi": 7})
    values = {argument.name: value for argument, value in pairs}
    assert values == {
        "x": 1,
        "i": 2,
        "f": 3.0,
        "b": True,
        "s": None,
        "li": None,
        "lf": None,
        "lb": None,
        "oi": 7,
        "d": 1.5,
    }


def test_derived_prototypes() -> None:
    prototype = OperatorSchema.of(ops.write_some.default).derive_prototype()
    assert prototype == Prototype(
        "WriteSome",
        (InputSpec("x", "optional"), InputSpec("y"), InputSpec("ys", "dynamic")),
        (),
        (OutputSpec("x", "optional"), OutputSpec("ys", "dynamic"), OutputSpec("out0")),
        f"derived from {ops.write_some.default._schema}",
        derived=True,
    )
    assert OperatorSchema.of(ops.scaled.default).derive_prototype().attrs == ()
    named = OperatorSchema.of(ops.scaled.default).derive_prototype("Other", scalars=True)
    assert (named.name, named.attrs) == ("Other", (AttrSpec("factor", "Float"),))


def test_outputs_are_never_called_like_an_argument() -> None:
    prototype = OperatorSchema.of(ops.clash.default).derive_prototype()
    assert [spec.name for spec in prototype.outputs] == ["out0__", "out1"]
    assert prototype.reference_outputs == ()


OVERLOADS = [
    getattr(ops, name).default
    for name in (
        *(
            "my_op",
            "my_inplace",
            "accumulate",
            "exchange",
            "fill_all",
            "write_some",
            "two",
            "pieces",
            "mixed",
            "positive",
        ),
        *("attributes", "placed", "scaled", "sized", "gathered", "schema_of_everything", "clash"),
    )
]


@pytest.mark.parametrize("overload", OVERLOADS, ids=str)
def test_the_code_of_messages_is_python(overload) -> None:
    schema = OperatorSchema.of(overload)
    prototype = schema.derive_prototype(scalars=True)
    other = Prototype(
        "Other", (InputSpec("a"), InputSpec("b", "optional")), (AttrSpec("c", "Int"),), (OutputSpec("d"),)
    )
    for code in (
        converter_code(schema),
        converter_code(schema, "Other"),
        positional_converter_code(schema, prototype),
        positional_converter_code(schema, other),
        declaration_code(prototype),
        fake_kernel_code(schema),
        f"def f({', '.join(parameters_of(schema.arguments))}): pass",
    ):
        ast.parse(code)


def test_a_converter_for_everything() -> None:
    code = converter_code(OperatorSchema.of(ops.write_some.default))
    assert code == (
        "@torchair.register_fx_node_ge_converter(torch.ops.custom_operators.write_some.default)\n"
        "def convert_write_some(x, y, ys):\n"
        "    _, _, out0 = torchair.ge.custom_op(\n"
        '        "WriteSome",\n'
        '        inputs={"x": x, "y": y, "ys": ys},\n'
        '        outputs=["x", ("ys", len(ys)), "out0"],\n'
        "    )\n"
        "    return out0"
    )
    code = converter_code(OperatorSchema.of(ops.mixed.default))
    assert "def convert_mixed(x, n, *, meta_outputs):" in code
    assert 'outputs=["out0", ("out1", len(meta_outputs[1])), "out2"]' in code
