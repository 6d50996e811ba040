"""Converters of running sums, products, largest and smallest elements."""

from __future__ import annotations

import torch

from torchair.convert.arguments import positions_fit_int32
from torchair.convert.promotion import cast
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.ir import DType, Value
from torchair.opset.scan import Cummax, Cummin, Cumprod, Cumsum, CumulativeLogsumexp

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.cumsum.default)
def cumsum(self: Value, dim: int, *, dtype: torch.dtype | None = None, meta_outputs: TensorSpec) -> Value:
    """aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return Cumsum(cast(self, meta_outputs.dtype), dim)


@register_fx_node_ge_converter(aten.cumprod.default)
def cumprod(self: Value, dim: int, *, dtype: torch.dtype | None = None, meta_outputs: TensorSpec) -> Value:
    """aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return Cumprod(cast(self, meta_outputs.dtype), dim)


@register_fx_node_ge_converter(aten.logcumsumexp.default)
def logcumsumexp(self: Value, dim: int) -> Value:
    """aten::logcumsumexp(Tensor self, int dim) -> Tensor"""
    return CumulativeLogsumexp(self, dim)


@register_fx_node_ge_converter(aten.cummax.default, supports=positions_fit_int32)
def cummax(self: Value, dim: int) -> tuple[Value, Value]:
    """aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    values, indices = Cummax(self, dim=dim)
    return values, cast(indices, DType.DT_INT64)


@register_fx_node_ge_converter(aten.cummin.default, supports=positions_fit_int32)
def cummin(self: Value, dim: int) -> tuple[Value, Value]:
    """aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    values, indices = Cummin(self, axis=dim)
    return values, cast(indices, DType.DT_INT64)
