"""Reading elements at indices that are data. Each index is checked; one out of range is reported after the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import fx

from torchair.native.expressions import Expr
from torchair.native.lower.pointwise import broadcast_element
from torchair.native.lower.registry import arguments, lowers
from torchair.native.lower.views import normal_dim
from torchair.native.operations import Shape
from torchair.native.region import LoopValue, Region, Unsupported, sympy_shape

__all__ = ["checked", "index_parts", "indexed", "integer_index", "require_elements"]

aten = torch.ops.aten


def checked(
    region: Region, label: str, index: Expr, size: sympy.Expr, mask: Expr | None, *, wraps: bool
) -> sympy.Symbol:
    """A position that stands for an index; out of range it is 0, and reported.

    Args:
        label: The operator, ``region.place`` when it was lowered.
        size: Of the axis.
        wraps: Negative ones count from the end.
    """
    builder = region.builder
    extent = builder.index(size)
    args = [builder.cast(index, torch.int64), extent, *([mask] if mask is not None else [])]
    return builder.symbol(builder.checked(*args, wraps=wraps, label=label))


def require_elements(size: sympy.Expr) -> None:
    """An index out of range reads element 0, so there must be one.

    Raises:
        Unsupported: There may be none.
    """
    if size.is_positive is not True:
        raise Unsupported("it indexes an axis that has, or may have, no element")


def integer_index(value: LoopValue) -> LoopValue:
    """An index tensor that holds integers."""
    if value.dtype in (torch.bool, torch.uint8):
        raise Unsupported("it is indexed with a mask")
    return value


def index_parts(
    region: Region, node: fx.Node, indices: Sequence[Any], shape: Shape
) -> tuple[list[LoopValue | None], Shape, int]:
    """Indices of an advanced-indexing call.

    Returns:
        An index tensor or None for each axis of the operand, the shape that they broadcast to, and where its axes stand
        in the result.

    Raises:
        Unsupported: There is no index, or more than axes, which the operator itself refuses when it runs.
    """
    if len(indices) > len(shape):
        raise Unsupported("it has more indices than its operand has axes")
    values = [None if i is None else integer_index(region.value(i)) for i in indices]
    values += [None] * (len(shape) - len(values))
    given = [d for d, v in enumerate(values) if v is not None]
    if not given:
        raise Unsupported("it has no index")
    for d in given:
        require_elements(shape[d])
    sizes: Any = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
        *(i.meta["val"].shape for i in indices if i is not None)
    )
    adjacent = given == list(range(given[0], given[-1] + 1))
    return values, sympy_shape(sizes), given[0] if adjacent else 0


def indexed(
    region: Region,
    label: str,
    values: Sequence[LoopValue | None],
    block: Shape,
    at: int,
    shape: Shape,
    index: Sequence[sympy.Expr],
    mask: Expr | None,
) -> list[sympy.Expr]:
    """Index into the operand for an index of the result."""
    mine = index[at : at + len(block)]
    rest = iter([*index[:at], *index[at + len(block) :]])
    found: list[sympy.Expr] = []
    for d, value in enumerate(values):
        if value is None:
            found.append(next(rest))
        else:
            found.append(
                checked(region, label, broadcast_element(value, mine, block, mask), shape[d], mask, wraps=True)
            )
    return found


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def _index(region: Region, node: fx.Node) -> LoopValue:
    value = region.value(node.args[0])  # type: ignore[arg-type]
    indices: Any = node.args[1]
    values, block, at = index_parts(region, node, indices, value.shape)
    value = _in_memory(region, node, value)
    tensors = [v for v in values if v is not None]

    label = region.place

    def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        return value.element(indexed(region, label, values, block, at, value.shape, index, mask), mask)

    return _gathered(node, value, tensors, element)


def _in_memory(region: Region, node: fx.Node, value: LoopValue) -> LoopValue:
    """An operand that is costly is computed once."""
    if value.buffer is None and value.cost > 2:
        value = region.values[node.args[0]] = region.realize(value)  # type: ignore[index]
    return value


def _gathered(node: fx.Node, value: LoopValue, indices: Sequence[LoopValue], element: Any) -> LoopValue:
    reads = value.reads.union(*(v.reads for v in indices))
    depth = 1 + max(v.depth for v in (value, *indices))
    return LoopValue(sympy_shape(node.meta["val"].shape), value.dtype, element, reads=reads, depth=depth, cost=4)


@lowers(aten.embedding.default)
def _embedding(region: Region, node: fx.Node) -> LoopValue:
    given = arguments(node)
    weight, indices = region.value(given["weight"]), integer_index(region.value(given["indices"]))
    require_elements(weight.shape[0])
    weight = _in_memory(region, node, weight)

    label = region.place

    def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        row = checked(region, label, indices.element(index[:-1], mask), weight.shape[0], mask, wraps=False)
        return weight.element([row, index[-1]], mask)

    return _gathered(node, weight, [indices], element)


@lowers(aten.index_select.default)
def _index_select(region: Region, node: fx.Node) -> LoopValue:
    value = region.value(node.args[0])  # type: ignore[arg-type]
    indices = integer_index(region.value(node.args[2]))  # type: ignore[arg-type]
    if not value.shape:
        raise Unsupported("its operand has no axis")
    dim = normal_dim(node.args[1], len(value.shape))  # type: ignore[arg-type]
    require_elements(value.shape[dim])
    value = _in_memory(region, node, value)

    label = region.place

    def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        own = [index[dim]] if indices.shape else []
        at = checked(region, label, indices.element(own, mask), value.shape[dim], mask, wraps=False)
        return value.element([*index[:dim], at, *index[dim + 1 :]], mask)

    return _gathered(node, value, [indices], element)


@lowers(aten.gather.default)
def _gather(region: Region, node: fx.Node) -> LoopValue:
    value, indices = region.value(node.args[0]), integer_index(region.value(node.args[2]))  # type: ignore[arg-type]
    if not value.shape or not indices.shape:
        raise Unsupported("an operand has no axis")
    dim = normal_dim(node.args[1], len(value.shape))  # type: ignore[arg-type]
    require_elements(value.shape[dim])
    value = _in_memory(region, node, value)

    label = region.place

    def element(index: Sequence[sympy.Expr], mask: Expr | None) -> Expr:
        at = checked(region, label, indices.element(index, mask), value.shape[dim], mask, wraps=False)
        return value.element([*index[:dim], at, *index[dim + 1 :]], mask)

    return _gathered(node, value, [indices], element)
