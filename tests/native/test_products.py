"""Matrix products of few rows in C++ against float64, on the instruction sets that this machine has."""

from __future__ import annotations

import ctypes
import itertools

import pytest
import torch

from torchair.build import build_library

_TYPES = {torch.float32: "float", torch.float64: "double", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_SOURCE = """
#include <torchair_native/matvec.h>
using namespace tair;
#define PRODUCT(kind, x_type, w_type) \\
  extern "C" __attribute__((visibility("default"))) void kind##_##x_type##_##w_type( \\
      const x_type* x, int64_t ldx, int64_t m, const w_type* w, int64_t ldw, int64_t k, int64_t n, void* out, \\
      int64_t ldout) { \\
    dot_##kind(x, ldx, m, w, ldw, k, n, static_cast<acc_t<x_type, w_type>*>(out), ldout); }
"""
_PAIRS = [
    *((t, t) for t in _TYPES),
    *((torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.float32, torch.float16)),
]
# What the compiler may use of the machine; the smallest set has none of the special code.
_SETS = {"AVX512": (), "AVX2": ("-mno-avx512f",), "DEFAULT": ("-mno-avx", "-mno-f16c")}
_SIZES = [  # rows of x, columns of the result, summed
    *(
        (1, 32, 256),
        (1, 33, 100),
        (2, 7, 31),
        (3, 64, 5),
        (4, 12, 64),
        (5, 9, 17),
        (7, 130, 40),
        (8, 36, 129),
        (16, 40, 96),
    ),
    *((1, 1, 1), (1, 3, 0), (2, 0, 8), (0, 4, 4), (13, 5, 1000), (1, 300, 2), (6, 256, 47)),
]


def _available() -> list[object]:
    """The instruction sets of this machine, best first; all but the best are for the slow tests."""
    order = list(_SETS)
    own = torch.backends.cpu.get_cpu_capability()
    usable = order[order.index(own) :] if own in order else ["AVX512"]
    return [usable[0], *(pytest.param(name, marks=pytest.mark.slow) for name in usable[1:])]


@pytest.fixture(scope="module", params=_available())
def library(request, support, tmp_path_factory) -> ctypes.CDLL:
    name = f"torchair_test_products_{request.param.lower()}"
    source = tmp_path_factory.mktemp("sources") / "products.cpp"
    lines = [f"PRODUCT({k}, {_TYPES[x]}, {_TYPES[w]})" for k in ("rows", "columns") for x, w in _PAIRS]
    source.write_text(_SOURCE + "\n".join(lines))
    flags = [f for f in support.flags if request.param == "AVX512" or not f.startswith("-DTAIR_SLEEF")]
    flags = [*flags, *(_SETS[request.param] if torch.backends.cpu.get_cpu_capability() in _SETS else ())]
    return ctypes.CDLL(
        str(build_library(name, [source], support.compiler, flags, headers=support.headers, facts=support.facts))
    )


def _product(library, kind: str, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """``x @ w.T`` for rows, ``x @ w`` for columns."""
    accumulated = torch.float64 if torch.float64 in (x.dtype, w.dtype) else torch.float32
    count = w.shape[0] if kind == "rows" else w.shape[1]
    out = torch.full((x.shape[0], count + 3), 7.0, dtype=accumulated)
    function = getattr(library, f"{kind}_{_TYPES[x.dtype]}_{_TYPES[w.dtype]}")
    numbers = (x.stride(0), x.shape[0], w.data_ptr(), w.stride(0), x.shape[1], count, out.data_ptr(), out.stride(0))
    pointers = {2, 6}
    function(
        ctypes.c_void_p(x.data_ptr()),
        *(ctypes.c_void_p(n) if i in pointers else ctypes.c_int64(n) for i, n in enumerate(numbers)),
    )
    assert out[:, count:].eq(7).all(), "nothing is written beside the result"
    return out[:, :count]


@pytest.mark.parametrize("pair", _PAIRS, ids=lambda pair: f"{_TYPES[pair[0]]}-{_TYPES[pair[1]]}")
@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_products(library, kind, pair) -> None:
    torch.manual_seed(0)
    for (m, n, k), gap in itertools.product(_SIZES, (0, 5)):
        # NaN in the gaps between rows: whoever reads them shows it.
        x = torch.full((m, k + gap), float("nan")).to(pair[0])[:, :k].copy_(torch.randn(m, k))
        shape = (n, k) if kind == "rows" else (k, n)
        w = torch.full((shape[0], shape[1] + gap), float("nan")).to(pair[1])[:, : shape[1]].copy_(torch.randn(shape))
        right = w.double().T if kind == "rows" else w.double()
        expected = x.double() @ right
        bound = x.double().abs() @ right.abs()
        actual = _product(library, kind, x, w).double()
        # The reference of products in float64 has an error, too.
        eps = 2.0**-50 if torch.float64 in pair else 2.0**-23
        assert ((actual - expected).abs() <= eps * (2 + k**0.5) * bound).all(), (m, n, k, gap)


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_the_error_is_at_most_twice_that_of_eager(library, kind) -> None:
    # Eager uses the best instruction set, which rounds least: a product and its sum once, in long vectors.
    factor = 2 if library._name.endswith(f"_{torch.backends.cpu.get_cpu_capability().lower()}.so") else 3
    torch.manual_seed(0)
    for m, n, k in ((1, 512, 768), (1, 256, 4096), (8, 256, 2048)):
        x = torch.randn(m, k)
        w = torch.randn((n, k) if kind == "rows" else (k, n))
        right = w.T if kind == "rows" else w
        expected = x.double() @ right.double()
        error = (_product(library, kind, x, w).double() - expected).square().mean().sqrt()
        eager = ((x @ right).double() - expected).square().mean().sqrt()
        assert error <= factor * eager


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_special_values(library, kind) -> None:
    x = torch.ones(2, 40)
    w = torch.ones((5, 40) if kind == "rows" else (40, 5))
    elements = w if kind == "rows" else w.T
    elements[1, 3], elements[2, 39], elements[3, 0], elements[3, 1] = (
        float("inf"),
        float("nan"),
        float("inf"),
        -float("inf"),
    )
    actual = _product(library, kind, x, w)
    expected = torch.tensor([40.0, float("inf"), float("nan"), float("nan"), 40.0])
    torch.testing.assert_close(actual, expected.expand(2, 5), equal_nan=True)
