"""Measurements that are tables of their own: launch cost in the plan, and capture time over the size of the graph."""

from __future__ import annotations

import importlib
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.cases import CASES, CHAIN_OPERATORS
from benchmarks.harness import Prepared, Reference, Variant, prepare, progress
from benchmarks.results import Row, Table
from benchmarks.timing import Spread, Timing, interleave

__all__ = ["SIZES", "TABLES", "capture_scaling", "launch_cost", "operator_graph"]

#: Names and one line each, as ``--list`` shows them.
TABLES: Mapping[str, str] = {
    "launch_cost": "what one more operator on 4 values costs: (tiny60 - one_op) / 59, by variant",
    "capture_scaling": "time to compile and capture graphs of 500 to 5,000 operators through npugraph_ex.compile_fx",
    "lanes": "two branches on two streams over the same plan on one lane: small and large products, a slow callback",
    "compile_scaling": "compile time, memory and functions of the decode step with 2 to 32 layers, in fresh processes",
}

SIZES = (500, 1000, 2000, 5000)


def launch_cost(variants: Sequence[Variant], device: torch.device, timing: Timing) -> Table:
    """Cost of one more operator: both graphs of a variant are timed interleaved and subtracted round by round.

    What a call costs whatever is in the graph (Dynamo's guards, AOTAutograd) drops out.
    """
    columns = ("variant", "tiny60 us", "one_op us", "us an operator", "q1", "q3", "remark")
    rows: list[tuple[str | float | None, ...]] = []
    failed = False
    torch.compiler.reset()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        references = {name: Reference(CASES[name], device) for name in ("tiny60", "one_op")}
        for variant in variants:
            ready: dict[str, Prepared] = {}
            problem: Row | None = None
            for name, reference in references.items():
                found = prepare(reference, variant, folder, timing)
                if isinstance(found, Row):
                    problem = found
                    break
                ready[name] = found
            if problem is not None:
                failed = failed or problem.status in ("wrong", "failed")
                rows.append((variant.name, None, None, None, None, None, f"{problem.status}: {problem.reason}"))
                continue
            times = interleave({name: one.call for name, one in ready.items()}, timing)
            pairs = zip(times["tiny60"], times["one_op"], strict=True)
            cost = Spread.of([1e6 * (many - one) / (CHAIN_OPERATORS - 1) for many, one in pairs])
            many, one = (1e6 * statistics.median(times[name]) for name in ("tiny60", "one_op"))
            rows.append((variant.name, many, one, cost.median, cost.low, cost.high, ""))
    torch.compiler.reset()
    what = (
        "What one more operator on 4 values costs: (tiny60 - one_op) / 59. Inductor fuses all of them into one loop, "
        "so its value is arithmetic alone. Goal for npugraph_ex on CPU: at most 0.5 us."
    )
    return Table("launch_cost", what, columns, tuple(rows), failed)


def capture_scaling(sizes: Sequence[int], device: torch.device, timing: Timing, *, repeats: int = 3) -> Table:
    """Time of ``npugraph_ex.compile_fx`` and of the first run, which captures; medians over ``repeats``.

    The graphs are ready ATen graphs, so that neither Dynamo nor AOTAutograd is in the time.
    """
    columns = ("operators", "compile s", "first run s", "us an operator", "second run ms", "remark")
    rows: list[tuple[str | float | None, ...]] = []
    failed = False
    for size in sizes:
        progress(f"capture_scaling: {size} operators")
        try:
            compiled, first, second, wrong = _capture(size, device, timing, repeats)
        except NotImplementedError as error:
            rows.append((float(size), None, None, None, None, f"not available: {str(error).splitlines()[0]}"))
            continue
        except Exception as error:  # noqa: BLE001 (the other sizes go on)
            failed = True
            reason = (str(error).splitlines() or [""])[0]
            rows.append((float(size), None, None, None, None, f"failed: {type(error).__name__}: {reason}"))
            continue
        failed = failed or bool(wrong)
        rows.append((float(size), compiled, first, 1e6 * (compiled + first) / size, 1e3 * second, wrong))
    what = (
        "Time of npugraph_ex.compile_fx on a ready ATen graph and of the first run, which captures it. "
        "Linear if the time an operator stays the same."
    )
    return Table("capture_scaling", what, columns, tuple(rows), failed)


def operator_graph(size: int, device: torch.device) -> tuple[fx.GraphModule, tuple[Tensor, ...]]:
    """An ATen graph of exactly ``size`` operators in layers of a product, an addition, a tanh and a product."""
    inputs = tuple(torch.randn(8, 8, generator=torch.Generator().manual_seed(i)).to(device) for i in range(3))

    def network(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
        for i in range(size):
            match i % 4:
                case 0:
                    x = torch.mm(x, weight)
                case 1:
                    x = x + bias
                case 2:
                    x = torch.tanh(x)
                case _:
                    x = x * 0.5
        return (x,)

    return make_fx(network, tracing_mode="fake")(*inputs), inputs


def _capture(size: int, device: torch.device, timing: Timing, repeats: int) -> tuple[float, float, float, str]:
    """Median seconds of compiling, first and second run, and what is wrong with the numbers."""
    compile_fx: Any = importlib.import_module("npugraph_ex").compile_fx
    taken: list[tuple[float, float, float]] = []
    with torch.no_grad():
        for _ in range(repeats):
            graph, inputs = operator_graph(size, device)
            expected = graph(*inputs)
            marks = [timing.clock()]
            run = compile_fx(graph, inputs)
            marks.append(timing.clock())
            for _ in range(2):
                got = run(*inputs)
                timing.synchronize()
                marks.append(timing.clock())
            if not torch.allclose(got[0], expected[0], rtol=1e-4, atol=1e-5):
                return marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2], "wrong: differs from eager"
            taken.append((marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2]))
    compiled, first, second = (statistics.median(column) for column in zip(*taken, strict=True))
    return compiled, first, second, ""
