"""``torchair.ge.attr``."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torchair.errors import ArgumentError, PrototypeArgumentTypeError
from torchair.ge import DataType, attr
from torchair.opset.attributes import attr_value, fitting_type
from torchair.opset.prototype import ATTR_TYPES

VALUES = {
    "Bool": True,
    "DataType": DataType.DT_FLOAT,
    "Float": 1.5,
    "Int": 3,
    "ListBool": [True, False],
    "ListDataType": [DataType.DT_FLOAT, torch.int32],
    "ListFloat": [1.5, 2],
    "ListInt": [1, 2],
    "ListListFloat": [[1.5], []],
    "ListListInt": [[1, 2], [3]],
    "ListStr": ["a", "b"],
    "Str": "a",
}
WRONG: dict[str, Any] = {
    "Bool": [1, "True", 0.5],
    "DataType": ["float", 1.5, 1000],
    "Float": ["1.5", [1.5]],
    "Int": [1.5, "1", [1]],
    "ListBool": [True, [1]],
    "ListDataType": [DataType.DT_FLOAT, ["x"]],
    "ListFloat": [1.5, ["x"]],
    "ListInt": [1, [1.5], "12"],
    "ListListFloat": [[1.5], [["x"]]],
    "ListListInt": [[1], [[1.5]]],
    "ListStr": ["ab", [1]],
    "Str": [1, ["a"]],
}


def test_there_is_one_class_for_each_type() -> None:
    assert set(VALUES) == set(WRONG) == set(ATTR_TYPES) == set(attr.__all__) - {"TypedAttr"}


@pytest.mark.parametrize("name", ATTR_TYPES)
def test_repr_and_equality(name) -> None:
    cls = getattr(attr, name)
    a = cls(VALUES[name])
    assert repr(a) == f"ge.attr.{name}({VALUES[name]!r})"
    assert a == cls(VALUES[name])
    assert a == cls(a)
    assert hash(a) == hash(cls(VALUES[name]))
    assert a != VALUES[name]


def test_equality_needs_the_same_class() -> None:
    assert attr.Int(1) != attr.Float(1)
    assert attr.Int(1) != attr.Int(2)


@pytest.mark.parametrize("name", ATTR_TYPES)
def test_none_and_other_classes_are_refused(name) -> None:
    cls = getattr(attr, name)
    other = attr.Int(1) if name != "Int" else attr.Float(1.0)
    for value in (None, other):
        with pytest.raises(AssertionError, match="An attribute cannot hold this value"):
            cls(value)


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values])
def test_values_of_another_type_are_refused(name, value) -> None:
    with pytest.raises(ArgumentError, match="An attribute cannot hold this value"):
        getattr(attr, name)(value)
    with pytest.raises(PrototypeArgumentTypeError, match="attribute 'a' of MyOp takes"):
        attr_value("MyOp", "a", name, value)


def test_values_become_what_nodes_hold() -> None:
    assert attr_value("MyOp", "a", "Float", 2) == 2.0
    assert isinstance(attr_value("MyOp", "a", "Float", 2), float)
    assert attr_value("MyOp", "a", "ListInt", [1, 2]) == (1, 2)
    assert attr_value("MyOp", "a", "ListListInt", [[1], [2]]) == ((1,), (2,))
    assert attr_value("MyOp", "a", "DataType", torch.int32) is DataType.DT_INT32
    assert attr_value("MyOp", "a", "DataType", 0) is DataType.DT_FLOAT
    assert attr_value("MyOp", "a", "Int", attr.Int(3)) == 3
    with pytest.raises(TypeError):
        attr_value("MyOp", "a", "Int", attr.Float(3.0))


@pytest.mark.parametrize("name", ATTR_TYPES)
def test_the_type_that_a_plain_value_has(name) -> None:
    assert fitting_type(VALUES[name]) == name


@pytest.mark.parametrize("value", [None, [], [1, "a"], object(), [[["x"]]], [None]])
def test_values_without_a_type(value) -> None:
    assert fitting_type(value) == ""


def test_an_error_names_the_type_that_fits() -> None:
    with pytest.raises(ArgumentError) as caught:
        attr.Int(2.0)
    assert caught.value.fix == "torchair.ge.attr.Float(2.0)"
