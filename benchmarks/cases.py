"""The workloads. Small ones measure what a call costs beside its arithmetic; models measure what users run."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from benchmarks.harness import Case, Workload
from benchmarks.models import build_decode, build_minilm, need_minilm
from benchmarks.results import Goal

__all__ = ["CASES", "CHAIN_OPERATORS", "GOALS"]

CHAIN_OPERATORS = 60


def chain(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """20 steps of three elementwise operators."""
    for _ in range(CHAIN_OPERATORS // 3):
        x = torch.tanh(x * scale + shift)
    return x


def add_one(x: Tensor) -> Tensor:
    """One operator."""
    return x + 1


class SmallMLP(nn.Module):
    """16 layers of four operators: a 64x64 product with bias, tanh, scale, shift."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(16))

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, 64]`` to the same."""
        for layer in self.layers:
            x = torch.tanh(layer(x)) * 1.1 + 0.01
        return x


def random_input(seed: int, *shape: int, device: torch.device) -> Tensor:
    """Normal numbers that depend on the seed and shape alone, the same on each device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def _mlp16(device: torch.device) -> Workload:
    return Workload(SmallMLP().eval().to(device), lambda seed: (random_input(seed, 1, 64, device=device),))


def _chain_case(name: str, what: str, *shape: int) -> Case:
    def build(device: torch.device) -> Workload:
        def inputs(seed: int) -> tuple[Tensor, ...]:
            return tuple(random_input(3 * seed + i, *shape, device=device) for i in range(3))

        return Workload(chain, inputs)

    return Case(name, what, build)


def _one_op(device: torch.device) -> Workload:
    return Workload(add_one, lambda seed: (random_input(seed, 4, device=device),))


CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("mlp16", "16 x (Linear 64x64 with bias, tanh, scale, shift), batch 1: 64 operators", _mlp16),
        _chain_case("tiny60", "60 elementwise operators on 4 values", 4),
        _chain_case("chain64", "60 elementwise operators on 64x64", 64, 64),
        Case("one_op", "x + 1 on 4 values: what a call costs at least", _one_op),
        Case(
            "decode",
            "one token through an 8-layer Llama shape (d=256, ff=688), static key/value cache of 256 written in place",
            build_decode,
            atol=1e-4,
        ),
        Case(
            "minilm",
            "sentence model all-MiniLM-L6-v2 with its real weights, one sentence of 12 tokens",
            build_minilm,
            atol=1e-4,
            require=need_minilm,
        ),
    )
}

#: What npugraph_ex is to reach on CPU. A captured call of one operator may cost what Inductor's costs, within noise.
GOALS: tuple[Goal, ...] = (
    Goal("mlp16", "npugraph_ex", "best peer", 1.6),
    Goal("tiny60", "npugraph_ex", "eager", 3.0),
    Goal("one_op", "npugraph_ex", "inductor", 0.97),
)
