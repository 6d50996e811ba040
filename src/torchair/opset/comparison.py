"""Comparisons, logic, bits, and choosing elements by a mask."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import ascend_op
from torchair.opset.pointwise import binary, unary

__all__ = [
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Greater", "GreaterEqual", "Invert", "IsInf", "IsNan",
    "LeftShift", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "MaskedFill", "NotEqual",
    "RightShift", "SelectV2",
]  # fmt: skip

_TO_BOOL = "any number, equal; the result is bool"
_REALS_TO_BOOL = "real numbers and bool, equal; the result is bool"
_BOOL = "bool"
_INTEGERS = "integers, equal; the result's is the same"

Equal = binary("Equal", torch.eq, "Whether ``x1 == x2``.", dtypes=_TO_BOOL)
NotEqual = binary("NotEqual", torch.ne, "Whether ``x1 != x2``.", dtypes=_TO_BOOL)
Less = binary("Less", torch.lt, "Whether ``x1 < x2``.", dtypes=_REALS_TO_BOOL)
LessEqual = binary("LessEqual", torch.le, "Whether ``x1 <= x2``.", dtypes=_REALS_TO_BOOL)
Greater = binary("Greater", torch.gt, "Whether ``x1 > x2``.", dtypes=_REALS_TO_BOOL)
GreaterEqual = binary("GreaterEqual", torch.ge, "Whether ``x1 >= x2``.", dtypes=_REALS_TO_BOOL)
IsNan = unary(
    "IsNan", torch.isnan, "Whether ``x`` is not a number.",
    dtypes="any number; the result is bool", source="CANN op_proto: math_ops.h",
)  # fmt: skip
IsInf = unary(
    "IsInf", torch.isinf, "Whether ``x`` is infinite.",
    dtypes="any number; the result is bool", source="CANN op_proto: math_ops.h",
)  # fmt: skip

LogicalAnd = binary("LogicalAnd", torch.logical_and, "Whether both are true.", dtypes=_BOOL)
LogicalOr = binary("LogicalOr", torch.logical_or, "Whether either is true.", dtypes=_BOOL)
LogicalNot = unary("LogicalNot", torch.logical_not, "Whether ``x`` is false.", dtypes=_BOOL)

BitwiseAnd = binary("BitwiseAnd", torch.bitwise_and, "The bits that both have.", dtypes=_INTEGERS)
BitwiseOr = binary("BitwiseOr", torch.bitwise_or, "The bits that either has.", dtypes=_INTEGERS)
BitwiseXor = binary("BitwiseXor", torch.bitwise_xor, "The bits that one of both has.", dtypes=_INTEGERS)
Invert = unary("Invert", torch.bitwise_not, "All bits flipped.", dtypes=_INTEGERS)


@ascend_op(source="CANN op_proto: bitwise_ops.h", outputs=("z",))
def LeftShift(x: Value, y: Value) -> Value:
    """``x << y``; 0 when ``y`` is negative or not below the number of bits.

    Shapes: broadcast. dtypes: integers, equal; the result's is the same.
    """
    raise NotImplementedError


@LeftShift.lower
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.bitwise_left_shift(x, y)


@ascend_op(source="CANN op_proto: bitwise_ops.h", outputs=("z",))
def RightShift(x: Value, y: Value) -> Value:
    """``x >> y``, the sign bit moving in; as many bits as there are when ``y`` is negative or above that.

    Shapes: broadcast. dtypes: integers, equal; the result's is the same.
    """
    raise NotImplementedError


@RightShift.lower
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.bitwise_right_shift(x, y)


@ascend_op(source="CANN op_proto: selection_ops.h", outputs=("result",))
def SelectV2(condition: Value, then: Value, else_: Value) -> Value:
    """``then`` where ``condition`` holds, ``else`` elsewhere.

    Shapes: broadcast. dtypes: ``condition`` is bool; ``then`` and ``else`` are any, equal; the result has theirs.
    """
    raise NotImplementedError


@SelectV2.lower
def _(condition: Tensor, then: Tensor, else_: Tensor) -> Tensor:
    return torch.where(condition, then, else_)


@ascend_op(source="CANN op_proto: selection_ops.h")
def MaskedFill(x: Value, mask: Value, value: Value) -> Value:
    """``value`` where ``mask`` holds, ``x`` elsewhere.

    Shapes: ``x`` and ``mask`` broadcast, ``value`` is 0-d or ``[1]``.
    dtypes: ``mask`` is bool; ``x`` and ``value`` are any, equal; the result has theirs.
    """
    raise NotImplementedError


@MaskedFill.lower
def _(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    return torch.masked_fill(x, mask, value.reshape(()))
