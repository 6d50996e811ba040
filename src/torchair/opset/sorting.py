"""Sorting, the largest elements, and search in sorted sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchair.ir import DType, Value
from torchair.opset.operator import HostInts, ascend_op
from torchair.opset.reduction import axis_list, index32

__all__ = ["SearchSorted", "Sort", "TopKV2"]


@ascend_op(outputs=("y1", "y2"), source="CANN op_proto: transformation_ops.h")
def Sort(x: Value, *, axis: int = -1, descending: bool = False, stable: bool = False) -> tuple[Value, Value]:
    """``x`` sorted along ``axis``, and where each element was; NaN counts as the largest.

    Shapes: ``x`` and the results are any, equal. dtypes: ``x`` and ``y1`` are any real number or bool, equal; ``y2``
    int32.
    """
    raise NotImplementedError


@Sort.lower
def _(x: Tensor, *, axis: int, descending: bool, stable: bool) -> tuple[Tensor, Tensor]:
    values, indices = torch.sort(x, dim=axis, descending=descending, stable=stable)
    return values, index32(indices, x.shape[axis] if x.ndim else 1)


@ascend_op(outputs=("values", "indices"), k=HostInts, source="CANN op_proto: selection_ops.h")
def TopKV2(x: Value, k: Value, *, sorted: bool = True, dim: int = -1, largest: bool = True) -> tuple[Value, Value]:
    """The ``k`` largest (or smallest) elements along ``dim``, and where they are.

    Shapes: ``x`` is any, ``k`` is 0-d; the results have ``k`` elements along ``dim``. dtypes: ``x`` and ``values``
    are any real number, equal; ``indices`` int32.
    """
    raise NotImplementedError


@TopKV2.lower
def _(x: Tensor, k: int | Sequence[int], *, sorted: bool, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    values, indices = torch.topk(x, axis_list(k)[0], dim, largest, sorted)
    return values, index32(indices, x.shape[dim] if x.ndim else 1)


@ascend_op(outputs=("out",), source="CANN op_proto: math_ops.h")
def SearchSorted(
    sorted_sequence: Value,
    values: Value,
    sorter: Value | None = None,
    *,
    dtype: DType = DType.DT_INT64,
    right: bool = False,
) -> Value:
    """Where each of ``values`` would be inserted in the last dimension of ``sorted_sequence``.

    Shapes: ``sorted_sequence`` is ``[n]``, or ``[..., n]`` with the leading sizes of ``values``; ``sorter``, the
    order that sorts it, is like it; the result is like ``values``. dtypes: any real number, both equal; ``sorter``
    int64; the result ``dtype``, int32 or int64.
    """
    raise NotImplementedError


@SearchSorted.lower
def _(sorted_sequence: Tensor, values: Tensor, sorter: Tensor | None, *, dtype: DType, right: bool) -> Tensor:
    return torch.searchsorted(sorted_sequence, values, out_int32=dtype is DType.DT_INT32, right=right, sorter=sorter)
