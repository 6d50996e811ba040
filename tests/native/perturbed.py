"""Graphs whose results rounding decides: they move by as much where each operator's result moves by its last digit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

__all__ = ["is_decided_by_rounding"]

_RUNS = 4
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
    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        name = str(n.target).split(".")[1] if isinstance(n.target, torch._ops.OpOverload) else ""
        return torch.utils._pytree.tree_map_only(Tensor, _moved, result) if name in _ROUNDING else result


def _moved(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return x
    noise = torch.randint(-1, 2, x.shape) * torch.finfo(x.dtype).eps
    return torch.empty_like(x).copy_(x.double() * (1 + noise.double()))


def is_decided_by_rounding(
    graph: fx.GraphModule, arguments: Callable[[], list[Tensor]], got: Sequence[Tensor], want: Sequence[Tensor]
) -> bool:
    """Whether results are as near as those of runs in which each operator's result is off by its last digit.

    Args:
        graph: What computes the results, and writes its arguments.
        arguments: New ones for each run.
        got: Results, then arguments, of what is tested.
        want: The same of the graph.
    """
    if any((g.dtype, g.shape) != (w.dtype, w.shape) for g, w in zip(got, want, strict=True)):
        return False
    farthest = [0.0] * len(want)
    for _ in range(_RUNS):
        given = arguments()
        results = _Perturbed(graph).run(*given)
        farthest = [max(f, _distance(r, w)) for f, r, w in zip(farthest, [*results, *given], want, strict=True)]
    return all(
        _distance(g, w) <= _FACTOR * f or torch.allclose(g, w, equal_nan=True)
        for g, w, f in zip(got, want, farthest, strict=True)
    )


def _distance(one: Tensor, other: Tensor) -> float:
    """The largest difference; infinite where one is no number and the other is, or they are other infinities."""
    a, b = one.double(), other.double()
    difference = (a - b).abs()
    same = (a == b) | (a.isnan() & b.isnan())
    return (
        float(torch.where(same, 0.0, difference.nan_to_num(nan=torch.inf, posinf=torch.inf)).max())
        if a.numel()
        else 0.0
    )
