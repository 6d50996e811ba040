"""The runner of passes over FX graphs: records, fuel, and types that stay true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, fx

from tests.frontend.fx_graphs import aot_graph, check_values, optimized, record, result
from tests.passes.checking import logged
from torchair.config import Options
from torchair.config.options import UserFunction
from torchair.errors import PassError
from torchair.frontend import FX_PASS_NAMES, optimize_fx, run_capture_passes
from torchair.frontend.fx_pass import FxPass, FxPassRunner

aten = torch.ops.aten
X = torch.randn(3, 4)


@dataclass(slots=True)
class Exchange(FxPass):
    """One operator becomes another."""

    name: ClassVar[str] = "exchange"
    old: Any = aten.sin.default
    new: Any = aten.cos.default

    def run(self, gm: fx.GraphModule) -> int:
        found = gm.graph.find_nodes(op="call_function", target=self.old)
        for node in found:
            node.target = self.new
        return len(found)


@dataclass(slots=True)
class Fails(FxPass):
    """An exception."""

    name: ClassVar[str] = "fails"

    def run(self, gm: fx.GraphModule) -> int:
        raise KeyError("x")


def test_records_and_fuel() -> None:
    gm, _ = aot_graph(lambda x: x.sin().exp(), X)
    passes = [Exchange(), Exchange(aten.tan.default), Exchange(aten.exp.default, aten.tanh.default), Exchange()]
    runner = FxPassRunner(passes, pass_fuel=1)
    first, second, third, fourth = runner.run(gm)
    assert (first.name, first.rewrites, first.skipped) == ("exchange", 1, "")
    assert first.seconds > 0
    assert second.skipped == third.skipped == fourth.skipped == "no fuel"
    assert runner.fuel_left == 0
    assert [n.target for n in gm.graph.nodes][1:-1] == [aten.cos.default, aten.exp.default]
    assert torch.equal(gm(X)[0], X.cos().exp())


def test_passes_that_change_nothing_use_no_fuel() -> None:
    gm, _ = aot_graph(lambda x: x.sin(), X)
    runner = FxPassRunner([Exchange(aten.tan.default), Exchange()], pass_fuel=1)
    assert [r.rewrites for r in runner.run(gm)] == [0, 1]
    assert FxPassRunner([Exchange()]).fuel_left is None


def test_disabled_and_switched_off() -> None:
    gm, _ = aot_graph(lambda x: x.sin(), X)
    runner = FxPassRunner([Exchange(), Fails()], disabled_passes=["exchange", "other"], switched_off={"fails": "f=0"})
    assert [r.skipped for r in runner.run(gm)] == ["disabled", "switched off: f=0"]


def test_a_pass_that_leaves_an_invalid_graph() -> None:
    gm, _ = aot_graph(lambda x: x @ x.t(), X)
    with pytest.raises(PassError, match=r"exchange: node mm, aten\.bmm\.default: RuntimeError") as caught:
        FxPassRunner([Exchange(aten.mm.default, aten.bmm.default)]).run(gm)
    assert "in <lambda>: gm, _ = aot_graph(lambda x: x @ x.t(), X)" in caught.value.where[0]


def test_a_graph_must_return_the_types_that_it_returned() -> None:
    gm, _ = aot_graph(lambda x: x.sin(), X)
    with pytest.raises(PassError, match=r"output 0 was float32\[3, 4\], and is now bool\[3, 4\]"):
        FxPassRunner([Exchange(aten.sin.default, aten.isnan.default)]).run(gm)


def test_a_view_that_is_no_longer_legal_becomes_a_reshape() -> None:
    def function(x: Tensor) -> Tensor:
        return aten.view.default(aten.clone.default(x, memory_format=torch.contiguous_format) * 2, [12]) + 1

    y = X.t().contiguous().t()

    def transposing(gm: fx.GraphModule, inputs: Any, config: Any) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=aten.clone.default):
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)

    made = optimized(function, y, options=Options(post_grad_custom_pre_pass=UserFunction.of(transposing)))
    assert "aten.reshape.default" in result(made)
    check_values(made.gm)


def test_names() -> None:
    assert FX_PASS_NAMES == (
        "post_grad_custom_pre_pass",
        "remove-noop-ops",
        "recover-inplace-views",
        "rewrite-symbolic-inputs",
        "fuse-patterns",
        "views-to-reshapes",
        "post_grad_custom_post_pass",
        "remove-cat-ops",
    )


def test_order_and_modes() -> None:
    gm, inputs = aot_graph(lambda x: x[:].view(4, 3) + 1, X)
    seen: list[str] = []

    def custom(name: str) -> UserFunction | None:
        return UserFunction.of(lambda gm, inputs, config: seen.append(f"{name}: {config}, {len(inputs)} inputs"))

    options = Options(post_grad_custom_pre_pass=custom("pre"), post_grad_custom_post_pass=custom("post"))
    ge = optimize_fx(gm, inputs, "the config", options, mode="ge")
    assert seen == ["pre: the config, 1 inputs", "post: the config, 1 inputs"]
    assert [r.name for r in ge.records] == list(FX_PASS_NAMES[:-1])
    assert [r.rewrites for r in ge.records] == [0, 1, 0, 0, 0, 1, 0]
    assert [n.target for n in ge.gm.graph.nodes][1] is aten.reshape.default
    capture = run_capture_passes(optimize_fx(gm, inputs, None, Options(), mode="capture"), Options())
    assert [r.name for r in capture.records] == [
        "remove-noop-ops",
        "recover-inplace-views",
        "fuse-patterns",
        "remove-cat-ops",
    ]
    assert [n.target for n in capture.gm.graph.nodes][1] is aten.view.default


def test_fuel_goes_through_both_lists() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cat([x[:] + 1, x * 2])

    gm, inputs = aot_graph(function, X)
    for fuel, left, cats in [(0, 0, 1), (1, 0, 1), (2, 0, 0), (3, 1, 0)]:
        options = Options(pass_fuel=fuel)
        made = run_capture_passes(optimize_fx(gm, inputs, None, options, mode="capture"), options)
        assert made.fuel_left == left
        assert len(made.gm.graph.find_nodes(op="call_function", target=aten.cat.default)) == cats
        assert torch.equal(made.gm(X)[0], function(X))


@pytest.mark.parametrize("name", FX_PASS_NAMES)
def test_each_pass_can_be_disabled(name: str) -> None:
    options = Options(disabled_passes=(name,), post_grad_custom_pre_pass=UserFunction.of(lambda *args: None))
    made = optimized(lambda x: torch.cat([x[:].view(4, 3) + 1, x.view(4, 3) * 2]), X, options=options, cats=True)
    assert all((r.skipped == "disabled") == (r.name == name) for r in made.records)


def test_the_user_need_not_give_types() -> None:
    def custom(gm: fx.GraphModule, inputs: Any, config: Any) -> None:
        (node,) = gm.graph.find_nodes(op="call_function", target=aten.sin.default)
        with gm.graph.inserting_before(node):
            doubled = gm.graph.call_function(aten.neg.default, (node.args[0],))
            view = gm.graph.call_function(aten.t.default, (doubled,))
            back = gm.graph.call_function(aten.t.default, (view,))
        node.replace_input_with(node.args[0], back)

    gm, inputs = aot_graph(lambda x: x.sin(), X)
    options = Options(post_grad_custom_post_pass=UserFunction.of(custom))
    with logged("torchair") as messages:
        made = optimize_fx(gm, inputs, None, options, mode="ge")
    check_values(made.gm)
    assert record(made, "post_grad_custom_post_pass").rewrites == 4
    assert torch.equal(made.gm(X)[0], (-X).sin())
    texts = [m.partition(", graph is")[0] for m in messages]
    for line in [
        "before post_grad_custom_post_pass",
        "after post_grad_custom_post_pass",
        "before sym input optimization",
        "after sym input optimization",
        "After removing noop ops",
        "after fx graph optimization",
    ]:
        assert line in texts


def test_log_of_capture_mode() -> None:
    gm, inputs = aot_graph(lambda x: x.sin(), X)
    with logged("npugraph_ex") as messages:
        optimize_fx(gm, inputs, None, Options(), mode="capture")
    assert [m.partition(", graph is")[0] for m in messages] == [
        "After removing noop ops",
        "after fx graph optimization",
    ]
