"""Captures of a graph: keys, limit, recapture, eager execution, static outputs, pools."""

from __future__ import annotations

import gc
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import aot_module_simplified
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph_ex
import torchair
from torchair.capture import pools
from torchair.capture.bounds import BOUNDS
from torchair.capture.life_cycle import CapturedGraph
from torchair.errors import ArgumentError, ConfigTypeError, GraphInputError, UnknownOptionError
from torchair.pipeline.backends import Backend


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters["npugraph_ex"].clear()
    yield
    torch._dynamo.reset()


def backend(**options: Any) -> Backend:
    config = npugraph_ex.CompilerConfig()
    for name, value in options.items():
        setattr(config, name, value)
    return npugraph_ex.get_npu_backend(compiler_config=config)


def affine(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2 + 1


def compiled(function: Callable[..., Any], *, dynamic: bool | None = None, **options: Any) -> tuple[Any, Backend]:
    made = backend(**options)
    return torch.compile(function, backend=made, dynamic=dynamic, fullgraph=True), made


def only(made: Backend) -> CapturedGraph:
    (graph,) = made.graphs
    assert isinstance(graph, CapturedGraph)
    return graph


# --- keys ---


def test_one_capture_serves_all_calls_of_fixed_sizes() -> None:
    run, made = compiled(affine, dynamic=False)
    for _ in range(3):
        x = torch.randn(4, 5)
        torch.testing.assert_close(run(x), affine(x), rtol=0, atol=0)
    graph = only(made)
    assert list(graph.captures) == [()]
    assert counters["npugraph_ex"] == {f"captured_{graph.name}": 1}
    assert [str(r.key) for r in graph.records()] == ["no_updated_input"]


def test_one_capture_a_size() -> None:
    run, made = compiled(affine, dynamic=True)
    for n in (4, 6, 4, 7, 6):
        x = torch.randn(n, 5)
        torch.testing.assert_close(run(x), affine(x), rtol=0, atol=0)
    graph = only(made)
    assert len(graph.captures) == 3
    assert counters["npugraph_ex"][f"captured_{graph.name}"] == 3


def test_log_lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npugraph_ex.logger, "propagate", True)
    with caplog.at_level(logging.DEBUG, logger="npugraph_ex"):
        run, made = compiled(affine, dynamic=False)
        run(torch.ones(3))
    name = only(made).name
    assert f"No find captured AclGraph of fx_graph {name}" in caplog.text
    assert f"Success to capture fx_graph {name} for graph key{{no_updated_input}}" in caplog.text
    with caplog.at_level(logging.INFO, logger="npugraph_ex"):
        run, made = compiled(affine, dynamic=False, force_recapture=True)
        run(torch.ones(3))
        run(torch.ones(3))
    assert "The current AclGraph needs to be recaptured" in caplog.text


# --- capture_limit ---


def test_capture_limit_falls_back_for_good(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npugraph_ex.logger, "propagate", True)
    run, made = compiled(affine, dynamic=True, capture_limit=2)
    for n in (4, 6, 4):
        run(torch.randn(n, 5))
    graph = only(made)
    assert graph.fallbacks == []
    caplog.set_level(logging.WARNING, logger="npugraph_ex")
    x = torch.randn(7, 5)
    with pytest.warns(UserWarning, match="capture_limit reached: 2 shapes were captured"):
        result = run(x)
    torch.testing.assert_close(result, affine(x), rtol=0, atol=0)
    assert {r.levelname for r in caplog.records if "capture_limit reached" in r.message} == {"WARNING"}
    assert graph.runs_eagerly
    assert graph.captures == {}
    assert f"captured_{graph.name}" not in counters["npugraph_ex"]
    (fallback,) = graph.fallbacks
    assert fallback.key.startswith("[7")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (4, 9):
            x = torch.randn(n, 5)
            torch.testing.assert_close(run(x), affine(x), rtol=0, atol=0)
    assert graph.captures == {}


def test_capture_limit_leaves_other_graphs_alone() -> None:
    made = backend(capture_limit=1)
    first = torch.compile(affine, backend=made, dynamic=True)
    second = torch.compile(lambda x: x + 1, backend=made, dynamic=True)
    first(torch.randn(4, 5))
    second(torch.randn(4, 5))
    with pytest.warns(UserWarning, match="capture_limit reached"):
        first(torch.randn(6, 5))
    assert [g.runs_eagerly for g in made.graphs] == [True, False]


def test_recapture_at_a_full_table_does_not_count() -> None:
    run, made = compiled(affine, dynamic=False, capture_limit=1, force_recapture=True)
    for _ in range(3):
        x = torch.randn(4)
        torch.testing.assert_close(run(x), affine(x), rtol=0, atol=0)
    graph = only(made)
    assert not graph.runs_eagerly
    assert len(graph.captures) == 1
    assert counters["npugraph_ex"] == {
        f"captured_{graph.name}": 1,
        f"recapture_due_to_force_recapture_{graph.name}": 2,
    }
    assert [r.reason for r in graph.recaptures] == ["force_recapture"] * 2


# --- eager execution ---


def test_force_eager_runs_the_graph_without_a_capture() -> None:
    run, made = compiled(affine, force_eager=True)
    x = torch.randn(4)
    torch.testing.assert_close(run(x), affine(x), rtol=0, atol=0)
    graph = only(made)
    assert graph.captures == {}
    assert [f.reason for f in graph.fallbacks] == ["force_eager = True"]


def test_force_eager_writes_inputs_once() -> None:
    def step(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache * 2

    run, _ = compiled(step, force_eager=True)
    cache, x = torch.zeros(4), torch.ones(4)
    torch.testing.assert_close(run(cache, x), torch.full((4,), 2.0))
    assert cache.tolist() == [1.0] * 4


# --- effects and the first call ---


def test_a_mutated_input_is_written_once_a_call() -> None:
    def step(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache[1:] += x
        return cache.sum()

    run, made = compiled(step)
    cache = torch.zeros(4)
    for i in range(1, 4):
        assert run(cache, torch.ones(3)).item() == 3 * i
    other = torch.zeros(4)  # another address needs no other capture
    assert run(other, torch.ones(3)).item() == 3
    assert len(only(made).captures) == 1


def test_replaced_and_updated_weights() -> None:
    model = nn.Linear(3, 2)
    run, made = compiled(model)
    x = torch.randn(4, 3)
    with torch.no_grad():
        for change in range(3):
            if change == 1:
                model.weight.mul_(2)
            elif change == 2:
                model.weight.data = torch.randn(2, 3)
            torch.testing.assert_close(run(x), model(x), rtol=0, atol=0)
    assert sum(len(g.captures) for g in made.graphs) == len(made.graphs)


# --- outputs ---


@pytest.mark.parametrize("clone_output", [None, True])
def test_outputs_are_fresh(clone_output: bool | None) -> None:
    run, _ = compiled(affine, clone_output=clone_output)
    first, second = torch.randn(4), torch.randn(4)
    a, b = run(first), run(second)
    torch.testing.assert_close(a, affine(first), rtol=0, atol=0)
    assert a.data_ptr() != b.data_ptr()


def test_static_outputs_are_overwritten() -> None:
    run, _ = compiled(affine, clone_output=False)
    first, second = torch.randn(4), torch.randn(4)
    with torch.no_grad():
        a = run(first)
        torch.testing.assert_close(a, affine(first), rtol=0, atol=0)
        b = run(second)
    assert a.data_ptr() == b.data_ptr()
    torch.testing.assert_close(a, affine(second), rtol=0, atol=0)


def test_graphs_that_are_trained_have_fresh_outputs() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    run, made = compiled(model, clone_output=False)
    with pytest.warns(UserWarning, match="clone_output = False has no effect on graphs that are trained"):
        losses = [run(torch.full((2, 3), float(i))).sum() for i in range(2)]
    for loss in losses:
        loss.backward()
    got = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    for i in range(2):
        model(torch.full((2, 3), float(i))).sum().backward()
    for g, p in zip(got, model.parameters(), strict=True):
        torch.testing.assert_close(g, p.grad)
    assert not any(g.static_outputs for g in made.graphs)


# --- pools ---


def wide(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = torch.tanh(x @ x.T) @ x
    return x.sum()


def arena_bytes(made: Backend) -> int:
    return sum(p.nbytes for p in {id(p): p for g in made.graphs for p in g.pools()}.values())


def test_memory_of_many_sizes_is_that_of_the_largest() -> None:
    gc.collect()
    with torch.no_grad():
        run, made = compiled(wide, dynamic=True, use_graph_pool=npugraph_ex.graph_pool_handle())
        for n in (10, 20, 100, 40, 50):
            run(torch.randn(n, 8))
    graph = only(made)
    sizes = [r.arena_nbytes for r in graph.records()]
    assert len(sizes) == 5
    assert arena_bytes(made) == max(sizes)
    assert sum(sizes) > 1.3 * max(sizes)


def test_graphs_share_the_pool_of_the_process() -> None:
    with torch.no_grad():
        made = backend()
        for _ in range(3):
            torch._dynamo.reset()
            torch.compile(wide, backend=made, dynamic=False)(torch.randn(16, 8))
    found = {id(p) for g in made.graphs for p in g.pools()}
    assert found == {id(pools.shared_pool())} or not found


def test_captures_with_memory_of_their_own() -> None:
    with torch.no_grad():
        run, made = compiled(wide, dynamic=True, reuse_graph_pool_in_same_fx=False)
        for n in (10, 20):
            run(torch.randn(n, 8))
    graph = only(made)
    assert len(graph.pools()) == 2
    assert arena_bytes(made) == sum(r.arena_nbytes for r in graph.records())


def test_a_pool_dies_with_the_last_graph() -> None:
    handle = npugraph_ex.graph_pool_handle()
    with torch.no_grad():
        run, made = compiled(wide, dynamic=False, use_graph_pool=handle)
        run(torch.randn(10, 8))
    pool = weakref.ref(only(made).pools()[0])
    assert pool() is pools.named_pool(handle)
    del run, made
    torch._dynamo.reset()
    gc.collect()
    assert pool() is None


def test_handles_differ() -> None:
    assert npugraph_ex.graph_pool_handle() != npugraph_ex.graph_pool_handle()
    with pytest.raises(ConfigTypeError):
        backend(use_graph_pool=(1, 2))


# --- bounds of the process ---


@pytest.fixture
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    torchair.reset()
    monkeypatch.setattr(BOUNDS, "captures", BOUNDS.captures)
    monkeypatch.setattr(BOUNDS, "nbytes", BOUNDS.nbytes)


@pytest.mark.usefixtures("_bounds")
def test_captures_that_ran_longest_ago_are_dropped_first() -> None:
    run, made = compiled(affine, dynamic=True)
    other, others = compiled(lambda x: x - 1, dynamic=False)
    other(torch.ones(3))
    npugraph_ex.set_capture_bounds(captures=3)
    for n in (4, 6):
        run(torch.ones(n, 5))
    other(torch.ones(3))
    run(torch.ones(4, 5))
    run(torch.ones(7, 5))  # one too many: that for 6 ran longest ago
    assert [key[0] for key in only(made).captures] == [4, 7]
    assert len(only(others).captures) == 1
    x = torch.randn(6, 5)
    torch.testing.assert_close(run(x), affine(x), rtol=0, atol=0)
    assert [r.reason for r in only(made).recaptures] == ["it was dropped: captures held more than they may"]
    assert not only(made).runs_eagerly
    y = torch.randn(3)
    torch.testing.assert_close(other(y), y - 1)  # was dropped for 6


@pytest.mark.usefixtures("_bounds")
def test_captures_are_bounded_by_bytes() -> None:
    run, made = compiled(affine, dynamic=True, clone_output=False)
    npugraph_ex.set_capture_bounds(nbytes=100_000)
    with torch.no_grad():
        for n in (1000, 1001, 1002, 30_000):
            run(torch.ones(n, 5))
        assert [key[0] for key in only(made).captures] == [30_000]  # larger than the bound, but needed
        run(torch.ones(8, 5))
    assert [key[0] for key in only(made).captures] == [8]


def test_bounds_are_checked() -> None:
    with pytest.raises(ArgumentError, match="captures = 0"):
        npugraph_ex.set_capture_bounds(captures=0)


# --- the facade ---


def test_compile_fx_in_a_backend_of_ones_own() -> None:
    def own(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return aot_module_simplified(
            gm, inputs, fw_compiler=npugraph_ex.compile_fx, keep_inference_input_mutations=True
        )

    x = torch.randn(3)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(affine, backend=own)(x), affine(x), rtol=0, atol=0)


def test_compile_fx_takes_inputs_from_the_graph() -> None:
    gm = make_fx(affine, tracing_mode="fake")(torch.ones(3))
    run = npugraph_ex.compile_fx(gm, options={"clone_output": False})
    x = torch.randn(3)
    (first,) = run(x)
    (second,) = run(x)
    torch.testing.assert_close(second, affine(x), rtol=0, atol=0)
    assert first.data_ptr() == second.data_ptr()


def test_compile_fx_refuses_unknown_options_directly() -> None:
    gm = make_fx(affine, tracing_mode="fake")(torch.ones(3))
    with pytest.raises(ValueError, match="no_such_option") as caught:
        npugraph_ex.compile_fx(gm, [torch.ones(3)], {"no_such_option": True})
    assert isinstance(caught.value, UnknownOptionError)


def test_other_inputs_are_refused() -> None:
    gm = make_fx(affine, tracing_mode="fake")(torch.ones(3))
    run = npugraph_ex.get_compiler()(gm, [torch.ones(3)])
    for wrong in ([torch.ones(4)], [torch.ones(3, dtype=torch.float64)], [torch.ones(3), torch.ones(3)], [1.0]):
        with pytest.raises(GraphInputError):
            run(*wrong)
    assert run(torch.zeros(3))[0].tolist() == [1.0] * 3


def test_the_backend_of_the_facade_takes_no_configuration_of_the_other_mode() -> None:
    with pytest.raises(ConfigTypeError, match="is for GE mode"):
        npugraph_ex.get_npu_backend(compiler_config=torchair.CompilerConfig())
    config = torchair.CompilerConfig()
    config.mode = "npugraph_ex"
    assert npugraph_ex.get_npu_backend(compiler_config=config).keywords["compiler_config"] is config
