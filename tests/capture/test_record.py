"""Plans of small graphs: where values live, what is made ahead, when slots are given up."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from torchair.capture.record import record
from torchair.runtime.plan import Plan

F = Callable[..., Any]


def _graph(function: F, *inputs: torch.Tensor) -> fx.GraphModule:
    """The graph of a function as AOTAutograd leaves it: ATen operators, values in ``meta``."""
    gm: fx.GraphModule = make_fx(function, tracing_mode="fake")(*inputs)
    return gm


def _plan(function: F, *inputs: torch.Tensor, static: Collection[int] = (), static_outputs: bool = False) -> Plan:
    return record(_graph(function, *inputs), {}, static_inputs=static, static_outputs=static_outputs)


def _releases(plan: Plan) -> list[tuple[int, ...]]:
    return [step.release for step in plan.steps]


X = torch.ones(4, 4)
Y = torch.ones(4, 4)


def test_buffers_are_used_again() -> None:
    plan = _plan(lambda x: (((x + 1).sin() * 2).cos()).exp(), X)
    assert_expected_inline(
        str(plan),
        """\
1 inputs, 5 launches, 4 buffers in 128 bytes, 0 views made ahead, 0 kept
  aten.add.out($0, 1, 1, $1)
  aten.sin.out($1, $2)
  aten.mul.out($2, 2, $3)
  aten.cos.out($3, $4)
  $5 = aten.exp.default($4)
  return $5""",
    )
    assert [b.offset for b in plan.buffers] == [0, 64, 0, 64]


def test_relu_is_the_operator_that_its_kernel_calls() -> None:
    plan = _plan(lambda x: (x + 1).relu() * 2, X)
    assert_expected_inline(
        str(plan),
        """\
1 inputs, 3 launches, 2 buffers in 128 bytes, 0 views made ahead, 0 kept
  aten.add.out($0, 1, 1, $1)
  aten.clamp_min.out($1, 0, $2)
  $3 = aten.mul.Tensor($2, 2)
  return $3""",
    )


def test_views_of_buffers_are_made_ahead() -> None:
    plan = _plan(lambda x: ((x + 1).t()[1:] * 2).sum(), X)
    assert_expected_inline(
        str(plan),
        """\
1 inputs, 3 launches, 2 buffers in 128 bytes, 2 views made ahead, 0 kept
  aten.add.out($0, 1, 1, $1)
  aten.mul.out($3, 2, $4)
  $5 = aten.sum.default($4, None)
  return $5""",
    )


def test_views_of_parameters_are_kept() -> None:
    plan = _plan(lambda w, x: x @ w.t(), X, Y, static=[0])
    assert_expected_inline(
        str(plan),
        """\
2 inputs, 1 launches, 0 buffers in 0 bytes, 0 views made ahead, 1 kept
  $3 = aten.mm.default($1, $2)
  return $3""",
    )
    assert plan.watched == [0]


def test_views_that_are_returned_belong_to_a_run() -> None:
    plan = _plan(lambda w, x: (w.t(), x @ w.t()), X, Y, static=[0])
    (kept,) = plan.kept_views
    assert kept.results[0] not in plan.outputs
    assert plan.outputs[0] in plan.steps[0].launch.results  # type: ignore[union-attr]


def test_a_value_lives_as_long_as_its_views() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        v = y.t()
        a = x * 2
        b = a.sin()
        return b + v

    plan = _plan(function, X)
    offsets = {b.slot: b.offset for b in plan.buffers}
    assert len(set(offsets.values())) == 3


def test_slots_are_given_up_after_their_last_use() -> None:
    plan = _plan(lambda x, y: (torch.celu(x) + torch.celu(y), y), X, Y)
    assert_expected_inline(
        str(plan),
        """\
2 inputs, 3 launches, 0 buffers in 0 bytes, 0 views made ahead, 0 kept
  $2 = aten.celu.default($0, 1.0)
  $3 = aten.celu.default($1, 1.0)
  $4 = aten.add.Tensor($2, $3, 1)
  return $4, $1""",
    )
    assert _releases(plan) == [(0,), (), (2, 3)]  # an output stays


def test_constants() -> None:
    plan = _plan(lambda x: (x + torch.tensor([1.0, 2.0, 3.0, 4.0]), None, 7), X)
    assert plan.constants[plan.outputs[1]] is None
    assert plan.constants[plan.outputs[2]] == 7


def test_in_place_operators_write_the_slot_that_they_are_given() -> None:
    plan = _plan(lambda x, y: (x.add_(y), x.mul_(2), x + 1)[-1], X, Y)
    assert_expected_inline(
        str(plan),
        """\
2 inputs, 3 launches, 0 buffers in 0 bytes, 0 views made ahead, 0 kept
  aten.add_.Tensor($0, $1, 1)
  aten.mul_.Tensor($0, 2)
  $2 = aten.add.Tensor($0, 1, 1)
  return $2""",
    )


def test_parts_are_written_into_slices_of_a_result() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        whole = torch.empty(8, 4)
        torch.sin(x, out=whole[:4])
        torch.cos(x, out=whole[4:])
        return whole * 2

    plan = _plan(function, X)
    assert_expected_inline(
        str(plan),
        """\
1 inputs, 3 launches, 1 buffers in 128 bytes, 2 views made ahead, 0 kept
  aten.sin.out($0, $2)
  aten.cos.out($0, $3)
  $4 = aten.mul.Tensor($1, 2)
  return $4""",
    )


def test_static_outputs_lie_apart_from_the_arena() -> None:
    plan = _plan(lambda x: ((x + 1).sin() * 2, x.cos()), X, static_outputs=True)
    assert plan.static_bytes == 128
    assert [b.static for b in plan.buffers] == [False, False, True, True]


@pytest.mark.parametrize(
    "function",
    [torch.rand_like, lambda x: x.to_sparse().to_dense(), lambda x: torch.floor_divide(x.t(), 2).sin()],
    ids=["random", "sparse", "unreliable-strides"],
)
def test_values_that_operators_allocate_themselves(function: F) -> None:
    assert not _plan(lambda x: function(x).exp(), X).buffers


def test_recording_runs_no_operator() -> None:
    seen = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    gm = _graph(lambda x: (x.add_(1).t() + 1).sum(), X)
    with Watch():
        record(gm, {})
    assert seen == []


def test_strides_that_are_unsettled_for_some_layouts_only() -> None:
    assert len(_plan(lambda x: torch.floor_divide(x, 2).sin().exp(), X).buffers) == 2
