"""A plan as a trace: lanes, launches, the events between them, cores (specification, M.1).

A step of another lane that has to be finished first becomes an ``EVENT_RECORD`` after that step and an ``EVENT_WAIT``
before this one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from torchair.config import CoreCounts, core_counts
from torchair.runtime.plan import Call, Callback, Item, Native, Plan, Step
from torchair.trace.align import aligned, arrows
from torchair.trace.order import order_of
from torchair.trace.tasks import Task, Trace, in_order

__all__ = ["PlanRun", "Times", "plan_trace", "runs_trace"]

#: When each step of a plan started and ended, in seconds of one clock.
Times = Sequence[tuple[float, float]]

#: ATen operators whose work is a product of matrices, before overload names.
_CUBE = re.compile(
    r"aten::(mm|bmm|addmm|baddbmm|addbmm|matmul|linear|mv|addmv|dot|convolution\w*|_?conv\w*|mkldnn_\w+|_int_mm|_scaled_mm)"
)
_MIXED = re.compile(r"aten::_?(scaled_dot_product|flash_attention|efficient_attention|native_multi_head)\w*")
#: Names of operators that communicate: functional collectives, and Ascend IR operators that became calls.
_COLLECTIVE = re.compile(
    r"(_c10d_functional\w*|c10d\w*)(::|\.)(?!wait_tensor|_wrap|barrier_wait)|torchair_ir(::|\.)Hcom"
)


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A run of a plan.

    Attributes:
        name: What is shown for it.
        plan: What ran.
        times: When each of its steps started and ended.
    """

    name: str
    plan: Plan
    times: Times


def runs_trace(runs: Sequence[PlanRun]) -> Trace:
    """Runs of plans, one process each, in the times of the first one's clock."""
    begin = min((start for run in runs for start, _ in run.times), default=0.0)
    found = [plan_trace(run.plan, run.name, run.times, process=i, begin=begin) for i, run in enumerate(runs)]
    arrows = [
        {**arrow, "id": f"{number}.{arrow['id']}"} for number, trace in enumerate(found) for arrow in trace.arrows
    ]
    return Trace(
        in_order(task for trace in found for task in trace.tasks),
        tuple(other for trace in found for other in trace.others),
        tuple(arrows),
    )


def plan_trace(
    plan: Plan, name: str = "graph", times: Times | None = None, *, process: int = 0, begin: float | None = None
) -> Trace:
    """The tasks of a plan.

    Args:
        plan: The plan.
        name: What the process is called.
        times: When each step ran, for a trace of a run; without it each task takes 1, in a legal order.
        process: Its number.
        begin: The time, of the same clock, that is 0 in the trace; that of the first step when omitted.

    Raises:
        ConfigFileNotFoundError, ConfigValueError: The platform description cannot be read.
    """
    counts = core_counts()
    recorded = {position for step in plan.steps for position in step.after}
    events = {position: str(number) for number, position in enumerate(sorted(recorded))}
    tasks: list[Task] = []
    numbers: dict[int, int] = {}

    def add(name: str, lane: int, type: str, event: str = "") -> int:
        number = len(tasks)
        tasks.append(Task(name, f"stream{lane}", number, float(number), 1.0, type, event=event, process=process))
        return number

    unordered: dict[int, list[int]] = {}
    for maker, user in plan.unordered:
        unordered.setdefault(user, []).append(maker)
    of_step: dict[int, int] = {}  # task number -> step
    for i, step in enumerate(plan.steps):
        for position in step.after:
            add(f"EVENT_WAIT_{events[position]}", step.lane, "EVENT_WAIT", events[position])
        kind = _kind(step)
        blocks = _blocks(step, kind, counts)
        numbers[i] = number = add(step.label, step.lane, kind.type)
        of_step[number] = i
        tasks[number] = dataclasses.replace(
            tasks[number],
            blocks=blocks,
            schedule_mode=int(kind.together),
            ratio=kind.ratio,
            unordered=tuple(numbers[m] for m in unordered.get(i, ()) if m in numbers),
            args={**({"Cores": step.cores} if step.cores else {}), **({"Where": step.where} if step.where else {})},
        )
        if i in events:
            add(f"EVENT_RECORD_{events[i]}", step.lane, "EVENT_RECORD", events[i])
    trace = Trace(tuple(tasks), tuple(_names(plan, name, process)))
    if times is not None:
        return _measured(trace, of_step, times, begin)
    return aligned(trace) if len(order_of(trace).sorted) == len(tasks) else trace


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a step does.

    Attributes:
        type: Its task type.
        ratio: Cube to vector cores, where it uses both.
        together: All its blocks start together.
    """

    type: str
    ratio: str | None = None
    together: bool = False


_VECTOR = _Kind("AI_VECTOR_CORE")


def _kind(step: Step) -> _Kind:
    launch = step.launch
    name = launch.op._schema.name if isinstance(launch, Call) else step.label
    if _COLLECTIVE.match(name):
        return _Kind("COMMUNICATION", together=True)
    if isinstance(launch, Callback):
        return _Kind("AI_CPU")
    if isinstance(launch, Item):
        return _Kind("AI_CPU")
    if isinstance(launch, Native):
        return _VECTOR
    return _Kind("AI_CORE") if _CUBE.fullmatch(name) else _Kind("MIX_AIC", "1:2") if _MIXED.fullmatch(name) else _VECTOR


def _blocks(step: Step, kind: _Kind, counts: CoreCounts) -> int:
    """Cores that a step may use: all of its kind unless it is limited."""
    if kind.type == "AI_CPU":
        return 1
    if step.cores:
        return step.cores
    if isinstance(step.launch, Native) and step.launch.workers:
        return min(step.launch.workers, counts.for_vector)
    return counts.cube if kind.type in ("AI_CORE", "MIX_AIC") else counts.for_vector


def _names(plan: Plan, name: str, process: int) -> list[dict[str, object]]:
    """Events that name the process and the streams."""
    named: list[dict[str, object]] = [{"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}]
    for lane, label in enumerate(plan.lanes):
        text = f"stream{lane} ({label or 'default'})"
        named.append({"ph": "M", "name": "thread_name", "pid": process, "tid": f"stream{lane}", "args": {"name": text}})
        named.append(
            {
                "ph": "M",
                "name": "thread_sort_index",
                "pid": process,
                "tid": f"stream{lane}",
                "args": {"sort_index": lane},
            }
        )
    return named


def _measured(trace: Trace, of_step: dict[int, int], times: Times, begin: float | None) -> Trace:
    """The trace with the times of a run, in microseconds."""
    begin = min((start for start, _ in times), default=0.0) if begin is None else begin
    order = order_of(trace)
    free: dict[str, float] = {}
    moved = list(trace.tasks)
    ends: dict[int, float] = {}
    for i in order.sorted:
        task = trace.tasks[i]
        if task.number in of_step:
            start, end = ((at - begin) * 1e6 for at in times[of_step[task.number]])
        else:
            start = end = free.get(task.stream, 0.0)
            record = order.record_of.get(i)
            if record is not None:
                end = max(end, ends[record])
        free[task.stream] = ends[i] = end
        moved[i] = dataclasses.replace(task, start=start, duration=max(end - start, 0.0))
    pairs = [(moved[record], moved[wait]) for wait, record in order.record_of.items()]
    return trace.with_tasks(moved, arrows(pairs))
