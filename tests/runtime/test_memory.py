"""Offsets in an arena: values that live at the same step never overlap."""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import given, strategies as st

from torchair.runtime.memory import ALIGNMENT, Lifetime, plan_offsets


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
