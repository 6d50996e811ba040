"""Launch cost and capture time, with variants and a compiler of the test's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, fx

import npugraph_ex
from benchmarks.harness import Variant
from benchmarks.tables import capture_scaling, launch_cost, operator_graph
from tests.benchmarks.fakes import TICK, FakeClock
from torchair.errors import UnavailableFeatureError

CPU = torch.device("cpu")


@pytest.mark.parametrize("size", [1, 7, 500])
def test_operator_graph_has_the_size_asked_for(size: int) -> None:
    graph, inputs = operator_graph(size, CPU)
    assert len(_calls(graph)) == size
    (result,) = graph(*inputs)
    assert result.shape == (8, 8)
    assert result.isfinite().all()


def _calls(graph: fx.GraphModule) -> list[fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "call_function"]


def test_launch_cost_is_the_difference() -> None:
    clock = FakeClock()

    def compile_(function: Callable[..., Any]) -> Callable[..., Any]:
        # 5 ticks a call, and one more for each operator.
        ticks = 65 if function.__name__.startswith("tiny60") else 6

        def call(*args: Any) -> Any:
            return clock.taking(ticks * TICK, lambda: function(*args))()

        return call

    def wrong(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: function(*args) + 1

    table = launch_cost([Variant("ours", "", compile_), Variant("wrong", "", wrong)], CPU, clock.timing(2, 1))
    ours, other = table.rows
    assert ours[0] == "ours"
    assert ours[3] == pytest.approx(1e6 * TICK)
    assert other[1:6] == (None,) * 5
    assert str(other[6]).startswith("wrong: argument set 0")
    assert table.failed


def compiler(clock: FakeClock, change: Callable[[Tensor], Tensor]) -> Any:
    """Compiles a graph in 2 ticks an operator; the first run takes 3 ticks an operator, the others 1 tick."""

    def compile_fx(gm: fx.GraphModule, _: Sequence[Any], options: Mapping[str, Any] | None = None) -> Any:
        assert options is None
        size = len(_calls(gm))
        clock.now += 2 * size * TICK
        runs: list[None] = []

        def run(*args: Tensor) -> tuple[Tensor, ...]:
            clock.now += TICK if runs else 3 * size * TICK
            runs.append(None)
            return tuple(change(out) for out in gm(*args))

        return run

    return compile_fx


def test_capture_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(npugraph_ex, "compile_fx", compiler(clock, lambda out: out))
    table = capture_scaling((4, 8), CPU, clock.timing(), repeats=2)
    for n, row in zip((4, 8), table.rows, strict=True):
        assert row[:3] == (float(n), 2 * n * TICK, 3 * n * TICK)
        assert row[3] == pytest.approx(5e6 * TICK)
        assert row[4:] == (1e3 * TICK, "")
    assert not table.failed


def test_capture_with_wrong_numbers_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(npugraph_ex, "compile_fx", compiler(clock, lambda out: out + 1))
    table = capture_scaling((4,), CPU, clock.timing())
    assert table.rows[0][-1] == "wrong: differs from eager"
    assert table.failed


@pytest.mark.parametrize(
    ("error", "remark", "failed"),
    [
        (UnavailableFeatureError("A feature is not in this version"), "not available: .*", False),
        (RuntimeError("no\nmore"), "failed: RuntimeError: no", True),
    ],
    ids=["not available", "failed"],
)
def test_capture_that_raises(monkeypatch: pytest.MonkeyPatch, error: Exception, remark: str, failed: bool) -> None:
    def compile_fx(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(npugraph_ex, "compile_fx", compile_fx)
    table = capture_scaling((4, 8), CPU, FakeClock().timing())
    assert [row[0] for row in table.rows] == [4.0, 8.0]
    assert re.fullmatch(remark, str(table.rows[1][-1]))
    assert table.failed == failed
