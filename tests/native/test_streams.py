"""Programs keep to the streams and to the order of what they replace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from torch import fx

from tests.runtime.lane_graphs import Builder, clones, random_graphs
from torchair.capture.record import record
from torchair.native import NativeProgram, replace_regions
from torchair.runtime.instance import Instance, new_arena
from torchair.runtime.order import order_problems
from torchair.streams import is_record, is_wait, stream_of

aten = torch.ops.aten
X = torch.rand(8, 8)


def _order(gm: fx.GraphModule) -> list[str]:
    """Programs, records and waits, with their streams."""
    found = []
    for node in gm.graph.nodes:
        if isinstance(node.target, NativeProgram):
            found.append(f"{len(node.target.groups)} functions on {stream_of(node) or 'default'}")
        elif is_record(node) or is_wait(node):
            kind = "record" if is_record(node) else "wait"
            found.append(f"{kind} on {stream_of(node) or 'default'}")
    return found


@pytest.mark.usefixtures("support")
def test_programs_do_not_cross_streams_or_events() -> None:
    b = Builder(X)
    (x,) = b.inputs
    one = b.call(aten.sin.default, x)
    token = b.record()
    b.wait(token, stream="side")
    other = b.call(aten.exp.default, b.call(aten.neg.default, one, stream="side"), stream="side")
    after = b.call(aten.cos.default, one)
    b.wait(b.record(stream="side"))
    total = b.call(aten.add.Tensor, other, after)
    gm, _ = replace_regions(b.finish(total), compile=False)
    assert _order(gm) == [
        "1 functions on default",
        "record on default",
        "wait on side",
        "1 functions on default",
        "1 functions on side",
        "record on side",
        "wait on default",
        "1 functions on default",
    ]


@pytest.mark.usefixtures("support")
def test_branches_on_two_streams_stay_independent() -> None:
    b = Builder(X)
    (x,) = b.inputs
    sides = [b.call(aten.sin.default, b.call(aten.mul.Tensor, x, x, stream=s), stream=s) for s in ("", "side")]
    gm, _ = replace_regions(b.finish(b.call(aten.add.Tensor, *sides)))
    plan = record(gm, {})
    assert plan.lanes == ("", "side")
    assert [(step.lane, step.after) for step in plan.steps] == [(0, ()), (1, ()), (0, (1,))]
    expected = 2 * (X * X).sin()
    torch.testing.assert_close(Instance(plan, new_arena()).run([X])[0], expected)


@pytest.mark.usefixtures("support")
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(random_graphs())
def test_random_programs_on_streams_agree_with_eager(made: Any) -> None:
    gm, inputs = made
    expected_inputs = clones(inputs)
    torch.manual_seed(0)
    expected = gm(*expected_inputs)
    native, _ = replace_regions(gm)
    plan = record(native, {})
    assert order_problems(plan) == []
    instance = Instance(plan, new_arena())
    for seed in range(3):
        instance.core.delay_steps(seed, 100 if seed else 0)
        given_inputs = clones(inputs)
        torch.manual_seed(0)
        got = instance.run(list(given_inputs))
        for a, b in zip([*got, *given_inputs], [*expected, *expected_inputs], strict=True):
            torch.testing.assert_close(a, b)
