"""Graphs whose results rounding decides: they move by as much where each operator's result moves by its last digit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

__all__ = ["is_decided_by_rounding"]

_RUNS = 16
#: Other orders of summation, and several operators in one, move a result by more than the last digit.
_FACTOR = 16
#: Operators whose results are exact move nothing.
_ROUNDING = frozenset(
    {
        "add", "addmm", "atan2", "bmm", "convert_element_type", "cos", "div", "erf", "exp", "gelu", "linear", "log",
        "log1p", "mean", "mm", "mul", "pow", "prod", "rsqrt", "sigmoid", "silu", "sin", "sqrt", "square", "sub", "sum",
        "tanh", "var", "var_mean", "_to_copy",
    }
)  # fmt: skip


class _Perturbed(fx.Interpreter):
    def __init__(self, graph: fx.GraphModule, seed: int) -> None:
        super().__init__(graph)
        self._generator = torch.Generator().manual_seed(seed)

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        name = str(n.target).split(".")[1] if isinstance(n.target, torch._ops.OpOverload) else ""
        return torch.utils._pytree.tree_map_only(Tensor, self._moved, result) if name in _ROUNDING else result

    def _moved(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        noise = torch.randint(-1, 2, x.shape, generator=self._generator) * torch.finfo(x.dtype).eps
        return torch.empty_like(x).copy_(x.double() * (1 + noise.double()))


def is_decided_by_rounding(
    graph: fx.GraphModule, arguments: Callable[[], list[Tensor]], got: Sequence[Tensor], want: Sequence[Tensor]
) -> bool:
    """Whether elements that differ do so in runs in which each operator's result is off by its last digit, too.

    Args:
        graph: What computes the results, and writes its arguments.
        arguments: New ones for each run.
        got: Results, then arguments, of what is tested.
        want: The same of the graph.
    """
    if any((g.dtype, g.shape) != (w.dtype, w.shape) for g, w in zip(got, want, strict=True)):
        return False
    farthest = [torch.zeros(w.shape, dtype=torch.float64) for w in want]
    for seed in range(_RUNS):
        given = arguments()
        results = _Perturbed(graph, seed).run(*given)
        for far, result, w in zip(farthest, [*results, *given], want, strict=True):
            torch.maximum(far, _distance(result, w), out=far)
    return all(
        bool(((_distance(g, w) <= _FACTOR * far) | torch.isclose(g, w, equal_nan=True)).all())
        for g, w, far in zip(got, want, farthest, strict=True)
    )


def _distance(one: Tensor, other: Tensor) -> Tensor:
    """Differences; infinite where one is no number and the other is, or where they are other infinities."""
    a, b = one.double(), other.double()
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a - b).abs().nan_to_num(nan=torch.inf, posinf=torch.inf))
