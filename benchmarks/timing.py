"""Interleaved timing: in each round every call runs one block, in an order that rotates.

A machine whose speed drifts (heat, other processes) slows the blocks of one round alike, so ratios are taken within a
round and only then summarized. Before each block there are calls that do not count: the variant before has filled the
caches with its own copy of the weights, and it takes several passes over others until these are cached instead.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import Self

__all__ = ["Clock", "Spread", "Timing", "interleave", "paired_ratios"]

#: Rounds that are run however long they take.
LEAST_ROUNDS = 5

Clock = Callable[[], float]

#: Calls before each block: with 34 MB of weights, the fifth call after another variant's is the first fast one.
_SETTLING = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of a sample."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Summarize at least one value.

        Raises:
            ValueError: There is none.
        """
        if not values:
            raise ValueError("a spread needs at least one value")
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True, slots=True)
class Timing:
    """How to time.

    Attributes:
        rounds: Blocks a variant.
        block_seconds: What a block takes, about; the number of calls in it follows from that.
        clock: Seconds, from any start.
        synchronize: Waits until the device has done what was asked of it; part of each block.
        limit_seconds: No round begins after that time, once there are ``LEAST_ROUNDS``.
    """

    rounds: int = 60
    block_seconds: float = 0.005
    clock: Clock = time.perf_counter
    synchronize: Callable[[], object] = lambda: None
    limit_seconds: float = math.inf


def interleave(calls: Mapping[str, Callable[[], object]], timing: Timing) -> dict[str, tuple[float, ...]]:
    """Time each of ``calls``; the result is seconds a call, one value a round, so that equal indices are one round."""
    counts = {name: _calibrate(call, timing) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    began = timing.clock()
    with _without_collector():
        for i in range(timing.rounds):
            if i >= LEAST_ROUNDS and timing.clock() - began > timing.limit_seconds:
                break
            start = i % len(names) if names else 0
            for name in names[start:] + names[:start]:
                _block(calls[name], _SETTLING, timing)
                seconds[name].append(_block(calls[name], counts[name], timing) / counts[name])
    return {name: tuple(values) for name, values in seconds.items()}


def paired_ratios(over: Sequence[float], times: Sequence[float]) -> Spread:
    """How many times faster ``times`` is than ``over``, round by round: above 1 means ``times`` is faster."""
    return Spread.of([a / b for a, b in zip(over, times, strict=True)])


def _block(call: Callable[[], object], count: int, timing: Timing) -> float:
    start = timing.clock()
    for _ in itertools.repeat(None, count):
        call()
    timing.synchronize()
    return timing.clock() - start


def _calibrate(call: Callable[[], object], timing: Timing) -> int:
    """The number of calls that fill a block. Runs it up to that, which also warms it up."""
    _block(call, 1, timing)
    count = 1
    while (took := _block(call, count, timing)) < timing.block_seconds / 2:
        count *= 2
    return max(1, round(count * timing.block_seconds / took))


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Let no collection of cycles fall into a block: it would hit one variant at random."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
