"""Losses and their gradients agree with eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.convert.conversion import check, check_samples, converted_ops, reference_backend
from tests.convert.operands import dtypes

REDUCTIONS = ("none", "mean", "sum")


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@dtypes((torch.float32, torch.bfloat16), (torch.float64, torch.float16))
def test_nll_loss(dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        plain = [F.nll_loss(x, target, reduction=r) for r in REDUCTIONS]
        weighted = [F.nll_loss(x, target.abs() % 5, weight, ignore_index=3, reduction=r) for r in REDUCTIONS]
        return [*plain, *weighted, F.nll_loss(x[0], target[0]), F.cross_entropy(x, target)]

    x = torch.randn(6, 5, generator=generator()).to(dtype).requires_grad_()
    target, weight = torch.tensor([0, 3, 4, -100, 3, 1]), torch.rand(5, generator=generator()).to(dtype)
    check(fn, x, target, weight, backward=True, ops=["NLLLoss", "NLLLossGrad"])
    check(fn, x.detach(), target, weight, unconverted_ops="error")


def test_all_targets_ignored() -> None:
    x, target = torch.randn(2, 5, requires_grad=True), torch.tensor([-100, -100])
    check(lambda x, t: [F.nll_loss(x, t, reduction=r) for r in REDUCTIONS], x, target, backward=True)


def elementwise(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    results = [F.mse_loss(x, y, reduction=r) for r in REDUCTIONS]
    results += [F.smooth_l1_loss(x, y, reduction=r, beta=0.5) for r in REDUCTIONS]
    return [*results, F.l1_loss(x, y), F.smooth_l1_loss(x, y, beta=0.0)]


@dtypes((torch.float32, torch.bfloat16), (torch.float64, torch.float16))
def test_elementwise_losses(dtype: torch.dtype) -> None:
    x = torch.randn(4, 5, generator=generator()).to(dtype).requires_grad_()
    y = torch.randn(4, 5, generator=generator()).to(dtype).neg_()
    grads = ["MseLossGrad", "SmoothL1LossGradV2"]
    check(elementwise, x, y, backward=True, ops=["MseLoss", "SmoothL1LossV2", *grads])


def test_operands_of_two_dtypes() -> None:
    x, y = torch.randn(4, 5, dtype=torch.bfloat16), torch.randn(4, 5)
    check(elementwise, x, y, unconverted_ops="error")


def test_losses_that_decompose() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [F.huber_loss(x, y, delta=0.7), F.kl_div(x, y, reduction="batchmean"), F.soft_margin_loss(x, y)]

    x, y = torch.randn(4, 5, requires_grad=True), torch.rand(4, 5)
    check(fn, x, y, backward=True, rtol=1e-5, atol=1e-6)


@dtypes((torch.float32, torch.bfloat16), (torch.float64, torch.float16))
def test_binary_cross_entropy(dtype: torch.dtype) -> None:
    def fn(p: torch.Tensor, logits: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        results = [F.binary_cross_entropy(p, y, reduction=r) for r in REDUCTIONS]
        results += [F.binary_cross_entropy_with_logits(logits, y, reduction=r) for r in REDUCTIONS]
        return [
            *results,
            F.binary_cross_entropy(p, y, weight),
            F.binary_cross_entropy_with_logits(logits, y, weight, pos_weight=weight),
        ]

    p = torch.rand(4, 5, generator=generator()).to(dtype)
    p[0, 0], p[1, 1] = 0, 1
    logits = torch.randn(4, 5, generator=generator()) * 9
    y, weight = torch.rand(4, 5, generator=generator()).to(dtype), torch.rand(4, 5, generator=generator()).to(dtype)
    check(fn, p, logits.to(dtype), y, weight, unconverted_ops="error")
    args: Any = [p.requires_grad_(), logits.to(dtype).requires_grad_(), y, weight]
    tolerance = {torch.bfloat16: 0.02, torch.float16: 2e-3}.get(dtype, 1e-5)  # eager's own backward is not fused either
    check(fn, *args, backward=True, ops=["BinaryCrossEntropyGrad"], rtol=tolerance, atol=tolerance)


def test_a_probability_outside_0_and_1_is_an_error() -> None:
    x, y = torch.tensor([0.5, 1.5]), torch.tensor([0.0, 1.0])
    compiled = torch.compile(F.binary_cross_entropy, backend=reference_backend())
    with pytest.raises(Exception, match="all elements of input should be between 0 and 1"):
        compiled(x, y)


def test_sizes_stay_symbolic() -> None:
    def fn(x: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        return [F.cross_entropy(x, target), F.mse_loss(x, x.flip(0)), F.smooth_l1_loss(x, x.flip(1))]

    x, target = torch.randn(6, 5, requires_grad=True), torch.tensor([0, 3, 4, 2, 3, 1])
    check(fn, x, target, dynamic=True, backward=True, rtol=1e-6, atol=1e-7)


def test_the_ir_operators() -> None:
    x, y, target = torch.rand(3, 4), torch.rand(3, 4), torch.tensor([0, 1, 3])
    assert converted_ops(F.mse_loss, x, y) == ["MseLoss"]
    assert converted_ops(F.smooth_l1_loss, x, y) == ["SmoothL1LossV2"]
    assert converted_ops(F.binary_cross_entropy, x, y) == ["BinaryCrossEntropy"]
    assert converted_ops(F.binary_cross_entropy_with_logits, x, y) == ["SigmoidCrossEntropyWithLogitsV2"]
    assert converted_ops(F.cross_entropy, x, target) == ["LogSoftmaxV2", "NLLLoss"]


NAMES = ["nll_loss", "cross_entropy", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"]
NAMES += ["binary_cross_entropy", "binary_cross_entropy_with_logits", "pdist"]


@pytest.mark.slow  # the first sample of every entry is among the conformance tests
@pytest.mark.parametrize("name", NAMES)
def test_op_info_samples(name: str) -> None:
    check_samples(f"nn.functional.{name}", torch.float32, rtol=1e-6, atol=1e-7)
