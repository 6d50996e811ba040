"""``deadlock_check``: tasks of streams that could wait for each other forever (specification, F-46 and F-119)."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchair.errors import ArgumentError
from torchair.trace.align import arrows
from torchair.trace.filtering import beside, filtered, merged_streams
from torchair.trace.kinds import is_communication, is_control, is_record, is_wait, vector_cores
from torchair.trace.order import Order, order_of
from torchair.trace.tasks import Stream, Task, Trace, read_trace

__all__ = ["TOTAL", "Conflict", "DeadlockReport", "check_deadlocks", "deadlock_check"]

#: Vector cores of the device that the guide speaks of.
TOTAL = 48

#: How a task that cannot finish is called.
PREFIX = "dead_lock_"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two tasks that need more cores than there are, if they start at the same time, and nothing keeps them from it.

    Attributes:
        first: One of them.
        second: The other one.
        cores: How many vector cores each of them takes at once.
        total: How many there are.
    """

    first: Task
    second: Task
    cores: tuple[int, int]
    total: int

    def __str__(self) -> str:
        shown = [f"{task} ({n} AIVEC)" for task, n in zip((self.first, self.second), self.cores, strict=True)]
        return f"CONFLICT: {shown[0]}  <->  {shown[1]}  sum={sum(self.cores)} > {self.total}"


@dataclass(frozen=True, slots=True)
class DeadlockReport:
    """What a check found; printing it gives the lines of the guide.

    Attributes:
        conflicts: Pairs of communication tasks that can keep each other from starting.
        circles: Waits that never end, since what they wait for comes after them; as texts, who waits for whom.
        missing: Pairs of tasks, maker and user, that nothing orders.
        warnings: What the check could not tell.
        marked: The trace with what cannot finish marked; control and communication tasks only.
        filtered: That trace as it was.
    """

    conflicts: tuple[Conflict, ...]
    circles: tuple[tuple[str, ...], ...]
    missing: tuple[tuple[Task, Task], ...]
    warnings: tuple[str, ...]
    marked: Trace
    filtered: Trace

    @property
    def deadlock(self) -> bool:
        """Whether tasks may wait for each other forever."""
        return bool(self.conflicts or self.circles)

    @property
    def found(self) -> bool:
        """Whether there is something to mend."""
        return self.deadlock or bool(self.missing)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from (f"[WARNING] {warning}" for warning in self.warnings)
        if self.missing:
            yield f"[RESULT] Missing wait! {len(self.missing)} pair(s) of tasks that nothing orders:"
            yield from _block(f"MISSING WAIT: {maker}  ->  {user}" for maker, user in self.missing)
        if not self.deadlock:
            yield "[RESULT] No deadlock risks detected."
        if self.conflicts:
            yield f"[RESULT] Deadlock risk detected! {len(self.conflicts)} conflicting pair(s):"
            yield from _block(self.conflicts)
        if self.circles:
            yield f"[RESULT] Deadlock risk detected! {len(self.circles)} circle(s) of waits:"
            yield from _block("CIRCLE: " + "  ->  ".join(circle) for circle in self.circles)


def _block(lines: Iterable[object]) -> Iterator[str]:
    yield ""
    yield from (f"  {line}" for line in lines)


def deadlock_check(
    input: str | Path, output: str | Path | None = None, aivec_total: int = TOTAL, merge_gap: float = 0.0
) -> DeadlockReport:
    """Look for tasks of a trace that could wait for each other forever, and print what was found.

    Two communication tasks of different streams, each of whose blocks start together (``Schem Mode`` is 1), may be
    ready at the same time, and need more vector cores than there are: each gets a part of them, and waits for the rest,
    while it waits for the other devices, where the same happens.

    Args:
        input: A trace, filtered or not.
        output: Where the tasks that cannot finish are marked, if there are any; ``x_deadlock_check.json`` beside
            ``x.json`` when omitted.
        aivec_total: How many vector cores there are.
        merge_gap: See :func:`torchair.trace.filtering.merged_streams`.

    Raises:
        TraceFileError: The input cannot be read, or does not say what a communication task needs.
        OutputFileError: The output cannot be written.
        ArgumentError: ``aivec_total`` is no number of cores.
    """
    target = beside(input, "_deadlock_check") if output is None else Path(output)
    report = check_deadlocks(read_trace(input), aivec_total, merge_gap)
    sys.stdout.write(f"{report}\n")
    if report.deadlock:
        report.marked.write(target)
    return report


def check_deadlocks(trace: Trace, total: int = TOTAL, merge_gap: float = 0.0) -> DeadlockReport:
    """Look for tasks of a trace that could wait for each other forever.

    Args:
        trace: The trace.
        total: How many vector cores there are.
        merge_gap: See :func:`torchair.trace.filtering.merged_streams`.

    Raises:
        TraceFileError: It does not say what a communication task needs.
        ArgumentError: ``total`` is no number of cores.
    """
    if not _is_count(total):
        raise ArgumentError(
            "The number of vector cores is out of range",
            why=f"aivec_total is {total!r}",
            fix="Give the number of vector cores of the device, such as 48.",
        )
    whole = merged_streams(trace, merge_gap)
    order = order_of(whole)
    kept, warnings = filtered(whole)
    warnings += [
        f"{task} waits for an event that nothing records"
        for i, task in enumerate(whole.tasks)
        if is_wait(task) and i not in order.record_of
    ]
    conflicts, doubts = _conflicts(order, total)
    marked = _marked(kept, [task for conflict in conflicts for task in (conflict.first, conflict.second)])
    return DeadlockReport(
        conflicts=tuple(conflicts),
        circles=tuple(_shown_circle(order, circle) for circle in order.circles()),
        missing=tuple(_missing(whole)),
        warnings=(*warnings, *doubts),
        marked=marked,
        filtered=kept,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _conflicts(order: Order, total: int) -> tuple[list[Conflict], list[str]]:
    tasks = order.trace.tasks
    cores: dict[int, int] = {}
    doubts: list[str] = []
    for i in sorted(order.sorted):
        if is_communication(tasks[i]) and tasks[i].schedule_mode == 1:
            cores[i], doubt = vector_cores(tasks[i])
            doubts += [doubt] if doubt else []
    found = []
    # Only what is the larger one of a pair or fits beside it: with the cores in falling order the search ends early.
    by_need = sorted(cores, key=lambda i: -cores[i])
    for place, i in enumerate(by_need):
        for j in by_need[place + 1 :]:
            if cores[i] + cores[j] <= total:
                break
            a, b = min(i, j), max(i, j)
            elsewhere = tasks[a].lane != tasks[b].lane and tasks[a].process == tasks[b].process
            if elsewhere and not order.before(a, b) and not order.before(b, a):
                found.append((a, b))
    return [Conflict(tasks[a], tasks[b], (cores[a], cores[b]), total) for a, b in sorted(found)], doubts


def _shown_circle(order: Order, circle: Sequence[int]) -> tuple[str, ...]:
    """Who waits for whom; records and waits with the operators beside them."""
    tasks = order.trace.tasks
    shown = []
    for i in circle:
        text = str(tasks[i])
        other = order.previous(i) if is_record(tasks[i]) else order.next(i) if is_wait(tasks[i]) else None
        while other is not None and is_control(tasks[other]):
            other = order.previous(other) if is_record(tasks[i]) else order.next(other)
        if other is not None:
            text += f" ({'after' if is_record(tasks[i]) else 'before'} {tasks[other].name})"
        shown.append(text)
    return (*shown, str(tasks[circle[0]]))


def _missing(trace: Trace) -> Iterator[tuple[Task, Task]]:
    by_number = {(str(task.process), task.number): task for task in trace.tasks}
    for task in trace.tasks:
        for number in task.unordered:
            maker = by_number.get((str(task.process), number))
            if maker is not None:
                yield maker, task


def _marked(trace: Trace, stuck: Sequence[Task]) -> Trace:
    """The trace with another name and a long duration for what cannot finish.

    These are the tasks of conflicts, waits that are part of a circle, and, on each other stream, the first wait whose
    record is never reached.
    """
    order = order_of(trace)
    ids = {(task.lane, task.number, task.start, task.name) for task in stuck}
    blocked = {i for i, t in enumerate(trace.tasks) if (t.lane, t.number, t.start, t.name) in ids}
    never: set[int] = set()  # tasks that do not finish
    while True:
        stopped: set[Stream] = set()
        grown: set[int] = set()
        for i, task in enumerate(trace.tasks):
            record = order.record_of.get(i)
            if task.lane in stopped or i in blocked or (record is not None and record in never):
                stopped.add(task.lane)
                grown.add(i)
            elif order.clocks[i] is None:  # part of a circle, or behind one
                stopped.add(task.lane)
                grown.add(i)
        if grown == never:
            break
        never = grown
    first: set[Stream] = set()
    marks = set(blocked)
    for i in sorted(never):
        task = trace.tasks[i]
        if task.lane not in first:
            first.add(task.lane)
            marks.add(i)
    ends = [task.end for task in trace.tasks]
    begin, end = min((task.start for task in trace.tasks), default=0.0), max(ends, default=0.0)
    until = end + max(end - begin, 1.0)
    tasks = [
        dataclasses.replace(task, name=PREFIX + task.name, duration=until - task.start) if i in marks else task
        for i, task in enumerate(trace.tasks)
    ]
    pairs = [(tasks[record], tasks[wait]) for wait, record in order.record_of.items()]
    return trace.with_tasks(tasks, arrows(pairs))
