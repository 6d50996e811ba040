"""How often a model compiles: symbolic sizes serve all sizes, and nothing of ours adds guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from tests.conformance.op_db import backend
from tests.models import models

SIZES = (2, 3, 5, 8, 4)


def _calls(function: Callable[..., Any], make: Callable[[int], list[Any]], **compile_options: Any) -> int:
    """Run for every size against eager; the number of graphs that were compiled."""
    engine = backend("reference")
    compiled = torch.compile(function, backend=engine, fullgraph=True, **compile_options)
    with torch.no_grad():
        for n in SIZES:
            args = make(n)
            torch.testing.assert_close(compiled(*args), function(*args))
    return len(engine.graphs)


def _mlp(x: torch.Tensor) -> torch.Tensor:
    y = nn.functional.layer_norm(x, (x.shape[-1],))
    y = torch.softmax(y @ y.t(), -1).view(-1, 1, x.shape[0]).expand(-1, 2, -1).reshape(x.shape[0] * 2, -1)
    return torch.cat([y, y * 2], 1)[:, : x.shape[0] + 1].sum(1, keepdim=True)


def _strided(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x.t()[1:].chunk(2)
    return a.contiguous(), b[..., ::2], x[-1], x.flip(0), torch.arange(x.shape[0]) * x.shape[1]


def test_one_graph_for_all_sizes() -> None:
    assert _calls(_mlp, lambda n: [torch.randn(n, 4)], dynamic=True) == 1


def test_no_more_guards_than_without_a_backend() -> None:
    """PyTorch specializes a size here; we must not specialize more."""

    def count(compiler: Any) -> int:
        torch.compiler.reset()
        counter = CompileCounterWithBackend(compiler)
        compiled = torch.compile(_strided, backend=counter, dynamic=True)
        with torch.no_grad():
            for n in SIZES:
                compiled(torch.randn(n, 2 * n + 1))
        return int(counter.frame_count)

    assert count(backend("reference")) == count("aot_eager")


def test_automatic_dynamic_compiles_twice() -> None:
    assert _calls(_mlp, lambda n: [torch.randn(n, 4)]) == 2


def test_static_compiles_once_a_size() -> None:
    assert _calls(_mlp, lambda n: [torch.randn(n, 4)], dynamic=False) == len(SIZES)


def test_python_numbers_are_inputs() -> None:
    def scaled(x: torch.Tensor, n: int, f: float) -> torch.Tensor:
        return (x * f)[:n] + n

    assert _calls(scaled, lambda n: [torch.randn(9), n, n + 0.5], dynamic=True) == 1


def test_in_place_update_of_a_cache_slice() -> None:
    def write(cache: torch.Tensor, x: torch.Tensor, at: int) -> torch.Tensor:
        cache[at : at + x.shape[0]] = x
        return cache.sum(0)

    assert _calls(write, lambda n: [torch.zeros(20, 3), torch.randn(n, 3), n], dynamic=True) == 1


@pytest.mark.parametrize("build", [models.bert, models.gpt2], ids=["bert", "gpt2"])
def test_transformer_of_any_length(build: Callable[[], nn.Module]) -> None:
    model = build()

    def run(ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = model(ids)[0]
        return out

    assert _calls(run, lambda n: [torch.randint(0, 128, (n, n + 3))], dynamic=True) == 1
