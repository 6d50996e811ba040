"""Softmax and its gradients agree with eager bit for bit."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tests.convert.conversion import check, check_samples, converted_ops
from tests.convert.operands import FLOATS, dtypes
from tests.convert.single_call import check_overload


def both(x: torch.Tensor) -> list[torch.Tensor]:
    return [F.softmax(x, 0), F.softmax(x, -1), F.log_softmax(x, 1), F.log_softmax(x, -2)]


def scores(dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)) * 4
    x[0, 0], x[1, 2, 3], x[2, 1, 0], x[2, 3, 3] = -math.inf, math.inf, math.nan, -math.inf
    return x.to(dtype)


@dtypes((torch.float32, torch.bfloat16), FLOATS)
def test_results_are_eagers(dtype: torch.dtype) -> None:
    check(both, scores(dtype), unconverted_ops="error")


@dtypes((torch.float32, torch.bfloat16), FLOATS)
def test_gradients(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    check(both, x, backward=True, ops=["SoftmaxGrad", "LogSoftmaxGrad"])


@pytest.mark.parametrize("x", [torch.tensor(2.0), torch.empty(0, 3), torch.randn(2, 1)], ids=["0d", "empty", "one"])
def test_small_tensors(x: torch.Tensor) -> None:
    check(lambda x: [F.softmax(x, -1), F.log_softmax(x, 0)], x, unconverted_ops="error")


def test_the_dtype_of_a_result_can_be_chosen() -> None:
    def fn(half: torch.Tensor, whole: torch.Tensor) -> list[torch.Tensor]:
        return [
            F.softmax(half, -1, dtype=torch.float32),
            F.log_softmax(half, -1, dtype=torch.float64),
            F.softmax(whole, 0, dtype=torch.float32),
        ]

    check(fn, scores(torch.bfloat16), torch.arange(6).view(2, 3))


def test_sizes_stay_symbolic() -> None:
    x = scores(torch.float32).requires_grad_()
    check(both, x, dynamic=True, backward=True)


def test_the_ir_operators() -> None:
    x = torch.randn(3, 4)
    assert converted_ops(lambda x: F.softmax(x, 1), x) == ["SoftmaxV2"]
    assert converted_ops(lambda x: F.log_softmax(x, 1), x) == ["LogSoftmaxV2"]


def test_composite_overloads() -> None:
    x = torch.randn(3, 4)
    assert check_overload(torch.ops.aten.softmax.int, x, 0) == ["SoftmaxV2"]
    assert check_overload(torch.ops.aten.softmax.int, x.half(), 0, torch.float32) == ["Cast", "SoftmaxV2"]
    assert check_overload(torch.ops.aten.log_softmax.int, x, -1) == ["LogSoftmaxV2"]


@pytest.mark.slow  # the first sample of every entry is among the conformance tests
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "nn.functional.softmin"])
def test_op_info_samples(name: str) -> None:
    check_samples(name, torch.float32)
