"""Converters of what gives the same elements another shape or order: views, joins, splits, repetitions.

A view of torch becomes an operator that is lowered to a real view. Sizes come from what FX promises, so -1 is never
passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchair.convert.arguments import argument, numbers_known
from torchair.convert.overloads import host_number, register, sizes_known
from torchair.convert.promotion import cast
from torchair.convert.results import TensorSpec
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.builder import current_builder
from torchair.opset.memory import Identity, Pack, TensorMove, is_literal
from torchair.opset.shape import (
    Bitcast,
    BroadcastTo,
    ConcatV2,
    MatrixDiagPartV2,
    MatrixSetDiagV2,
    Reshape,
    ReverseV2,
    Roll,
    SplitV,
    Squeeze,
    StridedSliceV2,
    Tile,
    Transpose,
    Tril,
    Triu,
    Unpack,
    Unsqueeze,
)

__all__ = [
    "is_whole", "not_conjugated", "permute", "row_of", "select", "slice_", "slice_bounds", "split", "unbind", "view",
    "view_as_real", "view_dtype",
]  # fmt: skip

#: What ``slice`` passes for an open end.
END = torch.iinfo(torch.int64).max


# --- another shape ---


@register("view.default", "_unsafe_view.default", "reshape.default")
def view(self: Value, size: Sequence[Any], *, meta_outputs: TensorSpec) -> Value:
    """aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"""
    return Reshape(self, meta_outputs.type.shape)


@register("expand.default")
def expand(self: Value, size: Sequence[Any], *, implicit: bool = False, meta_outputs: TensorSpec) -> Value:
    """aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"""
    return BroadcastTo(self, meta_outputs.type.shape)


@register("unsqueeze.default")
def unsqueeze(self: Value, dim: int) -> Value:
    """aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"""
    return Unsqueeze(self, axes=[dim % (self.rank + 1)])


def _dropped(node: fx.Node) -> list[int] | None:
    """The dimensions that a ``squeeze`` drops; None where the sizes do not tell."""
    x, result = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    named = node.args[1] if len(node.args) > 1 else list(range(x.dim()))
    dims = {d % max(x.dim(), 1) for d in ([named] if isinstance(named, int) else named)}  # type: ignore[union-attr]
    dropped = [d for d in sorted(dims) if x.dim() and isinstance(x.shape[d], int) and x.shape[d] == 1]
    return dropped if len(dropped) == x.dim() - result.dim() else None


def _squeezable(node: fx.Node) -> Rejection | None:
    return None if _dropped(node) is not None else Rejection("which sizes are 1 is known only after it ran")


@register("squeeze.default", "squeeze.dim", "squeeze.dims", supports=_squeezable)
def squeeze(self: Value, dim: int | Sequence[int] | None = None) -> Value:
    """aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"""
    named = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    dropped = sorted(d for d in {d % max(self.rank, 1) for d in named} if self.rank and self.shape[d] == 1)
    return Squeeze(self, axis=dropped) if dropped else Identity(self)


@register("view.dtype")
def view_dtype(self: Value, dtype: torch.dtype, *, meta_outputs: TensorSpec) -> Value:
    """aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"""
    have, want = self.dtype.itemsize, meta_outputs.dtype.itemsize
    if have == want:
        return Bitcast(self, type=meta_outputs.dtype)
    if have > want:
        return Reshape(Bitcast(self, type=meta_outputs.dtype), meta_outputs.type.shape)
    return Bitcast(Reshape(self, [*meta_outputs.type.shape, want // have]), type=meta_outputs.dtype)


def not_conjugated(node: fx.Node) -> Rejection | None:
    """``supports=`` for what reads the memory of a complex tensor."""
    if node.args[0].meta["val"].is_conj():  # type: ignore[union-attr]
        return Rejection("the tensor is conjugated lazily, so its memory holds other numbers")
    return None


@register("view_as_real.default", "view_as_complex.default", supports=not_conjugated)
def view_as_real(self: Value, *, meta_outputs: TensorSpec) -> Value:
    """aten::view_as_real(Tensor(a) self) -> Tensor(a)"""
    return Bitcast(self, type=meta_outputs.dtype)


# --- another order ---


@register("permute.default")
def permute(self: Value, dims: Sequence[int]) -> Value:
    """aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)"""
    return Transpose(self, [d % self.rank for d in dims])


@register("transpose.int")
def transpose(self: Value, dim0: int, dim1: int) -> Value:
    """aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"""
    perm = list(range(self.rank))
    if not perm:
        return Identity(self)
    perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return Transpose(self, perm)


@register("t.default")
def t(self: Value) -> Value:
    """aten::t(Tensor(a) self) -> Tensor(a)"""
    return Identity(self) if self.rank < 2 else Transpose(self, list(reversed(range(self.rank))))


@register("flip.default")
def flip(self: Value, dims: Sequence[int]) -> Value:
    """aten::flip(Tensor self, int[] dims) -> Tensor"""
    if not self.rank:
        return TensorMove(self)
    return ReverseV2(self, [d % self.rank for d in dims])


def _known_shifts(node: fx.Node) -> Rejection | None:
    shifts = argument(node, "shifts")
    if not all(isinstance(s, int) for s in shifts):
        return Rejection("shifts is symbolic, and becomes an attribute", fix="Roll by a constant.")
    return None


@register("roll.default", supports=_known_shifts)
def roll(self: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"""
    return Roll(self, shifts=list(shifts), dims=[d % max(self.rank, 1) for d in dims])


# --- repetitions ---


@register("repeat.default")
def repeat(self: Value, repeats: Sequence[Any]) -> Value:
    """aten::repeat(Tensor self, SymInt[] repeats) -> Tensor"""
    return Tile(self, repeats)


# --- parts ---


@register("slice.Tensor", supports=sizes_known)
def slice_(self: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Value:
    """aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, ...) -> Tensor(a)"""
    if is_whole(self.shape[dim], start, end, step):
        return Identity(self)
    return StridedSliceV2(self, *slice_bounds(start, end), [dim % self.rank], [step])


def is_whole(size: Any, start: Any, end: Any, step: Any) -> bool:
    """True when a slice surely takes all of a dimension."""
    return start in (None, 0) and (end in (None, END) or host_number(end) == size) and is_literal(step, 1)


def slice_bounds(start: Any, end: Any) -> tuple[list[Any], list[Any]]:
    """Begin and end of one sliced dimension."""
    return [0 if start is None else start], [END if end is None else end]


def position(index: Any, size: Any) -> Any:
    """A position along a dimension; a negative number counts from the end."""
    number = host_number(index)
    return number + size if isinstance(number, int) and number < 0 else number


@dataclass(frozen=True, slots=True)
class RowBounds:
    """One position along a dimension, as arguments of the operators on strided slices.

    All dimensions are named, and the mask of the dropped one makes a position of -1 mean the last.
    """

    begin: list[Any]
    end: list[Any]
    strides: list[int]
    masks: dict[str, Any]


def row_of(x: Value, dim: int, index: Any) -> RowBounds:
    """The row ``index`` of ``x`` along ``dim``."""
    dim = dim % x.rank
    at = position(index, x.shape[dim])
    begin, end = [0] * x.rank, [0] * x.rank
    begin[dim], end[dim] = at, at + 1
    others = (1 << x.rank) - 1 - (1 << dim)
    return RowBounds(begin, end, [1] * x.rank, {"begin_mask": others, "end_mask": others, "shrink_axis_mask": 1 << dim})


@register("select.int", supports=sizes_known)
def select(self: Value, dim: int, index: Any) -> Value:
    """aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"""
    bounds = row_of(self, dim, index)
    return StridedSliceV2(self, bounds.begin, bounds.end, None, bounds.strides, **bounds.masks)


@register(
    "split.Tensor",
    "split_with_sizes.default",
    "unsafe_split.Tensor",
    "unsafe_split_with_sizes.default",
    supports=sizes_known,
)
def split(self: Value, split_size: Any, dim: int = 0, *, meta_outputs: Sequence[TensorSpec]) -> list[Value]:
    """aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"""
    dim = dim % self.rank
    sizes = [spec.type.shape[dim] for spec in meta_outputs]
    parts: list[Value] = SplitV(self, sizes, dim, num_split=len(sizes))
    return parts


@register("unbind.int")
def unbind(self: Value, dim: int = 0, *, meta_outputs: Sequence[TensorSpec]) -> list[Value]:
    """aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"""
    parts: list[Value] = Unpack(self, num=len(meta_outputs), axis=dim % self.rank)
    return parts


def _diagonal_last(rank: int, dim1: int, dim2: int) -> list[int]:
    """The permutation that puts two dimensions last."""
    last = [dim1 % rank, dim2 % rank]
    return [d for d in range(rank) if d not in last] + last


@register("diagonal.default")
def diagonal(self: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"""
    matrices = _transposed(self, _diagonal_last(self.rank, dim1, dim2))
    return MatrixDiagPartV2(matrices, offset, current_builder().const(0, self.dtype))


@register("diagonal_scatter.default")
def diagonal_scatter(self: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    perm = _diagonal_last(self.rank, dim1, dim2)
    written = MatrixSetDiagV2(_transposed(self, perm), cast(src, self.dtype), offset)
    return _transposed(written, [perm.index(d) for d in range(self.rank)])


def _transposed(x: Value, perm: Sequence[int]) -> Value:
    result: Value = x if list(perm) == list(range(x.rank)) else Transpose(x, perm)
    return result


@register("tril.default", supports=numbers_known("diagonal"))
def tril(self: Value, diagonal: int = 0) -> Value:
    """aten::tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return Tril(self, diagonal=diagonal)


@register("triu.default", supports=numbers_known("diagonal"))
def triu(self: Value, diagonal: int = 0) -> Value:
    """aten::triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return Triu(self, diagonal=diagonal)


# --- joins ---


@register("cat.default")
def cat(tensors: Sequence[Value], dim: int = 0, *, meta_outputs: TensorSpec) -> Value:
    """aten::cat(Tensor[] tensors, int dim=0) -> Tensor"""
    rank = meta_outputs.rank
    # Empty tensors of rank 1 join with anything, an old habit of torch.
    parts = [x for x in tensors if x.rank == rank] or list(tensors[:1])
    return ConcatV2([cast(x, meta_outputs.dtype) for x in parts], dim % max(rank, 1), N=len(parts))


@register("stack.default")
def stack(tensors: Sequence[Value], dim: int = 0, *, meta_outputs: TensorSpec) -> Value:
    """aten::stack(Tensor[] tensors, int dim=0) -> Tensor"""
    parts = [cast(x, meta_outputs.dtype) for x in tensors]
    return Pack(parts, axis=dim % meta_outputs.rank, N=len(parts))
