"""Operands for tests of elementwise operators, and many operators in one compile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

__all__ = ["COMPLEX", "FLOATS", "INTEGERS", "all_of", "dtypes", "nonzero", "numbers"]

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)


def numbers(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """71 elements: special values, and random ones (a vectorized part and a rest)."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(71, generator=generator) > 0.5
    if dtype.is_complex:
        parts = torch.randn(71, 2, generator=generator, dtype=torch.float64)
        return torch.view_as_complex(parts).to(dtype)
    if not dtype.is_floating_point:
        low, high = (0, 255) if dtype is torch.uint8 else (-100, 100)
        return torch.randint(low, high, (71,), generator=generator).to(dtype)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e-3, 3e4, math.inf, -math.inf, math.nan]
    return torch.cat([torch.tensor(special), torch.randn(71 - len(special), generator=generator) * 3]).to(dtype)


def nonzero(x: torch.Tensor) -> torch.Tensor:
    """Integers without 0, by which eager refuses to divide."""
    return x if x.dtype.is_floating_point or x.dtype.is_complex else torch.where(x == 0, 3, x)


def all_of(functions: Mapping[str, Callable[..., Any]], *args: Any) -> dict[str, Any]:
    """The results of all functions, so that one compile serves them all."""
    return {name: f(*args) for name, f in functions.items()}


def dtypes(always: tuple[torch.dtype, ...], slow: tuple[torch.dtype, ...] = ()) -> Any:
    """A parametrization over dtypes, of which some are among the slow tests."""
    marked = [pytest.param(d, marks=pytest.mark.slow) for d in slow if d not in always]
    return pytest.mark.parametrize("dtype", [*always, *marked], ids=lambda d: str(d).removeprefix("torch."))
