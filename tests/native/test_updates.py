"""Inputs that operators update in place: native loops write them, and nothing stays a call."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchair

pytestmark = pytest.mark.usefixtures("support")

MODES = ["torchair", "npugraph_ex"]


def _compiled(function: Callable[..., object], mode: str) -> Callable[..., Tensor]:
    options: Any = {"static_kernel_compile": True} if mode == MODES[1] else None
    compiled: Any = torch.compile(function, backend=mode, options=options)
    return compiled


def _add(b: Tensor, x: Tensor) -> Tensor:
    b.add_(x)
    return b * 2


def _chain(b: Tensor, x: Tensor) -> Tensor:
    b.mul_(0.9).add_(x, alpha=0.1)
    return (x * 3).relu_().add_(1)


def _old_value_too(b: Tensor, x: Tensor) -> Tensor:
    before = b + 1
    b.sub_(x).tanh_()
    return before * b


def _transposed(b: Tensor, x: Tensor) -> Tensor:
    return b.add_(b.t().clone()) + x


def _shifted(b: Tensor, x: Tensor) -> Tensor:
    b[1:].add_(b[:-1].clone())
    b[:, 2:4].mul_(x[:, :2])
    return b.sum(0)


def _row(b: Tensor, x: Tensor) -> Tensor:
    b.copy_(x[0])
    b[3].neg_()
    return b + x


def _transposed_then_a_part(b: Tensor, x: Tensor) -> Tensor:
    b.t().copy_(x * 2)
    b[1:].add_(x[1:] * -0.25)
    b.view(-1)[::3].neg_()
    return b * 1


def _around_a_call(b: Tensor, x: Tensor) -> Tensor:
    b.t().copy_(x * -0.25)
    sums = b.float().cumsum(0)  # a call, between two programs
    b.t().copy_(b.clone())
    b.add_(x * 0.5)
    return b + sums.to(b.dtype)


def _logical(b: Tensor, x: Tensor) -> Tensor:
    b.clamp_(-0.5, 0.5).masked_fill_(x > 0, 3)
    return torch.where(b > 0, x, b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "function",
    [_add, _chain, _old_value_too, _transposed, _shifted, _row, _transposed_then_a_part, _around_a_call, _logical],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_updates_agree_and_are_native(function, mode, dtype) -> None:
    torch.manual_seed(0)
    compiled = _compiled(function, mode)
    ours = torch.randn(8, 8).to(dtype)
    eager = ours.clone()
    # One rounding of a sum, near zero.
    tolerance: dict[str, Any] = {"rtol": 0.016, "atol": 0.01} if dtype is torch.bfloat16 else {}
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(8, 8).to(dtype)
            torch.testing.assert_close(compiled(ours, x), function(eager, x), **tolerance)
            torch.testing.assert_close(ours, eager, **tolerance)
    calls = str(torchair.explain(compiled)).count("calls aten")
    assert calls == (1 if function is _around_a_call else 0)


def test_memory_under_two_names_is_written_by_calls() -> None:
    """Arguments that are views of each other are ``as_strided`` of one base to the graph."""

    def step(b: Tensor, turned: Tensor) -> Tensor:
        row = turned[:, 0]
        row.add_(row.sum() % 3)
        b.copy_(row.unsqueeze(1).clone())
        return row.clone()

    compiled = _compiled(step, "npugraph_ex")
    with torch.no_grad():
        for _ in range(2):
            ours = torch.randint(-4, 5, (6, 6)).float()
            eager = ours.clone()
            torch.testing.assert_close(compiled(ours, ours.t()), step(eager, eager.t()))
            torch.testing.assert_close(ours, eager)
    assert "may be the same memory" in str(torchair.explain(compiled))


@pytest.mark.parametrize("mode", MODES)
def test_counts_in_integers(mode) -> None:
    def step(count: Tensor, x: Tensor) -> Tensor:
        count.add_(x.shape[0])
        return count * x.shape[1]

    compiled, ours, eager = _compiled(step, mode), torch.zeros(3, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)
    for _ in range(3):
        assert torch.equal(compiled(ours, torch.zeros(4, 5)), step(eager, torch.zeros(4, 5)))
        assert torch.equal(ours, eager)
    assert "calls aten" not in str(torchair.explain(compiled))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.LayerNorm(64), (5, 64)),
        (nn.BatchNorm2d(6), (2, 6, 4, 4)),
        (nn.BatchNorm2d(6).eval(), (2, 6, 4, 4)),
        (nn.GroupNorm(3, 6), (2, 6, 4, 4)),
        (nn.InstanceNorm1d(6, affine=True), (2, 6, 9)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_normalizations_are_native_in_both_modes(module, shape, mode) -> None:
    module, other = copy.deepcopy(module), copy.deepcopy(module)
    compiled = _compiled(module, mode)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), other(x))
    for ours, eager in zip(module.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, eager)
    left = set(re.findall(r"calls (\S+):", str(torchair.explain(compiled))))
    assert left <= {"aten.repeat.default"}  # of the parameters of an instance normalization
