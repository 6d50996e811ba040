"""Offsets in an arena: values that live at the same step never overlap."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from hypothesis import given, strategies as st

from torchair.capture.lanes import LaneOrder
from torchair.runtime.memory import ALIGNMENT, Lifetime, plan_offsets, plan_offsets_of_lanes
from torchair.runtime.order import Clocks


@st.composite
def _lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    count = draw(st.integers(0, 40))
    firsts = sorted(draw(st.lists(st.integers(0, 50), min_size=count, max_size=count)))
    return [Lifetime(first, first + draw(st.integers(0, 15)), draw(st.integers(0, 2000))) for first in firsts]


def _peak(lifetimes: list[Lifetime]) -> int:
    """Bytes of all values that live at the fullest step: no plan takes less."""
    steps = {life.first for life in lifetimes}
    return max((sum(_size(o) for o in lifetimes if o.first <= step <= o.last) for step in steps), default=0)


def _size(lifetime: Lifetime) -> int:
    return -(-max(lifetime.nbytes, 1) // ALIGNMENT) * ALIGNMENT


@given(_lifetimes())
def test_values_that_live_together_do_not_overlap(lifetimes: list[Lifetime]) -> None:
    offsets, total = plan_offsets(lifetimes)
    assert len(offsets) == len(lifetimes)
    for i, a in enumerate(lifetimes):
        assert offsets[i] % ALIGNMENT == 0
        assert 0 <= offsets[i] <= offsets[i] + _size(a) <= total
        for j in range(i):
            b = lifetimes[j]
            if a.first <= b.last and b.first <= a.last:
                assert offsets[i] + _size(a) <= offsets[j] or offsets[j] + _size(b) <= offsets[i], (a, b)


@given(_lifetimes())
def test_the_arena_lies_between_the_peak_and_the_sum(lifetimes: list[Lifetime]) -> None:
    _, total = plan_offsets(lifetimes)
    assert _peak(lifetimes) <= total <= sum(_size(life) for life in lifetimes)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 3000))
def test_values_of_one_size_take_no_more_than_the_peak(alive: int, count: int, nbytes: int) -> None:
    lifetimes = [Lifetime(i, i + alive - 1, nbytes) for i in range(count)]
    assert plan_offsets(lifetimes)[1] == _peak(lifetimes)


def test_a_chain_alternates_between_two_places() -> None:
    assert plan_offsets([Lifetime(i, i + 1, 100) for i in range(5)]) == ([0, 128, 0, 128, 0], 256)


def test_freed_neighbours_become_one_block() -> None:
    lifetimes = [Lifetime(0, 0, 64), Lifetime(0, 0, 64), Lifetime(0, 5, 64), Lifetime(1, 5, 128)]
    assert plan_offsets(lifetimes) == ([0, 64, 128, 0], 192)


def test_work_grows_with_the_number_of_values() -> None:
    """Counted in lines of Python: ten times as many values take about ten times as much."""

    def lines(count: int) -> int:
        lifetimes = [Lifetime(i, i + 1 + (i * 7919) % 23, 64 * (1 + (i * 104729) % 97)) for i in range(count)]
        done = 0

        def trace(*_: Any) -> Any:
            nonlocal done
            done += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            plan_offsets(lifetimes)
        finally:
            sys.settrace(before)
        return done

    assert lines(5000) < 12 * lines(500)


@st.composite
def _orders(draw: st.DrawFn) -> tuple[Clocks, list[list[int]]]:
    """Steps of several lanes in some order, and the steps that use each value."""
    clocks = Clocks(3)
    for i in range(draw(st.integers(1, 25))):
        lane = draw(st.integers(0, 2))
        after = draw(st.lists(st.integers(0, i - 1), max_size=2)) if i else []
        clocks.add(lane, after)
    steps = st.integers(0, len(clocks.lane) - 1)
    return clocks, draw(st.lists(st.lists(steps, min_size=1, max_size=4, unique=True), max_size=12))


@given(_orders(), st.data())
def test_values_of_several_lanes_share_bytes_only_if_they_are_in_order(
    made: tuple[Clocks, list[list[int]]], data: st.DataObject
) -> None:
    clocks, users = made
    order = LaneOrder(["", "a", "b"])
    order.clocks = clocks
    order.after = [()] * len(clocks.lane)
    order._users = {i: sorted(steps) for i, steps in enumerate(users)}
    sizes = [data.draw(st.integers(0, 300)) for _ in users]
    uses = [order.uses(i, n) for i, n in enumerate(sizes)]
    offsets, total = plan_offsets_of_lanes([u for u in uses if u is not None], order.horizons())
    ends = [o + max(n, 1) for o, n in zip(offsets, sizes, strict=True)]
    assert all(o % ALIGNMENT == 0 for o in offsets)
    assert max(ends, default=0) <= total
    for i, j in itertools.combinations(range(len(users)), 2):
        if offsets[i] < ends[j] and offsets[j] < ends[i]:
            assert all(clocks.ended_before(a, b) for a in users[i] for b in users[j]) or all(
                clocks.ended_before(b, a) for a in users[i] for b in users[j]
            )


def test_values_of_lanes_in_order_share_bytes() -> None:
    clocks = Clocks(2)
    for lane, after in ((0, ()), (1, (0,)), (0, (1,)), (1, (2,))):
        clocks.add(lane, after)
    order = LaneOrder(["", "a"])
    order.clocks = clocks
    order.after = [()] * 4
    order._users = {"a": [0, 1], "b": [1, 2], "c": [2, 3]}
    uses = [order.uses(name, 64) for name in "abc"]
    assert plan_offsets_of_lanes([u for u in uses if u is not None], order.horizons()) == ([0, 64, 0], 128)
