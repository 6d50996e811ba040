"""Tensors put together: concatenation, padding, a tensor with a part of it replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from torchair.native.expressions import Expr
from torchair.native.lower.pointwise import number_expr
from torchair.native.lower.registry import arguments, lowers
from torchair.native.lower.views import normal_dim, slice_range
from torchair.native.operations import Update
from torchair.native.region import LoopValue, Region, Unsupported, compute_dtype, sympy_shape

aten = torch.ops.aten

Index = Sequence[sympy.Expr]

#: More parts than these, or parts that cost more additions, are written one by one into the result. A result whose
#: elements are chosen among the parts computes all of them for each.
_CHOSEN_PARTS, _CHOSEN_COST = 4, 16


def _compare(region: Region, name: str, a: sympy.Expr, b: sympy.Expr) -> Expr:
    builder = region.builder
    return builder.op(name, builder.index(a), builder.index(b), dtype=torch.bool)


def _choose(region: Region, condition: Expr, a: Expr, b: Expr) -> Expr:
    return region.builder.op("where", condition, a, b, dtype=a.dtype)


@lowers(aten.cat.default)
def _cat(region: Region, node: fx.Node) -> LoopValue:
    tensor: torch.Tensor = node.meta["val"]
    shape, builder = sympy_shape(tensor.shape), region.builder
    given: Any = node.args[0]
    parts = [region.value(n) for n in given if tuple(n.meta["val"].shape) != (0,)]
    if not parts:
        raise Unsupported("nothing is concatenated")
    dim = normal_dim(arguments(node)["dim"], len(shape))
    if len(parts) > _CHOSEN_PARTS or sum(p.cost for p in parts) > _CHOSEN_COST:
        return _written(region, node, parts, dim)

    def element(index: Index, mask: Expr | None) -> Expr:
        found: Expr | None = None
        start: sympy.Expr = sympy.S.Zero
        starts = []
        for part in parts:
            starts.append(start)
            start = start + part.shape[dim]
        for part, first in reversed(list(zip(parts, starts, strict=True))):
            # The last part is where all others are not.
            here = None if found is None else _compare(region, "lt", index[dim], first + part.shape[dim])
            guards = [m for m in (mask, here, _compare(region, "ge", index[dim], first) if first != 0 else None) if m]
            inside: Expr | None = None
            for guard in guards:
                inside = builder.both(inside, guard)
            own = [i - first if d == dim else i for d, i in enumerate(index)]
            value = builder.cast(part.element(own, inside), tensor.dtype)
            found = value if found is None or here is None else _choose(region, here, value, found)
        assert found is not None
        return found

    reads: frozenset[Any] = frozenset().union(*(p.reads for p in parts))
    depth = 1 + max(p.depth for p in parts)
    return region.bounded(
        LoopValue(shape, tensor.dtype, element, reads=reads, depth=depth, cost=2 + sum(p.cost for p in parts))
    )


def _written(region: Region, node: fx.Node, parts: Sequence[LoopValue], dim: int) -> LoopValue:
    tensor: torch.Tensor = node.meta["val"]
    out = region.new_buffer(sympy_shape(tensor.shape), tensor.dtype, sympy_shape(tensor.stride()))
    start: sympy.Expr = sympy.S.Zero
    for part in parts:

        def position(index: Index, first: sympy.Expr = start) -> sympy.Expr:
            return out.offset([i + first if d == dim else i for d, i in enumerate(index)])

        def element(index: Index, part: LoopValue = part) -> Expr:
            return region.builder.cast(part.element(index, None), tensor.dtype)

        region.operations.append(Update(out, part.shape, element, position, disjoint=True, label=region.label))
        start = start + part.shape[dim]
    return region.from_buffer(out)


@lowers(aten.constant_pad_nd.default)
def _pad(region: Region, node: fx.Node) -> LoopValue:
    value, given = region.value(node.args[0]), arguments(node)  # type: ignore[arg-type]
    shape = sympy_shape(node.meta["val"].shape)
    pads = [sympy.sympify(p.meta["val"] if isinstance(p, fx.Node) else p) for p in given["pad"]]
    rank = len(shape)
    first: list[sympy.Expr] = [sympy.S.Zero] * rank
    for k in range(len(pads) // 2):
        first[rank - 1 - k] = pads[2 * k]
    fill = region.builder.cast(number_expr(region, given["value"], compute_dtype(value.dtype)), value.dtype)
    padded = [rank - 1 - k for k in range(len(pads) // 2) if pads[2 * k] != 0 or pads[2 * k + 1] != 0]

    def element(index: Index, mask: Expr | None) -> Expr:
        inside: Expr | None = None
        for d in padded:
            inside = region.builder.both(inside, _compare(region, "ge", index[d], first[d]))
            inside = region.builder.both(inside, _compare(region, "lt", index[d], first[d] + value.shape[d]))
        own = [i - first[d] for d, i in enumerate(index)]
        found = value.element(own, region.builder.both(mask, inside))
        return found if inside is None else _choose(region, inside, found, fill)

    return LoopValue(shape, value.dtype, element, reads=value.reads, depth=1 + value.depth, cost=2 + value.cost)


def _replaced(
    region: Region,
    whole: LoopValue,
    part: LoopValue,
    inside_of: Callable[[Index], Expr | None],
    index_of: Callable[[Index], Index],
) -> LoopValue:
    builder = region.builder
    if whole.cost + part.cost > _CHOSEN_COST:
        whole, part = (v if v.buffer is not None or v.cost <= 2 else region.realize(v) for v in (whole, part))

    def element(index: Index, mask: Expr | None) -> Expr:
        inside = inside_of(index)
        new = builder.cast(part.element(index_of(index), builder.both(mask, inside)), whole.dtype)
        return new if inside is None else _choose(region, inside, new, whole.element(index, mask))

    reads, depth = whole.reads | part.reads, 1 + max(whole.depth, part.depth)
    return region.bounded(
        LoopValue(whole.shape, whole.dtype, element, reads=reads, depth=depth, cost=2 + whole.cost + part.cost)
    )


@lowers(aten.slice_scatter.default)
def _slice_scatter(region: Region, node: fx.Node) -> LoopValue:
    whole, part = region.value(node.args[0]), region.value(node.args[1])  # type: ignore[arg-type]
    dim = normal_dim(arguments(node)["dim"], len(whole.shape))
    start, step = slice_range(node, whole.shape[dim])
    if step != 1:
        raise Unsupported("its step is not 1")
    end = start + part.shape[dim]

    def inside(index: Index) -> Expr | None:
        found = None if start == 0 else _compare(region, "ge", index[dim], start)
        if end != whole.shape[dim]:
            found = region.builder.both(found, _compare(region, "lt", index[dim], end))
        return found

    return _replaced(
        region, whole, part, inside, lambda index: [i - start if d == dim else i for d, i in enumerate(index)]
    )


@lowers(aten.select_scatter.default)
def _select_scatter(region: Region, node: fx.Node) -> LoopValue:
    whole, part = region.value(node.args[0]), region.value(node.args[1])  # type: ignore[arg-type]
    given = arguments(node)
    dim, at = normal_dim(given["dim"], len(whole.shape)), given["index"]
    if not isinstance(at, int):
        raise Unsupported("it selects a position that depends on sizes")
    position = sympy.Integer(at) if at >= 0 else at + whole.shape[dim]
    return _replaced(
        region,
        whole,
        part,
        lambda index: _compare(region, "eq", index[dim], position),
        lambda index: [i for d, i in enumerate(index) if d != dim],
    )
