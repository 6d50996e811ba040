"""Captures on a device, with a fake device module."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from tests.capture.fake_device import FakeDevice, FakeStream
from torchair import _torch_compat
from torchair.capture.device_graph import DeviceCapture, has_device_graphs
from torchair.capture.device_life_cycle import device_with_graphs
from torchair.capture.device_memory import DevicePool
from torchair.errors import CaptureError, ExecutionError

CPU = torch.device("cpu")


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def traced(function, *inputs):
    return make_fx(function, tracing_mode="fake")(*inputs)


def captured(function, device, *inputs, gm=None, **options):
    return DeviceCapture(gm or traced(function, *inputs), inputs, device_module=device, device=CPU, **options)


def model(x, w):
    h = torch.tanh(torch.mm(x, w)).view(-1)
    return (h * 2 + 1).view(x.shape[0], -1), h.sum()


def fresh(*sizes):
    return torch.randn(*sizes)


def counted_copies(monkeypatch) -> list[int]:
    """How many tensors each batch of copies has from now on."""
    counts: list[int] = []
    real = _torch_compat.copy_all

    def copy_all(into, values):
        counts.append(len(into))
        real(into, values)

    monkeypatch.setattr(_torch_compat, "copy_all", copy_all)
    return counts


def test_three_calls_with_fresh_values_agree_with_eager(device):
    w = fresh(4, 3)
    capture = captured(model, device, fresh(2, 4), w, static_inputs=[1])
    for _ in range(3):
        x = fresh(2, 4)
        for got, want in zip(capture.run([x, w]), model(x, w), strict=True):
            torch.testing.assert_close(got, want)
    assert len(device.events("capture")) == 1
    assert len(device.events("replay")) == 3


def test_run_empties_the_list(device):
    capture = captured(lambda x: (x + 1,), device, fresh(2))
    given = [fresh(2)]
    capture.run(given)
    assert given == []


def test_capture_has_no_effect_and_the_first_call_has_it_once(device):
    def step(cache, x):
        cache.add_(x)
        return (cache * 2,)

    cache, x = torch.zeros(3), torch.ones(3)
    capture = captured(step, device, cache, x, mutated_inputs=[0])
    assert cache.tolist() == [0, 0, 0]
    assert x.tolist() == [1, 1, 1]
    (got,) = capture.run([cache, x])
    assert cache.tolist() == [1, 1, 1]
    assert got.tolist() == [2, 2, 2]
    capture.run([cache, x])
    assert cache.tolist() == [2, 2, 2]


def test_the_graph_is_run_once_and_only_while_capturing(device):
    captured(lambda x: (x.sin().cos(),), device, fresh(2))
    names = [entry[1] for entry in device.events("operator")]
    assert names.count("aten.sin.default") == names.count("aten.cos.default") == 1
    begin, end = device.log.index(device.events("capture")[0]), device.log.index(("captured",))
    assert all(begin < i < end for i, entry in enumerate(device.log) if entry[0] == "operator")


def test_what_the_device_is_told(device):
    pool = DevicePool(device, (0, 77))
    captured(lambda x: (x + 1,), device, fresh(2), pool=pool, capture_error_mode="relaxed")
    captured(lambda x: (x + 1,), device, fresh(3), pool=pool, capture_error_mode="thread_local")
    first, second = device.events("capture")
    assert first[1::2] == ((0, 77), "relaxed")
    assert second[1::2] == ((0, 77), "thread_local")
    assert first[2] == second[2] != device.current_stream().name
    # Handles of libraries are made on the capture stream, ahead.
    assert device.log[0] == ("blas", first[2])


def test_results_lie_where_they_were(device):
    capture = captured(lambda x: (x + 1,), device, fresh(2))
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 6.0])
    (first,) = capture.run([a])
    (second,) = capture.run([b])
    assert first is second
    assert first.tolist() == [6, 7]


def test_clone_output_gives_results_that_stay(device):
    def function(x, y):
        z = x + y
        return z, z.t(), x.view(-1), x, z

    x, y = fresh(2, 3), fresh(2, 3)
    capture = captured(function, device, x, y, clone_output=True)
    want = [t.clone() for t in function(x, y)]
    first = capture.run([x, y])
    second = capture.run([x + 1, y])
    for got, expected in zip(first, want, strict=True):
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
    assert first[0].data_ptr() != second[0].data_ptr()
    assert first[0] is first[4]
    assert first[3] is x
    assert first[2].data_ptr() == x.data_ptr()


def test_results_that_are_views_of_inputs_follow_the_call(device):
    def function(x):
        return x[1:].view(-1), x + 1, torch.view_as_real(x).view(-1)

    capture = captured(function, device, torch.randn(3, 2, dtype=torch.complex64))
    for _ in range(2):
        base = torch.randn(4, 2, dtype=torch.complex64)
        x = base[1:]
        view, _, real = capture.run([x])
        assert view.data_ptr() == x[1:].data_ptr()
        assert real.data_ptr() == x.data_ptr()
        torch.testing.assert_close(view, x[1:].view(-1))
        torch.testing.assert_close(real, torch.view_as_real(x).reshape(-1))


def test_other_results_than_tensors_pass_through(device):
    gm = traced(lambda x: (x + 1,), fresh(2))
    output = next(n for n in gm.graph.nodes if n.op == "output")
    output.args = ([output.args[0][0], 5, None],)
    gm.recompile()
    capture = captured(None, device, fresh(2), gm=gm)
    assert capture.run([fresh(2)])[1:] == [5, None]


# --- inputs ---


def test_inputs_at_new_addresses_are_copied_at_once(device, monkeypatch):
    copies = counted_copies(monkeypatch)
    reasons: list[str] = []
    capture = captured(lambda x, y, w: (x + y * w,), device, fresh(2), fresh(2), fresh(2), static_inputs=[2],
                       frozen_parameter=True, on_recapture=reasons.append)  # fmt: skip
    w = fresh(2)
    for _ in range(3):
        capture.run([fresh(2), fresh(2), w])
    assert copies == [2, 2, 2]
    assert reasons == []


def test_a_mutated_input_at_another_address_is_captured_again(device):
    def step(cache, x):
        cache.mul_(2).add_(x)
        return (cache.sum(),)

    reasons: list[str] = []
    cache, x = torch.ones(3), torch.ones(3)
    capture = captured(step, device, cache, x, mutated_inputs=[0], on_recapture=reasons.append)
    old = weakref.ref(device.graphs[0]())
    capture.run([cache, x])
    other = torch.full((3,), 5.0)
    (got,) = capture.run([other, x])
    assert got.item() == 33
    assert other.tolist() == [11, 11, 11]
    assert cache.tolist() == [3, 3, 3]
    assert reasons == ["mutated_input_change"]
    gc.collect()
    assert old() is None


def test_a_parameter_at_another_address_is_captured_again_unless_frozen(device):
    def function(x, w):
        return (x * w,)

    x, w, other = torch.ones(2), torch.full((2,), 3.0), torch.full((2,), 4.0)
    reasons: list[str] = []
    capture = captured(function, device, x, w, static_inputs=[1], on_recapture=reasons.append)
    frozen = captured(function, device, x, w, static_inputs=[1], frozen_parameter=True, on_recapture=reasons.append)
    for at_first, moved in (capture.run([x, w]), capture.run([x, other])), (frozen.run([x, w]), frozen.run([x, other])):
        assert at_first is not moved
    assert capture.run([x, other])[0].tolist() == [4, 4]
    assert frozen.run([x, other])[0].tolist() == [3, 3]
    assert reasons == ["parameter_change"]


def test_a_parameter_changed_in_place_is_seen(device):
    x, w = torch.ones(2), torch.full((2,), 3.0)
    capture = captured(lambda x, w: (x * w,), device, x, w, static_inputs=[1])
    assert capture.run([x, w])[0].tolist() == [3, 3]
    w.fill_(7)
    assert capture.run([x, w])[0].tolist() == [7, 7]


def test_inputs_used_in_place_are_not_kept_alive(device):
    w, cache = fresh(2), fresh(2)
    refs = weakref.ref(w), weakref.ref(cache)
    capture = captured(lambda x, w, c: (x * w + c.add_(1),), device, fresh(2), w, cache, static_inputs=[1],
                       mutated_inputs=[2])  # fmt: skip
    del w, cache
    gc.collect()
    assert [r() for r in refs] == [None, None]
    assert capture.held_bytes > 0


def test_clone_input_false_copies_into_the_tensor_of_the_first_call(device, monkeypatch):
    copies = counted_copies(monkeypatch)
    first = torch.tensor([1.0, 2.0])
    capture = captured(lambda x: (x * 2,), device, first, clone_input=False)
    assert capture.run([first])[0].tolist() == [2, 4]
    first.add_(1)
    assert capture.run([first])[0].tolist() == [4, 6]
    assert copies == []
    assert capture.run([torch.tensor([7.0, 8.0])])[0].tolist() == [14, 16]
    assert copies == [1]
    assert first.tolist() == [7, 8]  # documented


def test_clone_input_false_with_inputs_that_share_memory(device):
    base = torch.arange(4.0)
    capture = captured(lambda x, y: (x - y,), device, base[:3], base[1:], clone_input=False)
    assert capture.run([torch.tensor([1.0, 2, 3]), torch.tensor([10.0, 20, 30])])[0].tolist() == [-9, -18, -27]
    assert base.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "make",
    [
        lambda: fresh(3, 1).expand(3, 4),
        lambda: fresh(8).as_strided((3, 4), (1, 1)),
        lambda: fresh(6, 8)[::2, ::2],
        lambda: fresh(4, 3).t(),
        lambda: fresh(40)[28:].view(3, 4),
        lambda: fresh(3, 0),
        lambda: fresh(3, 4, 2).permute(2, 0, 1)[0],
        lambda: torch.tensor(4.0),
        lambda: torch.randn(3, 4, dtype=torch.complex64).conj(),
        lambda: torch.randn(3, 1, dtype=torch.complex64).conj().expand(3, 4),
        lambda: torch.randn(3, 4, dtype=torch.complex64).conj().imag,
        lambda: fresh(3, 4) > 0,
    ],
    ids=[
        "expanded",
        "overlapping",
        "strided",
        "transposed",
        "offset",
        "empty",
        "permuted",
        "scalar",
        "conjugate",
        "expanded conjugate",
        "negative",
        "bool",
    ],
)
def test_inputs_of_every_layout(device, make):
    def function(x):
        return x * 2, x.sum()

    capture = captured(function, device, make())
    for _ in range(3):
        x = make()
        for got, want in zip(capture.run([x]), function(x), strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("first", [False, True])
def test_conjugates_and_others_are_copied_into_each_other(device, first):
    plain = torch.randn(3, dtype=torch.complex64)
    capture = captured(lambda x: (x * 2,), device, plain.conj() if first else plain)
    for x in (plain, plain.conj(), plain.clone()):
        torch.testing.assert_close(capture.run([x])[0], x * 2)


def test_storage_offsets_that_the_graph_reads_are_kept(device):
    def function(x):
        return (torch.ops.aten.as_strided(x, [2], [1], 6) + 1,)

    capture = captured(function, device, fresh(10)[5:])
    x = fresh(10)[5:]
    torch.testing.assert_close(capture.run([x]), list(function(x)))


def test_buffers_are_not_filled_in_replays(device):
    torch.use_deterministic_algorithms(True)
    try:
        capture = captured(lambda x: (x + torch.empty(2).zero_(),), device, torch.ones(2))
        assert capture.run([torch.full((2,), 5.0)])[0].tolist() == [5, 5]
        settings: Any = torch.utils.deterministic
        assert settings.fill_uninitialized_memory
    finally:
        torch.use_deterministic_algorithms(False)


def test_numbers_that_change_are_captured_again(device):
    gm = make_fx(lambda x, n: (x * n,), tracing_mode="symbolic")(fresh(2), 3)
    reasons: list[str] = []
    capture = captured(None, device, torch.ones(2), 3, gm=gm, on_recapture=reasons.append)
    assert [capture.run([torch.ones(2), n])[0].tolist() for n in (3, 4, 4)] == [[3, 3], [4, 4], [4, 4]]
    assert reasons == ["host_value_change"]


def test_inputs_of_other_shapes_are_refused(device):
    capture = captured(lambda x, y: (x + y,), device, fresh(3, 4), fresh(4))
    with pytest.raises(CaptureError) as caught:
        capture.run([fresh(1, 4), torch.zeros(4, dtype=torch.int64)])
    text = str(caught.value)
    assert "input 0: torch.float32 [1, 4] on cpu, captured with torch.float32 [3, 4] on cpu" in text
    assert "input 1: torch.int64" in text
    with pytest.raises(CaptureError, match="1 inputs, captured with 2"):
        capture.run([fresh(3, 4)])


def test_inside_inference_mode_and_with_parameters(device):
    linear = torch.nn.Linear(3, 2)
    w, b = linear.weight, linear.bias
    gm = traced(lambda x, w, b: (torch.addmm(b, x, w.t()),), fresh(2, 3), w.detach(), b.detach())
    with torch.inference_mode():
        capture = captured(None, device, fresh(2, 3), w, b, gm=gm, static_inputs=[1, 2])
        (first,) = capture.run([fresh(2, 3), w, b])
        x = fresh(2, 3)
        (got,) = capture.run([x, w, b])
        torch.testing.assert_close(got, linear(x))
    (outside,) = capture.run([fresh(2, 3), w, b])
    assert first is got is outside
    assert not got.is_inference()
    assert not got.requires_grad


# --- memory that captures share ---


def many(x):
    for _ in range(4):
        x = torch.cat([x, x]).tanh()[: x.shape[0]] + 1
    return (x,)


def test_captures_of_one_graph_share_memory(device):
    pool = DevicePool(device)
    sizes = (64, 256, 128, 32, 512)
    captures = {n: captured(many, device, fresh(n), pool=pool, clone_output=True) for n in sizes}
    (arena,) = device.arenas.values()
    alone = []
    for n in sizes:
        other = FakeDevice()
        captured(many, other, fresh(n), clone_output=True)
        alone.append(next(iter(other.arenas.values())).peak)
    assert max(alone) <= arena.peak < 1.2 * max(alone)
    assert sum(c.held_bytes for c in captures.values()) == arena.peak
    for n in (*sizes, *reversed(sizes), 256, 512, 64):
        x = fresh(n)
        torch.testing.assert_close(captures[n].run([x])[0], many(x)[0])


def test_without_reuse_each_capture_has_its_own_memory(device):
    pool = DevicePool(device, reuse=False)
    for n in (64, 32):
        captured(many, device, fresh(n), pool=pool)
    assert len({entry[1] for entry in device.events("capture")}) == 2


def test_results_are_held_weakly_once_another_shape_is_captured(device):
    pool = DevicePool(device)
    one = captured(many, device, fresh(64), pool=pool)
    x = fresh(64)
    (kept,) = one.run([x])
    address = kept.data_ptr()
    two = captured(many, device, fresh(32), pool=pool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one.run([x])[0] is kept  # somebody has it: used again
    y = fresh(32)
    torch.testing.assert_close(two.run([y])[0], many(y)[0])
    torch.testing.assert_close(kept, many(x)[0])  # its memory was not given to the second capture
    del kept
    with pytest.warns(UserWarning, match="clone_output=True"):
        (again,) = one.run([x])
    assert again.data_ptr() == address
    torch.testing.assert_close(again, many(x)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del again
        one.run([x])  # said once


@pytest.mark.filterwarnings("ignore:A result of a captured graph")
@pytest.mark.parametrize("order", [(64, 32), (32, 64), (64, 128, 32), (128, 32, 64)])
def test_results_can_be_inputs_of_captures_that_share_their_memory(device, order):
    pool = DevicePool(device)
    captures = {n: captured(many, device, fresh(n), pool=pool) for n in order}
    for first in order:
        for second in order:
            x = fresh(first)
            (y,) = captures[first].run([x])
            z = y.repeat(4)[:second] if second > first else y[:second]
            want = many(z.clone())[0]
            torch.testing.assert_close(captures[second].run([z])[0], want)


def test_inputs_that_lie_in_the_buffers_of_others_are_copied_as_they_were(device):
    def function(x, y):
        return (x - 2 * y,)

    pool = DevicePool(device)
    capture = captured(function, device, fresh(3), fresh(3), pool=pool, clone_output=True)
    captured(function, device, fresh(2), fresh(2), pool=pool)  # the buffers of the first are anybody's now
    record = capture._record
    assert record is not None
    first = record.buffers[0].get(record.graph)
    first.copy_(torch.tensor([1.0, 2, 3]))
    (got,) = capture.run([torch.tensor([10.0, 20, 30]), first])
    assert got.tolist() == [8, 16, 24]


@pytest.mark.filterwarnings("ignore:A result of a captured graph")
def test_results_outlive_the_capture(device):
    pool = DevicePool(device)
    one = captured(many, device, fresh(64), pool=pool)
    captured(many, device, fresh(32), pool=pool)
    x = fresh(64)
    (kept,) = one.run([x])
    one.close()
    graph = device.graphs[0]
    device.arenas.clear()
    del one, pool
    gc.collect()
    assert graph() is not None  # owns the memory
    torch.testing.assert_close(kept, many(x)[0])
    del kept
    gc.collect()
    assert graph() is None


def test_memory_is_freed_with_the_capture(device):
    capture = captured(many, device, fresh(64))
    (arena,) = device.arenas.values()
    assert arena.in_use > 0
    capture.close()
    gc.collect()
    assert arena.in_use == 0
    assert capture.held_bytes == 0
    with pytest.raises(CaptureError, match="after it was closed"):
        capture.run([fresh(64)])


@pytest.mark.filterwarnings("ignore:A result of a captured graph")
def test_memory_that_captures_share_is_no_place_for_inputs_used_in_place(device):
    pool = DevicePool(device)
    one = captured(many, device, fresh(64), pool=pool)
    captured(many, device, fresh(32), pool=pool)
    (lent,) = one.run([fresh(64)])
    with pytest.raises(CaptureError, match="input 0, used in place, is a result of a capture that shares its memory"):
        captured(lambda x: (x.add_(1) * 2,), device, lent, pool=pool, mutated_inputs=[0])


def test_a_run_on_another_stream_waits_for_the_last_one(device):
    capture = captured(lambda x: (x + 1,), device, fresh(2))
    capture.run([fresh(2)])
    capture.run([fresh(2)])
    assert device.events("wait") == []
    first, other = device.current_stream(), FakeStream(device)
    with device.stream(other):
        capture.run([fresh(2)])
    assert device.events("wait") == [("wait", other.name, first.name)]


# --- what cannot be captured ---


def test_a_host_read_is_refused_before_the_device_is_asked(device):
    gm = traced(lambda x: (x + torch.nonzero(x).sum(),), torch.tensor([3]))
    with pytest.raises(CaptureError) as caught:
        captured(None, device, torch.tensor([3]), gm=gm)
    assert "aten.nonzero.default (node nonzero) has a result whose value or size is known only when" in str(
        caught.value
    )
    assert device.log == []


def test_a_failed_capture_names_the_operator_and_leaves_the_device_ready(device):
    x = torch.tensor([1, 0, 2])
    gm = make_fx(lambda x: (torch.nonzero(x + 0) * 2,), tracing_mode="real")(x)
    before = device.current_stream()
    with pytest.raises(CaptureError) as caught:
        captured(None, device, x, gm=gm)
    assert "aten.nonzero.default (node nonzero) raised RuntimeError: CUDA error: operation not permitted" in str(
        caught.value
    )
    assert "more of it" not in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert device.current_stream() is before
    del caught
    gc.collect()
    assert all(arena.in_use == 0 for arena in device.arenas.values())
    failed = device.events("capture")[0][2]
    capture = captured(lambda x: (x * 2,), device, x)
    assert capture.run([x])[0].tolist() == [2, 0, 4]
    assert device.events("capture")[-1][2] != failed


def test_an_operator_that_raises_by_itself(device):
    gm = traced(lambda x, y: (torch.mm(x, y),), fresh(2, 3), fresh(3, 2))
    before = device.current_stream()
    with pytest.raises(CaptureError, match=r"aten\.mm\.default \(node mm\) raised RuntimeError"):
        captured(None, device, fresh(2, 3), fresh(4, 2), gm=gm)
    assert device.current_stream() is before


@pytest.mark.filterwarnings("ignore:A result of a captured graph")
def test_a_failed_recapture_keeps_the_first_capture(device):
    def step(cache, i):
        cache[:] = cache + i.sum()
        return (cache * 1,)

    cache = torch.zeros(2)
    capture = captured(step, device, cache, torch.ones(2), mutated_inputs=[0])

    def refuse(*args, **kwargs):
        raise RuntimeError("no graphs today")

    real, device.graph = device.graph, refuse
    with pytest.raises(CaptureError, match="no graphs today"):
        capture.run([torch.zeros(2), torch.ones(2)])
    device.graph = real
    assert capture.run([cache, torch.ones(2)])[0].tolist() == [2, 2]


def test_an_error_in_a_replay(device):
    capture = captured(lambda x: (x + 1,), device, torch.ones(2))
    (graph,) = (g() for g in device.graphs)
    graph.fails = RuntimeError("out of order")
    with pytest.raises(ExecutionError, match="out of order"):
        capture.run([torch.ones(2)])
    graph.fails = None
    assert capture.run([torch.ones(2)])[0].tolist() == [2, 2]


def test_random_operators_draw_what_eager_draws(device):
    def function(x):
        return (x + torch.rand(3) + torch.randn(3),)

    x = fresh(3)
    torch.manual_seed(3)
    want = [function(x)[0] for _ in range(3)]
    torch.manual_seed(3)
    capture = captured(function, device, x, clone_output=True)
    got = [capture.run([x])[0] for _ in range(3)]
    torch.testing.assert_close(got, want)


def test_random_operators_are_refused_where_graphs_would_repeat_them(device):
    device.CUDAGraph = type("Plain", (), {})
    with pytest.raises(CaptureError, match="draws random numbers, which graphs of cpu would repeat"):
        captured(lambda x: (x + torch.rand(2),), device, fresh(2))


# --- device modules ---


def graph_of(*inputs: Any) -> fx.GraphModule:
    """A graph with these values as inputs."""
    graph = fx.Graph()
    nodes = []
    for i, value in enumerate(inputs):
        nodes.append(graph.placeholder(f"x{i}"))
        nodes[-1].meta["val"] = value
    graph.output(tuple(nodes))
    return fx.GraphModule({}, graph)


def test_modules_with_graphs():
    assert has_device_graphs(torch.cuda)
    assert has_device_graphs(FakeDevice())
    assert not has_device_graphs(torch.cpu)
    assert not has_device_graphs(None)
    assert device_with_graphs(graph_of(1, fresh(2))) is None
    fake = torch._subclasses.FakeTensorMode()
    with fake:
        on_device = torch.empty(2, device="cuda")
    assert device_with_graphs(graph_of(fresh(2), on_device)) == (torch.cuda, on_device.device)
