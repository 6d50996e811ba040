"""``record_trace`` and ``Explanation.traces``: what ran when, in both modes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from torchair.errors import ArgumentError, ArgumentTypeError


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def affine(x: Tensor) -> Tensor:
    return torch.mm(torch.tanh(x), x) * 2 + 1


def ge_backend(engine: str = "native") -> Any:
    config = torchair.CompilerConfig()
    config.engine = engine
    return torchair.get_npu_backend(compiler_config=config)


OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "npugraph_ex": lambda: {"backend": "npugraph_ex"},
    "static outputs": lambda: {"backend": "npugraph_ex", "options": {"clone_output": False}},
    "device_semantics": lambda: {"backend": "npugraph_ex", "options": {"device_semantics": True}},
    "ge": lambda: {"backend": ge_backend()},
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", OPTIONS)
def test_runs_are_recorded(kind, dynamic) -> None:
    run = torch.compile(affine, dynamic=dynamic, **OPTIONS[kind]())
    x = torch.randn(8, 8)
    with torch.no_grad():
        expected = run(x).clone()
        with torchair.record_trace(run) as recorded:
            assert torch.equal(run(x), expected)
            assert torch.equal(run(x), expected)
        assert torch.equal(run(x), expected)  # not recorded
    trace = recorded.trace
    assert len(trace.streams) == 2  # of two runs
    (logical,) = torchair.explain(run).traces().values()
    for tasks in trace.streams.values():
        assert [task.name for task in tasks] == [task.name for task in logical.tasks]
        assert all(task.duration > 0 for task in tasks)
        assert all(a.end <= b.start for a, b in itertools.pairwise(tasks))
    first, second = trace.streams.values()
    assert first[0].start == 0
    assert first[-1].end < second[0].start


def test_after_a_recording_calls_need_no_python_again() -> None:
    run = torch.compile(affine, backend="npugraph_ex", dynamic=False)
    x = torch.randn(8, 8)
    with torch.no_grad():
        run(x)
        run(x)
        ((_, graph),) = torchair.pipeline.explain.captured_graphs(run)
        before = graph._only
        with torchair.record_trace(run):
            assert graph._only is None
            run(x)
        assert before is not None
        assert graph._only is before
        run(x)


def test_new_sizes_inside_a_recording() -> None:
    run = torch.compile(affine, backend="npugraph_ex", dynamic=True)
    with torch.no_grad():
        run(torch.randn(4, 4))
        with torchair.record_trace(run) as recorded:
            run(torch.randn(6, 6))
        assert len(recorded.trace.streams) == 1
        run(torch.randn(6, 6))
    assert len(recorded.trace.streams) == 1
    assert len(torchair.explain(run).traces()) == 2


def test_backward_passes_are_recorded() -> None:
    run = torch.compile(affine, backend="npugraph_ex")
    x = torch.randn(4, 4, requires_grad=True)
    run(x).sum().backward()
    with torchair.record_trace(run) as recorded:
        run(x).sum().backward()
    assert len(recorded.trace.streams) == 2


def test_an_error_ends_the_recording() -> None:
    run = torch.compile(affine, backend="npugraph_ex", dynamic=False)
    x = torch.randn(4, 4)
    with torch.no_grad():
        run(x)
        with pytest.raises(RuntimeError), torchair.record_trace(run) as recorded:  # noqa: PT012
            run(x)
            run(torch.randn(2, 3))  # cannot be multiplied with itself
        run(x)
    assert len(recorded.trace.streams) == 1


@pytest.mark.parametrize("kind", ["not called", "reference", "eager"])
def test_nothing_to_record(kind) -> None:
    options: dict[str, Any] = {
        "not called": {"backend": "npugraph_ex"},
        "reference": {"backend": ge_backend("reference")},
        "eager": {"backend": "npugraph_ex", "options": {"force_eager": True}},
    }[kind]
    run = torch.compile(affine, **options)
    if kind != "not called":
        run(torch.ones(2, 2))
    with pytest.raises(ArgumentError, match="There is nothing to record"), torchair.record_trace(run):
        pass


def test_what_is_not_compiled() -> None:
    with pytest.raises(ArgumentTypeError), torchair.record_trace(affine):
        pass
