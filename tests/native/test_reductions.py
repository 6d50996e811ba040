"""Reductions of rows in C++ against torch."""

from __future__ import annotations

import ctypes

import pytest
import torch

_TYPES = {torch.float32: "float", torch.float64: "double", torch.int64: "int64_t", torch.int32: "int32_t"}
_SOURCE = """
#include <torchair_native/reductions.h>
#define KERNEL extern "C" __attribute__((visibility("default"))) void
#define REDUCTION(name, type, result) \\
  KERNEL name##_##type(const type* x, int64_t n, result* out) { \\
    out[0] = tair::name<type>(n, [=](int64_t i) { return x[i]; }); }
#define MOMENTS(type) \\
  KERNEL moments_over_##type(const type* x, int64_t n, type* out) { \\
    tair::moments_over<type>(n, [=](int64_t i) { return x[i]; }, out[0], out[1]); }
MOMENTS(float)
MOMENTS(double)
"""


@pytest.fixture(scope="module")
def library(compiled) -> ctypes.CDLL:
    lines = []
    for t in _TYPES.values():
        lines += [f"REDUCTION({name}_over, {t}, {t})" for name in ("sum", "max", "min")]
        lines += [f"REDUCTION({name}_over, {t}, int64_t)" for name in ("argmax", "argmin")]
    return compiled("torchair_test_reductions", _SOURCE + "\n".join(lines))


def _reduce(library, name: str, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(2, dtype=torch.int64 if name.startswith("arg") else x.dtype)
    function = getattr(library, f"{name}_over_{_TYPES[x.dtype]}")
    function(ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(x.numel()), ctypes.c_void_p(out.data_ptr()))
    return out if name == "moments" else out[0]


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_extremes(library, name, dtype) -> None:
    torch.manual_seed(0)
    for count in (1, 2, 15, 16, 17, 100, 1000, 4099):
        x = torch.randint(-20, 20, (count,)).to(dtype)  # with ties
        assert _reduce(library, name, x) == getattr(torch, name)(x)
        if dtype.is_floating_point and count > 3:
            x[count // 2] = x[count - 1] = float("nan")
            torch.testing.assert_close(
                _reduce(library, name, x), getattr(torch, name)(x), rtol=0, atol=0, equal_nan=True
            )
            x = torch.full((count,), float("-inf"), dtype=dtype)
            assert _reduce(library, name, x) == getattr(torch, name)(x)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_sums_of_integers_are_exact(library, dtype) -> None:
    torch.manual_seed(0)
    for count in (0, 1, 63, 64, 65, 1023, 1024, 1025, 5000, 2**16 + 7):
        x = torch.randint(-3, 4, (count,)).to(dtype)
        assert _reduce(library, "sum", x) == x.sum(dtype=torch.float64)


@pytest.mark.parametrize("positive", [False, True])
def test_the_error_of_sums_is_at_most_twice_that_of_eager(library, positive) -> None:
    torch.manual_seed(0)
    for count in (1000, 10**6):
        errors = torch.zeros(2, dtype=torch.float64)
        for _ in range(20):
            x = torch.rand(count) if positive else torch.randn(count)
            expected = x.double().sum()
            sums = torch.stack([_reduce(library, "sum", x), x.sum()]).double()
            errors += (sums - expected).square()
        ours, eager = errors.sqrt()
        assert ours <= 2 * eager


def test_moments(library) -> None:
    torch.manual_seed(0)
    for count in (1, 7, 768, 4096):
        x = torch.randn(count) + 100
        mean, squares = _reduce(library, "moments", x)
        torch.testing.assert_close(mean.double(), x.double().mean())
        torch.testing.assert_close(squares.double() / count, x.double().var(correction=0), rtol=1e-5, atol=1e-6)
