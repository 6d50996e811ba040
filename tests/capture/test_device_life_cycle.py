"""``torch.compile`` with a fake device under capture mode: keys, recaptures, limits and fallbacks of device graphs."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import npugraph_ex
import torchair
from tests.capture.fake_device import FakeDevice
from torchair import _torch_compat
from torchair.capture.bounds import BOUNDS
from torchair.capture.device_life_cycle import CapturedDeviceGraph, device_with_graphs
from torchair.pipeline import capture_mode


@pytest.fixture
def device(monkeypatch) -> FakeDevice:
    found = FakeDevice()
    monkeypatch.setattr(capture_mode, "device_with_graphs", lambda gm: (found, torch.device("cpu")))
    return found


class Compiled:
    """A compiled function, and its graphs."""

    def __init__(self, function: Any, dynamic: bool = False, **options: Any) -> None:
        config = npugraph_ex.CompilerConfig()
        for name, value in options.items():
            setattr(config, name, value)
        self.backend = torchair.get_npu_backend(compiler_config=config)
        self.function = torch.compile(function, backend=self.backend, dynamic=dynamic, fullgraph=True)

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    @property
    def graph(self) -> CapturedDeviceGraph:
        (graph,) = self.backend.graphs
        assert isinstance(graph, CapturedDeviceGraph)
        return graph


def counters(graph: CapturedDeviceGraph) -> dict[str, int]:
    found = _torch_compat.counters("npugraph_ex")
    return {k.removesuffix(f"_{graph.name}"): v for k, v in found.items() if k.endswith(f"_{graph.name}")}


class Model(nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x, cache):
        self.seen.add_(1)
        cache.mul_(0.5)
        cache.add_(self.linear(x).sum(0))
        return torch.tanh(self.linear(x)) + cache


def pair() -> tuple[Model, Model]:
    model, other = Model(), Model()
    other.load_state_dict(model.state_dict())
    return model, other


def test_a_graph_of_the_cpu_has_no_device_graph():
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    assert device_with_graphs(gm) is None


def test_three_calls_with_mutations(device):
    model, other = pair()
    f = Compiled(model)
    got, want = torch.zeros(4), torch.zeros(4)
    with torch.no_grad():
        for i in range(3):
            x = torch.randn(2, 4)
            torch.testing.assert_close(f(x, got), other(x, want))
            torch.testing.assert_close(got, want)
            assert model.seen.item() == i + 1
    assert counters(f.graph) == {"captured": 1}
    assert len(device.events("replay")) == 3
    assert f.graph.records()[0].nbytes > 0


def test_a_key_for_each_shape(device):
    model, other = pair()
    f = Compiled(model, dynamic=True, clone_output=True)
    got, want = torch.zeros(4), torch.zeros(4)
    with torch.no_grad():
        for n in (3, 5, 3, 7, 5, 3):
            x = torch.randn(n, 4)
            torch.testing.assert_close(f(x, got), other(x, want))
    assert counters(f.graph) == {"captured": 3}
    assert len(device.arenas) == 1


@pytest.mark.filterwarnings("ignore:A result of a captured graph")
def test_numbers_are_in_the_key(device):
    f = Compiled(lambda x, n: x * n + n, dynamic=True)
    x = torch.ones(3)
    for n in (2, 3, 2, 4):
        assert f(x, n).tolist() == [2 * n] * 3
    assert counters(f.graph) == {"captured": 3}


def test_weights_replaced_and_updated(device):
    model, other = pair()
    f = Compiled(model)
    cache, x = torch.zeros(4), torch.randn(2, 4)
    with torch.no_grad():
        for change in (None, "update", "data"):
            for m in (model, other):
                if change == "update":
                    m.linear.weight.mul_(2)
                elif change == "data":
                    m.linear.weight.data = torch.ones(4, 4)
            torch.testing.assert_close(f(x, cache.clone()), other(x, cache.clone()))
    kept = counters(f.graph)
    assert kept.pop("captured") == 2  # a parameter at another address is another key
    assert set(kept) <= {"recapture_due_to_mutated_input_change"}


def test_a_cache_rebound_between_calls_is_captured_again(device):
    model, other = pair()
    f = Compiled(model)
    x, caches = torch.randn(2, 4), [torch.zeros(4), torch.ones(4)]
    with torch.no_grad():
        for cache in caches:
            want = cache.clone()
            torch.testing.assert_close(f(x, cache).clone(), other(x, want))
            torch.testing.assert_close(cache, want)
    assert counters(f.graph) == {"captured": 1, "recapture_due_to_mutated_input_change": 1}
    assert [r.reason for r in f.graph.recaptures] == ["mutated_input_change"]


def test_force_recapture(device):
    f = Compiled(lambda x: x + 1, force_recapture=True)
    for _ in range(3):
        assert f(torch.ones(2)).tolist() == [2, 2]
    assert counters(f.graph) == {"captured": 1, "recapture_due_to_force_recapture": 2}


def test_capture_limit(device):
    f = Compiled(lambda x: x * 2, dynamic=True, capture_limit=2)
    f(torch.ones(3))
    f(torch.ones(4))
    with pytest.warns(UserWarning, match="capture_limit reached"):
        assert f(torch.ones(5)).tolist() == [2] * 5
    assert f(torch.ones(3)).tolist() == [2] * 3
    assert len(device.events("replay")) == 2


def test_what_cannot_be_captured_runs_eagerly_with_one_warning(device):
    def function(x):
        return x + torch.nonzero(x).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = Compiled(function)
        with pytest.warns(UserWarning, match=r"graph_\d+ cannot be captured and runs eagerly: .*aten\.nonzero"):
            assert f(torch.ones(2)).tolist() == [2, 2]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert f(torch.ones(2) * 2).tolist() == [3, 3]
    assert device.log == []
    assert "known only when it has run" in f.graph.fallbacks[0].reason


def test_a_capture_that_fails_is_tried_once_more(device):
    real, tries = device.graph, []

    def failing(*args, **kwargs):
        tries.append(1)
        if len(tries) <= 2:  # the capture and the probe after it
            raise RuntimeError("library is not ready")
        return real(*args, **kwargs)

    device.graph = failing
    cache = torch.zeros(2)

    def step(x, cache):
        cache.add_(1)
        return x + cache

    f = Compiled(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 2, 3):
            assert f(torch.ones(2), cache).tolist() == [1 + n] * 2
    assert len(device.events("replay")) == 2
    assert not f.graph.fallbacks


def test_a_capture_that_fails_twice_falls_back(device):
    def failing(*args, **kwargs):
        raise RuntimeError("not today")

    device.graph = failing
    f = Compiled(lambda x: x + 1)
    assert f(torch.ones(2)).tolist() == [2, 2]
    with pytest.warns(UserWarning, match="not today"):
        assert f(torch.ones(2)).tolist() == [2, 2]
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert len(f.graph.fallbacks) == 1


@pytest.mark.filterwarnings("ignore:Graphs that are trained")  # that of the backward part
def test_training_runs_eagerly_and_right(device):
    model, other = nn.Linear(3, 3), nn.Linear(3, 3)
    other.load_state_dict(model.state_dict())
    f = Compiled(model)
    with pytest.warns(UserWarning, match="Graphs that are trained are not captured on a device"):
        first, second = f(torch.ones(2, 3)), f(torch.ones(2, 3) * 2)
    (first.sum() + second.pow(2).sum()).backward()
    (other(torch.ones(2, 3)).sum() + other(torch.ones(2, 3) * 2).pow(2).sum()).backward()
    torch.testing.assert_close(model.weight.grad, other.weight.grad)
    assert device.log == []


def test_reset_captures_again(device):
    f = Compiled(lambda x: x + 1)
    f(torch.ones(2))
    f.graph.reset()
    assert f.graph.captures == {}
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert len(device.events("capture")) == 2


def test_options_reach_the_device(device):
    f = Compiled(lambda x: x + 1, capture_error_mode="relaxed", use_graph_pool=(0, 42))
    f(torch.ones(2))
    (event,) = device.events("capture")
    assert event[1::2] == ((0, 42), "relaxed")


def test_a_handle_of_ours_is_no_handle_of_the_devices(device):
    """``(n, 0)`` is how a device numbers the pool of a graph that was given none."""
    handle = npugraph_ex.graph_pool_handle()
    stranger, stream = device.CUDAGraph(), device.Stream()
    device.numbers = itertools.count(handle[0])
    with device.graph(stranger, stream=stream):
        pass
    assert handle in device.arenas
    graphs = [Compiled(f, use_graph_pool=handle) for f in (lambda x: x + 1, lambda x: x * 2)]
    results = [f(torch.ones(2)).tolist() for f in graphs]
    assert results == [[2, 2], [2, 2]]
    _, *ours = device.events("capture")
    pools = {event[1] for event in ours}
    assert len(ours) == 2
    assert len(pools) == 1
    assert all(first == 0 for first, _ in pools)


# --- bounds of the process ---


@pytest.fixture
def _bounds(monkeypatch):
    torchair.reset()
    monkeypatch.setattr(BOUNDS, "captures", BOUNDS.captures)
    monkeypatch.setattr(BOUNDS, "nbytes", BOUNDS.nbytes)


@pytest.mark.usefixtures("_bounds")
def test_captures_count_with_those_of_plans(device, monkeypatch):
    f = Compiled(lambda x: x + 1, dynamic=True, clone_output=True)
    with monkeypatch.context() as context:
        context.setattr(capture_mode, "device_with_graphs", lambda gm: None)
        plan = torch.compile(lambda x: x - 1, backend="npugraph_ex", dynamic=False)
        plan(torch.ones(3))
    npugraph_ex.set_capture_bounds(captures=3)
    for n in (4, 6, 4, 7):  # one too many: the plan ran longest ago
        assert f(torch.ones(n)).tolist() == [2] * n
    assert torchair.explain(plan).captures == ()
    assert list(f.graph.captures) == [(4,), (6,), (7,)]
    plan(torch.ones(3))  # and now the graph for 6
    assert list(f.graph.captures) == [(4,), (7,)]
    assert f(torch.ones(6)).tolist() == [2] * 6
    assert list(f.graph.captures) == [(7,), (6,)]
    assert [r.reason for r in f.graph.recaptures] == ["it was dropped: captures held more than they may"]
    graphs = [reference for reference in device.graphs if reference() is not None]
    assert len(graphs) == 2
    npugraph_ex.set_capture_bounds(captures=1)
    f(torch.ones(9))
    assert list(f.graph.captures) == [(9,)]
    assert torchair.explain(plan).captures == ()
    assert [reference() for reference in graphs] == [None, None]


@pytest.mark.usefixtures("_bounds")
def test_captures_are_bounded_by_bytes_of_their_device(device):
    f = Compiled(lambda x: x.exp() + 1, dynamic=True, clone_output=True, reuse_graph_pool_in_same_fx=False)
    f(torch.ones(100))
    (only,) = f.graph.captures.values()
    assert only.memory == torch.device("cpu")
    npugraph_ex.set_capture_bounds(nbytes=2 * only.held_bytes)
    f(torch.ones(101))
    f(torch.ones(100))
    f(torch.ones(102))
    assert list(f.graph.captures) == [(100,), (102,)]
    f(torch.ones(1000))
    assert list(f.graph.captures) == [(1000,)]  # larger than the bound, but needed
    assert f(torch.zeros(5)).tolist() == [2] * 5
    assert list(f.graph.captures) == [(5,)]


@pytest.mark.usefixtures("_bounds")
def test_bytes_of_a_device_do_not_count_as_those_of_the_machine(device, monkeypatch):
    monkeypatch.setattr(BOUNDS, "_quarters", {None: 1 << 40, torch.device("cpu"): 1})
    with monkeypatch.context() as context:
        context.setattr(capture_mode, "device_with_graphs", lambda gm: None)
        plan = torch.compile(lambda x: x - 1, backend="npugraph_ex", dynamic=False)
        plan(torch.ones(3))
    f = Compiled(lambda x: x + 1, dynamic=True)
    for n in (4, 5):
        f(torch.ones(n))
        assert list(f.graph.captures) == [(n,)]
    assert len(torchair.explain(plan).captures) == 1


@pytest.mark.usefixtures("_bounds")
def test_another_capture_of_a_graph_counts(device):
    """A written input at another address: the capture is made anew, and may hold more than before."""
    f = Compiled(lambda x, cache: cache.add_(x).exp(), clone_output=True, reuse_graph_pool_in_same_fx=False)
    g = Compiled(lambda x: x + 1, clone_output=True)
    caches = [torch.zeros(100) for _ in range(3)]  # all at once: each has an address of its own
    f(torch.ones(100), caches[0])
    g(torch.ones(100))
    (capture,) = f.graph.captures.values()
    held = capture.held_bytes
    npugraph_ex.set_capture_bounds(nbytes=held + next(iter(g.graph.captures.values())).held_bytes)
    capture.held_bytes = 0  # as if it had held less
    f(torch.ones(100), caches[1])
    assert len(g.graph.captures) == 1
    npugraph_ex.set_capture_bounds(nbytes=held)
    capture.held_bytes = 0
    f(torch.ones(100), caches[2])
    assert capture.held_bytes == held
    assert g.graph.captures == {}


def test_calls_are_verified(device):
    f = Compiled(lambda x: x.exp() + 1, verify_every=1)
    for _ in range(2):
        f(torch.ones(2))
    (graph,) = f.backend.graphs
    assert graph.plan_for([torch.ones(2)]) is None
