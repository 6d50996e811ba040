"""The checker against traces with known deadlocks, and against trying all orders."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from hypothesis import given, settings, strategies as st

from tests.errors.texts import raised
from torchair.errors import ArgumentError, TraceFileError
from torchair.trace import Task, Trace, check_deadlocks, read_trace
from torchair.trace.order import matching_records, order_of

SAMPLES = Path(__file__).parent / "samples"


def comm(stream: int, number: int, blocks: int = 30, *, type: str = "AIVEC", ratio: str | None = None, **more) -> Task:
    return Task(f"aiv_{number}", f"stream{stream}", number, float(number), 1.0, type, blocks, 1, ratio, **more)


def record(stream: int, number: int, event: str) -> Task:
    return Task(f"EVENT_RECORD_{event}", f"stream{stream}", number, float(number), 1.0, "EVENT_RECORD", event=event)


def wait(stream: int, number: int, event: str) -> Task:
    return Task(f"EVENT_WAIT_{event}", f"stream{stream}", number, float(number), 1.0, "EVENT_WAIT", event=event)


def pairs(*tasks: Task, total: int = 48) -> list[tuple[int, int]]:
    report = check_deadlocks(Trace(()).with_tasks(tasks), total)
    return [(c.first.number, c.second.number) for c in report.conflicts]


def test_the_sum_has_to_be_greater() -> None:
    assert pairs(comm(0, 0, 32), comm(1, 1, 24)) == [(0, 1)]
    assert pairs(comm(0, 0, 24), comm(1, 1, 24)) == []
    assert pairs(comm(0, 0, 32), comm(1, 1, 24), total=56) == []


def test_one_stream_is_in_order() -> None:
    assert pairs(comm(0, 0), comm(0, 1)) == []


def test_events_order_what_is_before_and_after_them() -> None:
    ordered = (comm(0, 0), record(0, 1, "a"), wait(1, 2, "a"), comm(1, 3))
    assert pairs(*ordered) == []
    assert pairs(record(0, 0, "a"), comm(0, 1), wait(1, 2, "a"), comm(1, 3)) == [(1, 3)]
    assert pairs(comm(0, 0), record(0, 1, "a"), comm(1, 2), wait(1, 3, "a")) == [(0, 2)]
    # over a third stream
    assert pairs(comm(0, 0), record(0, 1, "a"), wait(2, 2, "a"), record(2, 3, "b"), wait(1, 4, "b"), comm(1, 5)) == []


def test_other_processes_have_other_cores_and_events() -> None:
    assert pairs(comm(0, 0), comm(1, 1, process=1)) == []
    other = Task("EVENT_WAIT_a", "stream1", 2, 2.0, 1.0, "EVENT_WAIT", event="a", process=1)
    assert matching_records(Trace(()).with_tasks([record(0, 1, "a"), other])) == {}


def test_tasks_that_need_not_start_together() -> None:
    loose = Task("aiv_x", "stream1", 1, 1.0, 1.0, "AIVEC", 40, 0)
    report = check_deadlocks(Trace(()).with_tasks([comm(0, 0), loose]))
    assert not report.deadlock
    assert report.warnings == (
        "[stream1 TaskId=1] aiv_x: Schem Mode is 0, not 1: its blocks need not start together, so it is not looked at",
    )


@pytest.mark.parametrize(
    ("type", "ratio", "cores"),
    [
        ("AI_VECTOR_CORE", None, 20),
        ("KERNEL_AIVEC", None, 20),
        ("KERNEL_MIX_AIV", "1:2", 20),
        ("COMMUNICATION", None, 20),
        ("MIX_AIC", "0", 0),
        ("MIX_AIC", "1:0", 0),
        ("MIX_AIC", "1:1", 40),
        ("KERNEL_MIX_AIC", "1:2", 40),
        ("AI_CORE", None, 0),
        ("KERNEL_AICORE", None, 0),
    ],
)
def test_cores_by_type(type, ratio, cores) -> None:
    tasks = (comm(0, 0, 20, type=type, ratio=ratio), comm(1, 1, 100))
    report = check_deadlocks(Trace(()).with_tasks(tasks), 100)
    assert [c.cores for c in report.conflicts] == ([(cores, 100)] if cores else [])
    assert report.warnings == ()


def test_an_unknown_type_counts_its_blocks() -> None:
    report = check_deadlocks(Trace(()).with_tasks([comm(0, 0, 20, type="NEW"), comm(1, 1, 30)]))
    assert len(report.conflicts) == 1
    assert "task type 'NEW', which is not known" in report.warnings[0]


def test_names_that_communicate() -> None:
    names = ("aiv_all_reduce", "x_AIV_y", "hccl_aiv_z", "MoeDistributeDispatchV2", "moe_COMBINE", "plain")
    found = []
    for name in names:
        task = Task(name, "stream1", 1, 1.0, 1.0, "AIVEC", 40, 1)
        found.append(bool(pairs(comm(0, 0), task)))
    assert found == [True] * 5 + [False]
    assert pairs(comm(0, 0), Task("plain", "stream1", 1, 1.0, 1.0, "COMMUNICATION", 40, 1)) == [(0, 1)]


def test_what_a_trace_does_not_say() -> None:
    lacking = Task("aiv_x", "stream1", 7, 1.0, 1.0, "AIVEC", None, 1)
    assert_expected_inline(
        raised(lambda: pairs(lacking), TraceFileError),
        """\
A communication task does not say how many cores it takes [TA601]
  why:
    [stream1 TaskId=7] aiv_x has no Numblocks among its args
  fix:
    Add it to the trace: "args": {"TaskId": 7, "Numblocks": ...}.""",
    )
    assert "Task Ration" in raised(lambda: pairs(comm(0, 0, type="MIX_AIC")), TraceFileError)
    assert "Ratios are 0, 1:0" in raised(lambda: pairs(comm(0, 0, type="MIX_AIC", ratio="3:7")), TraceFileError)
    for total in (0, -1, True, 4.5):
        with pytest.raises(ArgumentError, match="number of vector cores"):
            check_deadlocks(Trace(()), total)  # type: ignore[arg-type]


def test_waits_that_go_round() -> None:
    add = Task("add", "stream0", 1, 1.0, 1.0, "AIVEC")
    mul = Task("mul", "stream1", 4, 4.0, 1.0, "AIVEC")
    tasks = [wait(0, 0, "b"), add, record(0, 2, "a"), wait(1, 3, "a"), mul, record(1, 5, "b"), wait(2, 6, "b")]
    report = check_deadlocks(Trace(()).with_tasks(tasks))
    assert_expected_inline(
        str(report),
        """\
[RESULT] Deadlock risk detected! 1 circle(s) of waits:

  CIRCLE: [stream0 TaskId=0] EVENT_WAIT_b (before add)  ->  [stream1 TaskId=5] EVENT_RECORD_b (after mul)  ->  [stream1 TaskId=4] mul  ->  [stream1 TaskId=3] EVENT_WAIT_a (before mul)  ->  [stream0 TaskId=2] EVENT_RECORD_a (after add)  ->  [stream0 TaskId=1] add  ->  [stream0 TaskId=0] EVENT_WAIT_b""",  # noqa: E501
    )
    stuck = [task.name for task in report.marked.tasks if task.name.startswith("dead_lock_")]
    assert stuck == ["dead_lock_EVENT_WAIT_b", "dead_lock_EVENT_WAIT_a", "dead_lock_EVENT_WAIT_b"]


def test_a_wait_for_nothing() -> None:
    report = check_deadlocks(Trace(()).with_tasks([wait(0, 0, "a"), comm(0, 1)]))
    assert report.warnings == ("[stream0 TaskId=0] EVENT_WAIT_a waits for an event that nothing records",)


def test_events_that_are_recorded_again() -> None:
    # The second wait is for the second record: what is between the records is ordered before it.
    again = [record(0, 0, "a"), wait(1, 1, "a"), comm(0, 2), record(0, 3, "a"), wait(1, 4, "a"), comm(1, 5)]
    assert pairs(*again) == []
    # One wait, long before the second record.
    assert pairs(record(0, 0, "a"), wait(1, 1, "a"), comm(0, 3), comm(1, 4), record(0, 5, "a")) == [(3, 4)]


def test_virtual_streams() -> None:
    report = check_deadlocks(read_trace(SAMPLES / "virtual_streams.json"))
    assert [(c.first.number, c.second.number) for c in report.conflicts] == [(3, 2)]
    assert {task.stream for task in report.filtered.tasks} == {"stream5", "stream6", "stream7"}
    # Without the merge, what the first stream does before it goes on as another one would be in conflict, too.
    late = check_deadlocks(read_trace(SAMPLES / "virtual_streams.json"), merge_gap=1.0)
    assert [(c.first.number, c.second.number) for c in late.conflicts] == [(0, 2), (3, 2)]


def test_a_named_virtual_stream() -> None:
    active = Task("STREAM_ACTIVE", "stream0", 1, 1.0, 1.0, "STREAM_ACTIVE", args={"Active Stream": 2})
    tasks = [comm(0, 0), active, comm(1, 3), comm(2, 4)]
    assert pairs(*tasks) == [(0, 3), (3, 4)]
    back = Task("STREAM_ACTIVE", "stream2", 5, 5.0, 1.0, "STREAM_ACTIVE", args={"Active Stream": "stream0"})
    assert pairs(*tasks, back) == [(0, 3), (3, 4)]


def test_missing_waits() -> None:
    maker = Task("make", "stream1", 0, 0.0, 1.0, "AIVEC")
    user = Task("use", "stream0", 1, 1.0, 1.0, "AIVEC", unordered=(0, 99))
    report = check_deadlocks(Trace(()).with_tasks([maker, user]))
    assert report.found
    assert not report.deadlock
    assert_expected_inline(
        str(report),
        """\
[RESULT] Missing wait! 1 pair(s) of tasks that nothing orders:

  MISSING WAIT: [stream1 TaskId=0] make  ->  [stream0 TaskId=1] use
[RESULT] No deadlock risks detected.""",
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to eight tasks on three streams; waits are for any record."""
    tasks: list[Task] = []
    for i in range(draw(st.integers(1, 8))):
        stream = draw(st.integers(0, 2))
        kind = draw(st.sampled_from("rwc"))
        if kind == "c":
            tasks.append(comm(stream, i))
        else:
            tasks.append((record if kind == "r" else wait)(stream, i, draw(st.sampled_from("ab"))))
    return Trace(()).with_tasks(tasks)


@given(traces())
@settings(max_examples=100, deadline=None)
def test_clocks_agree_with_all_orders(trace) -> None:
    order = order_of(trace)
    count = len(trace.tasks)
    needs = {i: {order.record_of[i]} if i in order.record_of else set() for i in range(count)}
    for a, b in itertools.combinations(range(count), 2):
        if trace.tasks[a].stream == trace.tasks[b].stream:
            needs[b].add(a)
    before = {i: set(n) for i, n in needs.items()}
    for _ in range(count):
        for i in range(count):
            before[i] |= set().union(*(before[n] for n in before[i])) if before[i] else set()
    stuck = {i for i in range(count) if any(n in before[n] for n in (before[i] | {i}))}
    assert {i for i, clock in enumerate(order.clocks) if clock is None} == stuck
    for a, b in itertools.permutations(set(range(count)) - stuck, 2):
        assert order.before(a, b) == (a in before[b])
    assert bool(order.circles()) == bool(stuck)
    for circle in order.circles():
        for i, n in zip(circle, [*circle[1:], circle[0]], strict=True):
            assert n in needs[i]
