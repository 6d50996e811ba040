"""``align_trace_json``: a trace by what waits for what, in place of times (specification, F-119)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torchair.errors import TraceFileError
from torchair.trace.filtering import beside, check_gap, merged_streams
from torchair.trace.kinds import is_wait
from torchair.trace.order import order_of
from torchair.trace.tasks import Task, Trace, read_trace

__all__ = ["GAP", "align_trace_json", "aligned", "arrows"]

#: Time between a task and the next one of its stream; a task takes 1.
GAP = 0.2

_HASH = re.compile(r"_(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{12,}(?![0-9a-zA-Z])", re.IGNORECASE)


def align_trace_json(
    input: str | Path, output: str | Path | None = None, gap: float = GAP, merge_gap: float = 0.0
) -> Path:
    """Replace the times of a trace by a logical order.

    Each task takes 1 and starts ``gap`` after what it needs: the task before it on its stream, and, for what follows a
    wait, the record that the wait is for. Waits last until their record ends. Arrows lead from records to waits, and
    names lose their hashes.

    Args:
        input: A trace.
        output: Where the result is written; ``x_aligned.json`` beside ``x.json`` when omitted.
        gap: Time between tasks.
        merge_gap: See :func:`torchair.trace.filtering.merged_streams`.

    Returns:
        Where it is.

    Raises:
        TraceFileError: The input cannot be read, or its tasks wait for each other.
        OutputFileError: The output cannot be written.
    """
    target = beside(input, "_aligned") if output is None else Path(output)
    aligned(merged_streams(read_trace(input), merge_gap), gap).write(target)
    return target


def aligned(trace: Trace, gap: float = GAP) -> Trace:
    """The trace in logical times, with arrows.

    Raises:
        TraceFileError: Tasks wait for each other, so that there is no order.
        ArgumentError: ``gap`` is no time.
    """
    check_gap("gap", gap)
    order = order_of(trace)
    if len(order.sorted) < len(trace.tasks):
        circle = [str(trace.tasks[i]) for i in order.circles()[0]]
        raise TraceFileError(
            "The tasks of a trace wait for each other, so there is no order in which they run",
            why=[*circle[:10], *(["..."] if len(circle) > 10 else [])],
            fix="torchair trace check shows who waits for whom.",
        )
    ends: dict[int, float] = {}
    free: dict[Any, float] = {}
    moved: dict[int, Task] = {}
    for i in order.sorted:
        task = trace.tasks[i]
        start = free.get(task.lane, 0.0)
        record = order.record_of.get(i)
        end = start + 1 if record is None else max(start + 1, ends[record])
        ends[i] = end
        free[task.lane] = end + gap
        name = _HASH.sub("", task.name)
        moved[i] = dataclasses.replace(task, name=name, start=start, duration=end - start)
    pairs = [(moved[record], moved[wait]) for wait, record in order.record_of.items()]
    return trace.with_tasks(moved.values(), arrows(pairs))


def arrows(pairs: list[tuple[Task, Task]]) -> Iterator[Mapping[str, Any]]:
    """Arrows from records to waits, as viewers draw them."""
    for number, (record, wait) in enumerate(pairs, 1):
        assert is_wait(wait)
        common = {"name": "wait", "cat": "event", "id": number}
        at = record.start + record.duration / 2
        yield {**common, "ph": "s", "pid": record.process, "tid": record.stream, "ts": round(at, 6)}
        end = wait.start + wait.duration
        yield {**common, "ph": "f", "bp": "e", "pid": wait.process, "tid": wait.stream, "ts": round(end, 6)}
