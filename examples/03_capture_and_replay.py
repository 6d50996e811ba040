"""Capture mode: a decoder step and a small network, captured once and replayed without Python.

``torch.compile(model, backend="npugraph_ex")`` needs nothing of an operator but its kernel and its fake kernel. The
program shows that a cache is written in place, that a position which changes with every call leads to no further
capture, what a new size leads to, and how long a call takes.

Run: ``python examples/03_capture_and_replay.py``
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import torchair


class Attention(nn.Module):
    """One query token over a cache of keys and values, ``[batch, heads, length, d]`` each."""

    def __init__(self, width: int = 64, heads: int = 4, length: int = 32) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        shape = (1, heads, length, width // heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        """Embed ``[1, width]`` at ``position`` (``[1]``, int64); the result is ``[1, width]``."""
        q, k, v = (part.view(1, self.heads, 1, -1) for part in self.project(x).chunk(3, dim=-1))
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        seen = torch.arange(self.keys.shape[2])[None] <= position
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen).flatten(1)


class Network(nn.Module):
    """Sixteen small layers: mostly launches, little arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(16))

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, 64]`` to ``[batch, 64]``."""
        for layer in self.layers:
            x = torch.tanh(layer(x)) * 1.5 + 0.1
        return x


def microseconds(call: Callable[[], object], rounds: int = 15, calls: int = 200) -> float:
    """Median time of a call over rounds of calls, after one round of warm-up."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        times.append((time.perf_counter() - start) / calls)
    return 1e6 * statistics.median(times[1:])


def decode() -> None:
    """A cache that is written in place, at another position in each call."""
    torch.manual_seed(0)
    eager = Attention()
    captured = Attention()
    captured.load_state_dict(eager.state_dict())
    address = captured.keys.data_ptr()
    step = torch.compile(captured, backend="npugraph_ex", fullgraph=True)
    difference = 0.0
    for i in range(8):
        x, position = torch.randn(1, 64), torch.tensor([i])
        difference = max(difference, (step(x, position) - eager(x, position)).abs().max().item())
    print(f"8 decoding steps: largest difference from eager {difference:.1e}")
    print(f"cache written in place: {captured.keys.data_ptr() == address and torch.equal(captured.keys, eager.keys)}")
    print(torchair.explain(step))


def sizes() -> None:
    """One capture for each size."""
    torch.manual_seed(0)
    network = Network()
    run = torch.compile(network, backend="npugraph_ex", dynamic=True, fullgraph=True)
    agrees = all(torch.equal(run(x), network(x)) for x in (torch.randn(n, 64) for n in (2, 5, 2, 7, 5)))
    explanation = torchair.explain(run)
    print(f"\nbatches of 2, 5, 2, 7, 5: equal to eager: {agrees}")
    print(f"graphs: {len(explanation.graphs)}, captures: {len(explanation.captures)}")
    print(f"bytes held: {explanation.bytes_held}")


def speed() -> None:
    """What a call costs."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network, x = Network(), torch.randn(1, 64)
    start = time.perf_counter()
    run = torch.compile(network, backend="npugraph_ex", fullgraph=True)
    run(x)
    print(f"\nfirst call: {time.perf_counter() - start:.1f} s")
    eager, replay = microseconds(lambda: network(x)), microseconds(lambda: run(x))
    print(f"16 layers, batch 1: eager {eager:.0f} us, captured {replay:.0f} us, {eager / replay:.1f} times as fast")


if __name__ == "__main__":
    with torch.no_grad():
        decode()
        sizes()
        speed()
