"""A line on the terminal that says what is being compiled, where that takes longer than people wait without asking."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

__all__ = ["progress"]

#: Seconds until the line appears, and between updates of it.
_PATIENCE, _INTERVAL = 2.0, 0.5
#: Back to the first column, and nothing after it.
_CLEAR = "\r\033[K"

_lock = threading.Lock()
_tasks: list[tuple[str, float]] = []


@contextlib.contextmanager
def progress(what: str) -> Iterator[None]:
    """Show ``torchair: compiling <what> (3 s)`` on standard error, a terminal, from the third second on.

    Nothing is written where standard error is no terminal. Tasks of several threads share the line.
    """
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    task = what, time.monotonic()
    done = threading.Event()
    with _lock:
        _tasks.append(task)
    watcher = threading.Thread(target=_watch, args=(task, done), name="torchair-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        with _lock:
            _tasks.remove(task)


def _watch(task: tuple[str, float], done: threading.Event) -> None:
    shown = False
    wait = _PATIENCE
    while not done.wait(wait):
        wait = _INTERVAL
        with _lock:
            if _tasks and _tasks[0] is task:  # the oldest one speaks for all
                others = f", and {len(_tasks) - 1} more" if len(_tasks) > 1 else ""
                seconds = time.monotonic() - task[1]
                sys.stderr.write(f"{_CLEAR}torchair: compiling {task[0]}{others} ({seconds:.0f} s)")
                sys.stderr.flush()
                shown = True
    if shown:
        with _lock:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
