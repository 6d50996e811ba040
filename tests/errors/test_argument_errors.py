"""Arguments of public functions that these cannot take."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline

import torchair
from tests.custom_operators import ops
from tests.errors.texts import raised
from tests.ge.building import conversion, declared
from torchair.errors import (
    ArgumentError,
    ArgumentTypeError,
    EagerCallError,
    ForeignMemoryError,
    PrototypeArgumentCountError,
    PrototypeArgumentTypeError,
    PrototypeError,
    PrototypeNotFoundError,
    UnavailableFeatureError,
)
from torchair.ge import attr
from torchair.llm_datadist import create_npu_tensors

#: Tests pass what annotations forbid.
ge: Any = torchair.ge
scope: Any = torchair.scope


@pytest.fixture
def x():
    with (
        declared(
            lambda: ge.declare_op(
                "TextOp",
                inputs={"x": "required", "z": "dynamic"},
                outputs=["out"],
                attrs={"attr1": "Float", "attr2": ("Int", 0)},
            )
        ),
        conversion((2, 3), overload=ops.my_op.default, require_prototype=True) as (value,),
    ):
        yield value


def test_unknown_operator(x) -> None:
    text = raised(lambda: ge.custom_op("TextOps", x), PrototypeNotFoundError)
    assert_expected_inline(
        text,
        """\
An Ascend IR operator is not known [TA206]
  why:
    No AscendIR TextOps was found to be registered.
    config.experimental_config.require_prototype is set, so its prototype is not derived
  fix:
    Declare it: torchair.ge.declare_op("TextOps", inputs=[...], outputs=[...], attrs={...})
    or use a known one: TextOp""",
    )


def test_number_of_arguments(x) -> None:
    text = raised(lambda: ge.custom_op("TextOp", x), PrototypeArgumentCountError)
    assert_expected_inline(
        text,
        """\
An Ascend IR operator was given another number of arguments than it has [TA209]
  why:
    TextOp(x, z[]; attr1: Float, attr2: Int = 0) -> (out) takes 3 to 4 (2 inputs, 2 attributes), 1 were given
  fix:
    Pass the inputs in order (None for an absent one, a list for a dynamic one), then the attributes.""",
    )


def test_kind_of_an_input(x) -> None:
    text = raised(lambda: ge.custom_op("TextOp", 1.0, [x], 0.5), PrototypeArgumentTypeError)
    assert_expected_inline(
        text,
        """\
An input of an Ascend IR operator is of the wrong kind [TA208]
  why:
    input 'x' of TextOp is required: it takes a tensor, not float (1.0)
  fix:
    Signature: TextOp(x, z[]; attr1: Float, attr2: Int = 0) -> (out)
    A Python number becomes a tensor with torchair.ge.Const(value).""",
    )


def test_type_of_an_attribute(x) -> None:
    text = raised(lambda: ge.custom_op("TextOp", x, [x], "a"), PrototypeArgumentTypeError)
    assert_expected_inline(
        text,
        """\
An attribute of an Ascend IR operator is of the wrong type [TA208]
  why:
    attribute 'attr1' of TextOp takes a number; it was given 'a', a str
  fix:
    Pass a value of attribute type Float.""",
    )


def test_a_required_attribute(x) -> None:
    text = raised(lambda: ge.custom_op("TextOp", inputs={"x": x, "z": []}, outputs=["out"]), PrototypeArgumentTypeError)
    assert_expected_inline(
        text,
        """\
An Ascend IR operator lacks a required attribute [TA208]
  why:
    'attr1' of TextOp(x, z[]; attr1: Float, attr2: Int = 0) -> (out) was not given
  fix:
    attrs={"attr1": torchair.ge.attr.Float(...)}""",
    )


def test_names(x) -> None:
    text = raised(
        lambda: ge.custom_op("TextOp", inputs={"y": x, "z": []}, outputs=["y"], attrs={"a": attr.Int(1)}),
        PrototypeArgumentTypeError,
    )
    assert_expected_inline(
        text,
        """\
The names given to an Ascend IR operator are not those of its prototype [TA208]
  why:
    TextOp(x, z[]; attr1: Float, attr2: Int = 0) -> (out)
    'y' is no input of it
    'a' is no attribute of it
    its outputs are out; y were named
  fix:
    Use the names of the prototype; outputs in its order.""",
    )


def test_dictionaries(x) -> None:
    text = raised(lambda: ge.custom_op("TextOp", inputs={"x": 1}, outputs=[("y", -1)], attrs={"a": 2}), ArgumentError)
    assert_expected_inline(
        text,
        """\
custom_op was called with arguments that it cannot take [TA210]
  why:
    TextOp: input 'x' is 1; it takes a tensor, None or a list of tensors
    TextOp: attribute 'a' is 2; it takes torchair.ge.attr.Int(2)
    TextOp: output ('y', -1) is neither a name nor a (name, count) pair
  fix:
    torchair.ge.custom_op("TextOp", inputs={"x": x}, attrs={"a": torchair.ge.attr.Int(1)}, outputs=["y", ("z", 2)])""",
    )


def test_dynamic_outputs(x) -> None:
    with declared(lambda: ge.declare_op("TextList", inputs=["x"], outputs=[("ys", "dynamic")])):
        text = raised(lambda: ge.custom_op("TextList", x), PrototypeArgumentTypeError)
    assert_expected_inline(
        text,
        """\
An operator with a dynamic output is called by keyword [TA208]
  why:
    TextList(x) -> (ys[]): how many values 'ys' has is not known from positional arguments
  fix:
    torchair.ge.custom_op("TextList", inputs=..., attrs=..., outputs=[("ys", count)])""",
    )


def test_constants(x) -> None:
    assert_expected_inline(
        raised(lambda: ge.Const([[1], [1, 2]]), ArgumentError),
        """\
A constant cannot be made from this value [TA210]
  why:
    [[1], [1, 2]]: expected sequence of length 1 at dim 1 (got 2)
  fix:
    Pass a number, a nested list of numbers of equal lengths, a string, a NumPy array or a torch tensor.""",
    )


def test_copies(x) -> None:
    assert_expected_inline(
        raised(lambda: ge.Clone(1), ArgumentError),
        """\
A function of torchair.ge takes a tensor of the graph [TA210]
  why:
    Clone was given 1, a int
  fix:
    torchair.ge.Const(value) makes a tensor of a Python value.""",
    )


def test_dependencies(x) -> None:
    assert_expected_inline(
        raised(lambda: ge.Cast(x, dst_type=0, dependencies=[1]), ArgumentError),
        """\
The dependencies of a node are tensors of the graph [TA210]
  why:
    Cast was given dependencies=[1], where 1 is a int
  fix:
    Pass a list of tensors whose producers must run before.""",
    )


def test_dtypes(x) -> None:
    assert_expected_inline(
        raised(lambda: ge.Cast(x, dst_type="float"), ArgumentError),
        """\
A dtype is a torchair.ge.DataType or a torch.dtype [TA210]
  why:
    Cast was given 'float'
  fix:
    torchair.ge.DataType.DT_FLOAT""",
    )


def test_node_names(x) -> None:
    ge.Const(1, node_name="one")
    assert_expected_inline(
        raised(lambda: ge.Const(1, node_name="one"), ArgumentError),
        """\
A node needs a name of its own [TA210]
  why:
    'one' is the name of another node
  fix:
    Leave node_name out, or give another.""",
    )


def test_rank_in_the_middle_of_a_converter() -> None:
    with conversion((2, 3), overload=ops.my_op.default) as (x,):
        y = ge.custom_op("TextUnknown", inputs={"x": x}, outputs=["y"])
        assert_expected_inline(
            raised(lambda: y.rank, ArgumentError),
            """\
The rank of a tensor is not known [TA210]
  why:
    %TextUnknown comes from TextUnknown, and nothing has told its type
  fix:
    Decide from the converter's arguments and from meta_outputs.""",
        )


def test_attribute_values() -> None:
    assert_expected_inline(
        raised(lambda: attr.Int(None), ArgumentError),
        """\
An attribute cannot hold this value [TA210]
  why:
    ge.attr.Int takes an int; it was given None
  fix:
    Leave an attribute out where it has no value.""",
    )
    assert_expected_inline(
        raised(lambda: attr.ListInt([1.5]), ArgumentError),
        """\
An attribute cannot hold this value [TA210]
  why:
    ge.attr.ListInt takes a list of ints; it was given 1.5, a float
  fix:
    torchair.ge.attr.ListFloat([1.5])""",
    )


def test_declarations() -> None:
    text = raised(
        lambda: ge.declare_op("Text Op", inputs={"x": "some", "1": "required"}, outputs="y", attrs={"a": "int"}),
        PrototypeError,
    )
    assert_expected_inline(
        text,
        """\
An operator prototype is not valid [TA207]
  why:
    Text Op: input 'x' is 'some'; kinds are required, optional, dynamic
    Text Op: the outputs are 'y'; they are a dict of name to kind, or a list of names
    Text Op: attribute 'a' has type 'int', which is none of Bool, DataType, Float, Int, ListBool, ListDataType, ListFloat, ListInt, ListListFloat, ListListInt, ListStr, Str
  fix:
    Correct the declaration.""",
    )


def test_a_name_that_is_taken() -> None:
    text = raised(lambda: ge.declare_op("Add", inputs=["x"], outputs=["y"]), PrototypeError)
    assert_expected_inline(
        text,
        """\
A built-in operator of that name has another prototype [TA207]
  why:
    built-in: Add(x1, x2) -> (y)
    declared: Add(x) -> (y)
  fix:
    Choose another name.""",
    )


def test_kernels() -> None:
    assert_expected_inline(
        raised(lambda: ge.register_kernel(3), ArgumentError),
        """\
A kernel is registered for an Ascend IR operator by its name [TA210]
  why:
    register_kernel was given 3
  fix:
    @torchair.ge.register_kernel("MyOp")""",
    )
    assert_expected_inline(
        raised(lambda: ge.register_kernel("MyOp", kind="tensor"), ArgumentError),
        """\
A kernel has an unknown kind [TA210]
  why:
    the kind of the kernel of MyOp is 'tensor'; kinds are None, 'cube', 'vector'
  fix:
    Leave kind out where both core budgets apply.""",
    )


def test_checked_operators() -> None:
    assert_expected_inline(
        raised(lambda: torchair.check_operator(torch.ops.aten.relu), ArgumentTypeError),
        """\
check_operator takes one operator overload [TA217]
  why:
    aten.relu has the overloads default, out
  fix:
    torchair.check_operator(torch.ops.my_namespace.my_op.default, x, ...)""",
    )


def test_scopes() -> None:
    assert_expected_inline(
        raised(lambda: scope.op_never_timeout(1), ArgumentTypeError),
        """\
An argument is of the wrong type [TA217]
  why:
    op_never_timeout takes enable as bool, it was given 1 of type int
  fix:
    See the function's documentation.""",
    )
    assert_expected_inline(
        raised(lambda: torchair.scope.limit_core_num(0, 1), ArgumentError),
        """\
A number of cores is out of range [TA210]
  why:
    limit_core_num was given op_aicore_num=0; it is at least 1
  fix:
    Give the number of cores that an operator may use at most.""",
    )
    assert_expected_inline(
        raised(lambda: torchair.scope.super_kernel("a", "b=1"), ArgumentError),
        """\
An option of a super kernel is not valid [TA210]
  why:
    super_kernel was given 'b=1' in 'b=1'; b takes one of the known keys (feed-sync-all, stream-fusion, strict-scope-check, dcci-before-kernel-start, dcci-after-kernel-end, dcci-disable-on-kernel, debug-aic-num, debug-aiv-num)
  fix:
    super_kernel("name", "stream-fusion=1:strict-scope-check=bypass")""",
    )


def test_eager_calls() -> None:
    x = torch.ones(1)
    assert_expected_inline(
        raised(lambda: torchair.scope.npu_wait_tensor(x, x), EagerCallError),
        """\
npu_wait_tensor is not supported in eager mode [TA218]
  why:
    outside a compiled function operators run in program order, and there is nothing to wait for
  fix:
    Call it inside a function that torch.compile compiles with a backend of torchair.""",
    )


def test_printing() -> None:
    assert_expected_inline(
        raised(lambda: torchair.ops.npu_print("x", 1), ArgumentError),
        """\
npu_print needs at least one tensor [TA210]
  why:
    it was given 'x', 1
  fix:
    Use print() for text alone.""",
    )
    assert_expected_inline(
        raised(lambda: torchair.ops.npu_print([]), ArgumentTypeError),
        """\
npu_print takes tensors, strings, bools, floats and ints [TA217]
  why:
    argument 0 is [], a list
  fix:
    Convert it to a string first.""",
    )


def test_foreign_memory() -> None:
    assert_expected_inline(
        raised(lambda: create_npu_tensors([2], torch.float32, [6]), ForeignMemoryError),
        """\
A tensor cannot be made over an address [TA409]
  why:
    0x6 is not a multiple of 4 bytes, which torch.float32 needs
  fix:
    Pass addresses as data_ptr() gives them.""",
    )


def test_features_of_later_versions() -> None:
    text = raised(lambda: torchair.inference.set_dim_gears(torch.ones(1), {0: [2, 4]}), UnavailableFeatureError)
    assert_expected_inline(
        text,
        """\
A feature is not in this version [TA501]
  why:
    torchair.inference.set_dim_gears has its name here, and no implementation yet
  fix:
    torch.compile(..., dynamic=True) serves all sizes with one graph.""",
    )
