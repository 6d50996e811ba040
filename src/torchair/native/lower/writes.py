"""Operators that write an argument, and their functional forms: a copy that is then written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx

from torchair._torch_compat import OpOverload
from torchair.native.expressions import Expr
from torchair.native.lower.indexing import checked, index_parts, indexed, integer_index, require_elements
from torchair.native.lower.pointwise import broadcast_element, number_expr
from torchair.native.lower.registry import arguments, lowers
from torchair.native.lower.views import normal_dim, strided
from torchair.native.operations import Update
from torchair.native.region import LoopValue, Region, Unsupported, compute_dtype

aten = torch.ops.aten

Index = Sequence[sympy.Expr]


def _target(region: Region, node: fx.Node, given: Any) -> LoopValue:
    """What is written: the argument itself, or, for a functional form, a copy of it."""
    value = region.value(given)
    assert isinstance(node.target, OpOverload)
    if node.target._schema.is_mutable:
        if strided(region, value) is None:
            raise Unsupported("what it writes is no tensor in memory")
        return value
    copy = value.computed()
    return region.realize(copy)


def _write(
    region: Region,
    node: fx.Node,
    target: LoopValue,
    shape: Sequence[sympy.Expr],
    element: Callable[[Index], Expr],
    index_of: Callable[[Index], Index],
    *,
    accumulate: bool = False,
) -> LoopValue:
    place = strided(region, target)
    assert place is not None

    def position(index: Index) -> sympy.Expr:
        parts = [i * s for i, s in zip(index_of(index), place.strides, strict=True)]
        return sympy.Add(place.start, *parts)

    region.before_write(place.buffer, node)
    region.operations.append(
        Update(place.buffer, tuple(shape), element, position, accumulate=accumulate, label=region.label)
    )
    return target


@lowers(aten.copy_.default)
def _copy(region: Region, node: fx.Node) -> LoopValue:
    target, source = region.value(node.args[0]), region.value(node.args[1])  # type: ignore[arg-type]
    place = strided(region, target)
    if place is None:
        raise Unsupported("what it writes is no tensor in memory")
    if place.buffer in source.reads and not _same_place(region, target, source):
        # It reads elements that it has written by then.
        source = region.realize(source.computed())
    shape, dtype, builder = target.shape, target.dtype, region.builder

    def element(index: Index) -> Expr:
        return builder.cast(broadcast_element(source, index, shape, None), dtype)

    return _write(region, node, target, shape, element, lambda index: index)


def _same_place(region: Region, target: LoopValue, source: LoopValue) -> bool:
    """Whether each element is computed from the element that it replaces alone."""
    if len(source.shape) != len(target.shape) or any(a != b for a, b in zip(source.shape, target.shape, strict=True)):
        return False
    index = [sympy.Symbol(f"i{d}", integer=True, nonnegative=True) for d in range(len(target.shape))]
    here = target.element(index, None)
    return all(
        load.buffer is not here.buffer or sympy.expand(sympy.Add(load.offset, -sympy.sympify(here.offset))) == 0
        for load in source.element(index, None).loads
    )


@lowers(aten.scatter.src, aten.scatter_.src, aten.scatter.value, aten.scatter_.value, aten.scatter_add.default,
        aten.scatter_add_.default)  # fmt: skip
def _scatter(region: Region, node: fx.Node) -> LoopValue:
    given = arguments(node)
    indices = integer_index(region.value(given["index"]))
    whole = region.value(given["self"])
    if not whole.shape or not indices.shape:
        raise Unsupported("an operand has no axis")
    dim = normal_dim(given["dim"], len(whole.shape))
    require_elements(whole.shape[dim])
    builder, dtype = region.builder, whole.dtype
    source = region.value(given["src"]) if given.get("src") is not None else None
    number = None if source is not None else builder.cast(
        number_expr(region, given["value"], compute_dtype(dtype)), dtype
    )  # fmt: skip
    accumulate = node.target in (aten.scatter_add.default, aten.scatter_add_.default)
    indices, source = _apart(region, indices, whole), None if source is None else _apart(region, source, whole)
    target = _target(region, node, given["self"])

    def element(index: Index) -> Expr:
        return number if source is None else source.element(index, None)  # type: ignore[return-value]

    label = region.place

    def index_of(index: Index) -> Index:
        at = checked(region, label, indices.element(index, None), target.shape[dim], None, wraps=False)
        return [at if d == dim else i for d, i in enumerate(index)]

    return _write(region, node, target, indices.shape, element, index_of, accumulate=accumulate)


@lowers(aten.index_put.default, aten.index_put_.default)
def _index_put(region: Region, node: fx.Node) -> LoopValue:
    given = arguments(node)
    whole = region.value(given["self"])
    values, block, at = index_parts(region, node, given["indices"], whole.shape)
    rest = [size for size, value in zip(whole.shape, values, strict=True) if value is None]
    shape = (*rest[:at], *block, *rest[at:])
    sizes = region.value(given["values"]).shape
    ends = shape[len(shape) - len(sizes) :] if len(sizes) <= len(shape) else ()
    # Its fake kernel takes what the operator refuses when it runs.
    if len(ends) != len(sizes) or any(size not in (1, end) for size, end in zip(sizes, ends, strict=True)):
        raise Unsupported("its values do not fit what is written")
    new = _apart(region, region.value(given["values"]), whole)
    apart = [None if v is None else _apart(region, v, whole) for v in values]
    target = _target(region, node, given["self"])
    label = region.place
    return _write(
        region,
        node,
        target,
        shape,
        lambda index: region.builder.cast(broadcast_element(new, index, shape, None), whole.dtype),
        lambda index: indexed(region, label, apart, block, at, whole.shape, index, None),
        accumulate=bool(given["accumulate"]),
    )


def _apart(region: Region, value: LoopValue, whole: LoopValue) -> LoopValue:
    """A value that does not read what is written while it is read."""
    if value.reads.isdisjoint(whole.reads):
        return value
    return region.realize(value.computed())
