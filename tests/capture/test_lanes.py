"""Which lane runs what of a recorded graph, after which steps, on how many cores; and where its values lie."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline

from tests.runtime.lane_graphs import Builder, two_branches
from torchair.capture.record import record
from torchair.config import CoreCounts
from torchair.native.scopes import Mark
from torchair.runtime.plan import Plan
from torchair.streams import SCOPE

aten = torch.ops.aten
X = torch.ones(4, 4)


@pytest.fixture(autouse=True)
def _four_threads() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def _after(plan: Plan) -> list[tuple[int, ...]]:
    return [step.after for step in plan.steps]


def test_two_branches() -> None:
    plan = record(two_branches(X, 2), {}, explicit_order=True)
    assert_expected_inline(
        str(plan),
        """\
1 inputs, 5 launches, 4 buffers in 256 bytes, 0 views made ahead, 0 kept
  0 [default on 2 cores] aten.mm.out($0, $0, $1)
  1 [side on 2 cores] aten.mm.out($0, $0, $2)
  2 [default on 2 cores] aten.mm.out($1, $0, $3)
  3 [side on 2 cores] aten.mm.out($2, $0, $4)
  4 [default after 3] $5 = aten.add.Tensor($3, $4, 1)
  return $5""",
    )
    assert plan.unordered == ()


def test_a_graph_without_labels_has_one_lane() -> None:
    b = Builder(X)
    token = b.record()
    b.wait(token, b.inputs[0])
    plan = b.plan(b.call(aten.sin.default, b.inputs[0]), token)
    assert plan.lanes == ("",)
    assert [step.after for step in plan.steps] == [()]
    assert plan.constants[plan.outputs[1]].numel() == 0


def test_data_orders_lanes_and_a_missing_wait_is_told() -> None:
    b = Builder(X)
    one = b.call(aten.sin.default, b.inputs[0], stream="a")
    other = b.call(aten.cos.default, one, stream="b")
    plan = b.plan(b.call(aten.neg.default, other))
    assert plan.lanes == ("", "a", "b")
    assert _after(plan) == [(), (0,), (1,)]
    assert plan.unordered == ((0, 1), (1, 2))
    # Where streams are the engine's business, nothing is told.
    assert record(torch.fx.GraphModule(torch.nn.Module(), b.graph), {}).unordered == ()


def test_a_wait_for_a_tensor_is_one_for_its_maker() -> None:
    b = Builder(X)
    one = b.call(aten.sin.default, b.inputs[0], stream="a")
    b.call(aten.exp.default, one, stream="a")
    b.wait(b.call(aten.t.default, one, stream="a"))
    plan = b.plan(b.call(aten.neg.default, one))
    assert _after(plan)[-1] == (0,)
    assert plan.unordered == ()


def test_a_wait_is_for_the_next_step_and_all_behind_it() -> None:
    b = Builder(X)
    (x,) = b.inputs
    one = b.call(aten.sin.default, x, stream="a")
    token = b.record(stream="a")
    b.call(aten.cos.default, x, stream="a")
    free = b.call(aten.exp.default, x)
    b.wait(token)
    held = b.call(aten.neg.default, x)
    plan = b.plan(free, held, b.call(aten.add.Tensor, held, one))
    assert _after(plan) == [(), (), (), (0,), ()]
    assert plan.unordered == ()


def test_a_token_has_the_waits_before_it() -> None:
    b = Builder(X)
    (x,) = b.inputs
    one = b.call(aten.sin.default, x, stream="a")
    b.wait(b.record(stream="a"), stream="b")
    b.wait(b.record(stream="b"))
    plan = b.plan(b.call(aten.neg.default, one))
    assert _after(plan) == [(), (0,)]
    assert plan.unordered == ()


def test_a_wait_that_follows_from_others_is_left_out() -> None:
    b = Builder(X)
    one = b.call(aten.sin.default, b.inputs[0], stream="a")
    other = b.call(aten.cos.default, one, stream="b")
    plan = b.plan(b.call(aten.add.Tensor, one, other))
    assert _after(plan) == [(), (0,), (1,)]


def test_writes_come_after_reads_and_before_later_reads() -> None:
    b = Builder(X)
    (x,) = b.inputs
    before = b.call(aten.sin.default, x, stream="a")
    view = b.call(aten.t.default, x, stream="b")
    b.call(aten.add_.Tensor, view, 1.0, stream="b")
    after = b.call(aten.cos.default, x)
    plan = b.plan(before, after)
    names = [step.label.split(" ")[0] for step in plan.steps]
    assert names == ["aten.sin.default", "aten.t.default", "aten.add_.Tensor", "aten.cos.default"]
    assert _after(plan) == [(), (), (0,), (2,)]
    assert plan.unordered == ((0, 2), (2, 3))


def test_effects_stay_in_program_order() -> None:
    b = Builder(X)
    (x,) = b.inputs
    results = [b.call(aten.rand_like.default, x, stream=s) for s in ("a", "", "a")]
    plan = b.plan(*results)
    assert _after(plan) == [(), (0,), (1,)]
    assert plan.unordered == ()  # no value is the reason


def test_values_of_two_lanes_share_no_bytes_unless_one_waits() -> None:
    def plan(waits: bool) -> Plan:
        b = Builder(X)
        (x,) = b.inputs
        chain = x
        for _ in range(4):
            chain = b.call(aten.sin.default, chain, stream="a")
        if waits:
            b.wait(chain)
        other = x
        for _ in range(4):
            other = b.call(aten.cos.default, other)
        return b.plan(b.call(aten.add.Tensor, chain, other))

    assert plan(waits=False).arena_bytes == 4 * 64
    assert plan(waits=True).arena_bytes == 3 * 64


def test_a_slot_is_given_up_by_a_reader_that_starts_when_all_others_have_ended() -> None:
    b = Builder(X)
    x = b.inputs[0]
    made = b.call(aten.rand_like.default, x, stream="a")
    one = b.call(aten.sin.default, made, stream="b")
    other = b.call(aten.cos.default, made)
    late = b.call(aten.add.Tensor, b.call(aten.add.Tensor, one, other), 1)
    plan = b.plan(late)
    (slot,) = plan.steps[0].launch.writes
    assert slot not in (*plan.outputs, *(s for step in plan.steps for s in step.release))
    b = Builder(X)
    made = b.call(aten.rand_like.default, b.inputs[0], stream="a")
    one = b.call(aten.sin.default, made, stream="b")
    plan = b.plan(b.call(aten.add.Tensor, one, made))
    (slot,) = plan.steps[0].launch.writes
    assert slot in plan.steps[2].release


@pytest.mark.parametrize(
    ("limit", "cores", "alone"),
    [
        (None, [2, 2, 0], [0, 0, 0]),
        (CoreCounts(1, 3), [1, 2, 3], [1, 3, 3]),
        (CoreCounts(9, 9), [2, 2, 0], [0, 0, 0]),
    ],
)
def test_cores_of_scopes(limit: CoreCounts | None, cores: list[int], alone: list[int]) -> None:
    b = Builder(X)
    (x,) = b.inputs
    product = b.call(aten.mm.default, x, x)
    other = b.call(aten.sin.default, x, stream="a")
    total = b.call(aten.add.Tensor, product, other)
    if limit is not None:
        for node in (product, other, total):
            node.meta[SCOPE] = Mark(node.name, limit=limit)
    plan = b.plan(total)
    assert [step.cores for step in plan.steps] == cores
    assert [step.limit for step in plan.steps] == alone


@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd"])
def test_what_may_only_wait_leaves_its_cores(key: str) -> None:
    with torch.library._scoped_library("lanes_of_python", "DEF") as library:
        library.define("wait(Tensor x) -> Tensor")
        library.impl("wait", torch.clone, key)
        torch.library.register_fake("lanes_of_python::wait", torch.clone, lib=library)
        wait = torch.ops.lanes_of_python.wait.default
        b = Builder(X)
        (x,) = b.inputs
        calls = b.call(aten.mm.default, x, x), b.call(wait, x, stream="a"), b.call(wait, x, stream="b")
        plan = b.plan(*calls)
    assert [step.cores for step in plan.steps] == [0, 1, 1]
