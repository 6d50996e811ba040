"""``torchair.record_trace``: when each launch of a compiled function ran, on which stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torchair.errors import ArgumentError
from torchair.pipeline.explain import captured_graphs
from torchair.runtime.plan import Plan
from torchair.trace import Trace
from torchair.trace.plans import PlanRun, runs_trace

__all__ = ["RecordedTrace", "record_trace"]


class RecordedTrace:
    """The runs of a compiled function, as far as they were recorded."""

    def __init__(self) -> None:
        self._runs: list[PlanRun] = []

    @property
    def trace(self) -> Trace:
        """The runs so far, one process each; ``trace.write("x.json")`` for Perfetto or chrome://tracing."""
        return runs_trace(list(self._runs))

    def _add(self, name: str, plan: Plan, begin: int, times: list[tuple[int, int]]) -> None:
        seconds = [((begin + start) * 1e-9, (begin + end) * 1e-9) for start, end in times]
        self._runs.append(PlanRun(name, plan, seconds))


@contextlib.contextmanager
def record_trace(compiled: Any) -> Iterator[RecordedTrace]:
    """Time each launch of a compiled function, in both modes; in GE mode with the native engine.

    Runs of other threads are recorded, too. Call the function once before: what is compiled inside is not recorded.

    Args:
        compiled: As for :func:`torchair.explain`.

    Raises:
        ArgumentTypeError: It is not compiled.
        ArgumentError: None of its graphs has a plan: it has not been called yet, or another engine runs it.

    Example:
        >>> run(x)
        >>> with torchair.record_trace(run) as recorded:
        ...     run(x)
        >>> recorded.trace.write("run.json")
    """
    graphs = captured_graphs(compiled)
    if not graphs:
        raise ArgumentError(
            "There is nothing to record",
            why="none of the function's graphs is captured as a plan; torchair.explain says what runs it",
            fix="Call it once before; in GE mode set config.engine = 'native'.",
        )
    recorded = RecordedTrace()
    with contextlib.ExitStack() as stack:
        for name, graph in graphs:
            stack.enter_context(graph.timing(lambda *run, name=name: recorded._add(name, *run)))
        yield recorded
