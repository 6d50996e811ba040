"""Operators that give the same elements another shape or order: views, joins, splits, repetitions.

What is a view in torch is lowered to a real view, so that results that share storage in eager mode share it here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.ir import Dim, DType, TensorType, Value
from torchair.opset.memory import is_literal, only
from torchair.opset.operator import DynamicOutput, HostInts, ascend_op
from torchair.opset.torch_types import torch_dtype

__all__ = [
    "Bitcast",
    "BroadcastTo",
    "ConcatV2",
    "Expand",
    "ExpandDims",
    "FlattenV2",
    "MatrixDiagPartV2",
    "MatrixSetDiagV2",
    "Permute",
    "Reshape",
    "ReverseV2",
    "Roll",
    "SplitV",
    "Squeeze",
    "StridedSliceV2",
    "Tile",
    "Transpose",
    "Tril",
    "Triu",
    "Unpack",
    "Unsqueeze",
    "slice_view",
]

_TRANSFORMATION = "CANN op_proto: transformation_ops.h"
_ARRAY = "CANN op_proto: array_ops.h"
_SPLIT = "CANN op_proto: split_combination_ops.h"
_MATRIX = "CANN op_proto: matrix_calculation_ops.h"


def _same_content(x: TensorType, *_: Any, **__: Any) -> tuple[Dim, ...] | None:
    """Content rule of operators that keep the elements and their order."""
    return x.content


# --- another shape ---


@ascend_op(shape=HostInts, view=True, source=_TRANSFORMATION)
def Reshape(x: Value, shape: Value, *, axis: int = 0, num_axes: int = -1) -> Value:
    """``x`` in another shape, over the same elements in row-major order.

    Shapes: ``x`` is any, ``shape`` is ``[n]`` of host integers, one of which may be -1. With ``axis`` and ``num_axes``
    (-1: all that follow) it replaces only those dimensions of ``x``. dtypes: any.
    """
    raise NotImplementedError


def _reshaped(sizes: Sequence[Any], shape: Sequence[Any], axis: int, num_axes: int) -> list[Any]:
    start = axis if axis >= 0 else axis + len(sizes) + 1
    end = len(sizes) if num_axes < 0 else start + num_axes
    return [*sizes[:start], *shape, *sizes[end:]]


@Reshape.lower
def _(x: Tensor, shape: Sequence[int], *, axis: int, num_axes: int) -> Tensor:
    return torch.reshape(x, _reshaped(x.shape, shape, axis, num_axes))


@Reshape.infer
def _(x: TensorType, shape: TensorType, *, axis: int, num_axes: int) -> TensorType | None:
    if shape.content is None:
        return None
    sizes = _reshaped(x.shape, shape.content, axis, num_axes)
    unknown = [i for i, size in enumerate(sizes) if size == -1]
    if unknown:
        if len(unknown) > 1:
            return None
        (i,) = unknown
        known = math.prod(s for d, s in enumerate(sizes) if d != i)
        total = math.prod(x.shape)
        if not isinstance(known, int) or not isinstance(total, int) or known <= 0 or total % known:
            return None
        sizes[i] = total // known
    elif x.is_static and all(isinstance(s, int) for s in sizes) and math.prod(sizes) != math.prod(x.shape):
        return None
    return TensorType.of(x.dtype, sizes, device=x.device)


Reshape.content(_same_content)


@ascend_op(source=_TRANSFORMATION)
def FlattenV2(x: Value, *, axis: int = 1, end_axis: int = -1) -> Value:
    """``x`` with the dimensions ``axis`` to ``end_axis`` (both included) merged into one.

    Shapes: ``x`` is any. dtypes: any.
    """
    raise NotImplementedError


@FlattenV2.lower
def _(x: Tensor, *, axis: int, end_axis: int) -> Tensor:
    return torch.flatten(x, axis, end_axis)


@ascend_op(source=_ARRAY)
def Squeeze(x: Value, *, axis: Sequence[int] = ()) -> Value:
    """``x`` without the dimensions ``axis``, which have size 1; without any dimension of size 1 when ``axis`` is empty.

    Shapes: ``x`` is any. dtypes: any.
    """
    raise NotImplementedError


@Squeeze.lower
def _(x: Tensor, *, axis: Sequence[int]) -> Tensor:
    return torch.squeeze(x, tuple(axis)) if axis else torch.squeeze(x)


Squeeze.content(_same_content)


@ascend_op(source=_ARRAY)
def Unsqueeze(x: Value, *, axes: Sequence[int] = ()) -> Value:
    """``x`` with new dimensions of size 1, which are the dimensions ``axes`` of the result.

    Shapes: ``x`` is any. dtypes: any.
    """
    raise NotImplementedError


@Unsqueeze.lower
def _(x: Tensor, *, axes: Sequence[int]) -> Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = torch.unsqueeze(x, axis)
    return x if axes else torch.ops.aten.alias.default(x)


Unsqueeze.content(_same_content)


@ascend_op(axis=HostInts, source=_ARRAY)
def ExpandDims(x: Value, axis: Value) -> Value:
    """``x`` with one new dimension of size 1, which is the dimension ``axis`` of the result.

    Shapes: ``x`` is any, ``axis`` is 0-d or ``[1]``. dtypes: any.
    """
    raise NotImplementedError


@ExpandDims.lower
def _(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    return torch.unsqueeze(x, only(axis))


@ExpandDims.content
def _(x: TensorType, axis: TensorType) -> tuple[Dim, ...] | None:
    return x.content


@ascend_op(source=_ARRAY)
def Bitcast(x: Value, *, type: DType, keep_dim: bool = False) -> Value:
    """The memory of ``x`` read as elements of another dtype.

    Shapes: equal where the elements have equal sizes. Where those of the result are ``n`` times smaller it gets a new
    last dimension ``n``; where they are ``n`` times larger the last dimension of ``x`` must be ``n`` and goes away.
    dtypes: any. With ``keep_dim`` the rank stays, and the last dimension grows or shrinks by ``n``.
    """
    raise NotImplementedError


@Bitcast.lower
def _(x: Tensor, *, type: DType, keep_dim: bool) -> Tensor:
    dtype = torch_dtype(type)
    narrower, wider = dtype.itemsize < x.dtype.itemsize, dtype.itemsize > x.dtype.itemsize
    if keep_dim or not (narrower or wider):
        return _as_dtype(x, dtype)
    if narrower:
        return _as_dtype(torch.unsqueeze(x, -1), dtype)
    return torch.squeeze(_as_dtype(x, dtype), -1)


def _as_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    # Where the sizes of the elements differ, torch wants the last dimension to be dense.
    if x.dtype.itemsize != dtype.itemsize and x.dim() and x.stride(-1) != 1:
        x = x.contiguous()
    y: Tensor = torch.ops.aten.view.dtype(x, dtype)
    return y


# --- another order ---


@ascend_op(perm=HostInts, view=True, source=_TRANSFORMATION)
def Transpose(x: Value, perm: Value) -> Value:
    """``x`` with its dimensions in another order: dimension ``i`` of the result is dimension ``perm[i]`` of ``x``.

    Shapes: ``x`` is any, ``perm`` is ``[rank]`` of host integers. dtypes: any.
    """
    raise NotImplementedError


@Transpose.lower
def _(x: Tensor, perm: Sequence[int]) -> Tensor:
    return torch.permute(x, tuple(perm))


@Transpose.infer
def _(x: TensorType, perm: TensorType) -> TensorType | None:
    if perm.content is None or sorted(perm.content, key=str) != sorted(range(x.rank), key=str):
        return None
    return TensorType.of(x.dtype, [x.shape[int(p)] for p in perm.content], device=x.device)


@ascend_op(source=_TRANSFORMATION)
def Permute(x: Value, *, order: Sequence[int] = (0,)) -> Value:
    """``x`` with its dimensions in another order: dimension ``i`` of the result is dimension ``order[i]`` of ``x``.

    Shapes: ``x`` is any. dtypes: any.
    """
    raise NotImplementedError


@Permute.lower
def _(x: Tensor, *, order: Sequence[int]) -> Tensor:
    return torch.permute(x, tuple(order))


@ascend_op(axis=HostInts, source=_ARRAY)
def ReverseV2(x: Value, axis: Value) -> Value:
    """``x`` with the elements along the dimensions ``axis`` in reverse.

    Shapes: ``x`` and the result are any, equal; ``axis`` is ``[n]``. dtypes: any.
    """
    raise NotImplementedError


@ReverseV2.lower
def _(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    return torch.flip(x, [axis] if isinstance(axis, int) else tuple(axis))


@ascend_op(source="public knowledge of CANN's operator list")
def Roll(x: Value, *, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """``x`` shifted along ``dims``, around the ends; without ``dims`` it is shifted flattened.

    Shapes: ``x`` and the result are any, equal. dtypes: any.
    """
    raise NotImplementedError


@Roll.lower
def _(x: Tensor, *, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    return torch.roll(x, tuple(shifts), tuple(dims))


# --- more of the same elements ---


@ascend_op(shape=HostInts, view=True, source=_ARRAY)
def BroadcastTo(x: Value, shape: Value) -> Value:
    """``x`` repeated along its dimensions of size 1, and along new leading dimensions.

    Shapes: ``x`` is broadcastable to ``shape``, which is ``[n]`` of host integers; -1 keeps a size. dtypes: any.
    """
    raise NotImplementedError


@BroadcastTo.lower
def _(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x.expand(tuple(shape))


@BroadcastTo.infer
def _(x: TensorType, shape: TensorType) -> TensorType | None:
    if shape.content is None or len(shape.content) < x.rank:
        return None
    lead = len(shape.content) - x.rank
    sizes: list[Dim] = list(shape.content[:lead])
    for have, want in zip(x.shape, shape.content[lead:], strict=True):
        if have not in (1, want) and want != -1:
            return None  # different expressions, which may still be equal: torch decides
        sizes.append(have if want == -1 else want)
    return None if -1 in sizes else TensorType.of(x.dtype, sizes, device=x.device)


@ascend_op(shape=HostInts, source=_ARRAY)
def Expand(x: Value, shape: Value) -> Value:
    """``x`` broadcast against ``shape``: where ``shape`` is 1, the size of ``x`` stays.

    Shapes: ``x`` and ``shape`` (``[n]`` of host integers) broadcast with each other. dtypes: any.
    """
    raise NotImplementedError


@Expand.lower
def _(x: Tensor, shape: Sequence[int]) -> Tensor:
    lead = [1] * (x.dim() - len(shape))
    return x.expand(
        [-1 if is_literal(s, 1) and d >= len(shape) - x.dim() else s for d, s in enumerate([*lead, *shape])]
    )


@ascend_op(multiples=HostInts, source=_ARRAY)
def Tile(x: Value, multiples: Value) -> Value:
    """``x`` repeated ``multiples[i]`` times along each dimension.

    Shapes: ``multiples`` is ``[n]`` of host integers, n at least the rank of ``x``, which gets leading dimensions of
    size 1.
    dtypes: any.
    """
    raise NotImplementedError


@Tile.lower
def _(x: Tensor, multiples: Sequence[int]) -> Tensor:
    return x.repeat(tuple(multiples))


# --- parts ---


@ascend_op(begin=HostInts, end=HostInts, axes=HostInts, strides=HostInts, source=_TRANSFORMATION)
def StridedSliceV2(
    x: Value,
    begin: Value,
    end: Value,
    axes: Value | None = None,
    strides: Value | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Value:
    """The elements ``begin``, ``begin + stride``, ... before ``end`` of some dimensions.

    Negative positions count from the end, and positions outside are moved to the nearest end, as in Python.

    Shapes: ``begin``, ``end``, ``axes`` and ``strides`` are ``[n]`` of host integers; without ``axes`` they are for the
    first n dimensions, without ``strides`` these are 1. Bit i of a mask is about position i of these lists:
    ``begin_mask`` and ``end_mask`` mean an open end, ``shrink_axis_mask`` takes one element and drops the dimension.
    Strides are positive; ``ellipsis_mask`` and ``new_axis_mask`` must be 0. dtypes: any.
    """
    raise NotImplementedError


def slice_view(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    axes: Sequence[int] | None,
    strides: Sequence[int] | None,
    masks: Sequence[int],
) -> Tensor:
    """The view of ``x`` that a strided slice describes; ``masks`` in the order of its attributes."""
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask = masks
    if ellipsis_mask or new_axis_mask:
        raise ValueError(
            "ellipsis_mask and new_axis_mask must be 0: name the dimensions, and add new ones by Unsqueeze"
        )
    dims = [a % x.dim() for a in axes] if axes is not None else list(range(len(begin)))
    steps = strides if strides is not None else [1] * len(begin)
    if any(isinstance(step, int) and step < 1 for step in list[Any](steps)):
        raise ValueError(f"strides must be positive, not {list(steps)}: reverse with ReverseV2")
    dropped = []
    for i, (dim, step) in enumerate(zip(dims, steps, strict=True)):
        if shrink_axis_mask >> i & 1:
            dropped.append((dim, begin[i]))
            continue
        first = None if begin_mask >> i & 1 else begin[i]
        last = None if end_mask >> i & 1 else end[i]
        if not (first is None and last is None and is_literal(step, 1)):
            x = torch.ops.aten.slice.Tensor(x, dim, first, last, step)
    for dim, index in sorted(dropped, key=lambda item: -item[0]):
        x = torch.select(x, dim, index)
    return x


@StridedSliceV2.lower
def _(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    axes: Sequence[int] | None,
    strides: Sequence[int] | None,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Tensor:
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    y = slice_view(x, begin, end, axes, strides, masks)
    return torch.ops.aten.alias.default(x) if y is x else y


@StridedSliceV2.content
def _(
    x: TensorType,
    begin: TensorType,
    end: TensorType,
    axes: TensorType | None,
    strides: TensorType | None,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Sequence[Dim] | None:
    if x.content is None or x.rank != 1:
        return None
    numbers = [t.content for t in (begin, end, strides) if t is not None]
    if not all(n is not None and len(n) == 1 and isinstance(n[0], int) for n in numbers):
        return None
    first, last, *step = (int(n[0]) for n in numbers if n is not None)
    if shrink_axis_mask:
        return (x.content[first],)
    return x.content[None if begin_mask else first : None if end_mask else last : step[0] if step else 1]


@ascend_op(outputs=(DynamicOutput("y"),), size_splits=HostInts, split_dim=HostInts, source=_SPLIT)
def SplitV(x: Value, size_splits: Value, split_dim: Value, *, num_split: int) -> list[Value]:
    """``x`` cut along dimension ``split_dim`` into ``num_split`` parts of the sizes ``size_splits``.

    Shapes: ``x`` is any, ``size_splits`` is ``[num_split]`` of host integers, ``split_dim`` is 0-d or ``[1]``. dtypes:
    any.
    """
    raise NotImplementedError


@SplitV.lower
def _(x: Tensor, size_splits: Sequence[int], split_dim: int | Sequence[int], *, num_split: int) -> list[Tensor]:
    return list(torch.ops.aten.split_with_sizes.default(x, list(size_splits), only(split_dim)))


@ascend_op(outputs=(DynamicOutput("y"),), source=_SPLIT)
def Unpack(x: Value, *, num: int, axis: int = 0) -> list[Value]:
    """The ``num`` tensors that ``x`` consists of along the dimension ``axis``, which they lack.

    Shapes: dimension ``axis`` of ``x`` is ``num``. dtypes: any.
    """
    raise NotImplementedError


@Unpack.lower
def _(x: Tensor, *, num: int, axis: int) -> list[Tensor]:
    return list(torch.unbind(x, axis))


@ascend_op(k=HostInts, outputs=("diagonal",), source=_MATRIX)
def MatrixDiagPartV2(input: Value, k: Value, padding_value: Value) -> Value:
    """The ``k``-th diagonal of the matrices in the last two dimensions (above the main one for a positive ``k``).

    Shapes: ``input`` is ``[..., m, n]``, ``k`` is 0-d or ``[1]``, ``padding_value`` is 0-d and is for bands of
    diagonals, which are not taken here. dtypes: any.
    """
    raise NotImplementedError


@MatrixDiagPartV2.lower
def _(input: Tensor, k: int | Sequence[int], padding_value: Tensor) -> Tensor:
    return torch.diagonal(input, _one_diagonal(k), -2, -1)


def _one_diagonal(k: int | Sequence[int]) -> int:
    if isinstance(k, Sequence) and len(k) != 1:
        raise ValueError(f"k must be one number, not {list(k)}: bands of diagonals are not supported")
    return only(k)


@ascend_op(k=HostInts, outputs=("output",), source=_MATRIX)
def MatrixSetDiagV2(input: Value, diagonal: Value, k: Value) -> Value:
    """The matrices in the last two dimensions with another ``k``-th diagonal.

    Shapes: ``input`` and the result are ``[..., m, n]``, ``diagonal`` is what :func:`MatrixDiagPartV2` gives, ``k`` is
    0-d or ``[1]``.
    dtypes: any, equal.
    """
    raise NotImplementedError


@MatrixSetDiagV2.lower
def _(input: Tensor, diagonal: Tensor, k: int | Sequence[int]) -> Tensor:
    return torch.diagonal_scatter(input, diagonal, _one_diagonal(k), -2, -1)


@ascend_op(source=_MATRIX)
def Triu(x: Value, *, diagonal: int = 0) -> Value:
    """The matrices in the last two dimensions with zeros below the diagonal ``diagonal``.

    Shapes: ``x`` and the result are ``[..., m, n]``. dtypes: any.
    """
    raise NotImplementedError


@Triu.lower
def _(x: Tensor, *, diagonal: int) -> Tensor:
    return torch.triu(x, diagonal)


@ascend_op(source=_MATRIX)
def Tril(x: Value, *, diagonal: int = 0) -> Value:
    """The matrices in the last two dimensions with zeros above the diagonal ``diagonal``.

    Shapes: ``x`` and the result are ``[..., m, n]``. dtypes: any.
    """
    raise NotImplementedError


@Tril.lower
def _(x: Tensor, *, diagonal: int) -> Tensor:
    return torch.tril(x, diagonal)


# --- joins ---


@ascend_op(concat_dim=HostInts, source=_SPLIT)
def ConcatV2(x: Sequence[Value], concat_dim: Value, *, N: int = 1) -> Value:
    """``N`` tensors one after another along the dimension ``concat_dim``.

    Shapes: those of ``x`` differ in that dimension only; ``concat_dim`` is 0-d or ``[1]``. dtypes: any, all equal.
    """
    raise NotImplementedError


@ConcatV2.lower
def _(x: Sequence[Tensor], concat_dim: int | Sequence[int], *, N: int) -> Tensor:
    return torch.cat(list(x), only(concat_dim))


@ConcatV2.content
def _(x: Sequence[TensorType], concat_dim: TensorType, *, N: int) -> list[Dim] | None:
    if any(t.rank != 1 or t.content is None for t in x):
        return None
    return [number for t in x for number in t.content or ()]
