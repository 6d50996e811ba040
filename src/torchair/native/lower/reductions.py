"""Reductions: sums, extremes, positions of extremes, moments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import sympy
import torch
from torch import fx

from torchair.native.expressions import Expr
from torchair.native.lower.registry import arguments, lowers
from torchair.native.lower.views import normal_dim, view_of
from torchair.native.operations import Reduce, Shape
from torchair.native.region import LoopValue, Region, Unsupported, compute_dtype, product, sympy_shape

aten = torch.ops.aten

Formula = Callable[[Expr], Expr]

#: Reductions to fewer results than the first, of so many elements, are split into parts: one worker has one result.
_FEW, _MANY, _PARTS = 16, 2**16, 64


def _dims(region: Region, node: fx.Node) -> tuple[LoopValue, list[int], bool]:
    """The operand, the axes that are reduced, and whether they stay with size 1."""
    given = arguments(node)
    value = region.value(node.args[0])  # type: ignore[arg-type]
    rank = len(value.shape)
    dim = given.get("dim")
    dims = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    found = sorted({normal_dim(d, rank) for d in dims}) if dims and rank else list(range(rank))
    return value, found, bool(given.get("keepdim"))


def reduced(
    region: Region,
    value: LoopValue,
    dims: Sequence[int],
    kind: str,
    dtype: torch.dtype,
    result: torch.dtype,
    formula: Formula = lambda x: x,
) -> LoopValue:
    """A reduction of a value over axes; the axes are gone from the result.

    Args:
        dtype: In which it accumulates; elements are converted to it.
        formula: Applied to each element first.
    """
    builder = region.builder
    if (split := _split_of(value, dims, kind)) is not None:
        axis, parts = split
        partial = reduced(
            region, _split_axis(value, axis, parts), [d + (d >= axis) for d in dims], kind, dtype, dtype, formula
        )
        return reduced(region, partial, [sum(d not in dims for d in range(axis))], kind, dtype, result)
    kept = [d for d in range(len(value.shape)) if d not in dims]
    order = (*kept, *dims)

    def element(index: Sequence[sympy.Expr]) -> Expr:
        own: list[sympy.Expr] = [sympy.S.Zero] * len(order)
        for position, d in zip(index, order, strict=True):
            own[d] = position
        return formula(builder.cast(value.element(own, None), dtype))

    out = region.new_buffer(tuple(value.shape[d] for d in kept), result)
    sizes = tuple(value.shape[d] for d in dims)

    def count(index: Sequence[sympy.Expr]) -> sympy.Expr:
        flat: sympy.Expr = sympy.S.Zero
        for i, size in zip(index, sizes, strict=True):
            flat = flat * size + i
        return sympy.expand(flat)

    region.operations.append(
        Reduce(
            out, kind, out.shape, sizes, element, order, dtype, count if kind.startswith("arg") else None, region.label
        )
    )
    return region.from_buffer(out)


def _split_of(value: LoopValue, dims: Sequence[int], kind: str) -> tuple[int, int] | None:
    """The axis, and the number of its parts, where few results of many elements want more than one worker."""
    numbers = [int(s) if s.is_Integer else 0 for s in value.shape]
    kept = math.prod(n for d, n in enumerate(numbers) if d not in dims)
    if kind.startswith("arg") or not 0 < kept < _FEW or math.prod(numbers) < _MANY:
        return None
    axis = next(d for d in dims if numbers[d] > 1)
    parts = next(p for p in range(_PARTS, 0, -1) if numbers[axis] % p == 0)
    return (axis, parts) if parts > 1 else None


def _split_axis(value: LoopValue, axis: int, parts: int) -> LoopValue:
    """The value with an axis of so many parts before the axis, which has the elements of a part."""
    each = value.shape[axis] / parts

    def whole(index: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        return [*index[:axis], index[axis] * each + index[axis + 1], *index[axis + 2 :]]

    return view_of(value, (*value.shape[:axis], sympy.Integer(parts), each, *value.shape[axis + 1 :]), whole)


def _with_dims(value: LoopValue, dims: Sequence[int], shape: Shape, *, keepdim: bool) -> LoopValue:
    if not keepdim:
        return value
    return view_of(value, shape, lambda index: [i for d, i in enumerate(index) if d not in dims])


def _simple(
    kind: str, accumulate: Callable[[torch.dtype, torch.dtype], torch.dtype]
) -> Callable[[Region, fx.Node], LoopValue]:
    def lower(region: Region, node: fx.Node) -> LoopValue:
        value, dims, keepdim = _dims(region, node)
        tensor: torch.Tensor = node.meta["val"]
        dtype = accumulate(value.dtype, tensor.dtype)
        if dtype.is_complex:
            raise Unsupported("it reduces complex numbers")
        found = reduced(region, value, dims, kind, dtype, tensor.dtype)
        return _with_dims(found, dims, sympy_shape(tensor.shape), keepdim=keepdim)

    return lower


def _of_result(operand: torch.dtype, result: torch.dtype) -> torch.dtype:
    return compute_dtype(result)


def _of_operand(operand: torch.dtype, result: torch.dtype) -> torch.dtype:
    return compute_dtype(operand)


def _bool(operand: torch.dtype, result: torch.dtype) -> torch.dtype:
    return torch.bool


lowers(aten.sum.default, aten.sum.dim_IntList)(_simple("sum", _of_result))
lowers(aten.prod.default, aten.prod.dim_int)(_simple("prod", _of_result))
lowers(aten.amax.default, aten.max.default)(_simple("max", _of_operand))
lowers(aten.amin.default, aten.min.default)(_simple("min", _of_operand))
lowers(aten.any.default, aten.any.dim, aten.any.dims)(_simple("any", _bool))
lowers(aten.all.default, aten.all.dim, aten.all.dims)(_simple("all", _bool))


def _scaled(region: Region, value: LoopValue, divisor: Callable[[], Expr], result: torch.dtype) -> LoopValue:
    builder = region.builder

    def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        x = value.element(index, mask)
        return builder.cast(builder.op("div", x, divisor(), dtype=x.dtype), result)

    return LoopValue(value.shape, result, element, reads=value.reads, depth=1, cost=4)


def _count(region: Region, sizes: Shape, dtype: torch.dtype, less: float = 0) -> Expr:
    builder = region.builder
    total = builder.cast(builder.index(product(sizes)), dtype)
    if not less:
        return total
    rest = builder.op("sub", total, builder.constant(less, dtype), dtype=dtype)
    return builder.op("max", rest, builder.constant(0, dtype), dtype=dtype)


def _mean_of(
    region: Region, value: LoopValue, dims: Sequence[int], dtype: torch.dtype, result: torch.dtype
) -> LoopValue:
    total = reduced(region, value, dims, "sum", dtype, dtype)
    sizes = tuple(value.shape[d] for d in dims)
    return _scaled(region, total, lambda: _count(region, sizes, dtype), result)


@lowers(aten.mean.default, aten.mean.dim)
def _mean(region: Region, node: fx.Node) -> LoopValue:
    value, dims, keepdim = _dims(region, node)
    tensor: torch.Tensor = node.meta["val"]
    if tensor.dtype.is_complex:
        raise Unsupported("it reduces complex numbers")
    found = _mean_of(region, value, dims, compute_dtype(tensor.dtype), tensor.dtype)
    return _with_dims(found, dims, sympy_shape(tensor.shape), keepdim=keepdim)


def _moments(region: Region, node: fx.Node) -> tuple[LoopValue, LoopValue, list[int], bool]:
    """Variance and mean: the mean first, then the squares of the distances from it."""
    value, dims, keepdim = _dims(region, node)
    tensor = node.meta["val"]
    result: torch.dtype = (tensor[0] if isinstance(tensor, tuple | list) else tensor).dtype
    correction = arguments(node).get("correction")
    if isinstance(correction, fx.Node) or value.dtype.is_complex:
        raise Unsupported("its correction is symbolic, or its numbers are complex")
    dtype, builder = compute_dtype(result), region.builder
    if value.cost > 2 and value.buffer is None:
        value = region.realize(value)
    mean = region.realize(_mean_of(region, value, dims, dtype, dtype))

    def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        x = builder.cast(value.element(index, mask), dtype)
        middle = mean.element([i for d, i in enumerate(index) if d not in dims], mask)
        distance = builder.op("sub", x, middle, dtype=dtype)
        return builder.op("mul", distance, distance, dtype=dtype)

    squares = LoopValue(value.shape, dtype, element, reads=value.reads | mean.reads, depth=2, cost=value.cost + 2)
    total = reduced(region, squares, dims, "sum", dtype, dtype)
    sizes = tuple(value.shape[d] for d in dims)
    less = 1.0 if correction is None else float(correction)
    variance = _scaled(region, total, lambda: _count(region, sizes, dtype, less), result)

    def rounded(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        return builder.cast(mean.element(index, mask), result)

    return variance, LoopValue(mean.shape, result, rounded, reads=mean.reads), dims, keepdim


@lowers(aten.var.correction)
def _var(region: Region, node: fx.Node) -> LoopValue:
    variance, _, dims, keepdim = _moments(region, node)
    return _with_dims(variance, dims, sympy_shape(node.meta["val"].shape), keepdim=keepdim)


@lowers(aten.var_mean.correction)
def _var_mean(region: Region, node: fx.Node) -> tuple[LoopValue, LoopValue]:
    variance, mean, dims, keepdim = _moments(region, node)
    shape = sympy_shape(node.meta["val"][0].shape)
    return _with_dims(variance, dims, shape, keepdim=keepdim), _with_dims(mean, dims, shape, keepdim=keepdim)


@lowers(aten.argmax.default, aten.argmin.default)
def _arg(region: Region, node: fx.Node) -> LoopValue:
    value, dims, keepdim = _dims(region, node)
    if not value.shape:
        return LoopValue((), torch.int64, lambda index, mask: region.builder.constant(0, torch.int64))
    kind = "argmax" if node.target is aten.argmax.default else "argmin"
    found = reduced(region, value, dims, kind, compute_dtype(value.dtype), torch.int64)
    return _with_dims(found, dims, sympy_shape(node.meta["val"].shape), keepdim=keepdim)


@lowers(aten.max.dim, aten.min.dim)
def _extreme_and_position(region: Region, node: fx.Node) -> tuple[LoopValue, LoopValue]:
    value, dims, keepdim = _dims(region, node)
    if not value.shape:
        raise Unsupported("its operand has no axis")
    if value.cost > 2 and value.buffer is None:
        value = region.realize(value)
    kind = "max" if node.target is aten.max.dim else "min"
    dtype = compute_dtype(value.dtype)
    extreme = reduced(region, value, dims, kind, dtype, value.dtype)
    position = reduced(region, value, dims, f"arg{kind}", dtype, torch.int64)
    shape = sympy_shape(node.meta["val"][0].shape)
    return _with_dims(extreme, dims, shape, keepdim=keepdim), _with_dims(position, dims, shape, keepdim=keepdim)
