"""``filter_comm_ops``: the tasks of a trace that decide about deadlocks (specification, F-119)."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

from torchair.errors import ArgumentError
from torchair.trace.kinds import activates, is_communication, is_control
from torchair.trace.tasks import Stream, Task, Trace, read_trace

__all__ = ["beside", "check_gap", "filter_comm_ops", "filtered", "merged_streams"]


def filter_comm_ops(input: str | Path, output: str | Path | None = None, merge_gap: float = 0.0) -> Path:
    """Keep the tasks of a trace that order streams, and those that communicate.

    Prints a line for each communication task that deadlocks cannot involve, since its blocks need not start together.

    Args:
        input: A trace.
        output: Where the result is written; ``x_filtered.json`` beside ``x.json`` when omitted.
        merge_gap: See :func:`merged_streams`.

    Returns:
        Where it is.

    Raises:
        TraceFileError: The input cannot be read.
        OutputFileError: The output cannot be written.
    """
    target = beside(input, "_filtered") if output is None else Path(output)
    result, warnings = filtered(read_trace(input), merge_gap)
    for warning in warnings:
        sys.stdout.write(f"[WARNING] {warning}\n")
    result.write(target)
    return target


def beside(input: str | Path, ending: str) -> Path:
    """A file beside another one: ``x_filtered.json`` for ``x.json``."""
    path = Path(input)
    return path.with_name(f"{path.stem}{ending}{path.suffix or '.json'}")


def filtered(trace: Trace, merge_gap: float = 0.0) -> tuple[Trace, list[str]]:
    """The control and communication tasks of a trace, virtual streams merged; and what to warn about."""
    merged = merged_streams(trace, merge_gap)
    kept = [task for task in merged.tasks if is_control(task) or is_communication(task)]
    warnings = [
        f"{task}: Schem Mode is {'missing' if task.schedule_mode is None else task.schedule_mode}, not 1: its blocks "
        "need not start together, so it is not looked at"
        for task in kept
        if is_communication(task) and task.schedule_mode != 1
    ]
    return merged.with_tasks(kept), warnings


def merged_streams(trace: Trace, merge_gap: float = 0.0) -> Trace:
    """The trace with each virtual stream as a part of the stream that activated it.

    A stream that ends in a stream-activate task goes on in another one: the one that ``args`` name (``Active Stream``),
    else the one that begins first after the task's end.

    Args:
        merge_gap: How long after the end of the task a stream has to begin, at least, in microseconds.

    Raises:
        ArgumentError: ``merge_gap`` is no time.
    """
    check_gap("merge_gap", merge_gap)
    streams = trace.streams
    goes_on: dict[Stream, Stream] = {}  # virtual stream -> stream before it
    for stream, tasks in streams.items():
        last = tasks[-1]
        if not activates(last):
            continue
        named = _named_stream(last)
        following = [
            (other[0].start, key)
            for key, other in streams.items()
            if key != stream
            and key[0] == stream[0]
            and key not in goes_on
            and (key[1] == named if named else other[0].start >= last.end + merge_gap)
            and _root(stream, goes_on) != key
        ]
        if following:
            goes_on[min(following)[1]] = stream
    if not goes_on:
        return trace
    return trace.with_tasks(dataclasses.replace(task, stream=_root(task.lane, goes_on)[1]) for task in trace.tasks)


def check_gap(name: str, gap: object) -> None:
    """Refuse what is no length of time.

    Raises:
        ArgumentError: It is no number, or negative.
    """
    if isinstance(gap, int | float) and not isinstance(gap, bool) and math.isfinite(gap) and gap >= 0:
        return
    raise ArgumentError(
        "A gap between tasks is out of range", why=f"{name} is {gap!r}", fix="Give a number that is not negative."
    )


def _root(stream: Stream, before: dict[Stream, Stream]) -> Stream:
    while stream in before:
        stream = before[stream]
    return stream


def _named_stream(task: Task) -> str:
    for key, value in task.args.items():
        if key.replace(" ", "").replace("_", "").lower() in ("activestream", "activestreamid"):
            text = str(value)
            return text if text.startswith("stream") else f"stream{text}"
    return ""
