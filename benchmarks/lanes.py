"""What streams bring: plans of two lanes against the same plans on one lane, interleaved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.harness import progress
from benchmarks.results import Table
from benchmarks.timing import Spread, Timing, interleave

__all__ = ["LANE_CASES", "LaneCase", "lanes"]

Branch = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class LaneCase:
    """Two branches that do not need each other.

    Attributes:
        size: Rows and columns of the matrix that both take.
        first: What runs on the default stream.
        second: What runs on the other one.
        goal: Time on two lanes over time on one lane, at most.
    """

    what: str
    size: int
    first: Branch
    second: Branch
    goal: float


def products(count: int) -> Branch:
    """A chain of products of square matrices."""

    def branch(x: Tensor) -> Tensor:
        result = x
        for _ in range(count):
            result = result @ x
        return result

    return branch


@torch.library.custom_op("benchmarks::wait", mutates_args=())
def _wait(x: Tensor, seconds: float) -> Tensor:
    """What takes time and no core: a callback, a collective."""
    time.sleep(seconds)
    return x.clone()


@_wait.register_fake
def _(x: Tensor, seconds: float) -> Tensor:
    return torch.empty_like(x)


LANE_CASES: Mapping[str, LaneCase] = {
    "small_products": LaneCase("two chains of 100 products of 32x32", 32, products(100), products(100), 0.65),
    "large_products": LaneCase("two chains of 3 products of 1024x1024", 1024, products(3), products(3), 1.05),
    "slow_callback": LaneCase(
        "a callback that sleeps 5 ms, beside a chain of 1000 products of 64x64 that takes about as long",
        64,
        products(1000),
        lambda x: torch.ops.benchmarks.wait(x, 0.005),
        0.65,
    ),
}


def lanes(timing: Timing, cases: Mapping[str, LaneCase] = LANE_CASES) -> Table:
    """Times of each case on one lane and on two."""
    columns = ("case", "one lane us", "two lanes us", "ratio", "q1", "q3", "goal", "remark")
    rows: list[tuple[str | float | None, ...]] = []
    failed = False
    with torch.no_grad():
        for name, case in cases.items():
            progress(f"lanes: {name}")
            calls, wrong = _calls(case)
            failed = failed or bool(wrong)
            times = interleave(calls, timing)
            one, two = (1e6 * statistics.median(times[n]) for n in ("one", "two"))
            ratio = Spread.of([b / a for a, b in zip(times["one"], times["two"], strict=True)])
            remark = wrong or ("met" if ratio.median <= case.goal else "missed")
            rows.append((name, one, two, ratio.median, ratio.low, ratio.high, case.goal, remark))
    texts = "; ".join(f"{name}: {case.what}" for name, case in cases.items())
    what = (
        "Two branches that do not need each other, on two streams, over the same plan with TORCHAIR_SINGLE_LANE=1: "
        f"below 1 is faster. {texts}."
    )
    return Table("lanes", what, columns, tuple(rows), failed)


def _calls(case: LaneCase) -> tuple[dict[str, Callable[[], object]], str]:
    """Calls of both ways, and what is wrong with their results."""
    from torchair.runtime.instance import Instance, new_arena

    x = torch.randn(case.size, case.size, generator=torch.Generator().manual_seed(0)) / case.size**0.5
    graph = _graph(case, x)
    expected = graph(x)
    calls: dict[str, Callable[[], object]] = {}
    wrong = ""
    for name in ("one", "two"):
        instance = Instance(_plan(graph), new_arena(), one_lane=name == "one")
        got = instance.run([x])
        if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(got, expected, strict=True)):
            wrong = f"wrong: {name} differs from eager"
        calls[name] = _call(instance, x)
    return calls, wrong


def _call(instance: Any, x: Tensor) -> Callable[[], object]:
    return lambda: instance.replay([x])


def _plan(graph: fx.GraphModule) -> Any:
    from torchair.capture.record import record

    return record(graph, {})


def _graph(case: LaneCase, x: Tensor) -> fx.GraphModule:
    """The graph of both branches, with labels as frontends give them."""
    from torchair.streams import set_stream

    parts = [make_fx(branch, tracing_mode="fake")(x) for branch in (case.first, case.second)]
    graph = fx.Graph()
    given = graph.placeholder("x")
    outputs = []
    for label, part in zip(("", "side"), parts, strict=True):
        new: dict[fx.Node, Any] = {}
        for node in part.graph.nodes:
            if node.op == "placeholder":
                new[node] = given
                given.meta.setdefault("val", node.meta["val"])
            elif node.op == "output":
                outputs += [new[n] for n in node.all_input_nodes]
            else:
                new[node] = graph.node_copy(node, new.__getitem__)
                set_stream(new[node], label)
    graph.output(tuple(outputs))
    return fx.GraphModule(torch.nn.Module(), graph)
