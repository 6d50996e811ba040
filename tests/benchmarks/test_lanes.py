"""The table of lanes, with cases of the test's own."""

from __future__ import annotations

import torch

from benchmarks.lanes import LANE_CASES, LaneCase, lanes, products
from benchmarks.timing import Timing


def test_a_row_says_how_much_of_the_time_is_left() -> None:
    sleep = LANE_CASES["slow_callback"].second
    cases = {
        "sleeps": LaneCase("two that sleep", 4, sleep, sleep, 0.65),
        "hopeless": LaneCase("nothing to gain", 4, products(1), products(1), 0.0),
    }
    table = lanes(Timing(5, 0.001), cases)
    assert not table.failed
    (name, *values, remark), other = table.rows
    one, two, ratio, low, high, goal = (float(v or 0) for v in values)
    assert (name, goal) == ("sleeps", 0.65)
    assert one > 10_000  # two sleeps
    assert two > 5_000
    assert low <= ratio <= high
    assert remark == ("met" if ratio <= 0.65 else "missed")
    assert other[-1] == "missed"


def test_a_wrong_result_is_a_failure() -> None:
    case = LaneCase("never the same", 4, products(1), torch.rand_like, 1.0)
    table = lanes(Timing(1, 0.0), {"random": case})
    assert table.failed
    assert str(table.rows[0][-1]).startswith("wrong")
