"""Converters of reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from torchair.convert.arguments import argument, numbers_known, positions_fit_int32
from torchair.convert.promotion import cast
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import reshape
from torchair.errors import Rejection
from torchair.ir import DType, Value
from torchair.opset.operator import AscendOp
from torchair.opset.reduction import (
    ArgMaxV2,
    ArgMaxWithValue,
    ArgMin,
    ArgMinWithValue,
    LpNormV2,
    ReduceAll,
    ReduceAny,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProdD,
    ReduceStdV2,
    ReduceSum,
    ReduceVar,
)

__all__ = ["axes_of"]

aten = torch.ops.aten


def axes_of(x: Value, dim: int | Sequence[int] | None = None) -> list[int]:
    """The axes that ATen reduces over ``dim``: all for None and for an empty list, none of a 0-d tensor."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.rank))
    dims = dim if isinstance(dim, Sequence) else [dim]
    return sorted(d % x.rank for d in dims) if x.rank else []


def _given_axes(x: Value, dim: Sequence[int] | None) -> list[int]:
    """The axes of an operator for which none means all: eager sums in another order when all are named."""
    return [d % max(x.rank, 1) for d in dim or ()]


# --- sums, means, products ---


@register_fx_node_ge_converter(aten.sum.default)
def sum_all(self: Value, *, dtype: torch.dtype | None = None, meta_outputs: TensorSpec) -> Value:
    """aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return ReduceSum(cast(self, meta_outputs.dtype), axes_of(self))


@register_fx_node_ge_converter(aten.sum.dim_IntList)
def sum_dims(
    self: Value,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    meta_outputs: TensorSpec,
) -> Value:
    """aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return ReduceSum(cast(self, meta_outputs.dtype), axes_of(self, dim), keep_dims=keepdim)


@register_fx_node_ge_converter(aten.mean.default)
def mean_all(self: Value, *, dtype: torch.dtype | None = None, meta_outputs: TensorSpec) -> Value:
    """aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _mean(self, axes_of(self), meta_outputs)


@register_fx_node_ge_converter(aten.mean.dim)
def mean_dims(
    self: Value,
    dim: Sequence[int] | None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    meta_outputs: TensorSpec,
) -> Value:
    """aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _mean(self, axes_of(self, dim), meta_outputs, keep_dims=keepdim)


def _mean(x: Value, axes: list[int], meta_outputs: TensorSpec, *, keep_dims: bool = False) -> Value:
    """The mean in the dtype of the result; eager rounds the mean, not the elements, to half precision."""
    common = meta_outputs.dtype
    if common in (DType.DT_BF16, DType.DT_FLOAT16) and x.dtype != common:
        common = DType.DT_FLOAT
    return cast(ReduceMean(cast(x, common), axes, keep_dims=keep_dims), meta_outputs.dtype)


@register_fx_node_ge_converter(aten.prod.default)
def prod_all(self: Value, *, dtype: torch.dtype | None = None, meta_outputs: TensorSpec) -> Value:
    """aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return ReduceProdD(cast(self, meta_outputs.dtype), axes=axes_of(self))


@register_fx_node_ge_converter(aten.prod.dim_int)
def prod_dim(
    self: Value, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None, meta_outputs: TensorSpec
) -> Value:
    """aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return ReduceProdD(cast(self, meta_outputs.dtype), axes=axes_of(self, dim), keep_dims=keepdim)


@register_fx_node_ge_converter(aten.logsumexp.default)
def logsumexp(self: Value, dim: Sequence[int], keepdim: bool = False, *, meta_outputs: TensorSpec) -> Value:
    """aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    x = self if self.dtype.is_complex else cast(self, meta_outputs.dtype)
    return ReduceLogSumExp(x, axes_of(self, dim), keep_dims=keepdim)


@register_fx_node_ge_converter(aten.linalg_vector_norm.default, supports=numbers_known("ord"))
def linalg_vector_norm(
    self: Value,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    meta_outputs: TensorSpec,
) -> Value:
    """aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType?
    dtype=None) -> Tensor
    """
    x = self if self.dtype.is_complex else cast(self, meta_outputs.dtype)
    y = LpNormV2(x, p=float(ord), axes=_given_axes(self, dim), keepdim=keepdim, epsilon=0.0)
    return cast(y, meta_outputs.dtype)


# --- the largest and the smallest ---


def _register_extremum(name: str, op: AscendOp[Value], with_position: AscendOp[tuple[Value, Value]]) -> None:
    """Register ``amax``, ``max`` and ``max.dim``, or the same for ``min``."""

    @register_fx_node_ge_converter(getattr(aten, f"a{name}").default)
    def over_dims(self: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
        """aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
        return op(self, axes_of(self, dim), keep_dims=keepdim)

    @register_fx_node_ge_converter(getattr(aten, name).default)
    def over_all(self: Value) -> Value:
        """aten::max(Tensor self) -> Tensor"""
        return op(self, axes_of(self))

    @register_fx_node_ge_converter(getattr(aten, name).dim, supports=positions_fit_int32)
    def along_dim(self: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
        """aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
        indices, values = with_position(self, dimension=dim, keep_dims=keepdim)
        return values, cast(indices, DType.DT_INT64)


_register_extremum("max", ReduceMax, ArgMaxWithValue)
_register_extremum("min", ReduceMin, ArgMinWithValue)


@register_fx_node_ge_converter(aten.argmax.default)
def argmax(self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _position(ArgMaxV2, self, dim, keepdim)


@register_fx_node_ge_converter(aten.argmin.default)
def argmin(self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return _position(ArgMin, self, dim, keepdim)


def _position(op: AscendOp[Value], x: Value, dim: int | None, keepdim: bool) -> Value:
    if dim is None:
        kept: list[Any] = [1] * x.rank
        y = op(reshape(x, [-1]) if x.rank != 1 else x, 0, dtype=DType.DT_INT64)
    else:
        kept = [1 if i == dim % x.rank else size for i, size in enumerate(x.shape)]
        y = op(x, dim, dtype=DType.DT_INT64)
    return reshape(y, kept) if keepdim and kept else y


# --- any and all ---


def _register_logical(name: str, op: AscendOp[Value]) -> None:
    """Register ``any`` or ``all`` without, with one and with several dimensions."""
    packet = getattr(aten, name)

    def reduce(x: Value, axes: list[int], meta_outputs: TensorSpec, keepdim: bool = False) -> Value:
        # The result of uint8 is uint8, of all others bool.
        return cast(op(cast(x, DType.DT_BOOL), axes, keep_dims=keepdim), meta_outputs.dtype)

    @register_fx_node_ge_converter(packet.default)
    def over_all(self: Value, *, meta_outputs: TensorSpec) -> Value:
        """aten::any(Tensor self) -> Tensor"""
        return reduce(self, axes_of(self), meta_outputs)

    @register_fx_node_ge_converter(packet.dim)
    def over_dim(self: Value, dim: int, keepdim: bool = False, *, meta_outputs: TensorSpec) -> Value:
        """aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"""
        return reduce(self, axes_of(self, dim), meta_outputs, keepdim)

    @register_fx_node_ge_converter(packet.dims)
    def over_dims(
        self: Value, dim: Sequence[int] | None = None, keepdim: bool = False, *, meta_outputs: TensorSpec
    ) -> Value:
        """aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
        # Unlike elsewhere, an empty list reduces nothing.
        axes = [] if dim is not None and not dim else axes_of(self, dim)
        return reduce(self, axes, meta_outputs, keepdim)


_register_logical("any", ReduceAny)
_register_logical("all", ReduceAll)


# --- variance and standard deviation ---


def _whole_correction(node: fx.Node) -> Rejection | None:
    correction = argument(node, "correction")
    if correction is None or (isinstance(correction, int | float) and float(correction).is_integer()):
        return None
    return Rejection(
        f"correction is {correction}, and the Ascend operator takes a whole number", fix="Pass a whole number."
    )


def _register_deviation(name: str, op: AscendOp[tuple[Value, Value]]) -> None:
    """Register ``var`` and ``var_mean``, or the same for ``std``."""

    def reduce(
        x: Value, dim: Sequence[int] | None, correction: float | None, keepdim: bool, mean: bool
    ) -> tuple[Value, Value]:
        whole = 1 if correction is None else int(correction)
        return op(x, dim=_given_axes(x, dim), correction=whole, keepdim=keepdim, is_mean_out=mean)

    @register_fx_node_ge_converter(getattr(aten, name).correction, supports=_whole_correction)
    def alone(
        self: Value, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
    ) -> Value:
        """aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) ->
        Tensor
        """
        return reduce(self, dim, correction, keepdim, False)[0]

    @register_fx_node_ge_converter(getattr(aten, name).dim)
    def unbiased_or_not(self: Value, dim: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False) -> Value:
        """aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
        return reduce(self, dim, int(unbiased), keepdim, False)[0]

    @register_fx_node_ge_converter(getattr(aten, f"{name}_mean").correction, supports=_whole_correction)
    def with_mean(
        self: Value, dim: Sequence[int] | None = None, *, correction: float | None = None, keepdim: bool = False
    ) -> tuple[Value, Value]:
        """aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) ->
        (Tensor, Tensor)
        """
        return reduce(self, dim, correction, keepdim, True)


_register_deviation("var", ReduceVar)
_register_deviation("std", ReduceStdV2)
