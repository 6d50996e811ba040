"""Real architectures through both modes, whole (``fullgraph=True``), against eager.

float32 within 1e-4, or no worse than twice eager's own error against float64.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.conformance.op_db import CAPTURE, backend
from tests.models import models

ENGINES = ("reference", "inductor", "native", CAPTURE)


def _assert_close(got: torch.Tensor, eager: torch.Tensor, exact: Callable[[], torch.Tensor]) -> None:
    """Within 1e-4 of eager, or at most twice eager's error against float64."""
    assert got.shape == eager.shape
    assert got.dtype == eager.dtype
    if torch.allclose(got, eager, rtol=1e-4, atol=1e-4):
        return
    truth = exact()
    assert (got - truth).abs().max() <= 2 * (eager - truth).abs().max()


def _in_float64(model: nn.Module, x: torch.Tensor, *, first: bool) -> torch.Tensor:
    """What the model computes in double precision."""
    out = copy.deepcopy(model).double()(x.double() if x.is_floating_point() else x)
    result: torch.Tensor = out[0] if first else out
    return result


def _compiled(module: nn.Module, engine: str, **kwargs: Any) -> Any:
    return torch.compile(module, backend=backend(engine), fullgraph=True, **kwargs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("build", [models.bert, models.gpt2], ids=["bert", "gpt2"])
def test_transformer(build: Callable[[], nn.Module], engine: str) -> None:
    _check_tokens(build, engine)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_t5_encoder(engine: str) -> None:
    _check_tokens(models.t5_encoder, engine)


def _check_tokens(build: Callable[[], nn.Module], engine: str) -> None:
    model = build()
    compiled = _compiled(model, engine)
    for step in range(2):
        ids = torch.randint(0, 128, (2, 9), generator=torch.Generator().manual_seed(step))
        with torch.no_grad():
            eager, got = model(ids)[0], compiled(ids)[0]
            _assert_close(got, eager, functools.partial(_in_float64, model, ids, first=True))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_vision_transformer(engine: str) -> None:
    model = models.vit()
    compiled = _compiled(model, engine)
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        _assert_close(compiled(x)[0], model(x)[0], functools.partial(_in_float64, model, x, first=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_small_cnn_in_eval_mode(engine: str) -> None:
    torch.manual_seed(0)
    model = models.SmallCNN().eval()
    compiled = _compiled(model, engine)
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        _assert_close(compiled(x), model(x), functools.partial(_in_float64, model, x, first=False))


@pytest.mark.parametrize("engine", ENGINES)
def test_small_cnn_trains_like_eager(engine: str) -> None:
    """Two steps of SGD: losses, weights and the running statistics of batch norm."""
    torch.manual_seed(0)
    ours = models.SmallCNN()
    theirs = copy.deepcopy(ours)
    compiled = _compiled(ours, engine)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (ours, theirs)]
    for _ in range(2):
        x, target = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
        losses = []
        for run, optimizer in zip((compiled, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(run(x), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=f"{name} differs")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("build", [models.llama, models.qwen2], ids=["llama", "qwen2"])
def test_decoder_with_a_static_cache(build: Callable[[], nn.Module], engine: str) -> None:
    """Prefill, then several decode steps; the cache is updated in place, at the same addresses as before."""
    from transformers import StaticCache

    model: Any = build()
    ids = torch.randint(0, 128, (1, 5), generator=torch.Generator().manual_seed(0))
    runs = []
    for forward in (model, _compiled(model, engine)):
        cache = StaticCache(config=model.config, max_cache_len=16)
        with torch.no_grad():
            out = forward(ids, past_key_values=cache, cache_position=torch.arange(5), use_cache=True)
            logits = [out.logits]
            addresses = _addresses(cache)
            for step in range(3):
                token = torch.tensor([[step + 7]])
                position = torch.tensor([5 + step])
                out = forward(token, past_key_values=cache, cache_position=position, use_cache=True)
                logits.append(out.logits)
            assert _addresses(cache) == addresses
        runs.append((logits, _tensors(cache)))
    for eager, got in zip(*[logits + tensors for logits, tensors in runs], strict=True):
        torch.testing.assert_close(got, eager, rtol=1e-4, atol=1e-4)


def _tensors(cache: Any) -> list[torch.Tensor]:
    return [t for layer in cache.layers for t in (layer.keys, layer.values)]


def _addresses(cache: Any) -> list[int]:
    return [t.data_ptr() for t in _tensors(cache)]
