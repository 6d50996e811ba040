"""Converters of what reads or writes elements at positions that tensors give.

FX is functional: what writes copies its tensor first (``TensorMove``) and then calls the operator that writes in place.
A pass drops the copies that protect nothing, so that a cache is written where it lies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from torchair.convert.arguments import argument, numbers_known
from torchair.convert.aten.shape import is_whole, row_of, slice_bounds
from torchair.convert.overloads import register, sizes_known
from torchair.convert.promotion import cast, is_number, promote
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import broadcast, reshape
from torchair.errors import Rejection
from torchair.ir import DType, Value
from torchair.opset.builder import current_builder
from torchair.opset.comparison import MaskedFill
from torchair.opset.indexing import (
    EmbeddingDenseGrad,
    GatherElements,
    GatherV2,
    IndexByTensor,
    IndexPutV2,
    InplaceIndexAdd,
    MaskedScatter,
    ScatterElementsV2,
    StridedSliceAssignV2,
)
from torchair.opset.memory import TensorMove, is_literal
from torchair.opset.shape import Unsqueeze

_MASKS = (torch.bool, torch.uint8)

# --- reading ---


def _index_metas(node: fx.Node) -> list[torch.Tensor]:
    return [i.meta["val"] for i in argument(node, "indices") if i is not None]


def _positions(node: fx.Node) -> Rejection | None:
    """``supports=``: index tensors are positions, not masks."""
    if any(meta.dtype in _MASKS for meta in _index_metas(node)):
        return Rejection("how many elements a mask selects is known only after it ran", fix="Use torch.where.")
    return sizes_known(node)


def _mask(indices: Sequence[Value | None]) -> list[int]:
    return [int(i is not None) for i in indices]


@register("index.Tensor", "_unsafe_index.Tensor", supports=_positions)
def index(self: Value, indices: Sequence[Value | None]) -> Value:
    """aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    return IndexByTensor(self, [i for i in indices if i is not None], indices_mask=_mask(indices))


def _has_dimensions(node: fx.Node) -> Rejection | None:
    x = node.args[0].meta["val"]  # type: ignore[union-attr]
    return None if x.dim() else Rejection("a 0-d tensor has no dimension to gather from")


@register("take.default")
def take(self: Value, index: Value) -> Value:
    """aten::take(Tensor self, Tensor index) -> Tensor"""
    return IndexByTensor(reshape(self, [math.prod(self.shape)]), [index], indices_mask=[1])


@register("index_select.default", supports=_has_dimensions)
def index_select(self: Value, dim: int, index: Value) -> Value:
    """aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    return GatherV2(self, reshape(index, [1]) if not index.rank else index, dim % self.rank)


@register("gather.default")
def gather(self: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    return GatherElements(self, index, dim=dim % max(self.rank, 1))


@register("embedding.default")
def embedding(
    weight: Value, indices: Value, padding_idx: Any = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    """aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, ...) -> Tensor"""
    return GatherV2(weight, indices, 0)


@register("embedding_dense_backward.default", supports=numbers_known("num_weights", "padding_idx"))
def embedding_dense_backward(
    grad_output: Value, indices: Value, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, ...) -> Tensor"""
    return EmbeddingDenseGrad(
        grad_output,
        indices,
        num_weights=num_weights,
        padding_idx=padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
    )


# --- writing at positions along dimensions ---


def _one_value(meta: torch.Tensor) -> bool:
    return all(is_literal(size, 1) for size in meta.shape)


def _positions_or_one_mask(node: fx.Node) -> Rejection | None:
    """``supports=``: positions, or one mask under which one value is written."""
    metas = _index_metas(node)
    if not any(meta.dtype in _MASKS for meta in metas):
        return None
    one = len(metas) == 1 and _one_value(argument(node, "values").meta["val"])
    if one and not argument(node, "accumulate"):
        return None
    return Rejection("how many elements a mask selects is known only after it ran", fix="Use torch.where.")


@register("index_put.default", "_unsafe_index_put.default", supports=_positions_or_one_mask)
def index_put(self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    """aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    given = [i for i in indices if i is not None]
    if any(i.dtype.short_name in ("bool", "uint8") for i in given):
        return _masked_fill(self, indices, values)
    mask = _mask(indices)
    whole = mask + [0] * (self.rank - len(mask))
    return IndexPutV2(TensorMove(self), values, mask, whole, given, accumulate=accumulate)


def _masked_fill(self: Value, indices: Sequence[Value | None], value: Value) -> Value:
    """``self[:, mask] = value``."""
    ((place, mask),) = ((i, m) for i, m in enumerate(indices) if m is not None)
    behind = self.rank - place - mask.rank
    if behind:
        mask = Unsqueeze(mask, axes=[mask.rank + i for i in range(behind)])
    return MaskedFill(self, cast(mask, DType.DT_BOOL), reshape(value, []))


def _long_positions(node: fx.Node) -> Rejection | None:
    """``supports=``: eager takes int64 positions only, though its meta functions take others."""
    dtype = argument(node, "index").meta["val"].dtype
    return None if dtype is torch.int64 else Rejection(f"eager takes positions of dtype int64, not {dtype}")


@register("put.default", supports=_long_positions)
def put(self: Value, index: Value, source: Value, accumulate: bool = False) -> Value:
    """aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    count = math.prod(index.shape)
    flat = reshape(TensorMove(self), [math.prod(self.shape)])
    written = IndexPutV2(flat, reshape(source, [count]), [1], [1], [reshape(index, [count])], accumulate=accumulate)
    return reshape(written, self.shape)


@register("index_copy.default", supports=_long_positions)
def index_copy(self: Value, dim: int, index: Value, source: Value) -> Value:
    """aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor

    Unlike IndexPut, and like eager, ScatterElements lets no index count from the end.
    """
    axis = dim % max(self.rank, 1)
    (count,) = index.shape or [1]
    shape = [count if i == axis else size for i, size in enumerate(self.shape)]
    places = reshape(index, [count if i == axis else 1 for i in range(self.rank)])
    return _scatter(self, dim, broadcast(places, shape), reshape(source, shape), "none")


def _fills(node: fx.Node) -> Rejection | None:
    value = argument(node, "value")
    dtype = argument(node, "self").meta["val"].dtype
    if isinstance(value, fx.Node) and getattr(value.meta["val"], "dtype", None) is not dtype:
        return Rejection("eager reads the number, and refuses one that does not fit")
    return _long_positions(node)


@register("index_fill.int_Scalar", "index_fill.int_Tensor", supports=_fills)
def index_fill(self: Value, dim: int, index: Value, value: Any) -> Value:
    """aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    shape = self.shape or [1]
    axis = dim % len(shape)
    mask = [int(i == axis) for i in range(len(shape))]
    target = TensorMove(self) if self.rank else reshape(TensorMove(self), shape)
    filled = IndexPutV2(target, promote(value, self.dtype, checked=True), mask, mask, [index])
    return filled if self.rank else reshape(filled, [])


def _exact_alpha(node: fx.Node) -> Rejection | None:
    """``supports=``: the operator takes the factor as a host number."""
    alpha = argument(node, "alpha")
    if isinstance(alpha, int | float):
        return None
    return Rejection(f"alpha is {alpha!r}, not a real number known when the graph is built")


@register("index_add.default", supports=_exact_alpha)
def index_add(self: Value, dim: int, index: Value, source: Value, *, alpha: float = 1) -> Value:
    """aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    factor = None if alpha == 1 else current_builder().host(alpha, self.dtype)
    return InplaceIndexAdd(TensorMove(self), index, source, factor, axis=dim % max(self.rank, 1))


# --- writing elements ---


def _scatter(self: Value, dim: int, index: Value, src: Any, reduction: str) -> Value:
    """Write or combine elements; a number stands for all elements of ``src``."""
    updates = src if isinstance(src, Value) and not is_number(src) else promote(src, self.dtype, checked=True)
    if not updates.rank:
        updates = broadcast(cast(updates, self.dtype), index.shape)
    return ScatterElementsV2(TensorMove(self), index, updates, axis=dim % max(self.rank, 1), reduction=reduction)


@register("scatter.src", "scatter.value")
def scatter(self: Value, dim: int, index: Value, src: Any) -> Value:
    """aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scatter(self, dim, index, src, "none")


@register("scatter_add.default")
def scatter_add(self: Value, dim: int, index: Value, src: Value) -> Value:
    """aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scatter(self, dim, index, src, "add")


#: torch's names of reductions that the Ascend operator has.
_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul"}


def _reducible(node: fx.Node) -> Rejection | None:
    reduce = argument(node, "reduce")
    names = {a.name for a in node.target._schema.arguments}  # type: ignore[union-attr]
    if reduce not in _REDUCTIONS:
        return Rejection(f"ScatterElements has no reduction {reduce!r}", fix="Use a sum or a product.")
    if "include_self" in names and not argument(node, "include_self"):
        return Rejection("ScatterElements always combines with what is there (include_self=True)")
    return None


@register("scatter.reduce", "scatter.value_reduce", supports=_reducible)
def scatter_with_reduction(self: Value, dim: int, index: Value, src: Any, *, reduce: str) -> Value:
    """aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return _scatter(self, dim, index, src, _REDUCTIONS[reduce])


@register("scatter_reduce.two", supports=_reducible)
def scatter_reduce(self: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True) -> Value:
    """aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, ...) -> Tensor"""
    return _scatter(self, dim, index, src, _REDUCTIONS[reduce])


@register("masked_scatter.default")
def masked_scatter(self: Value, mask: Value, source: Value, *, meta_outputs: TensorSpec) -> Value:
    """aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    shape = meta_outputs.type.shape
    return MaskedScatter(broadcast(self, shape), broadcast(cast(mask, DType.DT_BOOL), shape), source)


# --- writing slices ---


@register("slice_scatter.default")
def slice_scatter(self: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Value:
    """aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)"""
    values = cast(src, self.dtype)
    if is_whole(self.shape[dim], start, end, step):
        return TensorMove(values) if values is src else values
    begin, last = slice_bounds(start, end)
    return StridedSliceAssignV2(TensorMove(self), values, begin, last, [step], [dim % self.rank])


@register("select_scatter.default")
def select_scatter(self: Value, src: Value, dim: int, index: Any) -> Value:
    """aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    bounds = row_of(self, dim, index)
    row = cast(src, self.dtype)
    return StridedSliceAssignV2(TensorMove(self), row, bounds.begin, bounds.end, bounds.strides, **bounds.masks)
