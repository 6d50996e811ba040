"""Updates of inputs through views, with operators of the device plug-in that the test defines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from tests.frontend.fx_graphs import aot_graph, optimized, record, targets
from torchair.config import Options
from torchair.frontend import optimize_fx

npu: Any = torch.ops.npu


@pytest.fixture
def plugin() -> Iterator[Any]:
    """``npu::scatter_update``: rows of the first argument are replaced, in a copy or in place."""

    def write(x: Tensor, index: Tensor, rows: Tensor) -> Tensor:
        x[index] = rows
        return x

    with torch.library._scoped_library("npu", "FRAGMENT") as library:
        library.define("scatter_update(Tensor data, Tensor indices, Tensor updates) -> Tensor")
        library.define("scatter_update_(Tensor(a!) data, Tensor indices, Tensor updates) -> Tensor(a!)")
        library.impl("scatter_update", lambda x, i, r: write(x.clone(), i, r), "CompositeExplicitAutograd")
        library.impl("scatter_update_", write, "CompositeExplicitAutograd")
        library.impl("scatter_update", lambda x, i, r: torch.empty_like(x), "Meta")
        library.impl("scatter_update_", lambda x, i, r: x, "Meta")
        yield library


X = torch.zeros(2, 3, 4)
INDEX = torch.tensor([1, 4])
R = torch.ones(2, 4)


def _update(x: Tensor, i: Tensor, r: Tensor) -> None:
    x.copy_(npu.scatter_update(x.view(6, 4), i, r).view(2, 3, 4))


@pytest.mark.usefixtures("plugin")
def test_an_update_through_a_view() -> None:
    made = optimized(_update, X, INDEX, R)
    assert targets(made) == ["view.default", "scatter_update_.default"]
    (view,) = made.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.view.default)
    (update,) = view.users
    assert update.args[0] is view


def _read_too(x: Tensor, i: Tensor, r: Tensor) -> Tensor:
    old = x + 1
    _update(x, i, r)
    return old


def _read_result(x: Tensor, i: Tensor, r: Tensor) -> Tensor:
    new = npu.scatter_update(x.view(6, 4), i, r)
    x.copy_(new.view(2, 3, 4))
    return new * 2


def _view_read(x: Tensor, i: Tensor, r: Tensor) -> Tensor:
    view = x.view(6, 4)
    x.copy_(npu.scatter_update(view, i, r).view(2, 3, 4))
    return view * 2


def _no_view(x: Tensor, i: Tensor, r: Tensor) -> None:
    x.copy_(npu.scatter_update(x, i[:1], r[None, :1].expand(1, 3, 4)))


@pytest.mark.parametrize("function", [_read_too, _read_result, _view_read, _no_view])
@pytest.mark.usefixtures("plugin")
def test_near_misses(function: Any) -> None:
    assert record(optimized(function, X, INDEX, R), "recover-inplace-views").rewrites == 0


@pytest.mark.usefixtures("plugin")
def test_an_update_that_goes_into_another_input() -> None:
    def function(x: Tensor, i: Tensor, r: Tensor, y: Tensor) -> None:
        y.copy_(npu.scatter_update(x.view(6, 4), i, r).view(2, 3, 4))

    assert record(optimized(function, X, INDEX, R, X + 1), "recover-inplace-views").rewrites == 0


@pytest.mark.usefixtures("plugin")
def test_ge_mode_keeps_the_views_of_what_is_written() -> None:
    gm, inputs = aot_graph(_update, X, INDEX, R)
    made = optimize_fx(gm, inputs, None, Options(), mode="ge")
    assert [n.target for n in made.gm.graph.nodes if n.op == "call_function"] == [
        torch.ops.aten.reshape.default,
        npu.scatter_update_.default,
    ]


def test_nothing_happens_without_the_plug_in() -> None:
    gm = fx.symbolic_trace(lambda x: x)
    from torchair.frontend.inplace_recovery import RecoverInplaceViews

    assert RecoverInplaceViews().run(gm) == 0
