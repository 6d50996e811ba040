"""Vector clocks of plans, and what is said of a plan with a race."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings

from tests.runtime.lane_graphs import Builder, random_graphs, two_branches
from torchair.capture.record import record
from torchair.runtime.order import Clocks, order_problems
from torchair.runtime.plan import Plan

aten = torch.ops.aten
X = torch.ones(4, 4)


def test_clocks_say_what_has_ended_before_what() -> None:
    clocks = Clocks(3)
    clocks.add(0)
    clocks.add(1)
    clocks.add(1, after=[0])
    clocks.add(2, after=[2])
    clocks.add(0)
    assert clocks.before == [(0, 0, 0), (0, 0, 0), (1, 1, 0), (1, 2, 0), (1, 0, 0)]
    assert clocks.ended_before(0, 3)
    assert clocks.ended_before(1, 3)
    assert not clocks.ordered(0, 1)
    assert not clocks.ordered(4, 3)
    assert clocks.ordered(0, 4)
    assert clocks.now(2) == (1, 2, 1)


def _without_order(plan: Plan, step: int) -> Plan:
    steps = list(plan.steps)
    steps[step] = dataclasses.replace(steps[step], after=())
    return dataclasses.replace(plan, steps=steps)


def test_a_race_names_both_operators_and_lines() -> None:
    plan = record(two_branches(X, 2), {})
    assert order_problems(plan) == []
    assert plan.steps[4].after == (3,)
    (problem,) = order_problems(_without_order(plan, 4))
    assert problem == (
        "step 3, aten.mm.default (node mm_default_3) (model.py:5, in forward: mm_default_3), "
        "and step 4, aten.add.Tensor (node add_tensor) (model.py:8, in forward: add_tensor) "
        "are not in order, and touch bytes 192 to 256 of the arena"
    )


def test_memory_that_is_used_again_is_memory() -> None:
    b = Builder(X)
    (x,) = b.inputs
    early = b.call(aten.sin.default, x)
    late = b.call(aten.cos.default, early)
    for _ in range(2):
        late = b.call(aten.cos.default, late)
    other = b.call(aten.neg.default, x, stream="a")
    plan = b.plan(b.call(aten.add.Tensor, b.call(aten.exp.default, other, stream="a"), late))
    offsets = {buffer.slot: buffer.offset for buffer in plan.buffers}
    assert order_problems(plan) == []
    # As if planned for one lane: the buffer of the other stream where the first one was.
    first, other_slot = (next(s for s in plan.steps[i].launch.reads[::-1] if s in offsets) for i in (0, 4))
    moved = [
        dataclasses.replace(buffer, offset=offsets[first]) if buffer.slot == other_slot else buffer
        for buffer in plan.buffers
    ]
    problems = order_problems(dataclasses.replace(plan, buffers=moved))
    assert problems
    assert "aten.sin.default (node sin_default)" in problems[0]
    assert "aten.neg.default (node neg_default)" in problems[0]
    assert "of the arena" in problems[0]


@pytest.mark.parametrize("after", [(4,), (5,), (0,), (-1,)])
def test_waits_are_for_earlier_steps_of_other_lanes(after: tuple[int, ...]) -> None:
    plan = record(two_branches(X, 2), {})
    steps = list(plan.steps)
    steps[4] = dataclasses.replace(steps[4], after=after)
    (problem,) = order_problems(dataclasses.replace(plan, steps=steps))
    assert problem == (
        f"step 4, aten.add.Tensor (node add_tensor), waits for step {after[0]}, "
        "which does not come before it in another lane"
    )


@settings(max_examples=60, deadline=None)
@given(random_graphs())
def test_every_wait_of_a_plan_is_needed(made: Any) -> None:
    """Recorded plans have no race, and no wait that the others imply."""
    gm, _ = made
    plan = record(gm, {})
    assert order_problems(plan) == []
    for i, step in enumerate(plan.steps):
        for after in step.after:
            without = Clocks(len(plan.lanes))
            for earlier in plan.steps[:i]:
                without.add(earlier.lane, earlier.after)
            without.add(step.lane, [a for a in step.after if a != after])
            assert not without.ended_before(after, i), f"step {i} need not wait for {after}"
