"""A clock that moves only when told, and calls that take a stated time on it."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.timing import Timing

#: Sums of these are exact.
TICK = 2.0**-10


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def taking(self, seconds: float, then: Callable[[], object] = lambda: None) -> Callable[[], object]:
        """A call of ``then`` that takes ``seconds``."""

        def call() -> object:
            self.now += seconds
            return then()

        return call

    def timing(self, rounds: int = 4, block_ticks: int = 8) -> Timing:
        return Timing(rounds, block_ticks * TICK, clock=self)
