"""Reductions: over axes that are host integers, in the dtype of the input.

Axes that are empty reduce nothing, as in TensorFlow, whose operators these are; converters always write the axes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.ir import DType, Value
from torchair.opset.operator import HostInts, ascend_op
from torchair.opset.torch_types import torch_dtype

__all__ = [
    "ArgMaxV2",
    "ArgMaxWithValue",
    "ArgMin",
    "ArgMinWithValue",
    "LpNormV2",
    "ReduceAll",
    "ReduceAny",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProdD",
    "ReduceStdV2",
    "ReduceSum",
    "ReduceVar",
    "index32",
]

aten = torch.ops.aten


def axis_list(axes: int | Sequence[int]) -> list[int]:
    """Host axes as a list (a 0-d value arrives as one number)."""
    return list(axes) if isinstance(axes, Sequence) else [axes]


def index32(indices: Tensor, extent: int | torch.SymInt) -> Tensor:
    """Positions as the int32 that Ascend operators return.

    Raises:
        ValueError: The dimension is so long that a position may not fit.
    """
    if not isinstance(extent, torch.SymInt) and extent > 2**31:
        raise ValueError(f"a dimension of {extent} elements has positions that int32 cannot hold")
    return indices.to(torch.int32)


def _reduce(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The lowering of a reduction by a torch function of ``(x, axes, keep_dims)``.

    Nothing is reduced without axes; but of a 0-d tensor these are all there are.
    """

    def lowering(x: Tensor, axes: int | Sequence[int], *, keep_dims: bool) -> Tensor:
        wanted = axis_list(axes)
        return function(x, wanted, keep_dims) if wanted or not x.ndim else x.clone()

    return lowering


@ascend_op(axes=HostInts, source="CANN op_proto: reduce_ops.h")
def ReduceSum(x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    """Sum over ``axes``.

    Shapes: ``x`` is any, ``axes`` is 0-d or ``[n]``; the reduced dimensions are left out, or 1 with ``keep_dims``.
    dtypes: any number, the result has the dtype of ``x`` (half precision is accumulated in float32).
    """
    raise NotImplementedError


ReduceSum.lower(_reduce(lambda x, axes, keep: torch.sum(x, axes, keep, dtype=x.dtype)))


@ascend_op(axes=HostInts, source="CANN op_proto: reduce_ops.h")
def ReduceMean(x: Value, axes: Value, *, keep_dims: bool = False, noop_with_empty_axes: bool = True) -> Value:
    """Mean over ``axes``.

    Shapes: as :data:`ReduceSum`; empty ``axes`` reduce everything without ``noop_with_empty_axes``.
    dtypes: any floating point or complex, the result has the dtype of ``x``.
    """
    raise NotImplementedError


@ReduceMean.lower
def _(x: Tensor, axes: int | Sequence[int], *, keep_dims: bool, noop_with_empty_axes: bool) -> Tensor:
    wanted = axis_list(axes)
    if not wanted and noop_with_empty_axes:
        return x.clone()
    return torch.mean(x, wanted, keep_dims)


@ascend_op(source="CANN op_proto: reduce_ops.h")
def ReduceProdD(x: Value, *, axes: Sequence[int], keep_dims: bool = False) -> Value:
    """Product over ``axes``.

    Shapes: as :data:`ReduceSum`. dtypes: any number, the result has the dtype of ``x``.
    """
    raise NotImplementedError


@ReduceProdD.lower
def _(x: Tensor, *, axes: Sequence[int], keep_dims: bool) -> Tensor:
    if not axes:
        return x.clone()
    wanted = sorted({a % x.ndim for a in axes}, reverse=True)
    if len(wanted) == x.ndim and x.ndim > 1:
        y = torch.prod(x, dtype=x.dtype)
        return y.reshape([1] * x.ndim) if keep_dims else y
    for axis in wanted:
        x = torch.prod(x, axis, keep_dims, dtype=x.dtype)
    return x


@ascend_op(axes=HostInts, source="CANN op_proto: reduce_ops.h")
def ReduceMax(x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    """Largest element over ``axes``; NaN where there is one.

    Shapes: as :data:`ReduceSum`. dtypes: any real number or bool.
    """
    raise NotImplementedError


ReduceMax.lower(_reduce(torch.amax))


@ascend_op(axes=HostInts, source="CANN op_proto: reduce_ops.h")
def ReduceMin(x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    """Smallest element over ``axes``; NaN where there is one.

    Shapes: as :data:`ReduceSum`. dtypes: any real number or bool.
    """
    raise NotImplementedError


ReduceMin.lower(_reduce(torch.amin))


@ascend_op(axes=HostInts, source="CANN op_proto: reduce_ops.h")
def ReduceAny(x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    """Whether any element over ``axes`` is true.

    Shapes: as :data:`ReduceSum`. dtypes: bool.
    """
    raise NotImplementedError


ReduceAny.lower(_reduce(aten.any.dims))


@ascend_op(axes=HostInts, source="CANN op_proto: reduce_ops.h")
def ReduceAll(x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    """Whether all elements over ``axes`` are true.

    Shapes: as :data:`ReduceSum`. dtypes: bool.
    """
    raise NotImplementedError


ReduceAll.lower(_reduce(aten.all.dims))


@ascend_op(axes=HostInts, source="CANN op_proto: reduce_ops.h")
def ReduceLogSumExp(x: Value, axes: Value, *, keep_dims: bool = False) -> Value:
    """``log(sum(exp(x)))`` over ``axes``, without overflow.

    Shapes: as :data:`ReduceSum`. dtypes: any floating point or complex.
    """
    raise NotImplementedError


ReduceLogSumExp.lower(_reduce(torch.logsumexp))


@ascend_op(source="CANN op_proto: reduce_ops.h")
def LpNormV2(
    x: Value, *, p: float = 2.0, axes: Sequence[int] = (), keepdim: bool = False, epsilon: float = 1e-12
) -> Value:
    """``sum(abs(x)^p)^(1/p)`` over ``axes``, at least ``epsilon``.

    Infinite ``p`` give the largest or smallest magnitude, 0 the number of elements other than 0. Shapes: ``x`` is
    any; empty ``axes`` reduce everything. dtypes: floating point, or complex with a real result.
    """
    raise NotImplementedError


@LpNormV2.lower
def _(x: Tensor, *, p: float, axes: Sequence[int], keepdim: bool, epsilon: float) -> Tensor:
    y: Tensor = torch.linalg.vector_norm(x, p, list(axes) or None, keepdim)
    return y.clamp_min(epsilon) if epsilon > 0 else y


@ascend_op(outputs=("std", "mean"), source="CANN op_proto: reduce_ops.h")
def ReduceStdV2(
    x: Value, *, dim: Sequence[int] = (), correction: int = 1, keepdim: bool = False, is_mean_out: bool = True
) -> tuple[Value, Value]:
    """Standard deviation over ``dim``, with the divisor ``max(0, n - correction)``, and the mean.

    Shapes: ``x`` is any; empty ``dim`` reduces everything. dtypes: floating point. Without ``is_mean_out`` the mean
    is empty.
    """
    raise NotImplementedError


@ReduceStdV2.lower
def _(x: Tensor, *, dim: Sequence[int], correction: int, keepdim: bool, is_mean_out: bool) -> tuple[Tensor, Tensor]:
    return _deviation("std", x, dim, correction, keepdim, is_mean_out)


@ascend_op(
    outputs=("var", "mean"), source="CANN operator list: ReduceVar; inputs and attributes are those of ReduceStdV2"
)
def ReduceVar(
    x: Value, *, dim: Sequence[int] = (), correction: int = 1, keepdim: bool = False, is_mean_out: bool = True
) -> tuple[Value, Value]:
    """Variance over ``dim``, with the divisor ``max(0, n - correction)``, and the mean.

    Shapes: ``x`` is any; empty ``dim`` reduces everything. dtypes: floating point. Without ``is_mean_out`` the mean
    is empty.
    """
    raise NotImplementedError


@ReduceVar.lower
def _(x: Tensor, *, dim: Sequence[int], correction: int, keepdim: bool, is_mean_out: bool) -> tuple[Tensor, Tensor]:
    return _deviation("var", x, dim, correction, keepdim, is_mean_out)


def _deviation(
    name: str, x: Tensor, dim: Sequence[int], correction: int, keepdim: bool, is_mean_out: bool
) -> tuple[Tensor, Tensor]:
    axes = list(dim) or None
    if is_mean_out:
        both: tuple[Tensor, Tensor] = getattr(aten, f"{name}_mean").correction(
            x, axes, correction=correction, keepdim=keepdim
        )
        return both
    # Not the same as the first of both: without the mean, eager adds in another order.
    return getattr(aten, name).correction(x, axes, correction=correction, keepdim=keepdim), x.new_empty(0)


@ascend_op(dimension=HostInts, source="CANN op_proto: math_ops.h")
def ArgMaxV2(x: Value, dimension: Value, *, dtype: DType = DType.DT_INT64) -> Value:
    """Position of the first largest element along ``dimension``, or of the first NaN.

    Shapes: ``x`` is any, ``dimension`` 0-d or ``[1]``; the result lacks that dimension. dtypes: ``x`` is any real
    number, the result is ``dtype``, int32 or int64.
    """
    raise NotImplementedError


@ArgMaxV2.lower
def _(x: Tensor, dimension: int | Sequence[int], *, dtype: DType) -> Tensor:
    return torch.argmax(x, axis_list(dimension)[0]).to(torch_dtype(dtype))


@ascend_op(dimension=HostInts, source="CANN op_proto: math_ops.h")
def ArgMin(x: Value, dimension: Value, *, dtype: DType = DType.DT_INT64) -> Value:
    """Position of the first smallest element along ``dimension``, or of the first NaN.

    Shapes and dtypes: as :data:`ArgMaxV2`.
    """
    raise NotImplementedError


@ArgMin.lower
def _(x: Tensor, dimension: int | Sequence[int], *, dtype: DType) -> Tensor:
    return torch.argmin(x, axis_list(dimension)[0]).to(torch_dtype(dtype))


@ascend_op(outputs=("indice", "values"), source="CANN op_proto: math_ops.h")
def ArgMaxWithValue(x: Value, *, dimension: int, keep_dims: bool = False) -> tuple[Value, Value]:
    """Position and value of the largest element along ``dimension``; NaN counts as larger than all others.

    Shapes: ``x`` is any; the results lack that dimension, or have 1 there with ``keep_dims``. dtypes: ``x`` is any
    real number or bool, ``indice`` int32, ``values`` that of ``x``.
    """
    raise NotImplementedError


@ascend_op(outputs=("indice", "values"), source="CANN op_proto: math_ops.h")
def ArgMinWithValue(x: Value, *, dimension: int, keep_dims: bool = False) -> tuple[Value, Value]:
    """Position and value of the smallest element along ``dimension``; NaN counts as smaller than all others.

    Shapes and dtypes: as :data:`ArgMaxWithValue`.
    """
    raise NotImplementedError


def _arg_with_value(function: Callable[..., Any]) -> Callable[..., tuple[Tensor, Tensor]]:
    def lowering(x: Tensor, *, dimension: int, keep_dims: bool) -> tuple[Tensor, Tensor]:
        values, indices = function(x, dimension, keep_dims)
        return index32(indices, x.shape[dimension] if x.ndim else 1), values

    return lowering


ArgMaxWithValue.lower(_arg_with_value(torch.max))
ArgMinWithValue.lower(_arg_with_value(torch.min))
