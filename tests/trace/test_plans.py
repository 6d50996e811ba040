"""Plans as traces: lanes, launches, events, cores, times; and what the checker says of them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline

from torchair.runtime.plan import Call, Callback, Plan, Slot, Step
from torchair.trace import check_deadlocks, plan_trace, read_trace

aten = torch.ops.aten
CORES = "[SoCInfo]\nai_core_cnt=24\ncube_core_cnt=24\nvector_core_cnt=48\n"


@pytest.fixture(autouse=True)
def _platform(tmp_path, monkeypatch) -> None:
    """The device of the guide: 24 cube cores, 48 vector cores."""
    path = tmp_path / "platform.ini"
    path.write_text(CORES)
    monkeypatch.setenv("TORCHAIR_PLATFORM_CONFIG", str(path))


def step(label: str, lane: int = 0, after: tuple[int, ...] = (), cores: int = 0, op: Any = aten.add.Tensor) -> Step:
    return Step(Call(op, (Slot(0), Slot(0)), (1,)), (), label, "", lane, after, cores)


def comm(label: str, lane: int, after: tuple[int, ...] = (), cores: int = 0) -> Step:
    return Step(Callback(lambda values: values, (0,), (1,)), (), f"_c10d_functional.{label}", "", lane, after, cores)


def plan(*steps: Step, **more: Any) -> Plan:
    lanes = max(s.lane for s in steps) + 1
    labels = ("", *(f"s{n}" for n in range(1, lanes)))
    return Plan(2, 1, {}, (), 0, 0, (), (), (), steps, (1,), lanes=labels, **more)


def shown(found) -> str:
    return "\n".join(
        f"{t.stream} {t.number} {t.name} {t.type} {t.blocks} {t.schedule_mode} {t.start:g}-{t.end:g}"
        for t in found.tasks
    )


DIAMOND = (
    step("begin"),
    step("left", 0, cores=2),
    step("right", 1, after=(0,), op=aten.mm.default),
    step("end", 0, after=(2,)),
)


def test_lanes_events_and_cores() -> None:
    assert_expected_inline(
        shown(plan_trace(plan(*DIAMOND))),
        """\
stream0 0 begin AI_VECTOR_CORE 48 0 0-1
stream1 3 EVENT_WAIT_0 EVENT_WAIT None None 0-2.2
stream0 1 EVENT_RECORD_0 EVENT_RECORD None None 1.2-2.2
stream0 2 left AI_VECTOR_CORE 2 0 2.4-3.4
stream1 4 right AI_CORE 24 0 2.4-3.4
stream1 5 EVENT_RECORD_1 EVENT_RECORD None None 3.6-4.6
stream0 6 EVENT_WAIT_1 EVENT_WAIT None None 3.6-4.6
stream0 7 end AI_VECTOR_CORE 48 0 4.8-5.8""",
    )


def test_the_file(tmp_path) -> None:
    trace = plan_trace(plan(*DIAMOND), "graph_3")
    trace.write(tmp_path / "x.json")
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    names = [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] != "thread_sort_index"]
    assert names == ["graph_3", "stream0 (default)", "stream1 (s1)"]
    (left,) = (e for e in events if e["name"] == "left")
    expected = {"TaskId": 2, "Task Type": "AI_VECTOR_CORE", "Numblocks": 2, "Schem Mode": 0, "Cores": 2}
    assert left["args"] == expected
    arrows = [(e["ph"], e["tid"]) for e in events if e["ph"] in "sf"]
    assert arrows == [("s", "stream0"), ("f", "stream1"), ("s", "stream1"), ("f", "stream0")]
    assert [t.as_event() for t in read_trace(tmp_path / "x.json").tasks] == [t.as_event() for t in trace.tasks]


def test_measured_times() -> None:
    times = [(10.0, 10.001), (10.001, 10.004), (10.002, 10.003), (10.004, 10.006)]
    found = plan_trace(plan(*DIAMOND), times=times)
    spans = {t.name: (round(t.start), round(t.end)) for t in found.tasks}
    assert spans == {
        "begin": (0, 1000),
        "EVENT_RECORD_0": (1000, 1000),
        "EVENT_WAIT_0": (0, 1000),
        "left": (1000, 4000),
        "right": (2000, 3000),
        "EVENT_RECORD_1": (3000, 3000),
        "EVENT_WAIT_1": (4000, 4000),
        "end": (4000, 6000),
    }


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize(("cores", "conflict"), [((0, 0), True), ((32, 24), True), ((24, 24), False)])
def test_a_seeded_deadlock(cores, conflict, wait) -> None:
    after = (0,) if wait else ()
    found = plan_trace(plan(comm("all_reduce", 0, cores=cores[0]), comm("all_gather", 1, after, cores=cores[1])))
    report = check_deadlocks(found, 48)
    assert [(c.first.name, c.second.name) for c in report.conflicts] == (
        [("_c10d_functional.all_reduce", "_c10d_functional.all_gather")] if conflict and not wait else []
    )


def test_what_waits_for_a_collective_communicates_not() -> None:
    found = plan_trace(plan(comm("all_reduce", 0), comm("wait_tensor", 1)))
    assert [t.type for t in found.tasks] == ["COMMUNICATION", "AI_CPU"]


def test_steps_that_wait_for_each_other() -> None:
    found = plan_trace(plan(step("a", 0, after=(1,)), step("b", 1, after=(0,))))
    report = check_deadlocks(found)
    assert len(report.circles) == 1
    assert {"a", "b"} <= {word for text in report.circles[0] for word in text.split()}


def test_a_missing_wait_is_named() -> None:
    given = plan(step("make", 1), step("use", 0, after=(0,)), unordered=((0, 1),))
    report = check_deadlocks(plan_trace(given))
    assert [(a.name, b.name) for a, b in report.missing] == [("make", "use")]
    assert check_deadlocks(plan_trace(dataclasses.replace(given, unordered=()))).missing == ()
