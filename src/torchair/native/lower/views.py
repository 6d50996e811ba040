"""Views: the same elements under other indices. They cost nothing here."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from torchair import _torch_compat
from torchair.native.expressions import Expr
from torchair.native.lower.registry import arguments, lowers
from torchair.native.operations import Shape, Strided
from torchair.native.region import LoopValue, Region, Unsupported, sympy_shape

__all__ = ["normal_dim", "slice_range", "strided", "view_of"]

aten = torch.ops.aten

Index = Sequence[sympy.Expr]


def view_of(value: LoopValue, shape: Shape, index_map: Callable[[Index], Index]) -> LoopValue:
    """The elements of a value under other indices."""

    def element(index: Index, mask: Expr | None) -> Expr:
        return value.element(index_map(index), mask)

    return LoopValue(
        shape,
        value.dtype,
        element,
        reads=value.reads,
        depth=value.depth,
        cost=value.cost,
        is_view=value.is_view,
    )


def strided(region: Region, value: LoopValue) -> Strided | None:
    """A value as a strided tensor in memory; None when it is none."""
    found = value.element(_variables(len(value.shape)), None)
    if found.op != "load" or found.mask is not None:
        return None
    assert found.buffer is not None
    linear = _linear(found.offset, value.shape)
    if linear is None or any(s in region.builder.indirect for s in linear[0].free_symbols):
        return None
    return Strided(found.buffer, *linear)


@functools.cache
def _variables(count: int) -> tuple[sympy.Symbol, ...]:
    return tuple(sympy.Symbol(f"i{d}", integer=True, nonnegative=True) for d in range(count))


@functools.lru_cache(maxsize=1 << 14)  # layers that are alike have the same positions
def _linear(position: sympy.Expr, shape: Shape) -> tuple[sympy.Expr, Shape] | None:
    """Start and strides of the positions of a tensor's elements; None where no strides tell them."""
    variables = _variables(len(shape))
    offset = sympy.expand(position)
    strides = [
        sympy.S.Zero if size == 1 else offset.coeff(variable, 1)
        for variable, size in zip(variables, shape, strict=True)
    ]
    start = offset.xreplace(dict.fromkeys(variables, sympy.S.Zero))
    rebuilt = sympy.Add(start, *(v * s for v, s in zip(variables, strides, strict=True)))
    ones = {v: sympy.S.Zero for v, size in zip(variables, shape, strict=True) if size == 1}
    if sympy.expand(rebuilt - offset.xreplace(ones)) != 0:
        return None
    return start, tuple(strides)


def normal_dim(dim: int, rank: int) -> int:
    """An axis counted from the front."""
    return dim % rank if rank else 0


def _shape(node: fx.Node) -> Shape:
    return sympy_shape(node.meta["val"].shape)


def _operand(region: Region, node: fx.Node) -> LoopValue:
    found = node.args[0]
    assert isinstance(found, fx.Node)
    return region.value(found)


@lowers(aten.alias.default, aten.detach.default)
def _alias(region: Region, node: fx.Node) -> LoopValue:
    return _operand(region, node)


@lowers(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.squeeze.default, aten.squeeze.dim,
        aten.squeeze.dims, aten.unsqueeze.default)  # fmt: skip
def _reshape(region: Region, node: fx.Node) -> LoopValue:
    return reshaped(region, _operand(region, node), _shape(node))


def reshaped(region: Region, value: LoopValue, shape: Shape) -> LoopValue:
    """The value in another shape of as many elements."""
    place = strided(region, value) if value.is_view else None
    strides = None if place is None else _view_strides(place.strides, value.shape, shape)
    if place is None or strides is None:
        return view_of(value, shape, reshape_map(shape, value.shape))
    start, buffer, builder = place.start, place.buffer, region.builder

    def element(index: Index, mask: Expr | None) -> Expr:
        return builder.load(buffer, sympy.Add(start, *(i * s for i, s in zip(index, strides, strict=True))), mask)

    return LoopValue(shape, value.dtype, element, reads=value.reads, is_view=True)


def _view_strides(strides: Sequence[sympy.Expr], old: Shape, new: Shape) -> Shape | None:
    """Strides in which memory shows the new shape; None when no strides do."""
    found: list[sympy.Expr] = [sympy.S.Zero] * len(new)
    if any(size == 0 for size in old):
        return tuple(found)
    for to_new, to_old in _matching_groups(new, old):
        theirs = [d for d in to_old if old[d] != 1]
        step: sympy.Expr = sympy.S.One
        if theirs:
            step = strides[theirs[-1]]
            for a, b in itertools.pairwise(theirs):
                if sympy.expand(strides[a] - strides[b] * old[b]) != 0:
                    return None
        for d in reversed(to_new):
            if new[d] != 1:
                found[d] = step
                step = step * new[d]
    return tuple(found)


def reshape_map(new: Shape, old: Shape) -> Callable[[Index], Index]:
    """Index of the new shape -> index of the old one."""
    if any(size == 0 for size in old):  # no element is ever read
        return lambda index: [sympy.S.Zero] * len(old)
    groups = _matching_groups(new, old)

    def index_map(index: Index) -> Index:
        found: list[sympy.Expr] = []
        for to_new, to_old in groups:
            mine = [(index[d], new[d]) for d in to_new if new[d] != 1]
            theirs = [d for d in to_old if old[d] != 1]
            values: dict[int, sympy.Expr] = {}
            if len(theirs) == 1:
                values[theirs[0]] = _flat(mine)
            elif theirs:
                flat = _flat(mine)
                step: sympy.Expr = sympy.S.One
                for d in reversed(theirs):
                    first = d == theirs[0]
                    values[d] = (
                        _torch_compat.floor_div(flat, step)
                        if first
                        else _torch_compat.modular_indexing(flat, step, old[d])
                    )
                    step = step * old[d]
            found += [values.get(d, sympy.S.Zero) for d in to_old]
        return found

    return index_map


def _flat(parts: Sequence[tuple[sympy.Expr, sympy.Expr]]) -> sympy.Expr:
    flat: sympy.Expr = sympy.S.Zero
    for index, size in parts:
        flat = flat * size + index
    return sympy.expand(flat)


def _matching_groups(new: Shape, old: Shape) -> list[tuple[range, range]]:
    """Runs of axes with as many elements in both shapes."""
    groups = []
    a = b = 0
    while a < len(new) or b < len(old):
        first_a, first_b = a, b
        size_a: sympy.Expr = sympy.S.One
        size_b: sympy.Expr = sympy.S.One
        while True:
            if a < len(new) and (size_a == size_b or _smaller(size_a, size_b) or b == len(old)):
                size_a, a = size_a * new[a], a + 1
            elif b < len(old):
                size_b, b = size_b * old[b], b + 1
            if sympy.expand(size_a - size_b) == 0 and size_a != 0:
                break
            if a == len(new) and b == len(old):
                break
        # Axes of size 1 that follow belong to no group in particular.
        groups.append((range(first_a, a), range(first_b, b)))
    return groups


def _smaller(a: sympy.Expr, b: sympy.Expr) -> bool:
    return bool(a.is_Integer and b.is_Integer and a < b) or (a.is_Integer and not b.is_Integer)


@lowers(aten.permute.default, aten.t.default, aten.transpose.int, aten.numpy_T.default)
def _permute(region: Region, node: fx.Node) -> LoopValue:
    value = _operand(region, node)
    rank = len(value.shape)
    if node.target is aten.permute.default:
        dims = [normal_dim(d, rank) for d in node.args[1]]  # type: ignore[union-attr, arg-type]
    elif node.target is aten.transpose.int:
        dims = list(range(rank))
        if rank:
            a, b = (normal_dim(d, rank) for d in node.args[1:3])  # type: ignore[arg-type]
            dims[a], dims[b] = dims[b], dims[a]
    else:
        dims = list(reversed(range(rank)))
    inverse = [dims.index(d) for d in range(rank)]
    return view_of(value, tuple(value.shape[d] for d in dims), lambda index: [index[i] for i in inverse])


@lowers(aten.expand.default)
def _expand(region: Region, node: fx.Node) -> LoopValue:
    value, shape = _operand(region, node), _shape(node)
    new = len(shape) - len(value.shape)
    repeated = any(size == 1 and shape[new + d] != 1 for d, size in enumerate(value.shape))
    if repeated and value.buffer is None and value.cost > 2:
        value = region.values[node.args[0]] = region.realize(value)  # type: ignore[index]
    sizes = value.shape
    return view_of(
        value, shape, lambda index: [sympy.S.Zero if size == 1 else index[new + d] for d, size in enumerate(sizes)]
    )


def slice_range(node: fx.Node, size: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """First index and step of ``aten.slice``; the length is that of the node's value."""
    given = arguments(node)
    start, step = (_number(given[n]) for n in ("start", "step"))
    start = sympy.S.Zero if start is None else start
    if start.is_Integer and size.is_Integer:
        if start < 0:
            start = sympy.Max(start + size, 0)
        return sympy.Min(start, size), step if step is not None else sympy.S.One
    if start.is_negative:
        raise Unsupported("a slice begins at a position that depends on sizes")
    if start != 0 and start.is_nonnegative is not True:
        raise Unsupported("a slice begins at a position that depends on sizes")
    return start, step if step is not None else sympy.S.One


def _number(value: Any) -> sympy.Expr | None:
    if isinstance(value, fx.Node):
        value = value.meta["val"]
    return None if value is None else sympy.sympify(value)


@lowers(aten.slice.Tensor)
def _slice(region: Region, node: fx.Node) -> LoopValue:
    value, shape = _operand(region, node), _shape(node)
    dim = normal_dim(arguments(node)["dim"], len(shape))
    start, step = slice_range(node, value.shape[dim])
    return view_of(value, shape, lambda index: [start + i * step if d == dim else i for d, i in enumerate(index)])


@lowers(aten.select.int)
def _select(region: Region, node: fx.Node) -> LoopValue:
    value = _operand(region, node)
    dim = normal_dim(node.args[1], len(value.shape))  # type: ignore[arg-type]
    at = _number(node.args[2])
    assert at is not None
    if at.is_Integer and at < 0:
        at = at + value.shape[dim]
    elif at.is_nonnegative is not True:
        raise Unsupported("it selects a position that depends on sizes")
    return view_of(value, _shape(node), lambda index: [*index[:dim], at, *index[dim:]])


@lowers(aten.split_with_sizes.default, aten.split.Tensor, aten.unbind.int)
def _parts(region: Region, node: fx.Node) -> tuple[LoopValue, ...]:
    value = _operand(region, node)
    dim = normal_dim(arguments(node)["dim"], len(value.shape))
    parts = []
    start: sympy.Expr = sympy.S.Zero
    for tensor in node.meta["val"]:
        shape = sympy_shape(tensor.shape)

        def index_map(index: Index, start: sympy.Expr = start) -> Index:
            if node.target is aten.unbind.int:
                return [*index[:dim], start, *index[dim:]]
            return [start + i if d == dim else i for d, i in enumerate(index)]

        parts.append(view_of(value, shape, index_map))
        start = start + (1 if node.target is aten.unbind.int else shape[dim])
    return tuple(parts)


@lowers(aten.flip.default)
def _flip(region: Region, node: fx.Node) -> LoopValue:
    value = _operand(region, node)
    rank = len(value.shape)
    dims = {normal_dim(d, rank) for d in node.args[1]}  # type: ignore[union-attr, arg-type]
    sizes = value.shape
    found = view_of(
        value, value.shape, lambda index: [sizes[d] - 1 - i if d in dims else i for d, i in enumerate(index)]
    )
    found.is_view = False
    return found


@lowers(aten.diagonal.default)
def _diagonal(region: Region, node: fx.Node) -> LoopValue:
    value, given = _operand(region, node), arguments(node)
    rank = len(value.shape)
    a, b = normal_dim(given["dim1"], rank), normal_dim(given["dim2"], rank)
    offset = given["offset"]
    rest = [d for d in range(rank) if d not in (a, b)]

    def index_map(index: Index) -> Index:
        found: list[sympy.Expr] = [sympy.S.Zero] * rank
        for d, i in zip(rest, index, strict=False):
            found[d] = i
        found[a], found[b] = index[-1] + max(-offset, 0), index[-1] + max(offset, 0)
        return found

    return view_of(value, _shape(node), index_map)
