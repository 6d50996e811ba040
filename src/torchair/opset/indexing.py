"""Operators that read or write elements at positions that tensors give.

Where the Ascend operator writes its first input (an output has the input's name), so does the lowering. Converters of
functional torch operators copy that input first; a pass drops the copies that protect nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torchair.ir import Dim, TensorType, Value
from torchair.opset.memory import apart, only, writable
from torchair.opset.operator import HostInts, ascend_op
from torchair.opset.shape import slice_view

__all__ = [
    "EmbeddingDenseGrad",
    "Gather",
    "GatherElements",
    "GatherV2",
    "IndexByTensor",
    "IndexPutV2",
    "InplaceIndexAdd",
    "MaskedScatter",
    "ScatterElements",
    "ScatterElementsV2",
    "ScatterNdUpdate",
    "StridedSliceAssignV2",
]

_SELECTION = "CANN op_proto: selection_ops.h"
_MATRIX = "CANN op_proto: matrix_calculation_ops.h"

aten = torch.ops.aten

# --- reading ---


@ascend_op(axis=HostInts, source=_SELECTION)
def GatherV2(
    x: Value,
    indices: Value,
    axis: Value,
    *,
    batch_dims: int = 0,
    is_preprocessed: bool = False,
    negative_index_support: bool = False,
) -> Value:
    """The slices of ``x`` at positions ``indices`` along the dimension ``axis``.

    The dimensions of ``indices`` replace that one.

    Shapes: ``x`` and ``indices`` are any, ``axis`` is 0-d or ``[1]``. The first ``batch_dims`` dimensions of both are
    the same and are taken in step. dtypes: ``x`` is any, ``indices`` int32 or int64. A negative index is an error,
    unless ``negative_index_support`` lets it count from the end.
    """
    raise NotImplementedError


@GatherV2.lower
def _(
    x: Tensor,
    indices: Tensor,
    axis: int | Sequence[int],
    *,
    batch_dims: int,
    is_preprocessed: bool,
    negative_index_support: bool,
) -> Tensor:
    return _gather(x, indices, only(axis), batch_dims, negative_index_support)


def _gather(x: Tensor, indices: Tensor, axis: int, batch_dims: int, negative: bool) -> Tensor:
    axis = axis % x.dim()
    batch_dims = batch_dims % (indices.dim() + 1)
    if negative:
        indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    if batch_dims == 0:
        flat = torch.index_select(x, axis, indices.reshape(-1))
        return flat.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])
    # One row of x for each batch element, the indexed dimension first and the rest flattened; the index in every
    # column.
    batch, between, after = x.shape[:batch_dims], x.shape[batch_dims:axis], x.shape[axis + 1 :]
    columns = math.prod([*between, *after])
    rows = torch.movedim(x, axis, batch_dims).reshape([math.prod(batch), x.shape[axis], columns])
    index = indices.reshape([math.prod(batch), math.prod(indices.shape[batch_dims:]), 1])
    found = torch.gather(rows, 1, index.to(torch.int64).expand(-1, -1, columns))
    found = found.reshape([*batch, *indices.shape[batch_dims:], *between, *after])
    moved = range(len(between))
    return torch.movedim(found, [indices.dim() + i for i in moved], [batch_dims + i for i in moved])


def _picked(x: TensorType, indices: TensorType) -> Sequence[Dim] | None:
    if x.content is None or x.rank != 1 or indices.content is None:
        return None
    if not all(isinstance(i, int) and -len(x.content) <= i < len(x.content) for i in indices.content):
        return None
    return [x.content[i] for i in indices.content if isinstance(i, int)]


@GatherV2.content
def _(
    x: TensorType,
    indices: TensorType,
    axis: TensorType,
    *,
    batch_dims: int,
    is_preprocessed: bool,
    negative_index_support: bool,
) -> Sequence[Dim] | None:
    return _picked(x, indices) if batch_dims == 0 else None


@ascend_op(source=_SELECTION)
def Gather(
    x: Value,
    indices: Value,
    *,
    validate_indices: bool = True,
    batch_dims: int = 0,
    is_preprocessed: bool = False,
    negative_index_support: bool = False,
) -> Value:
    """The slices of ``x`` at positions ``indices`` along the dimension after the batch dimensions.

    Shapes: ``x`` and ``indices`` are any; the first ``batch_dims`` dimensions of both are the same and are taken in
    step.
    dtypes: ``x`` is any, ``indices`` int32 or int64.
    """
    raise NotImplementedError


@Gather.lower
def _(
    x: Tensor,
    indices: Tensor,
    *,
    validate_indices: bool,
    batch_dims: int,
    is_preprocessed: bool,
    negative_index_support: bool,
) -> Tensor:
    return _gather(x, indices, batch_dims % (indices.dim() + 1), batch_dims, negative_index_support)


@Gather.content
def _(
    x: TensorType,
    indices: TensorType,
    *,
    validate_indices: bool,
    batch_dims: int,
    is_preprocessed: bool,
    negative_index_support: bool,
) -> Sequence[Dim] | None:
    return _picked(x, indices) if batch_dims == 0 else None


@ascend_op(source=_SELECTION)
def GatherElements(x: Value, index: Value, *, dim: int = 0) -> Value:
    """The elements of ``x`` at the positions of ``index``, but in the dimension ``dim`` where ``index`` says.

    Shapes: ``x`` and ``index`` have one rank; the result has the shape of ``index``. dtypes: ``x`` is any, ``index``
    int32 or int64.
    """
    raise NotImplementedError


@GatherElements.lower
def _(x: Tensor, index: Tensor, *, dim: int) -> Tensor:
    return torch.gather(x, dim, index)


@ascend_op(source=_SELECTION)
def IndexByTensor(x: Value, indices: Sequence[Value], *, indices_mask: Sequence[int] = ()) -> Value:
    """``x[i, :, j, ...]``: the elements at positions that index tensors give for some dimensions.

    Shapes: the index tensors broadcast with each other; ``indices_mask`` has one number for each leading dimension of
    ``x``, 1 where the next index tensor stands and 0 for ``:``. Empty means one index tensor for each. The broadcast
    dimensions replace the indexed ones where these are neighbors, else they come first. dtypes: ``x`` is any,
    ``indices`` int32 or int64; a negative index counts from the end.
    """
    raise NotImplementedError


def _with_gaps(indices: Sequence[Tensor], mask: Sequence[int]) -> list[Tensor | None]:
    """Index tensors in their places, None for dimensions without."""
    rest = iter(indices)
    return [next(rest) if present else None for present in (mask or [1] * len(indices))]


@IndexByTensor.lower
def _(x: Tensor, indices: Sequence[Tensor], *, indices_mask: Sequence[int]) -> Tensor:
    y: Tensor = aten.index.Tensor(x, _with_gaps(indices, indices_mask))
    return y


# --- writing ---


@ascend_op(
    outputs=("x",),
    indexed_sizes=HostInts,
    indexed_strides=HostInts,
    source="public knowledge of CANN's operator list (selection_ops.h)",
)
def IndexPutV2(
    x: Value,
    value: Value,
    indexed_sizes: Value,
    indexed_strides: Value,
    indices: Sequence[Value],
    *,
    accumulate: bool = False,
) -> Value:
    """``x[i, :, j, ...] = value``, or ``+= value``; writes ``x``.

    Shapes: the index tensors broadcast with each other; ``indexed_sizes`` has one number for each leading dimension of
    ``x``, 1 where the next index tensor stands and 0 for ``:``; ``value`` broadcasts to what indexing gives.
    ``indexed_strides`` is not read here. dtypes: ``x`` is any, ``value`` equal, ``indices`` int32 or int64; a negative
    index counts from the end.
    """
    raise NotImplementedError


@IndexPutV2.lower
def _(
    x: Tensor,
    value: Tensor,
    indexed_sizes: Sequence[int],
    indexed_strides: Sequence[int],
    indices: Sequence[Tensor],
    *,
    accumulate: bool,
) -> Tensor:
    x = writable(x)
    positions = _with_gaps([apart(i, x) for i in indices], indexed_sizes)
    y: Tensor = aten.index_put_.default(x, positions, apart(value, x), accumulate)
    return y


@ascend_op(outputs=("var",), source="CANN op_proto: matrix_calculation_ops.h")
def ScatterNdUpdate(var: Value, indices: Value, updates: Value, *, use_locking: bool = False) -> Value:
    """Write the slices ``updates`` to the positions ``indices`` of ``var``.

    Shapes: ``indices`` is ``[..., k]``, each row a position in the first k dimensions of ``var``; ``updates`` is
    ``[..., *var.shape[k:]]``. dtypes: ``var`` is any, ``updates`` equal, ``indices`` int32 or int64.
    """
    raise NotImplementedError


@ScatterNdUpdate.lower
def _(var: Tensor, indices: Tensor, updates: Tensor, *, use_locking: bool) -> Tensor:
    var = writable(var)
    positions = list(apart(indices, var).to(torch.int64).unbind(-1))
    y: Tensor = aten.index_put_.default(var, positions, apart(updates, var))
    return y


@ascend_op(source=_SELECTION)
def ScatterElements(data: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    """``data`` with ``updates`` written to the positions whose place in the dimension ``axis`` ``indices`` says.

    Shapes: all have one rank; ``indices`` is at most as large as ``updates``, and as ``data`` except along ``axis``.
    dtypes: ``data`` is any, ``updates`` equal, ``indices`` int32 or int64. ``reduction``: ``"none"`` (write), ``"add"``
    or ``"mul"``.
    """
    raise NotImplementedError


@ScatterElements.lower
def _(data: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str) -> Tensor:
    return _scatter(data.clone(memory_format=torch.contiguous_format), indices, updates, axis, reduction)


@ascend_op(outputs=("var",), source="public knowledge of CANN's operator list (selection_ops.h)")
def ScatterElementsV2(var: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    """Write ``updates`` into ``var``, to the positions whose place in the dimension ``axis`` ``indices`` says.

    Shapes: all have one rank; ``indices`` is at most as large as ``updates``, and as ``var`` except along ``axis``.
    dtypes: ``var`` is any, ``updates`` equal, ``indices`` int32 or int64. ``reduction``: ``"none"`` (write), ``"add"``
    or ``"mul"``.
    """
    raise NotImplementedError


@ScatterElementsV2.lower
def _(var: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: str) -> Tensor:
    var = writable(var)
    return _scatter(var, apart(indices, var), apart(updates, var), axis, reduction)


def _scatter(var: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    indices = indices.to(torch.int64)
    if reduction == "none":
        return var.scatter_(axis, indices, updates)
    if reduction == "add":
        return var.scatter_add_(axis, indices, updates)
    if reduction == "mul":
        return var.scatter_reduce_(axis, indices, updates, "prod", include_self=True)
    raise ValueError(f"reduction must be 'none', 'add' or 'mul', not {reduction!r}")


@ascend_op(outputs=("var",), alpha=HostInts, source=_MATRIX)
def InplaceIndexAdd(var: Value, indices: Value, updates: Value, alpha: Value | None = None, *, axis: int) -> Value:
    """Add ``alpha * updates`` to the slices of ``var`` at positions ``indices`` along ``axis``; writes ``var``.

    Shapes: ``indices`` is ``[n]``, ``updates`` like ``var`` with n at ``axis``; ``alpha`` is 0-d and known when the
    graph is built, absent it is 1. dtypes: ``var`` is any number, ``updates`` equal, ``indices`` int32 or int64.
    """
    raise NotImplementedError


@InplaceIndexAdd.lower
def _(var: Tensor, indices: Tensor, updates: Tensor, alpha: float | Sequence[float] | None, *, axis: int) -> Tensor:
    var = writable(var)
    factor = alpha[0] if isinstance(alpha, Sequence) else alpha
    return var.index_add_(axis, apart(indices, var), apart(updates, var), alpha=1 if factor is None else factor)


@ascend_op(
    outputs=("var",),
    begin=HostInts,
    end=HostInts,
    strides=HostInts,
    axes=HostInts,
    source="public knowledge of CANN's operator list (selection_ops.h)",
)
def StridedSliceAssignV2(
    var: Value,
    input_value: Value,
    begin: Value,
    end: Value,
    strides: Value,
    axes: Value | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Value:
    """Write ``input_value`` into a strided slice of ``var``, as :func:`StridedSliceV2` reads it.

    Shapes: ``input_value`` is that slice; the rest as there. dtypes: ``var`` is any, ``input_value`` equal.
    """
    raise NotImplementedError


@StridedSliceAssignV2.lower
def _(
    var: Tensor,
    input_value: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    axes: Sequence[int] | None,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Tensor:
    var = writable(var)
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    slice_view(var, begin, end, axes, strides, masks).copy_(apart(input_value, var))
    return var


@ascend_op(source="public knowledge of CANN's operator list (selection_ops.h)")
def MaskedScatter(x: Value, mask: Value, updates: Value) -> Value:
    """``x`` with the elements where ``mask`` is true replaced, in order, by the first elements of ``updates``.

    Shapes: ``mask`` is as ``x``, ``updates`` is any with at least as many elements as ``mask`` has true ones. dtypes:
    ``x`` is any, ``updates`` equal, ``mask`` bool.
    """
    raise NotImplementedError


@MaskedScatter.lower
def _(x: Tensor, mask: Tensor, updates: Tensor) -> Tensor:
    return torch.masked_scatter(x, mask, updates)


@ascend_op(source="CANN op_proto: nn_ops.h")
def EmbeddingDenseGrad(
    grad: Value, indices: Value, *, num_weights: int, padding_idx: int = -1, scale_grad_by_freq: bool = False
) -> Value:
    """The gradient of the table of an embedding.

    Shapes: ``grad`` is ``[*indices.shape, d]``, the result ``[num_weights, d]``. dtypes: ``grad`` is float, ``indices``
    int32 or int64. Positions where the index is ``padding_idx`` give nothing; with ``scale_grad_by_freq`` each row is
    divided by how often its index occurs.
    """
    raise NotImplementedError


@EmbeddingDenseGrad.lower
def _(grad: Tensor, indices: Tensor, *, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    y: Tensor = aten.embedding_dense_backward.default(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
    return y
