"""Arithmetic on elements."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import ascend_op

__all__ = ["Add", "Mul"]


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Add(x1: Value, x2: Value) -> Value:
    """``x1 + x2``.

    Shapes: broadcast. dtypes: any number, equal.
    """
    raise NotImplementedError


@Add.lower
def _(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.add(x1, x2)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Mul(x1: Value, x2: Value) -> Value:
    """``x1 * x2``.

    Shapes: broadcast. dtypes: any number, equal.
    """
    raise NotImplementedError


@Mul.lower
def _(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.mul(x1, x2)
