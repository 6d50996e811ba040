"""The workloads. Small ones measure what a call costs beside its arithmetic; models measure what users run."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from benchmarks.harness import Case, Workload
from benchmarks.models import build_decode, build_minilm, build_prefill, need_minilm
from benchmarks.networks import build_cnn, build_encoder_layer, build_llama, need_llama
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


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over the last dimension."""
    return nn.functional.layer_norm(x, weight.shape, weight, bias)


def softmax(x: Tensor) -> Tensor:
    """Over the last dimension."""
    return torch.softmax(x, -1)


def random_input(seed: int, *shape: int, device: torch.device) -> Tensor:
    """Normal numbers that depend on the seed and shape alone, the same on each device."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def _mlp16(device: torch.device) -> Workload:
    return Workload(SmallMLP().eval().to(device), lambda seed: (random_input(seed, 1, 64, device=device),))


def _chain_case(name: str, what: str, *shape: int, atol: float | None = None) -> Case:
    def build(device: torch.device) -> Workload:
        def inputs(seed: int) -> tuple[Tensor, ...]:
            return tuple(random_input(3 * seed + i, *shape, device=device) for i in range(3))

        return Workload(chain, inputs)

    return Case(name, what, build) if atol is None else Case(name, what, build, atol=atol)


def _one_op(device: torch.device) -> Workload:
    return Workload(add_one, lambda seed: (random_input(seed, 4, device=device),))


def _layer_norm(device: torch.device) -> Workload:
    def inputs(seed: int) -> tuple[Tensor, ...]:
        x = random_input(seed, 4096, 1024, device=device)
        return (x, *(random_input(seed + i, 1024, device=device) for i in (1, 2)))

    return Workload(layer_norm, inputs)


def _softmax(device: torch.device) -> Workload:
    return Workload(softmax, lambda seed: (random_input(seed, 4096, 1024, device=device),))


_build_large = functools.partial(build_decode, width=768, hidden=2048, heads=12)
_DECODE = "one token through an 8-layer Llama shape (d={}, ff={}), static key/value cache of 256 written in place"
_LLAMA = "LlamaForCausalLM of transformers (8 layers, d=256, ff=688, random weights), one token, StaticCache of 256"
_MINILM = "sentence model all-MiniLM-L6-v2 with its real weights, one sentence of {} tokens"

CASES: Mapping[str, Case] = {
    case.name: case
    for case in (
        Case("mlp16", "16 x (Linear 64x64 with bias, tanh, scale, shift), batch 1: 64 operators", _mlp16),
        _chain_case("tiny60", "60 elementwise operators on 4 values", 4),
        _chain_case("chain64", "20 steps of 3 elementwise operators on 64x64", 64, 64),
        # Where the scale is 5, steps amplify roundings: eager mode itself is off by 1e-4 from float64.
        _chain_case("chain2048", "20 steps of 3 elementwise operators on 2048x2048", 2048, 2048, atol=2e-4),
        Case("one_op", "x + 1 on 4 values: what a call costs at least", _one_op),
        Case("layer_norm", "layer norm of 4096 rows of 1024", _layer_norm),
        Case("softmax", "softmax of 4096 rows of 1024", _softmax),
        Case(
            "cnn", "3 x (3x3 convolution, batch norm, ReLU, max pooling) on 3x64x64, ten classes", build_cnn, atol=1e-4
        ),
        Case("decode", _DECODE.format(256, 688), build_decode, atol=1e-4, loaded=True),
        Case(
            "decode_b8",
            _DECODE.format(256, 688) + ", batch 8",
            functools.partial(build_decode, batch=8),
            atol=1e-4,
        ),
        Case("decode_large", _DECODE.format(768, 2048), _build_large, atol=1e-4),
        Case(
            "decode_large_b8",
            _DECODE.format(768, 2048) + ", batch 8",
            functools.partial(_build_large, batch=8),
            atol=1e-4,
        ),
        Case("llama", _LLAMA, build_llama, atol=1e-4, require=need_llama),
        Case(
            "llama_b8",
            _LLAMA + ", batch 8",
            functools.partial(build_llama, batch=8),
            atol=1e-4,
            require=need_llama,
        ),
        Case("prefill", "the first 128 tokens through the decode step's model (d=256)", build_prefill, atol=1e-4),
        Case("minilm", _MINILM.format(12), build_minilm, atol=1e-4, require=need_minilm),
        Case(
            "minilm122",
            _MINILM.format(122),
            functools.partial(build_minilm, tokens=122),
            atol=1e-4,
            require=need_minilm,
        ),
        Case("bert_layer", "a layer of BERT base (12 heads, 768) on 128 tokens", build_encoder_layer, atol=1e-4),
    )
}

#: What our engines are to reach on CPU; 0.97 is as fast, within noise.
_AS_FAST = ("decode_b8", "decode_large_b8", "llama_b8", "prefill", "minilm", "minilm122", "bert_layer")
GOALS: tuple[Goal, ...] = (
    Goal("mlp16", "npugraph_ex", "best peer", 1.6),
    Goal("tiny60", "npugraph_ex", "eager", 3.0),
    Goal("one_op", "npugraph_ex", "inductor", 0.97),
    Goal("mlp16", "npugraph_ex-static", "best peer", 2.0),
    Goal("mlp16", "ge-native", "best peer", 2.5),
    Goal("chain64", "ge-native", "best peer", 1.3),
    Goal("decode", "ge-native", "best peer", 3.0),
    Goal("decode_loaded", "ge-native", "best peer", 1.0),
    Goal("decode_large", "ge-native", "best peer", 2.0),
    Goal("decode_large", "ge-native", "floor", 0.77),
    Goal("llama", "ge-native", "best peer", 2.2),
    *(Goal(name, "ge-native", "best peer", 0.97) for name in ("chain2048", "layer_norm", "softmax", "cnn", *_AS_FAST)),
)
