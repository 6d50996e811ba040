"""``torchair.ge.custom_op``: both call forms, derived prototypes, and every error."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchair
from tests.custom_operators import ops
from tests.ge.building import conversion, declared
from torchair.errors import ArgumentError, PrototypeNotFoundError
from torchair.ge import attr
from torchair.ir import DType, Slot, TensorType
from torchair.opset.builder import current_builder
from torchair.opset.prototype import prototypes

#: Tests pass what annotations forbid.
ge: Any = torchair.ge


@pytest.fixture(autouse=True)
def _my_op():
    with declared(
        lambda: torchair.ge.declare_op(
            "GeTestOp",
            inputs={"x": "required", "y": "optional", "z": "dynamic"},
            outputs=["out"],
            attrs={"attr1": "Float", "attr2": ("Int", 4), "mode": ("Str", "a"), "kind": ("DataType", None)},
        )
    ):
        yield


def symbolic(name: str = "s0"):
    """A 0-d host value that stands for a size."""
    import sympy

    builder = current_builder()
    symbol = sympy.Symbol(name, integer=True, positive=True)
    return builder.graph.add_input(TensorType.of(DType.DT_INT64, (), content=[symbol]), name)


# --- positional form ---


def test_positional_form() -> None:
    with conversion((2, 3), (2, 3)) as (x, y):
        out = ge.custom_op("GeTestOp", x, None, [x, y], 0.5, 2)
    node = out.producer
    assert (node.op, node.inputs, node.output_names) == ("GeTestOp", (x, None, (x, y)), ("out",))
    assert node.attrs == {"attr1": 0.5, "attr2": 2, "mode": "a"}


def test_attributes_that_are_none_are_left_out_or_have_their_default() -> None:
    with conversion((2,)) as (x,):
        node = ge.custom_op("GeTestOp", x, x, [], 1, None, None, torch.int32).producer
    assert node.attrs == {"attr1": 1.0, "attr2": 4, "mode": "a", "kind": DType.DT_INT32}


def test_symbolic_attributes_are_read_at_run_time() -> None:
    with conversion((2,)) as (x,):
        n = symbolic()
        node = ge.custom_op("GeTestOp", x, None, [x], 0.5, n).producer
    assert node.inputs == (x, None, (x,), (n,))
    assert node.attrs["attr2"] == Slot(3, host=True)


def test_dictionaries_are_ignored_beside_positional_arguments() -> None:
    with conversion((2,)) as (x,):
        node = ge.custom_op("GeTestOp", x, None, [], 0.5, inputs=7, outputs="no", attrs=3).producer
    assert node.inputs == (x, None, ())


# --- keyword form ---


def test_keyword_form() -> None:
    with conversion((2, 3), (2, 3)) as (x, y):
        out = ge.custom_op(
            "GeTestOp",
            inputs={"z": (x, y), "x": x},
            attrs={"attr2": attr.Int(2), "attr1": attr.Float(0.5)},
            outputs=["out"],
            node_name="mine",
        )
    node = out.producer
    assert (node.name, node.inputs) == ("mine", (x, None, (x, y)))
    assert node.attrs == {"attr1": 0.5, "attr2": 2, "mode": "a"}


def test_results_have_the_structure_of_the_outputs() -> None:
    with conversion((2, 3), overload=ops.mixed.default) as (x,):
        one = ge.custom_op("A", inputs={"x": x}, outputs=["y"])
        several = ge.custom_op("B", inputs={"x": x}, outputs=["y", ("zs", 2), "w"])
        listed = ge.custom_op("C", inputs={"x": x}, outputs=[("zs", 1)])
        empty = ge.custom_op("D", inputs={"x": x}, outputs=[("zs", 0), "y"])
        nothing = ge.custom_op("E", inputs={"x": x})
    assert isinstance(one, ge.Tensor)
    y, zs, w = several
    assert several == (y, zs, w)
    assert [v.index for v in (y, *zs, w)] == [0, 1, 2, 3]
    assert isinstance(zs, list)
    assert y.producer.output_names == ("y", "zs0", "zs1", "w")
    assert isinstance(listed, list)
    assert len(listed) == 1
    assert empty[0] == []
    assert nothing is None


def test_operators_in_place() -> None:
    with conversion((2, 3), (2, 3), overload=ops.my_inplace.default) as (x, y):
        copy = ge.Clone(x)
        new, z = ge.custom_op("InPlace", inputs={"a": copy, "b": y}, outputs=["a", "z"])
    assert new.producer.writes == ((0, 0),)
    assert new.producer.inputs[0] is copy
    assert (new.dtype, new.shape) == (DType.DT_FLOAT, (2, 3))
    assert z.dtype is DType.DT_UNDEFINED


def test_what_others_may_read_is_copied_before_it_is_written() -> None:
    with conversion((2, 3), overload=ops.two.default) as (x,):
        constant = ge.Const([1.0, 2.0])
        view = ge.Identity(x)
        for value in (x, constant, view):
            new = ge.custom_op("InPlace", inputs={"a": value}, outputs=["a"])
            assert new.producer.inputs[0].producer.op == "TensorMove"
            assert new.producer.inputs[0].producer.inputs[0] is value
        again = ge.custom_op("InPlace", inputs={"a": new}, outputs=["a"])
        assert again.producer.inputs[0] is new


def test_lists_in_place() -> None:
    with conversion((2,), (3,), overload=ops.fill_all.default) as (x, y):
        a, b = ge.Clone(x), ge.Clone(y)
        new = ge.custom_op("FillAll", inputs={"xs": [a, b]}, outputs=[("xs", 2)], attrs={"value": attr.Float(1.0)})
    assert [v.shape for v in new] == [(2,), (3,)]
    assert new[0].producer.writes == ((0, 0), (1, 1))


def test_an_output_of_an_absent_input_is_absent() -> None:
    with conversion((2,), overload=ops.write_some.default) as (y,):
        copy = ge.Clone(y)
        x, ys, z = ge.custom_op("WriteSome", inputs={"x": None, "y": y, "ys": [copy]}, outputs=["x", ("ys", 1), "z"])
    assert x is None
    assert [v.index for v in (*ys, z)] == [0, 1]
    assert ys[0].producer.writes == ((0, 2),)


# --- prototypes that nobody declared ---


def test_the_positional_form_takes_them_from_the_torch_schema() -> None:
    with conversion((2,), (2,), overload=ops.my_inplace.default) as (x, y):
        new, _ = ge.custom_op("Whatever", x, y)
    assert new.producer.output_names == ("x", "out0")
    assert new.producer.writes == ((0, 0),)
    assert prototypes.get("Whatever") is None


def test_built_in_operators_need_no_declaration() -> None:
    with conversion((2, 3)) as (x,):
        assert ge.custom_op("Add", x, x).shape == (2, 3)
        y = ge.custom_op("Cast", inputs={"x": x}, attrs={"dst_type": attr.DataType(torch.int32)}, outputs=["y"])
    assert y.dtype is DType.DT_INT32


@pytest.mark.parametrize(
    ("context", "why"),
    [
        ({}, "outside the conversion of a torch operator"),
        ({"overload": ops.two.default, "require_prototype": True}, "require_prototype is set"),
    ],
)
def test_otherwise_the_operator_has_to_be_known(context, why) -> None:
    for call in (
        lambda x: ge.custom_op("GeTestOq", x),
        lambda x: ge.custom_op("GeTestOq", inputs={"x": x}, outputs=["y"]),
    ):
        with (
            conversion((2,), **context) as (x,),
            pytest.raises(RuntimeError, match="No AscendIR GeTestOq was found") as caught,
        ):
            call(x)
        assert isinstance(caught.value, PrototypeNotFoundError)
        assert why in str(caught.value)
        assert "GeTestOp" in caught.value.fix  # a similar name


@pytest.mark.parametrize("name", [None, "", 3])
def test_the_operator_has_a_name(name) -> None:
    with conversion(), pytest.raises(PrototypeNotFoundError, match="given by its name"):
        ge.custom_op(name)


# --- errors of the positional form ---


@pytest.mark.parametrize("count", [0, 1, 3, 8])
def test_wrong_number_of_arguments(count) -> None:
    with conversion((2,)) as (x,), pytest.raises(IndexError) as caught:
        ge.custom_op("GeTestOp", *[x] * count)
    assert "takes 4 to 7 (3 inputs, 4 attributes)" in str(caught.value)
    assert f"{count} were given" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda x: (1.0, None, [x], 0.5), ["'x' of GeTestOp is required", "a tensor", "float"]),
        (lambda x: (None, None, [x], 0.5), ["'x' of GeTestOp is required", "NoneType"]),
        (lambda x: ([x], None, [x], 0.5), ["'x' of GeTestOp is required", "list"]),
        (lambda x: (x, 3, [x], 0.5), ["'y' of GeTestOp is optional", "a tensor or None", "int"]),
        (lambda x: (x, None, x, 0.5), ["'z' of GeTestOp is dynamic", "a list of tensors"]),
        (lambda x: (x, None, None, 0.5), ["'z' of GeTestOp is dynamic", "NoneType"]),
        (lambda x: (x, None, [x, 1], 0.5), ["'z' of GeTestOp is dynamic"]),
        (lambda x: (x, None, [x], "0.5"), ["'attr1' of GeTestOp takes a number", "str"]),
        (lambda x: (x, None, [x], 0.5, 1.5), ["'attr2' of GeTestOp takes an int", "float"]),
        (lambda x: (x, None, [x], 0.5, x), ["'attr2' of GeTestOp takes an int"]),
    ],
)
def test_wrong_kinds(arguments, words) -> None:
    with conversion((2,)) as (x,), pytest.raises(TypeError) as caught:
        ge.custom_op("GeTestOp", *arguments(x))
    for word in words:
        assert word in str(caught.value)


def test_dynamic_outputs_need_the_keyword_form() -> None:
    with (
        declared(lambda: ge.declare_op("GeTestList", inputs=["x"], outputs=[("ys", "dynamic")])),
        conversion((2,)) as (x,),
        pytest.raises(TypeError, match="how many values 'ys' has is not known"),
    ):
        ge.custom_op("GeTestList", x)


# --- errors of the keyword form ---


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda x: {"inputs": [x]}, "inputs is a list"),
        (lambda x: {"inputs": {"x": 1}}, "input 'x' is 1"),
        (lambda x: {"inputs": {"x": [x, None]}}, "input 'x' is"),
        (lambda x: {"inputs": {"x": x}, "attrs": [1]}, "attrs is a list"),
        (lambda x: {"inputs": {"x": x}, "attrs": {"a": 1}}, "it takes torchair.ge.attr.Int(1)"),
        (lambda x: {"inputs": {"x": x}, "attrs": {"a": None}}, "ge.attr.Bool, ge.attr.DataType, ge.attr.Float"),
        (lambda x: {"inputs": {"x": x}, "outputs": "y"}, "outputs is a str"),
        (lambda x: {"inputs": {"x": x}, "outputs": {"y": 1}}, "outputs is a dict"),
        (lambda x: {"inputs": {"x": x}, "outputs": [1]}, "output 1 is neither"),
        (lambda x: {"inputs": {"x": x}, "outputs": [("y", "2")]}, "output ('y', '2') is neither"),
        (lambda x: {"inputs": {"x": x}, "outputs": [("y", -1)]}, "output ('y', -1) is neither"),
        (lambda x: {"inputs": {"x": x}, "outputs": [("y", True)]}, "output ('y', True) is neither"),
    ],
)
def test_wrong_dictionaries(arguments, words) -> None:
    with conversion((2,), overload=ops.two.default) as (x,), pytest.raises(AssertionError) as caught:
        ge.custom_op("GeTestOp", **arguments(x))
    assert isinstance(caught.value, ArgumentError)
    assert words in str(caught.value)


def test_all_wrong_entries_are_listed() -> None:
    with conversion((2,)), pytest.raises(ArgumentError) as caught:
        ge.custom_op("GeTestOp", inputs={"x": 1}, attrs={"a": 2}, outputs=[3])
    assert len(caught.value.why) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda x: {"inputs": {"x": x, "w": x, "z": []}, "outputs": ["out"]}, "'w' is no input of it"),
        (
            lambda x: {"inputs": {"x": x, "z": []}, "attrs": {"b": attr.Int(1)}, "outputs": ["out"]},
            "'b' is no attribute",
        ),
        (lambda x: {"inputs": {"x": x, "z": []}, "outputs": ["y"]}, "its outputs are out; y were named"),
        (lambda x: {"inputs": {"x": x, "z": []}}, "its outputs are out; none were named"),
        (lambda x: {"inputs": {"z": []}, "outputs": ["out"]}, "input 'x' of GeTestOp is required"),
        (lambda x: {"inputs": {"x": x, "z": []}, "outputs": ["out"]}, "'attr1' of GeTestOp"),
        (
            lambda x: {"inputs": {"x": x, "z": []}, "attrs": {"attr1": attr.Int(1)}, "outputs": ["out"]},
            "takes a number; it was given ge.attr.Int(1)",
        ),
    ],
)
def test_names_and_types_against_the_prototype(arguments, words) -> None:
    with conversion((2,)) as (x,), pytest.raises(TypeError) as caught:
        ge.custom_op("GeTestOp", **arguments(x))
    assert words in str(caught.value)
