"""``torchair.ge.Const``, ``Cast``, ``Clone`` and the operators by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import torchair
from tests.ge.building import conversion
from torchair._ge_concrete_graph import ge_apis
from torchair.errors import ArgumentError, NoGraphError
from torchair.ge import DataType
from torchair.opset.loading import operator_names

#: Tests pass what annotations forbid.
ge: Any = torchair.ge


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (1.5, DataType.DT_FLOAT, ()),
        (3, DataType.DT_INT64, ()),
        (True, DataType.DT_BOOL, ()),
        ([1, 2], DataType.DT_INT64, (2,)),
        ([1.0, 2], DataType.DT_DOUBLE, (2,)),
        ([[1, 2], [3, 4]], DataType.DT_INT64, (2, 2)),
        ([], DataType.DT_INT32, (0,)),
        ([True, False], DataType.DT_BOOL, (2,)),
        (np.array([1, 2], np.int16), DataType.DT_INT16, (2,)),
        (torch.ones(2, 3, dtype=torch.bfloat16), DataType.DT_BF16, (2, 3)),
        ("text", DataType.DT_STRING, ()),
        (["a", "bc"], DataType.DT_STRING, (2,)),
    ],
)
def test_const_infers_its_dtype(value, dtype, shape) -> None:
    with conversion():
        made = ge.Const(value)
    assert (made.dtype, made.shape, made.producer.op) == (dtype, shape, "Const")


@pytest.mark.parametrize("dtype", [DataType.DT_INT32, 3, torch.int32])
def test_const_takes_a_dtype(dtype) -> None:
    with conversion():
        assert ge.Const([1, 2], dtype).dtype is DataType.DT_INT32


def test_const_keeps_its_value_as_text_on_request() -> None:
    with conversion():
        assert ge.Const([1, 2]).producer.attrs["_readable_value"] == "[1, 2]"
        assert "_readable_value" not in ge.Const([1, 2], readable=False).producer.attrs


def test_constants_of_integers_know_their_content() -> None:
    with conversion():
        assert ge.Const([2, 3]).type.content == (2, 3)


def test_nodes_take_the_name_that_is_asked_for() -> None:
    with conversion((2,)) as (x,):
        names = [
            ge.Const(1, node_name="one").producer.name,
            ge.Cast(x, dst_type=DataType.DT_INT32, node_name="two").producer.name,
            ge.Clone(x, node_name="three").producer.name,
        ]
    assert names == ["one", "two", "three"]


@pytest.mark.parametrize("name", ["", "taken"])
def test_node_names_are_unique(name) -> None:
    with conversion():
        ge.Const(1, node_name="taken")
        with pytest.raises(AssertionError, match="A node needs a name of its own") as caught:
            ge.Const(2, node_name=name)
    assert isinstance(caught.value, ArgumentError)


@pytest.mark.parametrize("dst_type", [DataType.DT_FLOAT16, 1, torch.float16])
def test_cast(dst_type) -> None:
    with conversion((2, 3)) as (x,):
        y = ge.Cast(x, dst_type=dst_type)
    assert (y.dtype, y.shape, y.producer.op) == (DataType.DT_FLOAT16, (2, 3), "Cast")


def test_cast_makes_a_constant_of_a_number() -> None:
    with conversion():
        y = ge.Cast(3, dst_type=DataType.DT_FLOAT)
    assert y.producer.inputs[0].producer.op == "Const"


@pytest.mark.parametrize(
    "function", [lambda x, d: ge.Cast(x, dst_type=1, dependencies=d), lambda x, d: ge.Clone(x, dependencies=d)]
)
def test_dependencies_order_nodes(function) -> None:
    with conversion((2,), (2,)) as (x, other):
        before = ge.Clone(other)
        after = function(x, [before])
    assert after.producer.control == (before.producer,)


@pytest.mark.parametrize("dependencies", [[1], None, "x"])
@pytest.mark.parametrize(
    "function", [lambda x, d: ge.Cast(x, dst_type=1, dependencies=d), lambda x, d: ge.Clone(x, dependencies=d)]
)
def test_dependencies_are_tensors(function, dependencies) -> None:
    with conversion((2,)) as (x,), pytest.raises(AssertionError, match="dependencies of a node are tensors"):
        function(x, dependencies)


def test_clone_is_a_copy() -> None:
    with conversion((2, 3)) as (x,):
        y = ge.Clone(x)
    assert (y.producer.op, y.type) == ("TensorMove", x.type)


@pytest.mark.parametrize("value", [1, None, torch.ones(2), [1.0]])
def test_clone_takes_a_tensor_of_the_graph(value) -> None:
    with conversion(), pytest.raises(AssertionError, match="takes a tensor of the graph"):
        ge.Clone(value)


@pytest.mark.parametrize("dtype", [1.5, "float32", 1000, True])
def test_a_wrong_dtype_is_named(dtype) -> None:
    with conversion((2,)) as (x,):
        with pytest.raises(ArgumentError, match=r"A dtype is a torchair\.ge\.DataType"):
            ge.Cast(x, dst_type=dtype)
        with pytest.raises(ArgumentError, match=r"A dtype is a torchair\.ge\.DataType"):
            ge.Const(1, dtype)


def test_const_refuses_a_tensor_of_the_graph_and_what_is_no_value() -> None:
    with conversion((2,)) as (x,):
        with pytest.raises(ValueError, match="cannot be made from a tensor of the graph"):
            ge.Const(x)
        for value in (object(), [[1], [1, 2]], None):
            with pytest.raises(ArgumentError, match="cannot be made from this value"):
                ge.Const(value)


@pytest.mark.parametrize(
    "call", [lambda: ge.Const(1), lambda: ge.Cast(1, dst_type=0), lambda: ge.custom_op("MyOp"), lambda: ge.Add(1, 2)]
)
def test_functions_work_only_inside_converters(call) -> None:
    with pytest.raises(NoGraphError, match="work only inside a converter"):
        call()


def test_every_operator_is_a_function() -> None:
    names = operator_names()
    assert len(names) > 20
    for name in names:
        assert getattr(ge_apis, name) is not None
        assert getattr(ge, name) is not None
    assert {"Add", "MatMulV2", "Reshape", "Shape"} <= set(dir(ge))
    assert {"Add", "Cast"} <= set(dir(ge_apis))
    with conversion((2, 3)) as (x,):
        y = ge.Shape(ge.Add(x, x))
    assert y.type.content == (2, 3)


@pytest.mark.parametrize("module", [ge, ge_apis])
def test_unknown_operators_say_what_to_do(module) -> None:
    with pytest.raises(AttributeError, match=r"torchair\.ge\.custom_op"):
        module.NoSuchOperator
    assert not hasattr(module, "_private")


def test_rank_is_unknown_in_the_middle_of_a_converter() -> None:
    from tests.custom_operators import ops

    with conversion((2, 3), overload=ops.two.default) as (x,):
        y = ge.custom_op("Unknown", inputs={"x": x}, outputs=["y"], attrs={})
        assert y.dtype is DataType.DT_UNDEFINED
        assert (x.dtype, x.rank, x.index) == (DataType.DT_FLOAT, 2, 0)
        with pytest.raises(AssertionError, match="rank of a tensor is not known"):
            y.rank
        z = ge.Add(y, y)
        assert z.dtype is DataType.DT_UNDEFINED


def test_format_has_the_public_numbers() -> None:
    assert (ge.Format.FORMAT_ND.value, ge.Format.FORMAT_FRACTAL_NZ.value) == (2, 29)
    assert (DataType.DT_FLOAT6_E3M2, DataType.DT_FLOAT6_E2M3, DataType.DT_MAX) == (38, 39, 42)
