"""From ``torch.compile`` to lanes of plans, in both modes: results, which lane runs what, who waits, what is told."""

from __future__ import annotations

import logging
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor, nn

import npugraph_ex
import torchair
from tests.errors.texts import raised
from torchair.errors import ArgumentError, ScopeError, TorchAirError
from torchair.pipeline.explain import captured_graphs
from torchair.runtime.order import order_problems
from torchair.runtime.plan import Plan

#: Tests pass what annotations forbid.
ops: Any = torchair.ops
scope: Any = torchair.scope

MODES = ["npugraph_ex", "GE mode"]


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def backend(mode: str) -> Any:
    if mode == "npugraph_ex":
        return npugraph_ex.get_npu_backend()
    config = torchair.CompilerConfig()
    config.engine = "native"
    return torchair.get_npu_backend(compiler_config=config)


def compiled(function: Callable[..., Any], mode: str, dynamic: bool | None = None) -> Any:
    return torch.compile(function, backend=backend(mode), fullgraph=True, dynamic=dynamic)


def plans(run: Any) -> list[Plan]:
    """What a compiled function was captured as; checked."""
    found = [capture.plan for _, graph in captured_graphs(run) for capture in graph.captures.values()]
    for plan in found:
        assert order_problems(plan) == []
    return found


def steps(run: Any) -> str:
    """Of the one plan: each step with its stream and what it waits for."""
    (plan,) = plans(run)
    lines = []
    for i, step in enumerate(plan.steps):
        name = step.label.partition(" ")[0].removesuffix(".default").removesuffix(".Tensor")
        after = f" after {', '.join(map(str, step.after))}" if step.after else ""
        lines.append(f"{i} {plan.lanes[step.lane] or 'default'}: {name}{after}")
    return "\n".join(lines)


def agrees(run: Any, function: Callable[..., Any], *inputs: Tensor, calls: int = 3) -> None:
    """Results, and what becomes of the inputs, are those of eager mode."""
    with torch.no_grad():
        for i in range(calls):
            mine = [x + i if x.is_floating_point() else x.clone() for x in inputs]
            theirs = [x.clone() for x in mine]
            torch.testing.assert_close(run(*mine), function(*theirs))
            torch.testing.assert_close(mine, theirs)


# Sorting and sums of what came before are calls in both modes: no native program does them.


def sums(x: Tensor) -> Tensor:
    return torch.cumsum(torch.sort(x).values, 0)


def two_streams(x: Tensor) -> Tensor:
    with scope.npu_stream_switch("side"):
        a = torch.sort(x).values
        token = ops.record()
        b = torch.cumsum(a, 0)
    c = torch.sort(-x).values
    ops.wait([token])
    d = torch.cumsum(c, 0)
    ops.wait([b])
    return torch.cat((d, b))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_records_and_waits_become_lanes(mode, dynamic) -> None:
    run = compiled(two_streams, mode, dynamic)
    agrees(run, two_streams, torch.randn(6, 4))
    (plan,) = plans(run)
    assert plan.lanes == ("", "side")
    assert plan.unordered == ()


def test_lanes_in_npugraph_ex() -> None:
    run = compiled(two_streams, "npugraph_ex", False)
    agrees(run, two_streams, torch.randn(6, 4))
    assert_expected_inline(
        steps(run),
        """\
0 side: aten.sort
1 side: aten.cumsum
2 default: aten.neg
3 default: aten.sort
4 default: aten.cumsum after 0
5 default: aten.cat after 1""",
    )


def test_lanes_in_ge_mode() -> None:
    run = compiled(two_streams, "GE mode", False)
    agrees(run, two_streams, torch.randn(6, 4))
    assert_expected_inline(
        steps(run),
        """\
0 side: aten.sort.stable
1 side: aten.cumsum
2 default: native
3 default: aten.sort.stable
4 default: aten.cumsum after 0
5 default: native after 1""",
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_trace_shows_both_lanes(mode) -> None:
    run = compiled(two_streams, mode, False)
    x = torch.randn(6, 4)
    run(x)
    with torchair.record_trace(run) as recorded:
        torch.testing.assert_close(run(x), two_streams(x))
    (plan,) = plans(run)
    launches = [[task for task in lane if not task.event] for lane in recorded.trace.streams.values()]
    assert sorted(map(len, launches)) == sorted(sum(s.lane == lane for s in plan.steps) for lane in (0, 1))
    assert all(task.duration > 0 for lane in launches for task in lane)
    waits = [task for lane in recorded.trace.streams.values() for task in lane if task.name.startswith("EVENT_WAIT")]
    assert len(waits) == sum(len(step.after) for step in plan.steps)


class TwoBranches(nn.Module):
    """Of layers, on two streams; weights are transposed, which is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.right = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        left = right = x
        with scope.npu_stream_switch("right"):
            for layer in self.right:
                right = torch.tanh(layer(right))
        for layer in self.left:
            left = torch.tanh(layer(left))
        ops.wait([right])
        return left + right


@pytest.mark.parametrize("mode", MODES)
def test_views_of_parameters_are_no_launches(mode) -> None:
    module = TwoBranches().eval()
    run = compiled(module, mode, False)
    agrees(run, module, torch.randn(32, 8))
    (plan,) = plans(run)
    assert not [step.label for step in plan.steps if "permute" in step.label or "aten.t." in step.label]
    assert len(plan.steps) == 9
    assert len(plan.kept_views) == 4
    with torch.no_grad():
        for parameter in module.left.parameters():
            parameter.mul_(2)
    module.right[1].weight = nn.Parameter(torch.randn(8, 8))
    agrees(run, module, torch.randn(32, 8))


# --- events with tags, memory that is kept, limits: capture mode ---


def test_tagged_events() -> None:
    event = ops.npu_create_tagged_event("test_tagged_events, made outside")

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        inside = event
        if torch.compiler.is_compiling():  # once; in eager mode each call would create it
            inside = ops.npu_create_tagged_event("test_tagged_events, made inside")
        a = torch.sort(x).values
        ops.npu_tagged_event_record(inside)
        with scope.npu_stream_switch("side"):
            ops.npu_tagged_event_wait(inside)
            b = torch.cumsum(a, 0)
            ops.npu_tagged_event_record(event)
            c = torch.cumsum(b, 0)
        ops.npu_tagged_event_wait(event)
        d = torch.cumsum(b, 1)
        ops.wait([c])
        return d, c.clone()

    run = compiled(program, "npugraph_ex", False)
    agrees(run, program, torch.randn(6, 4))
    (plan,) = plans(run)
    assert plan.unordered == ()
    assert_expected_inline(
        steps(run),
        """\
0 default: aten.sort
1 side: aten.cumsum after 0
2 side: aten.cumsum
3 default: aten.cumsum after 1""",
    )


def test_memory_is_kept_for_a_stream() -> None:
    def program(x: Tensor, keep: bool) -> Tensor:
        with scope.npu_stream_switch("side"):
            first = torch.cumsum(x, 0)
        y = torch.sort(x).values
        if keep:
            ops.npu_record_tagged_stream(y, "side")
        z = torch.cumsum(y, 0)
        for _ in range(3):
            z = torch.cumsum(z, 0)
        ops.wait([first])
        return torch.cat((z, first))

    found = {}
    for keep in (False, True):
        run = torch.compile(program, backend=backend("npugraph_ex"), fullgraph=True, dynamic=False)
        x = torch.randn(16, 4)
        torch.testing.assert_close(run(x, keep), program(x, False))
        (found[keep],) = plans(run)
    # What is kept shares no bytes with values of the default stream.
    assert found[True].arena_bytes > found[False].arena_bytes


@pytest.mark.parametrize("mode", MODES)
def test_limits_of_cores(mode) -> None:
    def program(x: Tensor) -> Tensor:
        with scope.limit_core_num(1, 1):
            a = torch.sort(x).values
        return torch.cumsum(a, 0)

    run = compiled(program, mode, False)
    agrees(run, program, torch.randn(6, 4))
    (plan,) = plans(run)
    limits = {step.label.partition(" ")[0].split(".")[1]: step.limit for step in plan.steps}
    assert limits["sort"] == 1
    assert limits["cumsum"] == 0


# --- updates in place ---


class Counter(nn.Module):
    """Updates a buffer on one stream, and an input on another one; reads both."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        before = torch.sort(y, 0).values
        with scope.npu_stream_switch("a"):
            self.total.add_(x.sum(0))
            here = self.total * 2
        with scope.npu_stream_switch("b"):
            y.mul_(0.5)
            y[1:].add_(x[1:])
            there = y.t() + 1
        after = torch.sort(y, 0).values
        ops.wait([here, there])
        return before + after, here + self.total, there


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_updates_in_place(mode, dynamic) -> None:
    mine, theirs = Counter(), Counter()
    run = compiled(mine, mode, dynamic)
    for seed in range(4):
        torch.manual_seed(seed)
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        given, kept = y.clone(), y.clone()
        torch.testing.assert_close(run(x, given), theirs(x, kept))
        torch.testing.assert_close(given, kept)
        torch.testing.assert_close(mine.total, theirs.total)
    assert all(plan.lanes == ("", "a", "b") for plan in plans(run))


# --- what is told ---


def no_wait(x: Tensor) -> Tensor:
    with scope.npu_stream_switch("side"):
        a = torch.sort(x).values
    return torch.cumsum(a, 0)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The warnings so far."""
    for logger in (torchair.logger, npugraph_ex.logger):
        monkeypatch.setattr(logger, "propagate", True)
        caplog.set_level(logging.WARNING, logger=logger.name)
    return lambda: [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_missing_wait_is_told_once_in_npugraph_ex(told) -> None:
    run = compiled(no_wait, "npugraph_ex", False)
    agrees(run, no_wait, torch.randn(6, 4))
    (message,) = told()
    ((name, _),) = captured_graphs(run)
    assert_expected_inline(
        textwrap.fill(re.sub(r"[^\s(]*?(\w+\.py):\d+", r"\1:LINE", message).replace(name, "graph_N"), 110),
        """\
graph_N: a stream does not wait for what it uses. On the CPU it waits all the same; on a device it would be a
race. aten.cumsum.default (node cumsum) on stream default uses what aten.sort.default (node sort) on stream
side makes (test_streams.py:LINE, in no_wait: return torch.cumsum(a, 0))""",
    )


def test_a_missing_wait_is_none_in_ge_mode(told) -> None:
    run = compiled(no_wait, "GE mode", False)
    agrees(run, no_wait, torch.randn(6, 4))
    (plan,) = plans(run)
    assert plan.lanes == ("", "side")
    assert told() == []


# --- what is refused ---


def refused(function: Callable[..., Any], mode: str, kind: type[TorchAirError]) -> str:
    """The text of the error of the first call."""

    def call() -> None:
        try:
            torch.compile(function, backend=backend(mode), fullgraph=True)(torch.ones(2))
        except torch._dynamo.exc.BackendCompilerFailed as error:
            raise error.inner_exception from None

    return raised(call, kind)


@pytest.mark.parametrize("mode", MODES)
def test_scopes_that_contradict_each_other(mode) -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a", 0), scope.npu_stream_switch("a", 1):
            return x.sin()

    assert_expected_inline(
        refused(program, mode, ScopeError),
        """\
A scope contradicts the one around it [TA215]
  why:
    both have _user_stream_label='a'
    _user_stream_priority: '0' outside, '1' inside
  fix:
    Give both the same options, or the inner one another name.
  where:
    test_streams.py:LINE, in program: CODE""",
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_graph_break_inside_a_scope(mode) -> None:
    """Dynamo leaves such a function to Python, which knows no streams; ``fullgraph=True`` says where."""

    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a"):
            y = torch.sort(x).values
            torch._dynamo.graph_break()
            return torch.cumsum(y, 0)

    run = torch.compile(program, backend=backend(mode))
    agrees(run, program, torch.randn(6, 4))
    assert torchair.explain(run).graphs == ()
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"graph_break|graph break"):
        compiled(program, mode)(torch.randn(6, 4))


@pytest.fixture
def few_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    path = tmp_path / "platform.ini"
    path.write_text("[SoCInfo]\ncube_core_cnt=24\nvector_core_cnt=48\n")
    monkeypatch.setenv("TORCHAIR_PLATFORM_CONFIG", str(path))


@pytest.mark.usefixtures("few_cores")
@pytest.mark.parametrize("mode", MODES)
def test_more_cores_than_there_are(mode) -> None:
    def program(x: Tensor) -> Tensor:
        with scope.limit_core_num(24, 49):
            return x.sin()

    assert_expected_inline(
        refused(program, mode, ArgumentError),
        """\
A number of cores is out of range [TA210]
  why:
    limit_core_num was given op_vectorcore_num=49; here it is from 1 to 48
  fix:
    Give no more than there are; TORCHAIR_PLATFORM_CONFIG=/path/to/platform.ini describes another machine.
  where:
    test_streams.py:LINE, in program: CODE""",
    )


@pytest.mark.usefixtures("few_cores")
def test_more_cores_than_there_are_by_the_scope_of_npugraph_ex() -> None:
    def program(x: Tensor) -> Tensor:
        with npugraph_ex.scope.limit_core_num(25, 48):
            return x.sin()

    assert_expected_inline(
        refused(program, "npugraph_ex", ArgumentError),
        """\
A number of cores is out of range [TA210]
  why:
    limit_core_num was given op_aicore_num=25; here it is from 1 to 24
  fix:
    Give no more than there are; TORCHAIR_PLATFORM_CONFIG=/path/to/platform.ini describes another machine.
  where:
    test_streams.py:LINE, in program: CODE""",
    )


@pytest.mark.parametrize("mode", MODES)
def test_no_core(mode) -> None:
    """What is wrong whatever the machine is refused while Dynamo traces, which tells it in words of its own."""
    limit: Any = (npugraph_ex if mode == "npugraph_ex" else torchair).scope.limit_core_num

    def program(x: Tensor) -> Tensor:
        with limit(0, 48):
            return x.sin()

    with pytest.raises(torch._dynamo.exc.TorchDynamoException, match="op_aicore_num=0; it is at least 1"):
        compiled(program, mode)(torch.ones(2))
