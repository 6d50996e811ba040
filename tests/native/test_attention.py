"""Attention of few query rows in C++ against torch's operator in float64."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import torchair
from torchair.native.support import Stage

_TYPES = {torch.float32: "float", torch.float64: "double", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_SOURCE = """
#include <torchair_native/attention.h>
#define KERNEL extern "C" __attribute__((visibility("default"))) void
#define ATTENTION(type, mask_type) \\
  KERNEL attention_##type##_##mask_type(void* const* p, const int64_t*, int64_t worker, int64_t workers) { \\
    using namespace tair; \\
    attention(*static_cast<const Attention<type, mask_type>*>(p[0]), worker, workers); }
"""


class _Operand(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("strides", ctypes.c_int64 * 4)]


class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "heads", "key_heads", "rows", "length", "depth")),
        *((name, _Operand) for name in ("query", "key", "value", "mask", "out")),
        ("scale", ctypes.c_double),
        ("causal", ctypes.c_bool),
    ]


def _operand(tensor: torch.Tensor | None) -> _Operand:
    if tensor is None:
        return _Operand(None, (ctypes.c_int64 * 4)())
    return _Operand(tensor.data_ptr(), (ctypes.c_int64 * 4)(*tensor.stride()))


@pytest.fixture(scope="module")
def library(compiled) -> ctypes.CDLL:
    lines = [f"ATTENTION({t}, {m})" for t in _TYPES.values() for m in dict.fromkeys(("bool", t))]
    return compiled("torchair_test_attention", _SOURCE + "\n".join(lines))


def _attention(support, library, query, key, value, mask=None, scale=None, causal=False, workers=1) -> torch.Tensor:
    batch, heads, rows, depth = query.shape
    length = key.shape[2]
    out = torch.full(query.shape, 7.0, dtype=query.dtype)
    call = _Call(
        *(batch, heads, key.shape[1], rows, length, depth),
        *(_operand(t) for t in (query, key, value)),
        _operand(mask if mask is None else mask.expand(batch, heads, rows, length)),
        _operand(out),
        depth**-0.5 if scale is None else scale,
        causal,
    )
    kind = "bool" if mask is None or mask.dtype == torch.bool else _TYPES[query.dtype]
    kernel = ctypes.cast(getattr(library, f"attention_{_TYPES[query.dtype]}_{kind}"), ctypes.c_void_p).value
    support.run_program([Stage(kernel, 0, 0, 0, 0)], [ctypes.addressof(call)], [], workers)
    return out


def _expected(query, key, value, mask=None, scale=None, causal=False) -> torch.Tensor:
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.double()
    group = query.shape[1] // key.shape[1]
    key, value = (t.double().repeat_interleave(group, 1) for t in (key, value))
    return scaled_dot_product_attention(query.double(), key, value, attn_mask=mask, scale=scale, is_causal=causal)


def _check(actual, query, key, value, **options) -> None:
    """At most twice the error of torch's operator, which computes in the same type."""
    expected = _expected(query, key, value, **options)
    group = query.shape[1] // key.shape[1]
    eager = scaled_dot_product_attention(
        *(query, key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)),
        attn_mask=options.get("mask"),
        scale=options.get("scale"),
        is_causal=options.get("causal", False),
    )
    assert actual.shape == expected.shape
    if not expected.numel():
        return
    # In float64, torch's result is the reference itself.
    floor = (32 if query.dtype == torch.float64 else 2) * torch.finfo(query.dtype).eps * expected.abs().max()
    allowed = 2 * (eager.double() - expected).abs().max() + floor
    assert (actual.double() - expected).abs().max() <= allowed


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize(
    "sizes",  # batch, heads, key heads, rows, length, depth
    [
        *(
            (1, 8, 8, 1, 77, 32),
            (2, 8, 2, 1, 200, 64),
            (1, 4, 1, 16, 65, 128),
            (2, 6, 3, 5, 64, 20),
            (1, 2, 2, 3, 1, 16),
        ),
        *((1, 1, 1, 1, 130, 512), (1, 3, 1, 7, 33, 1), (2, 2, 2, 1, 129, 7), (0, 2, 2, 1, 5, 8), (1, 2, 2, 0, 5, 8)),
    ],
    ids=str,
)
def test_attention(support, library, sizes, dtype) -> None:
    torch.manual_seed(0)
    batch, heads, key_heads, rows, length, depth = sizes
    query = torch.randn(batch, heads, rows, depth).to(dtype)
    key = torch.randn(batch, key_heads, length, depth).to(dtype)
    value = torch.randn(batch, key_heads, length, depth).to(dtype)
    for workers in (1, 3):
        _check(_attention(support, library, query, key, value, workers=workers), query, key, value)
    _check(_attention(support, library, query, key, value, scale=0.3), query, key, value, scale=0.3)
    mask = torch.randn(rows, length).to(dtype)
    _check(_attention(support, library, query, key, value, mask=mask), query, key, value, mask=mask)
    if rows <= length:
        _check(_attention(support, library, query, key, value, causal=True), query, key, value, causal=True)


@pytest.mark.parametrize("layout", ["heads last", "keys innermost", "no axis contiguous"])
def test_strides(support, library, layout) -> None:
    torch.manual_seed(0)
    if layout == "heads last":
        query = torch.randn(2, 3, 4, 16).transpose(1, 2)
        key, value = (torch.randn(2, 70, 2, 16).transpose(1, 2) for _ in range(2))
    elif layout == "keys innermost":
        query = torch.randn(2, 4, 16, 3).transpose(2, 3)
        key, value = (torch.randn(2, 2, 16, 70).transpose(2, 3) for _ in range(2))
    else:
        query = torch.randn(2, 4, 3, 32)[..., ::2]
        key, value = (torch.randn(2, 2, 140, 32)[..., ::2, ::2] for _ in range(2))
    mask = torch.rand(2, 1, 3, 140)[..., ::2] < 0.8
    _check(_attention(support, library, query, key, value, mask=mask), query, key, value, mask=mask)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(support, library, kind) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 4, 3, 16), torch.randn(2, 4, 200, 16), torch.randn(2, 4, 200, 16)
    allowed = torch.rand(2, 1, 3, 200) < 0.5
    allowed[0, 0, 0] = False  # nothing at all
    allowed[0, 0, 1, :150] = False  # nothing in the first blocks
    allowed[1, 0, 2, 10:] = False  # nothing in the last ones
    mask = allowed if kind == "bool" else torch.where(allowed, 0.0, float("-inf"))
    actual = _attention(support, library, query, key, value, mask=mask)
    assert actual[0, :, 0].eq(0).all(), "a row that attends to nothing"
    torch.testing.assert_close(actual, _expected(query, key, value, mask=mask).float())


def test_more_rows_than_keys_when_causal(support, library) -> None:
    query, key, value = torch.randn(1, 2, 9, 8), torch.randn(1, 2, 4, 8), torch.randn(1, 2, 4, 8)
    torch.testing.assert_close(
        _attention(support, library, query, key, value, causal=True),
        _expected(query, key, value, causal=True).float(),
    )


def test_no_keys(support, library) -> None:
    actual = _attention(support, library, torch.randn(1, 2, 3, 8), torch.randn(1, 2, 0, 8), torch.randn(1, 2, 0, 8))
    assert actual.eq(0).all()


def test_not_a_number_stays(support, library) -> None:
    query, key, value = torch.randn(1, 1, 2, 8), torch.randn(1, 1, 100, 8), torch.randn(1, 1, 100, 8)
    query[0, 0, 0, 3] = float("nan")
    actual = _attention(support, library, query, key, value)
    assert actual[0, 0, 0].isnan().all()
    assert not actual[0, 0, 1].isnan().any()
    large = torch.randn(1, 1, 1, 8) * 1e4  # scores that overflow exp without the shift
    torch.testing.assert_close(
        _attention(support, library, large, key, value), _expected(large, key, value).float(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("depth", [512, 513])
@pytest.mark.parametrize("backend", ["torchair", "npugraph_ex"])
def test_heads_that_are_too_wide_for_the_stack_stay_a_call(backend, depth) -> None:
    def attend(query, key, value):
        return scaled_dot_product_attention(query, key, value) + 1

    options: dict[str, Any] | None = {"static_kernel_compile": True} if backend == "npugraph_ex" else None
    compiled = torch.compile(attend, backend=backend, options=options)
    given = [torch.randn(1, 2, rows, depth) for rows in (2, 70, 70)]
    with torch.no_grad():
        torch.testing.assert_close(compiled(*given), attend(*given))
    reason = "its heads have 513 elements, and code is for up to 512"
    assert (reason in str(torchair.explain(compiled))) == (depth == 513)
