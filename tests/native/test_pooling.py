"""Pooling in loops against torch's operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.native.graphs import native, traced

_DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 2},
        {"kernel_size": (2, 3), "stride": (1, 2)},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "dilation": 2, "stride": 1},
    ],
    ids=str,
)
def test_max_pool2d(arguments: dict[str, Any], dtype: torch.dtype) -> None:
    def pool(x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = torch.ops.aten.max_pool2d_with_indices(x, **_lists(arguments))
        return values * 2, places

    for x in (torch.randn(2, 3, 8, 9) * 5, torch.zeros(3, 8, 9), torch.randint(0, 2, (2, 1, 7, 7))):
        x = x.to(dtype)
        module, record = native(traced(pool, (x,)))
        assert record.programs
        for got, want in zip(module(x), pool(x), strict=True):
            assert torch.equal(got, want)


def test_no_numbers_and_the_lowest() -> None:
    def pool(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])

    x = torch.randn(1, 1, 9, 9)
    x[0, 0, 2, 3:5] = torch.nan
    x[0, 0, 5:, 5:] = -torch.inf
    module, record = native(traced(pool, (x,)))
    assert record.programs
    for got, want in zip(module(x), pool(x), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def test_large_windows_are_left_to_the_operator() -> None:
    def pool(x: Tensor) -> Tensor:
        return torch.ops.aten.max_pool2d_with_indices(x, [5, 5])[0].exp()

    x = torch.randn(1, 2, 20, 20)
    module, record = native(traced(pool, (x,)))
    assert record.left == {"aten.max_pool2d_with_indices.default": "its windows have 25 elements"}
    torch.testing.assert_close(module(x), pool(x))


def _lists(arguments: dict[str, Any]) -> dict[str, Any]:
    """Numbers as the operator's schema wants them."""
    return {
        name: list(value) if isinstance(value, tuple) else value if isinstance(value, bool) else [value, value]
        for name, value in arguments.items()
    }
