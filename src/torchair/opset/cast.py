"""Conversion between element types."""

from __future__ import annotations

from torch import Tensor

from torchair.ir import DType, TensorType, Value
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
def _(x: TensorType, *, dst_type: DType) -> tuple[object, ...] | None:
    return x.content if dst_type.is_integer and x.dtype.is_integer else None
