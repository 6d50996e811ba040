"""Option ``device_semantics``: a CPU run with the fixed addresses of a device graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import torchair
from torchair.errors import CaptureError


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters["npugraph_ex"].clear()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], dynamic: bool = False, **options: Any) -> Any:
    options = {"device_semantics": True, **options}
    return torch.compile(function, backend="npugraph_ex", options=options, dynamic=dynamic, fullgraph=True)


def count(kind: str) -> int:
    return sum(n for name, n in counters["npugraph_ex"].items() if name.startswith(kind))


def affine(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 2 + 1


def test_outputs_are_overwritten_by_the_next_run() -> None:
    run = compiled(affine)
    a, b = torch.randn(4), torch.randn(4)
    first = run(a)
    torch.testing.assert_close(first, affine(a))
    second = run(b)
    assert first.data_ptr() == second.data_ptr()
    torch.testing.assert_close(first, affine(b))


def test_outputs_are_copies_if_asked_for() -> None:
    run = compiled(affine, clone_output=True)
    a, b = torch.randn(4), torch.randn(4)
    first, _ = run(a), run(b)
    torch.testing.assert_close(first, affine(a))


def test_captures_of_other_shapes_overwrite_results_and_say_so_once() -> None:
    run = compiled(affine, dynamic=True)
    small = run(torch.zeros(4))
    with pytest.warns(UserWarning, match="clone_output=True") as caught:
        run(torch.ones(8))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(torch.ones(6))
    assert small.tolist() != [1.0] * 4


def test_captures_with_memory_of_their_own_overwrite_nothing() -> None:
    run = compiled(affine, dynamic=True, reuse_graph_pool_in_same_fx=False)
    small = run(torch.zeros(4))
    run(torch.ones(8))
    assert small.tolist() == [1.0] * 4


def test_a_moved_parameter_is_another_capture() -> None:
    model = nn.Linear(3, 2)
    run, x = compiled(model), torch.randn(4, 3)
    torch.testing.assert_close(run(x), model(x))
    model.weight.mul_(2)
    torch.testing.assert_close(run(x), model(x))
    assert count("captured_") == 1
    model.weight.data = torch.randn(2, 3)
    torch.testing.assert_close(run(x), model(x))
    assert count("captured_") == 2
    assert count("recapture_") == 0


def test_a_frozen_parameter_that_moves_is_an_error() -> None:
    model = nn.Linear(3, 2)
    run, x = compiled(model, frozen_parameter=True), torch.randn(4, 3)
    run(x)
    model.weight.data = torch.randn(2, 3)
    with pytest.raises(CaptureError, match="A frozen parameter has another address"):
        run(x)


def test_a_moved_written_input_is_captured_again() -> None:
    def step(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache.sum()

    run = compiled(step)
    cache, other = torch.zeros(3), torch.zeros(3)
    for i in range(1, 3):
        assert run(cache, torch.ones(3)).item() == 3 * i
    assert count("recapture_due_to_mutated_input_change_") == 0
    assert run(other, torch.ones(3)).item() == 3
    assert other.tolist() == [1.0] * 3
    assert count("recapture_due_to_mutated_input_change_") == count("captured_") == 1
    assert [r.reason for r in torchair.explain(run).recaptures] == ["mutated_input_change"]


def test_inputs_are_copied_into_buffers() -> None:
    run = compiled(affine)
    a, b = torch.randn(4), torch.randn(4)
    kept = a.clone()
    run(a)
    torch.testing.assert_close(run(b), affine(b))
    assert torch.equal(a, kept)


def test_without_buffers_inputs_are_copied_into_the_first_call_s() -> None:
    run = compiled(affine, clone_input=False)
    a, b = torch.randn(4), torch.randn(4)
    run(a)
    torch.testing.assert_close(run(b), affine(b))
    assert torch.equal(a, b)


def test_graphs_that_are_trained_run_eagerly() -> None:
    model = nn.Linear(3, 1)
    run = compiled(model)
    with torch.enable_grad(), pytest.warns(UserWarning, match="Graphs that are trained are not captured"):
        run(torch.ones(2, 3)).sum().backward()
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[2.0] * 3]
    assert len(torchair.explain(run).fallbacks) == 2
