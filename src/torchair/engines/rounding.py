"""Operators that eager mode rounds once, and that Inductor takes apart into steps that are rounded one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["rounded_once"]

aten = torch.ops.aten

_SHORT_FLOATS = (torch.bfloat16, torch.float16)


def rounded_once(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Inductor's decompositions, in which ``lerp`` of 16-bit floats is computed in float32.

    A sweep over the operator database in bfloat16 (three samples an entry) found none beside it whose error against
    float64 is over 1.25 times eager's, but ``masked.prod``, a product in another order.
    """
    changed = dict(table)
    for overload in (aten.lerp.Scalar, aten.lerp.Tensor):
        if (original := table.get(overload)) is not None:
            changed[overload] = _in_float32(original)
    return changed


def _in_float32(original: Callable[..., Any]) -> Callable[..., Any]:
    def decomposition(*args: Any) -> Any:
        if args[0].dtype not in _SHORT_FLOATS:
            return original(*args)
        wide = [a.to(torch.float32) if isinstance(a, Tensor) else a for a in args]
        return original(*wide).to(args[0].dtype)

    return decomposition
