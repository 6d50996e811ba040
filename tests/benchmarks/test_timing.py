"""Blocks, rounds and ratios, on a clock of the test's own."""

from __future__ import annotations

import functools
import gc
from dataclasses import replace

import pytest

from benchmarks.timing import Spread, interleave, paired_ratios
from tests.benchmarks.fakes import TICK, FakeClock


def test_spread() -> None:
    assert Spread.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Spread(median=3.0, low=2.0, high=4.0)
    assert Spread.of([7.0]) == Spread(7.0, 7.0, 7.0)
    with pytest.raises(ValueError, match="at least one value"):
        Spread.of([])


def test_seconds_a_call() -> None:
    clock = FakeClock()
    times = interleave({"a": clock.taking(TICK), "b": clock.taking(4 * TICK)}, clock.timing(rounds=3))
    assert times == {"a": (TICK,) * 3, "b": (4 * TICK,) * 3}


def test_blocks_are_filled() -> None:
    clock = FakeClock()
    calls: list[str] = []
    interleave(
        {
            "short": clock.taking(TICK, lambda: calls.append("short")),
            "long": clock.taking(100 * TICK, lambda: calls.append("long")),
        },
        clock.timing(rounds=2, block_ticks=8),
    )
    # Warm-up, then 1, 2 and 4 calls until half a block is full; then two blocks of eight, each after five calls
    # that do not count.
    assert calls.count("short") == 1 + 1 + 2 + 4 + 2 * (5 + 8)
    # Longer than a block: one call is one.
    assert calls.count("long") == 1 + 1 + 2 * (5 + 1)


def test_order_rotates() -> None:
    clock = FakeClock()
    order: list[str] = []
    calls = {name: clock.taking(8 * TICK, functools.partial(order.append, name)) for name in "abc"}
    interleave(calls, clock.timing(rounds=4, block_ticks=8))
    assert "".join(order[-4 * 18 :: 6]) == "abc" + "bca" + "cab" + "abc"


def test_waiting_for_the_device_is_part_of_a_block() -> None:
    clock = FakeClock()
    timing = replace(clock.timing(rounds=2), synchronize=clock.taking(8 * TICK))
    assert interleave({"a": clock.taking(8 * TICK)}, timing) == {"a": (16 * TICK,) * 2}


def test_no_garbage_collection_in_a_block() -> None:
    clock = FakeClock()
    seen: list[bool] = []
    interleave({"a": clock.taking(8 * TICK, lambda: seen.append(gc.isenabled()))}, clock.timing(rounds=2))
    assert seen[-2:] == [False, False]
    assert gc.isenabled()


def test_drift_drops_out_of_paired_ratios() -> None:
    """The machine is ten times slower in the second round; unpaired quartiles would be far apart."""
    assert paired_ratios([2.0, 20.0, 4.0], [1.0, 10.0, 2.0]) == Spread(2.0, 2.0, 2.0)


def test_no_round_begins_after_the_limit() -> None:
    """Rounds of 13 ticks, with the calls that do not count; the first five are run whatever they take."""
    clock = FakeClock()
    timing = replace(clock.timing(rounds=20), limit_seconds=1 * TICK)
    assert interleave({"a": clock.taking(TICK)}, timing) == {"a": (TICK,) * 5}
    timing = replace(clock.timing(rounds=20), limit_seconds=80 * TICK)
    assert interleave({"a": clock.taking(TICK)}, timing) == {"a": (TICK,) * 7}


def test_nothing_to_time() -> None:
    assert interleave({}, FakeClock().timing()) == {}
