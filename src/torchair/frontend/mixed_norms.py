"""Normalization of half precision tensors with float32 parameters.

Eager computes it in float32 and returns the statistics as float32, which the gradient operators insist on. The meta
functions of PyTorch promise the statistics in half precision (torch 2.13, CPU), and a graph is compiled by what they
promise. So these cases are traced as float32 normalizations, and only the normalized result is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["float32_normalizations"]

aten = torch.ops.aten

#: Overload -> positions of its parameters and running statistics.
_PARAMETERS: Mapping[Any, tuple[int, ...]] = {
    aten.native_layer_norm.default: (2, 3),
    aten.native_group_norm.default: (1, 2),
    aten._native_batch_norm_legit_functional.default: (1, 2, 3, 4),
    aten._native_batch_norm_legit_no_training.default: (1, 2, 3, 4),
    aten._native_batch_norm_legit.no_stats: (1, 2),
}


def float32_normalizations(others: Mapping[Any, Callable[..., Any]] | None = None) -> dict[Any, Callable[..., Any]]:
    """Decompositions of these operators.

    Args:
        others: What decomposes every other case of them; they stay whole where it has nothing (the decomposition
            returns NotImplemented).
    """
    return {op: _in_float32(op, positions, (others or {}).get(op)) for op, positions in _PARAMETERS.items()}


def _in_float32(op: Any, positions: tuple[int, ...], other: Callable[..., Any] | None) -> Callable[..., Any]:
    def decomposition(input: Tensor, *args: Any) -> Any:
        parameters = [args[i - 1] for i in positions]
        if input.dtype not in (torch.float16, torch.bfloat16) or all(
            p is None or p.dtype is not torch.float32 for p in parameters
        ):
            return NotImplemented if other is None else other(input, *args)
        y, *statistics = op(input.float(), *args)
        return y.to(input.dtype), *statistics

    return decomposition
