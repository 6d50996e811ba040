"""Operators that add elements around a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.memory import is_literal
from torchair.opset.operator import HostInts, ascend_op

__all__ = ["PadV3", "PadV3Grad"]

_PAD = "CANN op_proto: pad_ops.h"

aten = torch.ops.aten

_Kernel: TypeAlias = Callable[..., Tensor]

_FORWARD: dict[tuple[str, int], _Kernel] = {
    ("reflect", 1): aten.reflection_pad1d.default,
    ("reflect", 2): aten.reflection_pad2d.default,
    ("reflect", 3): aten.reflection_pad3d.default,
    ("edge", 1): aten.replication_pad1d.default,
    ("edge", 2): aten.replication_pad2d.default,
    ("edge", 3): aten.replication_pad3d.default,
}
_BACKWARD: dict[tuple[str, int], _Kernel] = {
    ("reflect", 1): aten.reflection_pad1d_backward.default,
    ("reflect", 2): aten.reflection_pad2d_backward.default,
    ("reflect", 3): aten.reflection_pad3d_backward.default,
    ("edge", 1): aten.replication_pad1d_backward.default,
    ("edge", 2): aten.replication_pad2d_backward.default,
    ("edge", 3): aten.replication_pad3d_backward.default,
}


@ascend_op(paddings=HostInts, constant_values=HostInts, source=_PAD)
def PadV3(
    x: Value,
    paddings: Value,
    constant_values: Value | None = None,
    *,
    mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Value:
    """``x`` with elements added before and after it along each dimension.

    Shapes: ``x`` is of rank n, ``paddings`` is ``[2 * n]`` of host integers: before and after for each dimension in
    order, or, unless ``paddings_contiguous``, all before and then all after. ``constant_values`` is 0-d and known when
    the graph is built; absent, it is 0. dtypes: any, that of ``constant_values`` equal. ``mode``: ``"constant"``,
    ``"reflect"`` (without the edge) or ``"edge"``.
    """
    raise NotImplementedError


@PadV3.lower
def _(
    x: Tensor,
    paddings: Sequence[int],
    constant_values: float | Sequence[float] | None,
    *,
    mode: str,
    paddings_contiguous: bool,
) -> Tensor:
    pairs = _pairs(paddings, contiguous=paddings_contiguous)
    if mode == "constant":
        value = constant_values[0] if isinstance(constant_values, Sequence) else constant_values
        flat = [n for pair in reversed(pairs) for n in pair]
        y: Tensor = aten.constant_pad_nd.default(x, flat, 0 if value is None else value)
        return y
    return _padded(x, pairs, mode)


@ascend_op(paddings=HostInts, source=_PAD)
def PadV3Grad(x: Value, paddings: Value, *, mode: str = "reflect", paddings_contiguous: bool = True) -> Value:
    """The gradient of :func:`PadV3` for the modes ``"reflect"`` and ``"edge"``.

    Shapes: ``x`` is the gradient of the padded tensor, ``paddings`` as in :func:`PadV3`; the result is smaller by them.
    dtypes: floats.
    """
    raise NotImplementedError


@PadV3Grad.lower
def _(x: Tensor, paddings: Sequence[int], *, mode: str, paddings_contiguous: bool) -> Tensor:
    pairs = _pairs(paddings, contiguous=paddings_contiguous)
    sizes = [size - before - after for size, (before, after) in zip(x.shape, pairs, strict=True)]
    kernel, flat = _kernel(_BACKWARD, mode, pairs)
    if len(flat) == 2 * x.dim():
        return kernel(x.unsqueeze(0), x.new_empty([1, *sizes]), flat).squeeze(0)
    gradient: Tensor = kernel(x, x.new_empty(sizes), flat)
    return gradient


def _pairs(paddings: Sequence[int], *, contiguous: bool) -> list[tuple[int, int]]:
    """Before and after for each dimension."""
    half = len(paddings) // 2
    if contiguous:
        return [(paddings[2 * i], paddings[2 * i + 1]) for i in range(half)]
    return list(zip(paddings[:half], paddings[half:], strict=True))


def _padded(x: Tensor, pairs: Sequence[tuple[int, int]], mode: str) -> Tensor:
    kernel, flat = _kernel(_FORWARD, mode, pairs)
    if len(flat) == 2 * x.dim():
        return kernel(x.unsqueeze(0), flat).squeeze(0)
    y: Tensor = kernel(x, flat)
    return y


def _kernel(
    table: dict[tuple[str, int], _Kernel], mode: str, pairs: Sequence[tuple[int, int]]
) -> tuple[_Kernel, list[int]]:
    """torch's kernel for a mode, and the paddings as it takes them: for 1 to 3 trailing dimensions, the last one first.

    It takes one or two dimensions before these.
    """
    padded = [not all(is_literal(n, 0) for n in pair) for pair in pairs]
    count = max(len(pairs) - (padded.index(True) if any(padded) else len(pairs)), len(pairs) - 2, 1)
    if (mode, count) not in table:
        raise ValueError(f"mode must be 'reflect' or 'edge' and at most 3 dimensions padded, not {mode!r} and {count}")
    return table[mode, count], [n for pair in reversed(pairs[len(pairs) - count :]) for n in pair]
