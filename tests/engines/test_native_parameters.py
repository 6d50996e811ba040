"""The native engine with default settings: each call computes with the weights that the module has then."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import torchair
from tests.conformance.op_db import backend

pytestmark = pytest.mark.usefixtures("support")


class _Network(nn.Module):
    """A product, an operator with a weight, a view of a weight, a buffer, and a call of PyTorch's operator."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 24)
        self.norm = nn.LayerNorm(24)
        self.weight = nn.Parameter(torch.randn(24, 24))
        self.register_buffer("scale", torch.rand(24) + 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.first(x)) * self.scale
        return torch.softmax(y @ self.weight.t(), -1) + y.cumsum(-1)


def _like(t: Tensor) -> Tensor:
    """Random numbers, for the same sizes the same."""
    return torch.rand(t.shape, generator=torch.Generator().manual_seed(1))


def _replace(module: nn.Module) -> None:
    assert isinstance(module, _Network)
    module.weight = nn.Parameter(_like(module.weight))
    module.first.weight = nn.Parameter(_like(module.first.weight))
    module.norm.bias = nn.Parameter(_like(module.norm.bias))


def _replace_buffer(module: nn.Module) -> None:
    assert isinstance(module, _Network)
    module.scale = _like(module.scale)


def _in_place(module: nn.Module) -> None:
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(0.5).add_(0.1)


def _through_data(module: nn.Module) -> None:
    for p in module.parameters():
        p.data.mul_(0.5)


def _new_data(module: nn.Module) -> None:
    for p in module.parameters():
        p.data = _like(p)


def _other_strides(module: nn.Module) -> None:
    assert isinstance(module, _Network)
    module.weight.data = (torch.arange(576.0).view(24, 24) / 576).t()


def _load(module: nn.Module) -> None:
    module.load_state_dict({name: _like(t) for name, t in module.state_dict().items()})


def _step(module: nn.Module) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()


_CHANGES: list[Callable[[nn.Module], None]] = [
    _replace, _replace_buffer, _in_place, _through_data, _new_data, _other_strides, _load, _step,
]  # fmt: skip


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("change", _CHANGES, ids=lambda f: f.__name__.strip("_"))
def test_a_weight_that_changed_between_calls_is_the_one_that_is_used(
    change: Callable[[nn.Module], None], grad: bool
) -> None:
    torch.manual_seed(0)
    ours = _Network()
    theirs = copy.deepcopy(ours)
    compiled = torch.compile(ours, backend=backend("native"), fullgraph=True)
    with torch.set_grad_enabled(grad):
        for turn in range(4):
            x = torch.randn(3, 16)
            got, want = compiled(x), theirs(x)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
            if grad:
                for module, y in ((ours, got), (theirs, want)):
                    module.zero_grad()
                    y.square().sum().backward()
                for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
                    assert b.grad is not None
                    # Rounded as sums of terms like the largest (up to 3,000): eager's are off by up to 1e-6 of it, too.
                    torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4 + 1e-6 * float(b.grad.abs().max()))
            if turn < 2:  # the third and fourth call are with equal weights
                before = want.detach()
                for module in (ours, theirs):
                    change(module)
                if turn == 0:
                    with torch.no_grad():
                        assert not torch.allclose(theirs(x), before, atol=1e-3), "the change is one that shows"


def test_two_modules_of_one_class_have_weights_of_their_own() -> None:
    torch.manual_seed(0)
    first, second = _Network(), _Network()
    run = torch.compile(lambda module, x: module(x), backend=backend("native"), fullgraph=True)
    x = torch.randn(3, 16)
    for module in (first, second, first):
        torch.testing.assert_close(run(module, x), module(x), rtol=1e-4, atol=1e-5)


def test_weights_are_frozen_only_when_that_is_asked_for() -> None:
    assert not torchair.CompilerConfig().experimental_config.frozen_parameter
