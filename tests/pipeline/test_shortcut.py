"""The way past AOTAutograd's wrapper: taken where the wrapper does nothing, and only by calls that replay."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchair
from tests.conformance.op_db import CAPTURE, backend
from tests.pipeline.test_capture_processes import in_threads
from torchair.capture.life_cycle import Capture, CapturedGraph
from torchair.errors import ExecutionError
from torchair.pipeline import backends, shortcut


class _Seen:
    """Whether calls went through the wrapper."""

    def __init__(self) -> None:
        self.wrapped = 0
        self.graphs: list[CapturedGraph] = []

    @property
    def capture(self) -> Capture:
        (graph,) = self.graphs
        (capture,) = graph.captures.values()
        return capture


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> _Seen:
    seen, beside, see = _Seen(), shortcut.Shortcut.beside, shortcut.Shortcut.see

    def counting(self: shortcut.Shortcut, wrapped: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any) -> Any:
            seen.wrapped += 1
            return wrapped(*args)

        return beside(self, count)

    def noting(self: shortcut.Shortcut, graph: Any, compiled: Any) -> None:
        if isinstance(compiled, CapturedGraph):
            seen.graphs.append(compiled)
        see(self, graph, compiled)

    monkeypatch.setattr(shortcut.Shortcut, "beside", counting)
    monkeypatch.setattr(shortcut.Shortcut, "see", noting)
    return seen


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(function, backend=backend(CAPTURE), fullgraph=True, **options)
    return compiled


def _calls(compiled: Callable[..., Any], function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
    for _ in range(4):
        ours = make()
        theirs = tuple(t.clone() if isinstance(t, torch.Tensor) else t for t in ours)
        torch.testing.assert_close(compiled(*ours), function(*theirs), rtol=0, atol=0)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_replays_of_a_plain_graph_take_it(seen: _Seen) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.tanh(x * y), None, x + 1

    with torch.no_grad():
        _calls(_compiled(function), function, lambda: (torch.randn(4), torch.randn(4)))
    assert seen.wrapped == 1


def test_parameters_and_buffers_are_arguments(seen: _Seen) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        compiled = _compiled(model)
        _calls(compiled, model, lambda: (torch.randn(3, 4),))
        first: Any = model[0]
        first.weight.add_(1)
        model[2].weight = nn.Parameter(torch.randn(2, 4))
        _calls(compiled, model, lambda: (torch.randn(3, 4),))
    assert seen.wrapped <= 2


def _written(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(1)
    return x * y


def _view(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.t(), y + 1


def _same(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x, y + 1


def _views_of_one(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x + y
    return z, z.t()


def _shared(*tensors: torch.Tensor) -> list[list[bool]]:
    """Which of them lie in the same memory."""
    return [[a.data_ptr() == b.data_ptr() for b in tensors] for a in tensors]


@pytest.mark.parametrize("function", [_written, _view, _same, _views_of_one])
def test_a_wrapper_that_has_work_to_do_stays(seen: _Seen, function: Callable[..., Any]) -> None:
    compiled = _compiled(function)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            _calls(compiled, function, lambda: (torch.randn(3, 3), torch.randn(3, 3)))
            x, y = torch.randn(3, 3), torch.randn(3, 3)
            results = compiled(x, y)
            results = results if isinstance(results, tuple) else (results,)
            given = x.clone(), y.clone()
            expected = function(*given)
            expected = expected if isinstance(expected, tuple) else (expected,)
            assert _shared(*results, x, y) == _shared(*expected, *given)


def test_written_inputs_count_their_versions(seen: _Seen) -> None:
    compiled = _compiled(_written)
    x = torch.randn(3)
    for _ in range(3):
        before = x._version
        compiled(x, torch.ones(3))
        assert x._version > before


def test_the_same_tensor_twice_and_views_of_one(seen: _Seen) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 2 + y

    compiled = _compiled(function)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(6)
            assert torch.equal(compiled(x, x), function(x, x))
            assert torch.equal(compiled(x[:3], x[3:]), function(x[:3], x[3:]))


def test_autograd_is_off_in_a_replay_as_in_the_wrapper(seen: _Seen) -> None:
    modes: list[bool] = []

    @torch.library.custom_op("shortcut_tests::note_mode", mutates_args=())
    def note_mode(x: torch.Tensor) -> torch.Tensor:
        modes.append(torch.is_grad_enabled())
        return x + 1

    note_mode.register_fake(lambda x: torch.empty_like(x))
    compiled = _compiled(lambda x: note_mode(x) * 2)
    for _ in range(4):
        assert not compiled(torch.ones(3)).requires_grad
        assert torch.is_grad_enabled()
    assert modes == [False] * 4


def test_gradients_come_from_the_wrapper(seen: _Seen) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.tanh(x * y)

    compiled = _compiled(function)
    for _ in range(3):
        x, y = torch.randn(4, requires_grad=True), torch.randn(4)
        compiled(x, y).sum().backward()
        ours: Any = x.grad
        x.grad = None
        function(x, y).sum().backward()
        assert ours is not None
        theirs: Any = x.grad
        assert theirs is not None
        torch.testing.assert_close(ours, theirs)
    assert seen.wrapped == 3


def test_graphs_with_symbolic_sizes_keep_the_wrapper_which_marks_their_results(seen: _Seen) -> None:
    def function(x: torch.Tensor) -> Any:
        return (x + 1).sin() * x.shape[0]

    compiled = _compiled(function, dynamic=True)
    with torch.no_grad():
        for size in (3, 4, 5, 3, 4, 5, 3):
            x = torch.randn(size)
            assert torch.equal(compiled(x), function(x))
    assert seen.wrapped == 7


def test_each_size_has_a_way_of_its_own(seen: _Seen) -> None:
    def function(x: torch.Tensor) -> Any:
        return (x + 1).sin() * x.shape[0]

    compiled = _compiled(function, dynamic=False)
    with torch.no_grad():
        for size in (3, 4, 5, 3, 4, 5, 3):
            x = torch.randn(size)
            assert torch.equal(compiled(x), function(x))
    assert seen.wrapped == 3


def test_a_reset_leads_back_to_the_wrapper(seen: _Seen) -> None:
    def function(x: torch.Tensor) -> Any:
        return x + 1

    compiled = _compiled(function)
    with torch.no_grad():
        for round_ in range(1, 4):
            _calls(compiled, function, lambda: (torch.randn(4),))
            assert seen.wrapped == round_
            seen.graphs[0].reset()


def test_a_failure_in_a_replay_names_the_line(seen: _Seen) -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> Any:
        return (x * 2)[i]  # the line

    compiled = _compiled(function)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(3), torch.tensor([1])), torch.tensor([2.0]))
            with pytest.raises(ExecutionError, match=r"aten\.index") as caught:
                compiled(torch.ones(3), torch.tensor([7]))
            assert isinstance(caught.value, IndexError)
            assert isinstance(caught.value.__cause__, IndexError)
            assert "# the line" in str(caught.value)
            assert caught.value.__traceback__ is not None
    assert seen.wrapped == 1


def test_arenas_are_given_back_whatever_happens(seen: _Seen) -> None:
    compiled = _compiled(lambda x, i: (x * 2)[i])
    with torch.no_grad():
        for i in (1, 7, 1, 7, 7, 1):
            if i == 1:
                compiled(torch.ones(3), torch.tensor([i]))
            else:
                with pytest.raises(ExecutionError):
                    compiled(torch.ones(3), torch.tensor([i]))
            pool = seen.capture.pool
            assert len(pool.free) == pool.arenas


def test_inputs_live_no_longer_than_the_call(seen: _Seen) -> None:
    compiled = _compiled(lambda x, y: x * y + 1)
    with torch.no_grad():
        for _ in range(3):
            x = torch.ones(3)
            results = compiled(x, torch.ones(3))
            reference = weakref.ref(x)
            del x
            assert reference() is None
            reference = weakref.ref(results)
            del results
            assert reference() is None


def test_threads_replay_while_another_one_resets(seen: _Seen) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = torch.tanh(x * y) + x
        return x

    compiled = _compiled(function)
    wrong: list[int] = []

    def work(seed: int) -> None:
        with torch.no_grad():
            for i in range(300):
                x, y = torch.full((2000,), float(i)), torch.full((2000,), float(seed))
                if not torch.equal(compiled(x, y), function(x, y)):
                    wrong.append(i)
                if seed == 0 and i % 10 == 0:
                    seen.graphs[0].reset()

    work(1)
    in_threads(3, work)
    assert wrong == []
    assert len(seen.graphs) == 1
    pool = seen.capture.pool if seen.graphs[0].captures else None
    assert pool is None or len(pool.free) == pool.arenas


def test_a_call_in_a_callback_of_a_replay(seen: _Seen) -> None:
    """An operator written in Python that calls a compiled function while another one runs."""
    inner = _compiled(lambda x: (x + 1) * 2)

    @torch.library.custom_op("shortcut_tests::call_inner", mutates_args=())
    def call_inner(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    call_inner.register_fake(lambda x: torch.empty_like(x))
    outer = _compiled(lambda x: call_inner((x + 3) * 4) - 5)
    with torch.no_grad():
        for i in range(4):
            x = torch.full((3,), float(i))
            assert torch.equal(outer(x), (((x + 3) * 4) + 1) * 2 - 5)


def test_each_replay_counts_as_a_use(seen: _Seen) -> None:
    first, second = _compiled(lambda x: x + 1), _compiled(lambda x: x + 2)
    with torch.no_grad():
        for _ in range(2):
            first(torch.ones(3))
            second(torch.ones(3))
        a, b = (next(iter(graph.captures.values())) for graph in seen.graphs)
        assert a.used < b.used
        first(torch.ones(3))
        assert a.used > b.used


def test_verified_graphs_do_not_take_it(seen: _Seen) -> None:
    compiled = torch.compile(lambda x: x + 1, backend=backends.npugraph_ex, fullgraph=True, options={"verify_every": 1})
    with torch.no_grad():
        for _ in range(3):
            compiled(torch.ones(3))
    assert seen.wrapped == 3


def test_the_list_of_compiled_graphs_still_knows_it(seen: _Seen) -> None:
    made = backend(CAPTURE)
    compiled = torch.compile(lambda x: x + 1, backend=made)
    with torch.no_grad():
        compiled(torch.ones(3))
        compiled(torch.ones(3))
    assert torchair.explain(compiled).captures
