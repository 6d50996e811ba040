"""Copies of what was traced: the same graph as without, and made where they should be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.models import build_decode, build_prefill
from tests.conformance.op_db import backend
from tests.engines.traced_twice import traced_twice
from tests.pipeline.agreement import assert_agrees
from tests.pipeline.programs import PROGRAMS

CASES = [
    # Nothing is copied where sizes are symbols, so that these traces say less.
    pytest.param(name, dynamic, marks=pytest.mark.slow if dynamic else ())
    for name, program in PROGRAMS.items()
    for dynamic in program.dynamic
    if name != "random_numbers"
]


@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_program_three_times_over(name: str, dynamic: bool | None) -> None:
    program = PROGRAMS[name]

    def function(*args: Any) -> Any:
        return [program.function(*args) for _ in range(3)]

    compiled = torch.compile(function, backend=backend("inductor"), fullgraph=program.fullgraph, dynamic=dynamic)
    with traced_twice() as count, torch.inference_mode(program.inference_mode):
        assert_agrees(function, compiled, program.calls()[0], rtol=1e-5, atol=1e-6, aliasing=False)
    assert count.traces or not program.fullgraph


@pytest.mark.parametrize("build", [build_decode, build_prefill])
def test_equal_layers_are_copied(build: Any) -> None:
    workload = build(torch.device("cpu")) if build is build_prefill else build(torch.device("cpu"), layers=3)
    compiled = torch.compile(workload.function, backend=backend("inductor"), fullgraph=True)
    with traced_twice() as count, torch.no_grad():
        compiled(*workload.inputs(0))
    assert count.traces == 1
    assert count.copied > 60


def _copies(function: Any, *args: Any, dynamic: bool | None = None) -> int:
    """How many nodes of a function got copies; its results are right."""
    compiled = torch.compile(function, backend=backend("inductor"), fullgraph=True, dynamic=dynamic)
    with traced_twice() as count:
        assert_agrees(function, compiled, args, rtol=1e-5, atol=1e-6)
    assert count.traces == 1
    return count.copied


class TestWhatIsCopied:
    def test_a_second_call_of_an_operator(self) -> None:
        assert _copies(lambda x: torch.sin(torch.sin(x)), torch.ones(3)) == 1

    def test_an_operator_of_several_results(self) -> None:
        def function(x: torch.Tensor) -> Any:
            for _ in range(3):
                x = nn.functional.layer_norm(x, [8])
                a, b = x.split(4, -1)
                x = torch.cat([b, a], -1)
            return x

        assert _copies(function, torch.randn(2, 8)) >= 2 * 3

    def test_views(self) -> None:
        assert _copies(lambda x, y: (x.t() + 1, y.t() + 1), torch.randn(3, 4), torch.randn(3, 4)) == 2

    def test_inside_a_loop_with_a_view_at_the_end(self) -> None:
        def function(x: torch.Tensor) -> Any:
            for _ in range(4):
                x = torch.relu(x @ x.t()).t()
            return x

        assert _copies(function, torch.randn(4, 4)) == 5


class TestWhatIsTraced:
    """Another graph would come out."""

    def test_another_type(self) -> None:
        assert _copies(lambda x, y: (torch.sin(x), torch.sin(y)), torch.ones(3), torch.ones(4)) == 0
        assert _copies(lambda x, y: (torch.sin(x), torch.sin(y)), torch.ones(3), torch.ones(3).double()) == 0
        assert _copies(lambda x, y: (torch.sin(x), torch.sin(y)), torch.ones(3, 3), torch.ones(3, 3).t()) == 0

    def test_another_attribute(self) -> None:
        assert _copies(lambda x: (torch.sum(x, 0), torch.sum(x, 1)), torch.ones(3, 3)) == 0
        assert (
            _copies(lambda x: (nn.functional.leaky_relu(x, 0.0), nn.functional.leaky_relu(x, -0.0)), torch.ones(3)) == 0
        )

    def test_one_operand_twice(self) -> None:
        assert _copies(lambda x, y: (x * x, x * y, y * y), torch.ones(3), torch.ones(3)) == 1

    def test_what_is_written_later(self) -> None:
        def function(x: torch.Tensor) -> Any:
            a, b = torch.sin(x), torch.sin(x + 1)
            view = b[1:]
            view.mul_(2)
            return a, b, view

        _copies(function, torch.ones(3))

    def test_symbolic_sizes(self) -> None:
        assert _copies(lambda x: torch.sin(torch.sin(x)), torch.ones(3), dynamic=True) == 0
