"""Extremes of rows in C++ against torch."""

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
"""


@pytest.fixture(scope="module")
def library(compiled) -> ctypes.CDLL:
    lines = []
    for t in _TYPES.values():
        lines += [f"REDUCTION({name}_over, {t}, {t})" for name in ("max", "min")]
        lines += [f"REDUCTION({name}_over, {t}, int64_t)" for name in ("argmax", "argmin")]
    return compiled("torchair_test_reductions", _SOURCE + "\n".join(lines))


def _reduce(library, name: str, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(2, dtype=torch.int64 if name.startswith("arg") else x.dtype)
    function = getattr(library, f"{name}_over_{_TYPES[x.dtype]}")
    function(ctypes.c_void_p(x.data_ptr()), ctypes.c_int64(x.numel()), ctypes.c_void_p(out.data_ptr()))
    return out[0]


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
