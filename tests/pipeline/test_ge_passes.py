"""The passes that GE mode runs: what they do to compiled functions, and the options that switch them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.custom_operators import ops
from torchair.config import Options
from torchair.ir import Graph
from torchair.ir.text import from_text
from torchair.passes import VIEW_PASSES, default_passes
from torchair.pipeline.ge_passes import run_passes


def _compiled(
    function: Callable[..., Any],
    *args: Any,
    set_options: Callable[[torchair.CompilerConfig], None] = lambda config: None,
) -> tuple[Graph, Any]:
    """Compile with the reference engine and compare with eager: the graph, and the compiled function's result."""
    config = torchair.CompilerConfig()
    config.engine = "reference"
    config.debug.verify_graphs = True
    set_options(config)
    backend = torchair.get_npu_backend(compiler_config=config)
    with torch.no_grad():
        copies = [a.clone() for a in args]
        expected = function(*copies)
        actual = torch.compile(function, backend=backend, fullgraph=True)(*args)
        torch.testing.assert_close((actual, list(args)), (expected, copies), rtol=0, atol=0)
    (graph,) = backend.graphs
    return graph.graph, actual


def test_transposes_that_undo_each_other_disappear() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x.t().t() + y

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    graph, _ = _compiled(function, x, y)
    assert graph.count("Transpose") == 0

    def off(config: torchair.CompilerConfig) -> None:
        config.experimental_config.enable_view_optimize = False

    torch._dynamo.reset()
    graph, _ = _compiled(function, x, y, set_options=off)
    assert graph.count("Transpose") == 2


def test_a_linear_layer_has_no_transpose() -> None:
    graph, _ = _compiled(torch.nn.functional.linear, torch.randn(2, 3), torch.randn(4, 3))
    assert graph.count("Transpose") == 0


def test_without_view_optimization_a_linear_layer_has_its_transpose() -> None:
    def off(config: torchair.CompilerConfig) -> None:
        config.experimental_config.enable_view_optimize = False

    graph, _ = _compiled(torch.nn.functional.linear, torch.randn(2, 3), torch.randn(4, 3), set_options=off)
    assert graph.count("Transpose") == 1


def test_a_scope_keeps_its_views_and_a_super_kernel_does_not() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        with torchair.scope.npu_stream_switch("s"):
            z = x.t().t() + y
        return z * 2

    graph, _ = _compiled(function, torch.randn(3, 4), torch.randn(3, 4))
    assert graph.count("Transpose") == 2

    def fused(x: Tensor, y: Tensor) -> Tensor:
        with torchair.scope.super_kernel("s"):
            z = x.t().t() + y
        return z * 2

    torch._dynamo.reset()
    graph, _ = _compiled(fused, torch.randn(3, 4), torch.randn(3, 4))
    assert graph.count("Transpose") == 0


def test_quantized_weights_keep_their_views() -> None:
    options = Options()
    for op, count in (("WeightQuantBatchMatmulV2", 2), ("MyProduct", 0)):
        graph = from_text(
            f"""
            graph g(%x: float32[2, 3], %w: int8[4, 3], %s: float32[4]):
              %p: int64[2]{{1, 0}} = Const(value=(1, 0))
              %t: int8[3, 4] = Transpose(%w, %p) aliases %t=$0
              %u: int8[4, 3] = Transpose(%t, %p) aliases %u=$0
              %z: float32[2, 4] = {op}(%x, %u, %s)
              return %z
            """
        )
        run_passes(graph, [], options)
        assert graph.count("Transpose") == count


def test_a_cache_that_is_written_and_returned_is_not_copied() -> None:
    def step(cache: Tensor, x: Tensor) -> Tensor:
        ops.my_inplace(cache[1], x)
        return cache

    cache, x = torch.zeros(4, 3), torch.ones(3)
    address = cache.data_ptr()
    graph, result = _compiled(step, cache, x)
    assert graph.count("TensorMove") == 0
    assert result is cache
    assert cache.data_ptr() == address


def test_a_clone_that_is_written_and_returned_stays_apart_from_its_source() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        z = x.clone()
        ops.my_inplace(z, y)
        x.copy_(z)
        return z

    x = torch.zeros(3)
    graph, result = _compiled(function, x, torch.ones(3))
    assert graph.count("TensorMove") == 1
    assert result.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("name", [p.name for p in default_passes()])
def test_every_pass_can_be_disabled(name: str) -> None:
    def off(config: torchair.CompilerConfig) -> None:
        config.debug.disabled_passes = [name]

    def function(x: Tensor, y: Tensor) -> Tensor:
        ops.my_inplace(x[0], y[0])
        return x.t().t() @ y.t() + x.view(-1).view(3, 3) + (x * 1).abs() + (x * 1).abs()

    _compiled(function, torch.randn(3, 3), torch.randn(3, 3), set_options=off)


@pytest.mark.parametrize("fuel, transposes", [(0, 2), (1, 1), (20, 0)])
def test_fuel(fuel: int, transposes: int) -> None:
    def limit(config: torchair.CompilerConfig) -> None:
        config.debug.pass_fuel = fuel

    graph, _ = _compiled(lambda x, y: x.t().t() + y, torch.randn(3, 4), torch.randn(3, 4), set_options=limit)
    assert graph.count("Transpose") == transposes


def test_view_passes_are_passes() -> None:
    assert set(VIEW_PASSES) <= {p.name for p in default_passes()}
