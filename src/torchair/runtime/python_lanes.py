"""Lanes of a plan without the C++ runtime: as ``lanes.h``, with the threads and conditions of Python."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from torchair.runtime.plan import Plan

__all__ = ["run_lanes"]


class _LaneThread(threading.Thread):
    """A thread that runs lanes, one after the other, as long as the process lives."""

    def __init__(self) -> None:
        super().__init__(name="torchair lane", daemon=True)
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.start()

    def call(self, function: Callable[[], None]) -> None:
        self._calls.put(function)

    def run(self) -> None:
        while True:
            self._calls.get()()


class _Pool:
    """The lane threads of the process."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """A child process has none of its parent's threads."""
        self._free: list[_LaneThread] = []

    def take(self) -> _LaneThread:
        try:
            return self._free.pop()
        except IndexError:
            return _LaneThread()

    def give_back(self, threads: Sequence[_LaneThread]) -> None:
        self._free.extend(threads)


_pool = _Pool()


class _Run:
    """One run of a plan.

    Attributes:
        error: What the first failed step raised, and its position; later ones do not start.
    """

    def __init__(self, plan: Plan, step: Callable[[int], None]) -> None:
        self._plan = plan
        self._step = step
        self._changed = threading.Condition()
        self._done: set[int] = set()
        self._ended = [False] * len(plan.lanes)
        self.error: tuple[int, BaseException] | None = None

    def lane(self, number: int, state: Callable[[], AbstractContextManager[None]]) -> None:
        """Run a lane."""
        position = 0
        try:
            with state():
                for position, step in enumerate(self._plan.steps):
                    if step.lane == number:
                        if not self._may_start(position, step.after):
                            break
                        self._step(position)
                        with self._changed:
                            self._done.add(position)
                            self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            self._fail(position, error)
        finally:
            with self._changed:
                self._ended[number] = True
                self._changed.notify_all()

    def _fail(self, position: int, error: BaseException) -> None:
        """Note what a step raised; of several errors the one of the first step stays."""
        with self._changed:
            if self.error is None or position < self.error[0]:
                self.error = position, error

    def join(self) -> None:
        """Wait for all lanes."""
        with self._changed:
            self._changed.wait_for(lambda: all(self._ended))

    def _may_start(self, position: int, after: Sequence[int]) -> bool:
        steps = self._plan.steps

        def ready() -> bool:
            return self._is_over(position) or all(p in self._done or self._ended[steps[p].lane] for p in after)

        with self._changed:
            self._changed.wait_for(ready)
            return not self._is_over(position)

    def _is_over(self, position: int) -> bool:
        return self.error is not None and position > self.error[0]


def run_lanes(
    plan: Plan, step: Callable[[int], None], state: Callable[[], AbstractContextManager[None]]
) -> tuple[int, BaseException] | None:
    """Run the steps of a plan: lane 0 here, the others in threads.

    Args:
        step: Runs the step of a position.
        state: What the other threads enter.

    Returns:
        None; or the position of the first step, in program order, that failed, and what it raised.
    """
    run = _Run(plan, step)
    threads = [_pool.take() for _ in plan.lanes[1:]]
    for number, thread in enumerate(threads, 1):
        thread.call(lambda number=number: run.lane(number, state))  # type: ignore[misc]
    run.lane(0, contextlib.nullcontext)
    run.join()
    _pool.give_back(threads)
    return run.error
