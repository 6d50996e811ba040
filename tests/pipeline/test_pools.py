"""The graphs of one model share one pool, in both modes: its peak is that of the largest graph (F-32)."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import npugraph_ex
import torchair
from torchair.capture import pools


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torchair.reset()
    gc.collect()  # pools go with the last capture, of other tests, too
    yield
    torch._dynamo.reset()


class Model(nn.Module):
    """A block with attention over a cache: prefill of a prompt, and steps of a batch."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, tokens, width]`` to the same."""
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(-1, -2), -1) @ v
        return x + self.down(torch.relu(self.up(x)))


def backend(mode: str, **options: Any) -> Any:
    if mode == "npugraph_ex":
        config = npugraph_ex.CompilerConfig()
        for name, value in options.items():
            setattr(config, name, value)
        return npugraph_ex.get_npu_backend(compiler_config=config)
    ge = torchair.CompilerConfig()
    ge.engine = "native"
    return torchair.get_npu_backend(compiler_config=ge)


SHAPES = ((1, 96, 64), *((batch, 1, 64) for batch in (1, 4, 16)), (2, 48, 64))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["npugraph_ex", "ge"])
def test_the_peak_is_that_of_the_largest_graph(mode, dynamic) -> None:
    model = Model().eval()
    made = backend(mode)
    run = torch.compile(model, backend=made, dynamic=dynamic)
    with torch.no_grad():
        for shape in (*SHAPES, *reversed(SHAPES)):
            x = torch.randn(shape)
            torch.testing.assert_close(run(x), model(x))
    found = torchair.explain(run)
    assert len(found.captures) == len(SHAPES)
    sizes = [capture.arena_nbytes for capture in found.captures]
    (pool,) = found.pools
    assert (pool.captures, pool.apart_nbytes, pool.largest_nbytes) == (len(SHAPES), sum(sizes), max(sizes))
    assert pool.apart_nbytes > 1.5 * pool.largest_nbytes  # sharing is worth something here
    assert pool.shared_nbytes == sum(sizes) - max(sizes)
    assert pool.nbytes <= 1.1 * max(sizes)
    assert found.bytes_held == pool.nbytes
    assert f"pools: 1\n  {len(SHAPES)} captures take {sum(sizes)} bytes apart, {max(sizes)} shared; the peak" in str(
        found
    )


def test_both_modes_share_one_pool() -> None:
    runs = [torch.compile(Model().eval(), backend=backend(mode), dynamic=False) for mode in ("npugraph_ex", "ge")]
    with torch.no_grad():
        for run in runs:
            for shape in SHAPES[:3]:
                run(torch.randn(shape))
    found = [torchair.explain(run) for run in runs]
    largest = max(capture.arena_nbytes for f in found for capture in f.captures)
    assert [pool.nbytes for f in found for pool in f.pools] == [pools.shared_pool().nbytes] * 2
    assert pools.shared_pool().nbytes <= 1.1 * largest


def test_a_pool_for_each_capture_takes_the_sum() -> None:
    run = torch.compile(Model().eval(), backend=backend("npugraph_ex", reuse_graph_pool_in_same_fx=False), dynamic=True)
    with torch.no_grad():
        for shape in SHAPES:
            run(torch.randn(shape))
    found = torchair.explain(run)
    assert len(found.pools) == len(found.captures) == len(SHAPES)
    assert sum(pool.nbytes for pool in found.pools) == sum(capture.arena_nbytes for capture in found.captures)


def test_resetting_frees_the_plans_of_ge_mode() -> None:
    run = torch.compile(Model().eval(), backend=backend("ge"), dynamic=False)
    x = torch.randn(SHAPES[1])
    with torch.no_grad():
        expected = run(x)
        assert len(torchair.explain(run).captures) == 1
        torchair.explain(run).reset()
        assert torchair.explain(run).captures == ()
        assert torch.equal(run(x), expected)
    assert len(torchair.explain(run).captures) == 1
