"""Typed attribute values (``torchair.ge.attr``), and the check of a plain value against an attribute's type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from torchair.errors import ArgumentError, PrototypeArgumentTypeError
from torchair.ir import DType, Value
from torchair.opset.prototype import ATTR_TYPES
from torchair.opset.torch_types import dtype_of

__all__ = ["ATTR_CLASSES", "TypedAttr", "attr_value", "fitting_type"]

_NO_VALUE = "Leave an attribute out where it has no value."


class TypedAttr:
    """A value with its attribute type; ``torchair.ge.attr.Int(1)``.

    Two are equal when value and class are.

    Raises:
        ArgumentError: The value is None, an attribute of another class, or not of this type.
    """

    type_name: ClassVar[str] = ""
    value: Any

    def __init__(self, value: Any) -> None:
        problem = None
        if isinstance(value, TypedAttr):
            if type(value) is not type(self):
                problem = f"it was given {value!r}"
            value = value.value
        if value is None:
            problem = "it was given None"
        if problem is None and (reason := _mismatch(self.type_name, value)) is not None:
            problem = reason
        if problem is not None:
            raise ArgumentError(
                "An attribute cannot hold this value",
                why=f"ge.attr.{self.type_name} takes {_WANTED[self.type_name]}; {problem}",
                fix=f"torchair.ge.attr.{fitting}({value!r})" if (fitting := fitting_type(value)) else _NO_VALUE,
            )
        self.value = value

    def __repr__(self) -> str:
        return f"ge.attr.{self.type_name}({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(other.value == self.value)

    def __hash__(self) -> int:
        return hash((self.type_name, repr(self.value)))


#: The classes of ``torchair.ge.attr`` by name.
ATTR_CLASSES: dict[str, type[TypedAttr]] = {
    name: type(name, (TypedAttr,), {"type_name": name, "__doc__": f"A value of attribute type {name}."})
    for name in ATTR_TYPES
}


def attr_value(operator: str, name: str, attr_type: str, value: Any) -> Any:
    """An attribute value as nodes hold it: tuples for lists, :class:`DType` for dtypes, floats for Float.

    Symbolic numbers (0-d host values) stay; the caller makes operands of them.

    Raises:
        PrototypeArgumentTypeError: The value is not of the attribute's type.
    """
    if isinstance(value, TypedAttr):
        if value.type_name != attr_type:
            raise _type_error(operator, name, attr_type, f"it was given {value!r}")
        value = value.value
    if (reason := _mismatch(attr_type, value)) is not None:
        raise _type_error(operator, name, attr_type, reason)
    return _frozen(attr_type, value)


def _type_error(operator: str, name: str, attr_type: str, reason: str) -> PrototypeArgumentTypeError:
    return PrototypeArgumentTypeError(
        "An attribute of an Ascend IR operator is of the wrong type",
        why=f"attribute {name!r} of {operator} takes {_WANTED[attr_type]}; {reason}",
        fix=f"Pass a value of attribute type {attr_type}.",
    )


def fitting_type(value: Any) -> str:
    """The attribute type that a plain Python value has: ``"Float"`` for 2.0; empty for none, or for an empty list."""
    if _is_sequence(value):
        inner = {fitting_type(item) for item in value if not (_is_sequence(item) and not len(item))}
        inner = {"Float"} if inner == {"Int", "Float"} else inner
        name = f"List{inner.pop()}" if len(inner) == 1 else ""
        return name if name in ATTR_TYPES else ""
    order = ("Bool", "DataType", "Int", "Float", "Str")  # a bool is an int too, as is a DType
    plain_int = isinstance(value, int) and not isinstance(value, DType)
    return next((t for t in order if not (t == "DataType" and plain_int) and _SCALAR_CHECKS[t](value)), "")


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, Value) and value.type.content is not None and value.type.rank == 0


def _is_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) or (_is_symbolic(value) and value.dtype.is_integer)


def _is_float(value: Any) -> bool:
    return isinstance(value, float | np.floating) or _is_int(value) or _is_symbolic(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (_is_symbolic(value) and value.dtype is DType.DT_BOOL)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, torch.dtype) or (isinstance(value, int) and value in DType._value2member_map_)


_SCALAR_CHECKS: dict[str, Callable[[Any], bool]] = {
    "Bool": _is_bool,
    "DataType": _is_dtype,
    "Float": _is_float,
    "Int": _is_int,
    "Str": lambda value: isinstance(value, str),
}

_WANTED = {
    "Bool": "a bool",
    "DataType": "a torchair.ge.DataType or a torch.dtype",
    "Float": "a number",
    "Int": "an int",
    "ListBool": "a list of bools",
    "ListDataType": "a list of torchair.ge.DataType or torch.dtype",
    "ListFloat": "a list of numbers",
    "ListInt": "a list of ints",
    "ListListFloat": "a list of lists of numbers",
    "ListListInt": "a list of lists of ints",
    "ListStr": "a list of strings",
    "Str": "a string",
}


def _mismatch(attr_type: str, value: Any) -> str | None:
    """Why a value is not of an attribute type, or None."""
    check = _SCALAR_CHECKS.get(attr_type)
    if check is not None:
        return None if check(value) else f"it was given {value!r}, a {type(value).__name__}"
    if not _is_sequence(value):
        return f"it was given {value!r}, a {type(value).__name__}"
    inner = attr_type.removeprefix("List")
    return next((reason for item in value if (reason := _mismatch(inner, item)) is not None), None)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes)


def _frozen(attr_type: str, value: Any) -> Any:
    if attr_type.startswith("List"):
        inner = attr_type.removeprefix("List")
        return tuple(_frozen(inner, item) for item in value)
    if isinstance(value, Value):
        return value
    if attr_type == "DataType":
        return dtype_of(value) if isinstance(value, torch.dtype) else DType(value)
    if attr_type == "Str":
        return str(value)
    kinds: dict[str, type] = {"Bool": bool, "Float": float, "Int": int}
    return kinds[attr_type](value)
