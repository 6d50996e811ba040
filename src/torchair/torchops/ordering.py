"""``torch.ops.air.wait_tensor``: an ordering edge between two tensors (specification, F-73)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchair.torchops.library import define

__all__ = ["wait_tensor"]


def _wait(self: Tensor, dependency: Tensor) -> Tensor:
    # It runs only where a graph runs without conversion; an operator's result must not lie in its argument's memory.
    return self.clone()


def _fake(self: Tensor, dependency: Tensor) -> Tensor:
    return torch.empty_like(self)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return gradient, None


wait_tensor: Any = define(
    "wait_tensor(Tensor self, Tensor dependency) -> Tensor", _wait, _fake, kept=True, backward=_backward
)
