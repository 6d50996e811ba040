"""Running sums, products and extrema agree with eager bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.convert.conversion import check, check_samples, converted_ops
from tests.convert.operands import FLOATS, INTEGERS, all_of, dtypes

SUMS: dict[str, Callable[..., Any]] = {
    "cumsum(0)": lambda x: x.cumsum(0),
    "cumsum(-1)": lambda x: x.cumsum(-1),
    "cumprod(1)": lambda x: x.cumprod(1),
}
EXTREMA: dict[str, Callable[..., Any]] = {
    "cummax(0)": lambda x: tuple(x.cummax(0)),
    "cummin(-1)": lambda x: tuple(x.cummin(-1)),
}
FLOATING: dict[str, Callable[..., Any]] = {"logcumsumexp": lambda x: x.logcumsumexp(1)}


def elements(dtype: torch.dtype) -> torch.Tensor:
    x = torch.randint(0, 4, (5, 7), generator=torch.Generator().manual_seed(0))
    return (x / 2 - 1 if dtype.is_floating_point or dtype.is_complex else x).to(dtype)


@dtypes((torch.float32, torch.bfloat16, torch.int32, torch.bool), (*FLOATS, *INTEGERS, torch.complex64))
def test_results_are_eagers(dtype: torch.dtype) -> None:
    functions = SUMS | (FLOATING if dtype.is_floating_point or dtype.is_complex else {})
    functions |= {} if dtype.is_complex else EXTREMA
    check(lambda x: all_of(functions, x), elements(dtype), unconverted_ops="error")


def test_nan_and_infinity() -> None:
    x = elements(torch.float32)
    x[0, 1], x[1, 2], x[3, 3], x[2, 0] = math.nan, math.inf, -math.inf, math.nan
    check(lambda x: all_of(SUMS | EXTREMA | FLOATING, x), x, unconverted_ops="error")


@pytest.mark.parametrize("x", [torch.tensor(2.0), torch.empty(0), torch.empty(1).fill_(3)], ids=["0d", "empty", "one"])
def test_small_tensors(x: torch.Tensor) -> None:
    def fn(x: torch.Tensor) -> list[Any]:
        return [x.cumsum(0), x.cumprod(-1), tuple(x.cummax(0)), tuple(x.cummin(-1)), x.logcumsumexp(0)]

    check(fn, x, unconverted_ops="error")


def test_the_dtype_of_a_result_can_be_chosen() -> None:
    def fn(half: torch.Tensor, whole: torch.Tensor) -> list[torch.Tensor]:
        return [
            half.cumsum(0, dtype=torch.float32),
            whole.cumsum(1, dtype=torch.int32),
            whole.cumprod(0, dtype=torch.float64),
        ]

    check(fn, elements(torch.bfloat16), elements(torch.int64), unconverted_ops="error")


def test_sizes_stay_symbolic() -> None:
    functions = SUMS | EXTREMA | FLOATING
    check(lambda x: all_of(functions, x), elements(torch.float32), dynamic=True, unconverted_ops="error")


def test_gradients() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    functions = {name: f for name, f in SUMS.items() if "cumsum" in name} | {"cummax": lambda x: x.cummax(0).values}
    check(lambda x: all_of(functions, x), x, backward=True)


def test_the_ir_operators() -> None:
    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        return [x.cumsum(0), x.cumprod(0), x.cummax(0).values, x.cummin(0).indices, x.logcumsumexp(0)]

    expected = ["Cumsum", "Cumprod", "Cummax", "Cummin", "Cast", "CumulativeLogsumexp"]
    assert converted_ops(fn, torch.randn(3)) == expected


@pytest.mark.slow  # the first sample of every entry is among the conformance tests
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_op_info_samples(name: str) -> None:
    check_samples(name, torch.float32)
