"""Blocked layouts and their inverse."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, strategies as st

import torchair
from torchair.errors import ArgumentError, ArgumentTypeError

_SIZES = st.integers(1, 40)


@pytest.mark.parametrize("dtype, columns", [(torch.float16, 16), (torch.float32, 8), (torch.int8, 32)])
def test_fractal_nz(dtype: torch.dtype, columns: int) -> None:
    x = torch.randint(-100, 100, (3, 20, 50)).to(dtype)
    blocked = torchair.npu_format_cast_via_cpu(x, 29)
    assert blocked.shape == (3, math.ceil(50 / columns), 2, 16, columns)
    assert blocked[1, 1, 1, 2, 3] == x[1, 16 + 2, columns + 3]
    assert blocked[0, 0, 1, 4:].count_nonzero() == 0  # row 20 and after
    torch.testing.assert_close(torchair.npu_format_cast_via_cpu(blocked, 2), x, rtol=0, atol=0)


def test_images() -> None:
    x = torch.randn(2, 20, 3, 5).half()
    blocked = torchair.npu_format_cast_via_cpu(x, 3)
    assert blocked.shape == (2, 2, 3, 5, 16)
    assert blocked[1, 1, 2, 4, 3] == x[1, 19, 2, 4]
    torch.testing.assert_close(torchair.npu_format_cast_via_cpu(blocked, 0), x, rtol=0, atol=0)


def test_filters() -> None:
    x = torch.randn(18, 20, 3, 5).half()
    blocked = torchair.npu_format_cast_via_cpu(x, 4)
    assert blocked.shape == (2 * 3 * 5, 2, 16, 16)
    assert blocked[(1 * 3 + 2) * 5 + 4, 1, 1, 3] == x[17, 19, 2, 4]
    torch.testing.assert_close(torchair.npu_format_cast_via_cpu(blocked, 2), x, rtol=0, atol=0)


@given(st.lists(_SIZES, min_size=2, max_size=4), st.sampled_from([torch.float16, torch.float32, torch.int8]))
def test_the_inverse_is_exact(shape: list[int], dtype: torch.dtype) -> None:
    x = torch.randint(-100, 100, shape).to(dtype)
    for acl_format in (29, 3, 4) if len(shape) == 4 else (29,):
        back = torchair.npu_format_cast_via_cpu(torchair.npu_format_cast_via_cpu(x, acl_format), 2)
        torch.testing.assert_close(back, x, rtol=0, atol=0)


def test_another_dtype_decides_the_block() -> None:
    x = torch.randn(16, 32)
    assert torchair.npu_format_cast_via_cpu(x, 29, customize_dtype=torch.int8).shape == (1, 1, 16, 32)


@pytest.mark.parametrize(
    "args, why",
    [
        ((torch.ones(2, 2), 7), "acl_format is 7"),
        ((torch.ones(2), 29), "needs 2 dimensions"),
        ((torch.ones(2, 2, 2), 3), "needs 4 dimensions"),
        ((torch.ones(2, 2), 2), "was not made by"),
        ((torch.ones(2, 2), 29, None, torch.int8), "input_dtype is torch.int8"),
    ],
)
def test_what_is_refused(args: tuple[object, ...], why: str) -> None:
    with pytest.raises(ArgumentError, match="cannot lay a tensor out") as caught:
        torchair.npu_format_cast_via_cpu(*args)  # type: ignore[arg-type]
    assert why in "\n".join(caught.value.why)


def test_types() -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        torchair.npu_format_cast_via_cpu([1], "29")  # type: ignore[arg-type]
    assert len(caught.value.why) == 2
