"""Tasks of a trace, read from JSON and written to it (specification, F-119 and decision 14).

A file is ``{"traceEvents": [...]}`` or the list alone. A task is an event with ``ph`` = ``"X"``, or without ``ph``; its
``args`` hold ``TaskId``, ``Task Type``, ``Numblocks``, ``Schem Mode`` and ``Task Ration``. Keys are compared without
case, spaces and underscores, so both spellings of the guide are read.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchair.errors import TraceFileError, TraceFileNotFoundError
from torchair.files import write_file

__all__ = ["Stream", "Task", "Trace", "control_kind", "in_order", "read_trace"]

#: Process and name of a stream. Processes are devices or ranks: their streams share no cores.
Stream = tuple[str, str]

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a stream.

    Attributes:
        name: What viewers show.
        stream: ``"stream3"``.
        number: Its ``TaskId``.
        start: When it starts, in microseconds.
        duration: How long it takes, in microseconds.
        type: What kind of task it is: ``"AI_VECTOR_CORE"``, ``"EVENT_WAIT"``, ...
        blocks: How many cores it takes at once; None where the trace does not say.
        schedule_mode: 1: all its blocks start together; None where the trace does not say.
        ratio: Cube to vector cores of a mixed kernel: ``"1:2"``; None where the trace does not say.
        event: What a record and its waits have in common; empty for other tasks.
        unordered: Tasks that make what it reads or overwrites, and that nothing makes it wait for.
        process: ``pid`` of the event.
        args: Everything that the event's ``args`` have, as they were read.
    """

    name: str
    stream: str
    number: int
    start: float
    duration: float
    type: str = ""
    blocks: int | None = None
    schedule_mode: int | None = None
    ratio: str | None = None
    event: str = ""
    unordered: tuple[int, ...] = ()
    process: str | int = 0
    args: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lane(self) -> Stream:
        """The stream with its process."""
        return str(self.process), self.stream

    @property
    def end(self) -> float:
        """When it ends, in microseconds."""
        return self.start + self.duration

    def __str__(self) -> str:
        return f"[{self.stream} TaskId={self.number}] {self.name}"

    def as_event(self) -> dict[str, Any]:
        """The task as an event of a trace, with keys as the guide spells them."""
        own: dict[str, Any] = {
            "TaskId": self.number,
            "Task Type": self.type or None,
            "Numblocks": self.blocks,
            "Schem Mode": self.schedule_mode,
            "Task Ration": self.ratio,
            "Event Id": self.event or None,
            "Unordered After": list(self.unordered) or None,
        }
        known = {_plain(key) for key in own} | {"taskratio"}
        rest = {key: value for key, value in self.args.items() if _plain(key) not in known}
        return {
            "name": self.name,
            "ph": "X",
            "pid": self.process,
            "tid": self.stream,
            "ts": _short(self.start),
            "dur": _short(self.duration),
            "args": {**{key: value for key, value in own.items() if value is not None}, **rest},
        }


@dataclass(frozen=True, slots=True)
class Trace:
    """Tasks of streams.

    Attributes:
        tasks: The tasks; those of a stream in the order in which it runs them.
        others: Events that name processes and streams, as they were read.
        arrows: Events that are drawn as arrows.
    """

    tasks: tuple[Task, ...]
    others: tuple[Mapping[str, Any], ...] = ()
    arrows: tuple[Mapping[str, Any], ...] = ()

    @property
    def streams(self) -> dict[Stream, list[Task]]:
        """The tasks of each stream."""
        found: dict[Stream, list[Task]] = {}
        for task in self.tasks:
            found.setdefault(task.lane, []).append(task)
        return found

    def with_tasks(self, tasks: Iterable[Task], arrows: Iterable[Mapping[str, Any]] = ()) -> Trace:
        """Other tasks under the same names of processes and streams."""
        return Trace(in_order(tasks), self.others, tuple(arrows))

    def as_json(self) -> str:
        """The text of the file, one event a line; Perfetto and chrome://tracing open it."""
        events = [*self.others, *(task.as_event() for task in self.tasks), *self.arrows]
        return '{"traceEvents": [\n' + ",\n".join(json.dumps(event) for event in events) + "\n]}\n"

    def write(self, path: str | Path) -> None:
        """Write the file.

        Raises:
            OutputFileError: It cannot be written.
        """
        write_file(path, self.as_json())


def in_order(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Tasks by time and number, which is the order of each stream."""
    return tuple(sorted(tasks, key=lambda task: (task.start, task.number)))


def read_trace(path: str | Path) -> Trace:
    """Read a trace.

    Raises:
        TraceFileNotFoundError: There is no such file.
        TraceFileError: It is no trace; everything that is wrong with its events is listed.
    """
    file = _path(path)
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError as e:
        raise TraceFileNotFoundError(
            "A trace cannot be read", why=f"{file}: there is no such file", fix="Name a JSON file of a task list."
        ) from e
    except (OSError, ValueError, RecursionError) as e:  # ValueError: no JSON, no UTF-8, or a zero byte in the path
        reason = (e.strerror if isinstance(e, OSError) else None) or str(e) or "it is nested too deeply"
        raise _unreadable(file, [reason]) from e
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise _unreadable(file, ["it has no list of events"])
    tasks: list[Task] = []
    others: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for i, event in enumerate(events):
        if not isinstance(event, dict):
            problems.append(f"event {i} is {_short_text(event)}, not an object")
            continue
        phase = event.get("ph", "X")
        if phase == "M":
            others.append(event)
        elif phase == "X":
            reader = _Reader(event, i)
            task = reader.task()
            problems += reader.problems
            if task is not None:
                tasks.append(task)
    if problems:
        raise _unreadable(file, problems)
    return Trace(in_order(tasks), tuple(others))


def _path(path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise TraceFileError(
            "A trace cannot be read",
            why=f"the path is a {type(path).__name__}, not a string",
            fix="Name a JSON file of a task list.",
        )
    return Path(path)


def _unreadable(file: Path, problems: Sequence[str]) -> TraceFileError:
    shown = [str(file), *problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        shown.append(f"... and {len(problems) - _SHOWN} more")
    return TraceFileError(
        "A trace cannot be read",
        why=shown,
        fix='A trace is {"traceEvents": [{"name": "op", "tid": "stream0", "ts": 0, "dur": 1, "args": {"TaskId": 1}}]}.',
    )


class _Reader:
    """Reads one event; ``problems`` says what is wrong with it."""

    def __init__(self, event: Mapping[str, Any], position: int) -> None:
        self._event = event
        self._where = f"event {position}"
        self.problems: list[str] = []
        args = event.get("args", {})
        self._args: Mapping[str, Any] = args if isinstance(args, dict) else {}
        if not isinstance(args, dict):
            self._refuse("args", args, "an object")
        self._plain = {_plain(key): value for key, value in self._args.items()}

    def task(self) -> Task | None:
        """The task; None where something is wrong with it."""
        name = self._event.get("name")
        if not isinstance(name, str):
            self._refuse("name", name, "a text")
            name = ""
        else:
            self._where += f" ({name[:60]!r})"
        stream = self._stream()
        process = self._event.get("pid", 0)
        if not isinstance(process, str | int):
            self._refuse("pid", process, "a number or a text")
        start = self._time("ts")
        duration = self._time("dur")
        if duration < 0:
            self._refuse("dur", duration, "at least 0")
        number = self._whole("taskid", "TaskId")
        if number is None and "taskid" not in self._plain:
            self.problems.append(f"{self._where} has no TaskId among its args")
        type = self._plain.get("tasktype") or ""
        if not isinstance(type, str):
            self._refuse("Task Type", type, "a text")
        blocks = self._whole("numblocks", "Numblocks")
        mode = self._whole("schemmode", "Schem Mode")
        ratio = self._ratio()
        unordered = self._numbers()
        if self.problems or number is None:
            return None
        task = Task(
            name, stream, number, start, duration, type, blocks, mode, ratio, "", unordered, process, self._args
        )
        return dataclasses.replace(task, event=self._event_id(name, type))

    def _stream(self) -> str:
        stream = self._event.get("tid")
        if isinstance(stream, int) and not isinstance(stream, bool):
            return f"stream{stream}"
        if not isinstance(stream, str):
            self._refuse("tid", stream, 'a text such as "stream3"')
            return ""
        return stream

    def _time(self, key: str) -> float:
        value = self._event.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._refuse(key, value, "a number of microseconds")
            return 0.0
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self._refuse(key, value, "a number of microseconds")
            return 0.0
        return number

    def _whole(self, plain: str, key: str) -> int | None:
        """A number that may be written as a text; None where it is missing, or is the text of nothing."""
        value = self._plain.get(plain)
        if value is None or value in ("", "N/A"):
            return None
        if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value.strip()):
            return int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**18:
            self._refuse(key, value, "a whole number")
            return None
        return value

    def _ratio(self) -> str | None:
        value = self._plain.get("taskration", self._plain.get("taskratio"))
        if value is None or value in ("", "N/A"):
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            self._refuse("Task Ration", value, "a ratio such as 1:2")
            return None
        return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()

    def _numbers(self) -> tuple[int, ...]:
        value = self._plain.get("unorderedafter", [])
        if not isinstance(value, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
            self._refuse("Unordered After", value, "a list of numbers")
            return ()
        return tuple(value)

    def _event_id(self, name: str, type: str) -> str:
        """What ties a record to its waits: in ``args``, or what follows the kind in the name."""
        kind, rest = control_kind(name) or control_kind(type) or ("", "")
        if not kind:
            return ""
        for key in ("eventid", "event", "notifyid", "address", "addr"):
            value = self._plain.get(key)
            if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
                return str(value)
        return rest if control_kind(name) else ""

    def _refuse(self, key: str, value: Any, wanted: str) -> None:
        self.problems.append(f"{self._where}: {key} is {_short_text(value)}, not {wanted}")


_CONTROL = re.compile(
    r"(EVENT_RECORD|EVENT_WAIT|MEM_WRITE_VALUE|MEM_WAIT_VALUE)[\s_:#-]*(.*)", re.DOTALL | re.IGNORECASE
)


def control_kind(name: str) -> tuple[str, str] | None:
    """The kind of a task that orders streams, and what its name has after that; None for other tasks."""
    match = _CONTROL.fullmatch(name)
    return None if match is None else (match[1].upper(), match[2])


def _plain(key: str) -> str:
    return re.sub(r"[\s_]", "", key).lower()


def _short(number: float) -> float | int:
    """A time with a thousandth of a nanosecond, which is what viewers keep."""
    rounded = round(number, 6)
    return int(rounded) if rounded.is_integer() else rounded


def _short_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
