"""A random operator whose result is overwritten draws its numbers all the same, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair


def _copied(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a = torch.rand_like(x)
    a.copy_(y)
    return a * 2, torch.rand_like(x)


def _uniform(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a = torch.empty_like(x).uniform_()
    a.copy_(y)
    return a * 2, torch.rand_like(x)


def _dropout(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a = torch.dropout(x, 0.5, train=True)
    a.copy_(y)
    return a * 2, torch.dropout(x, 0.5, train=True)


def _on_a_stream(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    with torchair.scope.npu_stream_switch("a"):
        a = torch.rand_like(x)
        a.copy_(y)
        b = a * 2
    torchair.ops.wait([b])
    return b, torch.rand_like(x)


@pytest.mark.parametrize("function", [_copied, _uniform, _dropout, _on_a_stream])
@pytest.mark.parametrize(
    "chosen",
    [{"backend": "npugraph_ex"}, {"backend": "npugraph_ex", "options": {"static_kernel_compile": True}},
     {"backend": "torchair"}],
    ids=["capture", "static", "ge"],
)  # fmt: skip
def test_later_numbers_are_those_of_eager_mode(function: Callable[..., Any], chosen: dict[str, Any]) -> None:
    compiled = torch.compile(function, fullgraph=True, **chosen)
    x, y = torch.randn(6, 8), torch.randn(6, 8)
    for _ in range(2):
        torch.manual_seed(3)
        want = function(x, y)
        torch.manual_seed(3)
        torch.testing.assert_close(compiled(x, y), want, rtol=0, atol=0)
