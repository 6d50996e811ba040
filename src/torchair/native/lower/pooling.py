"""Pooling over small windows: an element of the result reads its whole window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import fx

from torchair.native.expressions import Expr
from torchair.native.lower.registry import arguments, lowers
from torchair.native.region import LoopValue, Region, Unsupported, compute_dtype, sympy_shape

aten = torch.ops.aten

Index = Sequence[sympy.Expr]

#: Larger windows are left to the operator.
_LARGEST_WINDOW = 16


def _per_axis(numbers: Any, rank: int, default: Any = None) -> list[int]:
    found = list(numbers) or list(default)
    if any(not isinstance(n, int) for n in found):
        raise Unsupported("its window is symbolic")
    return found * rank if len(found) == 1 else found


@lowers(aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default)
def _max_pool(region: Region, node: fx.Node) -> tuple[LoopValue, LoopValue]:
    given, builder = arguments(node), region.builder
    # Neighboring windows share elements.
    value = region.realize(region.value(node.args[0]))  # type: ignore[arg-type]
    out: torch.Tensor = node.meta["val"][0]
    shape = sympy_shape(out.shape)
    rank = 2 if node.target is aten.max_pool2d_with_indices.default else 3
    kernel = _per_axis(given["kernel_size"], rank)
    stride = _per_axis(given["stride"], rank, kernel)
    padding, dilation = _per_axis(given["padding"], rank), _per_axis(given["dilation"], rank)
    if math.prod(kernel) > _LARGEST_WINDOW:
        raise Unsupported(f"its windows have {math.prod(kernel)} elements")
    sizes = value.shape[-rank:]
    dtype = compute_dtype(value.dtype)
    if dtype is torch.bool:
        raise Unsupported("it has torch.bool")
    lowest: float | int = -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min
    outside = bool(given["ceil_mode"]) or any(padding)

    def chosen(index: Index, mask: Expr | None) -> tuple[Expr, Expr]:
        """The largest element of a window, and its place in the plane; of equal ones the first."""
        best = place = seen = None
        for window in itertools.product(*map(range, kernel)):
            at = [index[d - rank] * stride[d] - padding[d] + window[d] * dilation[d] for d in range(rank)]
            inside: Expr | None = None
            for position, size in zip(at, sizes, strict=True) if outside else ():
                for name, bound in (("ge", sympy.S.Zero), ("lt", size)):
                    test = builder.op(name, builder.index(position), builder.index(bound), dtype=torch.bool)
                    inside = builder.both(inside, test)
            element = builder.cast(value.element([*index[:-rank], *at], builder.both(mask, inside)), dtype)
            if inside is not None:
                element = builder.op("where", inside, element, builder.constant(lowest, dtype), dtype=dtype)
            flat: sympy.Expr = sympy.S.Zero
            for position, size in zip(at, sizes, strict=True):
                flat = flat * size + position
            number = builder.index(flat)
            if best is None or place is None:
                best, place, seen = element, number, inside
                continue
            better = builder.op("gt", element, best, dtype=torch.bool)
            if dtype.is_floating_point:
                better = builder.op(
                    "logical_or", better, builder.op("ne", element, element, dtype=torch.bool), dtype=torch.bool
                )
            if inside is not None and seen is not None:
                first = builder.op("logical_not", seen, dtype=torch.bool)
                better = builder.op(
                    "logical_and", inside, builder.op("logical_or", better, first, dtype=torch.bool), dtype=torch.bool
                )
                seen = builder.op("logical_or", seen, inside, dtype=torch.bool)
            best = builder.op("where", better, element, best, dtype=dtype)
            place = builder.op("where", better, number, place, dtype=torch.int64)
        assert best is not None
        assert place is not None
        return best, place

    def result(part: int, of: torch.dtype) -> LoopValue:
        def element(index: Index, mask: Expr | None) -> Expr:
            return builder.cast(chosen(index, mask)[part], of)

        return LoopValue(shape, of, element, reads=value.reads, depth=1, cost=3 * math.prod(kernel))

    return result(0, value.dtype), result(1, torch.int64)
