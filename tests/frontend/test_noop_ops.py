"""Operators that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor

from tests.custom_operators import ops
from tests.frontend.fx_graphs import aot_graph, optimized, record, result, text
from torchair.config import Options
from torchair.frontend import optimize_fx
from torchair.frontend.noop_ops import RemoveNoopOps

aten, prims = torch.ops.aten, torch.ops.prims

X = torch.arange(12.0).reshape(3, 4)
N = torch.arange(12).reshape(3, 4)


def test_a_full_slice_and_a_copy_are_removed() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x[:].clone() + y

    assert_expected_inline(
        result(optimized(function, X, X)),
        """\
add = aten.add.Tensor(arg0_1, arg1_1)
return [add]
""",
    )
    made = optimized(function, X, X, options=Options(remove_noop_ops=False))
    assert_expected_inline(
        result(made),
        """\
slice_1 = aten.slice.Tensor(arg0_1, 0, 0, 9223372036854775807)
clone = aten.clone.default(slice_1)
add = aten.add.Tensor(clone, arg1_1)
return [add]
""",
    )
    assert record(made, "remove-noop-ops").skipped == "switched off: remove_noop_ops=False"


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x: aten.slice_scatter(x, x * 2, 0, 0, 3), X),
        (lambda x: x.repeat(1, 1), X),
        (lambda x: aten.constant_pad_nd(x, [0, 0, 0, 0]), X),
        (lambda x: prims.convert_element_type(x, torch.float32), X),
        (lambda x: prims.device_put(x, torch.device("cpu")), X),
        (torch.ceil, N),
        (torch.floor, N),
        (torch.round, N),
        (torch.trunc, N),
        (lambda x: x.pow(1), X),
        (lambda x: torch.cat([x]), X),
        (lambda x: aten.view.default(x, [3, 4]), X),
        (lambda x: aten.view.dtype(x, torch.float32), X),
        (lambda x: aten.copy(x * 0, x), X),
        (aten.alias, X),
        (torch.clone, X),
    ],
)
def test_what_changes_nothing(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    made = optimized(lambda x: function(x + 1) - 1, x)
    assert record(made, "remove-noop-ops").rewrites == 1


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x: x[1:], X),
        (lambda x: aten.slice.Tensor(x, 1, 0, 4, 2), X),
        (lambda x: aten.slice_scatter(x, x[:1] * 2, 0, 0, 1), X),
        (lambda x: x.repeat(1, 2), X),
        (lambda x: x.repeat(1, 1, 1), X),
        (lambda x: aten.constant_pad_nd(x, [1, -1, 0, 0]), X),
        (lambda x: prims.convert_element_type(x, torch.float64), X),
        (torch.ceil, X),
        (lambda x: x.pow(2), X),
        (lambda x: torch.cat([x, x]), X),
        (lambda x: aten.view.default(x, [4, 3]), X),
        (lambda x: aten.view.dtype(x, torch.int32), X),
        (lambda x: x.t().clone(memory_format=torch.contiguous_format), X),
        (lambda x: x.expand(2, 3, 4).clone(), X),
    ],
)
def test_what_changes_something_stays(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    made = optimized(lambda x: function(x + 1) - 1, x)
    assert record(made, "remove-noop-ops").rewrites == 0


def test_outputs_stay_apart_from_inputs_and_from_each_other() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return x.clone(), y, y.clone()

    assert record(optimized(function, X), "remove-noop-ops").rewrites == 0


def test_a_copy_that_a_view_of_a_removed_copy_leads_to_stays() -> None:
    # The view looks as if it lay in the memory of the first copy, which is gone.
    assert_expected_inline(
        result(optimized(lambda x: x.clone().t().clone(), X)),
        """\
t = aten.t.default(arg0_1)
clone_1 = aten.clone.default(t)
return [clone_1]
""",
    )


def test_views_of_removed_copies_lie_in_the_source() -> None:
    made = optimized(lambda x: (x.clone().t() + 1, x), X)
    x, t, *_ = made.gm.graph.nodes
    assert t.target is aten.t.default
    assert t.meta["val"].untyped_storage()._cdata == x.meta["val"].untyped_storage()._cdata


def _swap(x: Tensor, y: Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def _add_own(x: Tensor, y: Tensor) -> Tensor:
    return x.index_add_(0, torch.tensor([0, 2, 1]), x.clone())


def _scatter(x: Tensor, y: Tensor) -> Tensor:
    z = x + 1
    return aten.index_add(z, 0, torch.tensor([2, 0, 1]), z.clone())


def _custom(x: Tensor, y: Tensor) -> Tensor:
    z = x + 1
    ops.accumulate(z, z.clone())
    return z


def _before_a_write(x: Tensor, y: Tensor) -> Tensor:
    old = x.clone()
    x.add_(1)
    return old * y


@pytest.mark.parametrize("function", [_swap, _add_own, _scatter, _custom, _before_a_write])
def test_copies_of_what_is_written_stay(function: Callable[..., Any]) -> None:
    gm, _ = aot_graph(function, X, X + 5)
    clones = len(gm.graph.find_nodes(op="call_function", target=aten.clone.default))
    made = optimized(function, X, X + 5)
    assert clones == len(made.gm.graph.find_nodes(op="call_function", target=aten.clone.default))


def test_a_copy_whose_elements_are_counted_from_its_start_stays() -> None:
    made = optimized(lambda x: x[1].clone().as_strided((2,), (1,), 0) + 1, X)
    assert "clone" in result(made)
    made = optimized(lambda x: x[1].clone()[1:] + 1, X)
    assert "clone" not in result(made)


def test_symbolic_sizes() -> None:
    made = optimized(lambda x: x[: x.shape[0]].repeat(1, 1).view(x.shape) + 1, X, dynamic=True)
    assert "aten.slice" not in result(made)
    assert "view" not in result(made)
    assert "repeat" not in result(made)


def test_placeholders_without_users_stay() -> None:
    made = optimized(lambda x, y: aten.copy(x, y) + 1, X, X)
    assert len(made.gm.graph.find_nodes(op="placeholder")) == 2
    assert "copy" not in result(made)


def test_a_chain_in_linear_time() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        for _ in range(300):
            y = y.clone()
        return y * 2

    gm, inputs = aot_graph(function, X)
    made = optimize_fx(gm, inputs, None, Options(), mode="capture")
    assert text(made.gm).count("clone") == 0


def test_summary() -> None:
    assert (
        RemoveNoopOps.summary()
        == "``y = clone(x)``, a full ``slice``, ``repeat`` by ones and their like: ``y`` becomes ``x``."
    )
