"""Converters of sorting, the largest elements, and search in sorted sequences."""

from __future__ import annotations

import torch

from torchair.convert.arguments import numbers_known, positions_fit_int32
from torchair.convert.promotion import cast, promote
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.ir import DType, Value
from torchair.opset.sorting import SearchSorted, Sort, TopKV2
from torchair.opset.torch_types import dtype_of, torch_dtype

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.sort.default, supports=positions_fit_int32)
def sort(self: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    return _sort(self, dim, descending, stable=False)


@register_fx_node_ge_converter(aten.sort.stable, supports=positions_fit_int32)
def sort_stable(self: Value, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor
    indices)
    """
    return _sort(self, dim, descending, stable=bool(stable))


def _sort(x: Value, dim: int, descending: bool, *, stable: bool) -> tuple[Value, Value]:
    values, indices = Sort(x, axis=dim, descending=descending, stable=stable)
    return values, cast(indices, DType.DT_INT64)


@register_fx_node_ge_converter(aten.topk.default, supports=positions_fit_int32)
def topk(self: Value, k: int | Value, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, Value]:
    """aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor
    indices)
    """
    values, indices = TopKV2(self, k, sorted=sorted, dim=dim, largest=largest)
    return values, cast(indices, DType.DT_INT64)


@register_fx_node_ge_converter(aten.searchsorted.Tensor)
def searchsorted(
    sorted_sequence: Value,
    self: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str?
    side=None, Tensor? sorter=None) -> Tensor
    """
    return _search(sorted_sequence, self, out_int32, right or side == "right", sorter)


@register_fx_node_ge_converter(aten.searchsorted.Scalar, supports=numbers_known("self"))
def searchsorted_scalar(
    sorted_sequence: Value,
    self: float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str?
    side=None, Tensor? sorter=None) -> Tensor
    """
    return _search_number(sorted_sequence, self, out_int32, right or side == "right", sorter)


@register_fx_node_ge_converter(aten.bucketize.Tensor)
def bucketize(self: Value, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    """aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _search(boundaries, self, out_int32, right)


@register_fx_node_ge_converter(aten.bucketize.Scalar, supports=numbers_known("self"))
def bucketize_scalar(self: float, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    """aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"""
    return _search_number(boundaries, self, out_int32, right)


def _search(sequence: Value, values: Value, out_int32: bool, right: bool, sorter: Value | None = None) -> Value:
    dtype = DType.DT_INT32 if out_int32 else DType.DT_INT64
    return SearchSorted(sequence, values, sorter, dtype=dtype, right=right)


def _search_number(sequence: Value, number: float, out_int32: bool, right: bool, sorter: Value | None = None) -> Value:
    """Search of one number, compared in the common dtype, as eager does."""
    common = dtype_of(torch.result_type(torch.empty(1, dtype=torch_dtype(sequence.dtype)), number))
    return _search(cast(sequence, common), promote(number, common), out_int32, right, sorter)
