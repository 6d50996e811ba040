"""Softmax over several axes and with a float32 result, which no converter makes on a CPU."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from torchair.opset.softmax import LogSoftmaxGrad, LogSoftmaxV2, SoftmaxGrad, SoftmaxV2


def test_several_axes_are_one() -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    together = x.permute(1, 0, 2).reshape(3, 8)
    for function, forward, name in (
        (torch.softmax, SoftmaxV2, "softmax"),
        (torch.log_softmax, LogSoftmaxV2, "log_softmax"),
    ):
        expected = function(together, -1).reshape(3, 2, 4).permute(1, 0, 2)
        y = lowered(forward, x.detach(), axes=(0, 2))
        assert_close(y, expected.detach())
        gradient = torch.randn(2, 3, 4)
        (expected_gradient,) = torch.autograd.grad(expected, x, gradient, retain_graph=True)
        if name == "softmax":
            actual = lowered(SoftmaxGrad, y, gradient, axes=(0, 2))
        else:
            actual = lowered(LogSoftmaxGrad, gradient, y, axis=(0, 2))
        assert_close(actual, expected_gradient)


def test_half_to_float() -> None:
    x = torch.randn(3, 4).half()
    y = lowered(SoftmaxV2, x, axes=(-1,), half_to_float=True)
    assert_close(y, torch.softmax(x.float(), -1), rtol=0, atol=0)
