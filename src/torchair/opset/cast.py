"""Conversion between element types."""

from __future__ import annotations

import sympy
from torch import Tensor

from torchair.ir import Dim, DType, TensorType, Value
from torchair.opset.operator import ascend_op
from torchair.opset.torch_types import torch_dtype

__all__ = ["Cast"]


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Cast(x: Value, *, dst_type: DType) -> Value:
    """``x`` with elements of another dtype, converted as ``torch.Tensor.to`` does.

    Shapes: ``x`` and the result are any, equal. dtypes: ``x`` is any, the result ``dst_type``.
    """
    raise NotImplementedError


@Cast.lower
def _(x: Tensor, *, dst_type: DType) -> Tensor:
    return x.to(torch_dtype(dst_type))


@Cast.content
def _(x: TensorType, *, dst_type: DType) -> tuple[Dim, ...] | None:
    if x.content is None or not (dst_type.is_integer and x.dtype.is_integer):
        return None
    return x.content if all(_fits(number, dst_type) for number in x.content) else None


def _fits(number: Dim, dtype: DType) -> bool:
    """Whether a host number keeps its value; sizes are taken to fit into 32 bits, and into nothing narrower."""
    bits = 8 * dtype.itemsize
    if isinstance(number, sympy.Basic):
        return bits >= 32
    signed = not dtype.short_name.startswith("u")
    return bool(-(2 ** (bits - 1)) * signed <= number < 2 ** (bits - signed))
