"""In what order tasks of streams run: records before their waits, vector clocks, waits that go round in a circle."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torchair.trace.kinds import is_record, is_wait
from torchair.trace.tasks import Stream, Trace

__all__ = ["Order", "matching_records", "order_of"]


def matching_records(trace: Trace) -> dict[int, int]:
    """Which record each wait waits for, as positions in ``trace.tasks``; waits without one are left out.

    An event may be recorded several times. A stream that waits for it as often as it is recorded waits for one after
    the other; else a wait is for the last record that starts before the wait ends.
    """
    records: dict[tuple[str, str], list[int]] = {}
    waits: dict[tuple[str, str], dict[Stream, list[int]]] = {}
    for i, task in enumerate(trace.tasks):
        key = str(task.process), task.event
        if is_record(task):
            records.setdefault(key, []).append(i)
        elif is_wait(task):
            waits.setdefault(key, {}).setdefault(task.lane, []).append(i)
    found: dict[int, int] = {}
    for key, by_stream in waits.items():
        have = records.get(key, [])
        starts = [trace.tasks[r].start for r in have]
        for these in by_stream.values() if have else ():
            for n, wait in enumerate(these):
                at = bisect.bisect_right(starts, trace.tasks[wait].end) - 1
                found[wait] = have[n] if len(these) == len(have) else have[max(at, 0)]
    return found


@dataclass(frozen=True, slots=True)
class Order:
    """In what order the tasks of a trace run, whatever their times are.

    Attributes:
        trace: The trace; tasks are positions in ``trace.tasks``.
        record_of: The record that each wait waits for.
        clocks: For each task how many tasks of each stream are finished when it is: itself and those before it. None
            for a task that never runs, since it waits for one that waits for it.
        sorted: The tasks that run, in a legal order.
    """

    trace: Trace
    record_of: Mapping[int, int]
    clocks: Sequence[tuple[int, ...] | None]
    sorted: Sequence[int]
    _streams: Mapping[Stream, int]
    _places: Sequence[int]

    def before(self, first: int, second: int) -> bool:
        """Whether one task is finished before another one starts, always; both have clocks."""
        clock = self.clocks[second]
        assert clock is not None
        return first != second and clock[self._streams[self.trace.tasks[first].lane]] > self._places[first]

    def previous(self, position: int) -> int | None:
        """The task before one on its stream."""
        return self._neighbor(position, -1)

    def next(self, position: int) -> int | None:
        """The task after one on its stream."""
        return self._neighbor(position, 1)

    def _neighbor(self, position: int, step: int) -> int | None:
        lane = self.trace.tasks[position].lane
        there = [i for i, task in enumerate(self.trace.tasks) if task.lane == lane]
        place = self._places[position] + step
        return there[place] if 0 <= place < len(there) else None

    def circles(self) -> list[list[int]]:
        """Tasks that wait for each other, each one for the next and the last for the first."""
        stuck = {i for i, clock in enumerate(self.clocks) if clock is None}
        last: dict[Stream, int] = {}
        needs: dict[int, list[int]] = {}
        for i, task in enumerate(self.trace.tasks):
            before = [last[task.lane]] if task.lane in last else []
            record = self.record_of.get(i)
            needs[i] = [n for n in (*before, *([] if record is None else [record])) if n in stuck]
            last[task.lane] = i
        circles = []
        seen: set[int] = set()
        for start in sorted(stuck):
            path: list[int] = []
            at: int | None = start
            while at is not None and at not in seen:
                seen.add(at)
                path.append(at)
                at = needs[at][0] if needs[at] else None
            if at is not None and at in path:
                circles.append(path[path.index(at) :])
        return circles


def order_of(trace: Trace) -> Order:
    """The order of the tasks of a trace by their streams and events."""
    record_of = matching_records(trace)
    streams: dict[Stream, int] = {}
    places: list[int] = []
    counts: dict[Stream, int] = {}
    last: dict[Stream, int] = {}
    users: list[list[int]] = [[] for _ in trace.tasks]
    needs: list[list[int]] = []
    for i, task in enumerate(trace.tasks):
        streams.setdefault(task.lane, len(streams))
        places.append(counts.get(task.lane, 0))
        counts[task.lane] = places[-1] + 1
        before = [last[task.lane]] if task.lane in last else []
        if i in record_of:
            before.append(record_of[i])
        last[task.lane] = i
        needs.append(before)
        for n in before:
            users[n].append(i)
    missing = [len(n) for n in needs]
    ready = deque(i for i, n in enumerate(missing) if n == 0)
    clocks: list[tuple[int, ...] | None] = [None] * len(needs)
    done: list[int] = []
    nothing = (0,) * len(streams)
    while ready:
        i = ready.popleft()
        done.append(i)
        clock = list(nothing)
        for n in needs[i]:
            known = clocks[n]
            assert known is not None
            clock = [max(a, b) for a, b in zip(clock, known, strict=True)]
        clock[streams[trace.tasks[i].lane]] = places[i] + 1
        clocks[i] = tuple(clock)
        for user in users[i]:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    return Order(trace, record_of, clocks, done, streams, places)
