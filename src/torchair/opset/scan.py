"""Running sums, products, largest and smallest elements along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import HostInts, ascend_op
from torchair.opset.reduction import axis_list, index32

__all__ = ["Cummax", "Cummin", "Cumprod", "Cumsum", "CumulativeLogsumexp"]


@ascend_op(axis=HostInts, source="CANN op_proto: math_ops.h")
def Cumsum(x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Running sum along ``axis``; ``exclusive`` leaves out the element itself, ``reverse`` starts at the end.

    Shapes: ``x`` and the result are any, equal; ``axis`` is 0-d or ``[1]``. dtypes: any number, equal.
    """
    raise NotImplementedError


@ascend_op(axis=HostInts, source="CANN op_proto: selection_ops.h")
def Cumprod(x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Running product along ``axis``; ``exclusive`` leaves out the element itself, ``reverse`` starts at the end.

    Shapes and dtypes: as :data:`Cumsum`.
    """
    raise NotImplementedError


@ascend_op(axis=HostInts, source="CANN op_proto: math_ops.h")
def CumulativeLogsumexp(x: Value, axis: Value, *, exclusive: bool = False, reverse: bool = False) -> Value:
    """Running ``log(sum(exp(x)))`` along ``axis``.

    ``exclusive`` leaves out the element itself, ``reverse`` starts at the end. Shapes: as :data:`Cumsum`. dtypes:
    floating point or complex.
    """
    raise NotImplementedError


def _scan(function: Callable[..., Tensor], neutral: float) -> Callable[..., Tensor]:
    """The lowering of a scan by a torch function of ``(x, axis)``; ``neutral`` is what an exclusive one starts with."""

    def lowering(x: Tensor, axis: int | Sequence[int], *, exclusive: bool, reverse: bool) -> Tensor:
        (dim,) = axis_list(axis)
        if reverse:
            x = x.flip(dim)
        y = function(x, dim)
        if exclusive:
            first = y.new_full([1 if i == dim % y.ndim else n for i, n in enumerate(y.shape)], neutral)
            y = torch.cat((first, y), dim).narrow(dim, 0, y.shape[dim])
        return y.flip(dim) if reverse else y

    return lowering


Cumsum.lower(_scan(lambda x, dim: torch.cumsum(x, dim, dtype=x.dtype), 0))
Cumprod.lower(_scan(lambda x, dim: torch.cumprod(x, dim, dtype=x.dtype), 1))
CumulativeLogsumexp.lower(_scan(torch.logcumsumexp, -torch.inf))


@ascend_op(outputs=("y", "indices"), source="CANN op_proto: selection_ops.h")
def Cummax(x: Value, *, dim: int) -> tuple[Value, Value]:
    """Running largest element along ``dim``, and where it is (the last one of equals).

    Shapes: ``x`` and the results are any, equal. dtypes: ``x`` and ``y`` are any real number or bool, equal;
    ``indices`` int32.
    """
    raise NotImplementedError


@ascend_op(outputs=("y", "indices"), source="CANN op_proto: selection_ops.h")
def Cummin(x: Value, *, axis: int) -> tuple[Value, Value]:
    """Running smallest element along ``axis``, and where it is (the last one of equals).

    Shapes and dtypes: as :data:`Cummax`.
    """
    raise NotImplementedError


def _with_indices(function: Callable[..., Any], x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    values, indices = function(x, dim)
    return values, index32(indices, x.shape[dim] if x.ndim else 1)


@Cummax.lower
def _(x: Tensor, *, dim: int) -> tuple[Tensor, Tensor]:
    return _with_indices(torch.cummax, x, dim)


@Cummin.lower
def _(x: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    return _with_indices(torch.cummin, x, axis)
