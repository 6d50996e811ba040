"""Capture mode on CUDA: one FX graph as a CUDA Graph. ``make test-gpu`` runs these; without a CUDA device they skip."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from torchair.capture.device_graph import DeviceCapture
from torchair.capture.device_memory import DevicePool
from torchair.errors import CaptureError

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(autouse=True)
def _exact() -> Any:
    """Products in full precision, and nothing left on the device from another test."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before
    gc.collect()
    torch.cuda.synchronize()


def fresh(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda")


def captured(function: Any, *inputs: Any, mode: Any = "fake", **options: Any) -> DeviceCapture:
    gm = make_fx(function, tracing_mode=mode)(*inputs)
    return DeviceCapture(gm, inputs, device_module=torch.cuda, **options)


def compiled(model: Any, dynamic: bool = False, **options: Any) -> Any:
    return torch.compile(model, backend="npugraph_ex", dynamic=dynamic, fullgraph=True, options=options)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x)) * 1.5 + x
        return x, x.sum(-1)


class Cache(nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x, cache, at):
        self.seen.add_(1)
        cache.index_copy_(0, at, self.linear(x))
        return cache.sum(0) * self.seen


# --- through torch.compile ---


def test_three_calls_with_fresh_values():
    model = Mlp().cuda().eval()
    f = compiled(model)
    with torch.no_grad():
        for _ in range(3):
            x = fresh(4, 32)
            torch.testing.assert_close(f(x), model(x))


def test_effects_happen_once_a_call():
    model, other = Cache().cuda(), Cache().cuda()
    other.load_state_dict(model.state_dict())
    f = compiled(model)
    got, want = torch.zeros(4, 8, device="cuda"), torch.zeros(4, 8, device="cuda")
    with torch.no_grad():
        for i in range(4):
            x, at = fresh(1, 8), torch.tensor([i], device="cuda")
            torch.testing.assert_close(f(x, got, at), other(x, want, at))
            torch.testing.assert_close(got, want)
            assert model.seen.item() == i + 1


def test_a_cache_rebound_between_calls():
    model = Cache().cuda()
    f = compiled(model)
    with torch.no_grad():
        for i in range(3):
            got, want = (torch.full((4, 8), float(i), device="cuda") for _ in range(2))
            x, at = fresh(1, 8), torch.tensor([i], device="cuda")
            seen = model.seen.clone()
            result = f(x, got, at).clone()
            model.seen.copy_(seen)
            torch.testing.assert_close(result, model(x, want, at))
            torch.testing.assert_close(got, want)


def test_dynamic_shapes():
    model = Mlp().cuda().eval()
    f = compiled(model, dynamic=True, clone_output=True)
    with torch.no_grad():
        for n in (5, 3, 9, 3, 5, 1, 9):
            x = fresh(n, 32)
            torch.testing.assert_close(f(x), model(x))


def test_weights_updated_in_place_and_replaced():
    model = Mlp().cuda().eval()
    f = compiled(model, clone_output=True)
    x = fresh(4, 32)
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x))
        for p in model.parameters():
            p.mul_(0.5)
        torch.testing.assert_close(f(x), model(x))
        for layer in model.layers:
            layer.weight = nn.Parameter(fresh(32, 32))
        torch.testing.assert_close(f(x), model(x))
        for layer in model.layers:  # the same Parameter over other memory
            layer.weight.data = fresh(32, 32)
        torch.testing.assert_close(f(x), model(x))


def test_a_size_known_only_at_run_time_falls_back_with_one_warning():
    def function(x):
        return x + torch.nonzero(x > 0).sum()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = compiled(function)
        x = fresh(3)
        with pytest.warns(UserWarning, match="runs eagerly"):
            got = f(x)
        torch.testing.assert_close(got, function(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = fresh(3)
            torch.testing.assert_close(f(x), function(x))


def test_training():
    torch.manual_seed(1)
    model, other = Mlp().cuda(), Mlp().cuda()
    other.load_state_dict(model.state_dict())
    f = compiled(model)
    for _ in range(3):
        x = fresh(4, 32)
        first, second = f(x)[0], f(x * 2)[0]  # two forward runs before the backward ones
        (first.sum() + second.pow(2).sum()).backward()
        (other(x)[0].sum() + other(x * 2)[0].pow(2).sum()).backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)


# --- the capture itself ---


def test_capture_has_no_effect():
    cache, x = torch.zeros(3, device="cuda"), torch.ones(3, device="cuda")
    capture = captured(lambda c, x: (c.add_(x) * 2,), cache, x, mutated_inputs=[0])
    assert cache.tolist() == [0, 0, 0]
    assert capture.run([cache, x])[0].tolist() == [2, 2, 2]
    assert cache.tolist() == [1, 1, 1]


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_error_modes(mode):
    capture = captured(lambda x: (x + 1,), fresh(3), capture_error_mode=mode)
    x = fresh(3)
    torch.testing.assert_close(capture.run([x])[0], x + 1)


def test_results_are_overwritten_or_copied():
    a, b = fresh(3), fresh(3)
    capture = captured(lambda x: (x * 2,), a)
    first, second = capture.run([a])[0], capture.run([b])[0]
    assert first is second
    torch.testing.assert_close(first, b * 2)
    capture = captured(lambda x: (x * 2, x.view(-1)), a, clone_output=True)
    first, view = capture.run([a])
    capture.run([b])
    torch.testing.assert_close(first, a * 2)
    assert view.data_ptr() == a.data_ptr()


@pytest.mark.parametrize(
    "make",
    [
        lambda: fresh(3, 1).expand(3, 4),
        lambda: fresh(8).as_strided((3, 4), (1, 1)),
        lambda: fresh(6, 8)[::2, ::2],
        lambda: fresh(4, 3).t(),
        lambda: fresh(41)[29:].view(3, 4),
        lambda: fresh(3, 0),
        lambda: torch.randn(3, 4, dtype=torch.complex64, device="cuda").conj(),
        lambda: fresh(3, 4).bfloat16(),
        lambda: fresh(3, 4) > 0,
    ],
    ids=["expanded", "overlapping", "strided", "transposed", "offset", "empty", "conjugate", "bfloat16", "bool"],
)
def test_inputs_of_every_layout(make):
    def function(x):
        return x * 2, x.sum()

    capture = captured(function, make())
    for _ in range(3):
        x = make()
        for got, want in zip(capture.run([x]), function(x), strict=True):
            torch.testing.assert_close(got, want)


def test_scalars_of_the_host():
    scale = torch.tensor(2.0)
    reasons: list[str] = []
    capture = captured(lambda x, s: (x * s,), fresh(3), scale, on_recapture=reasons.append)
    for s in (scale, torch.tensor(2.0), torch.tensor(5.0)):
        x = fresh(3)
        torch.testing.assert_close(capture.run([x, s])[0], x * s)
    assert reasons == ["host_value_change"]


def test_buffers_are_not_filled_in_replays():
    torch.use_deterministic_algorithms(True)
    try:
        capture = captured(lambda x: (x + 1,), fresh(3))
        x = fresh(3)
        torch.testing.assert_close(capture.run([x])[0], x + 1)
    finally:
        torch.use_deterministic_algorithms(False)


def many(x: torch.Tensor) -> tuple[torch.Tensor]:
    for _ in range(6):
        x = torch.cat([x, x]).tanh()[: x.shape[0]] + 1
    return (x,)


MIB = 1 << 20


def _held_after(pools: list[DevicePool], sizes: list[int]) -> int:
    captures = [captured(many, fresh(n), pool=pool) for n, pool in zip(sizes, pools, strict=True)]
    return sum(c.held_bytes for c in captures)


def test_captures_of_one_graph_share_memory():
    sizes = [n * MIB for n in (8, 6, 7, 5, 4)]
    largest = _held_after([DevicePool(torch.cuda)], sizes[:1])
    gc.collect()
    shared = DevicePool(torch.cuda)
    together = _held_after([shared] * 5, sizes)
    gc.collect()
    apart = _held_after([DevicePool(torch.cuda) for _ in sizes], sizes)
    assert together <= 1.5 * largest
    assert apart >= 2.5 * largest


@pytest.mark.filterwarnings("ignore:A result of a captured graph")
def test_results_in_shared_memory_are_right_in_any_order():
    pool = DevicePool(torch.cuda)
    sizes = (1000, 50, 3000, 700)
    captures = {n: captured(many, fresh(n), pool=pool) for n in sizes}
    for n in (*reversed(sizes), *sizes, 700, 50):
        x = fresh(n)
        torch.testing.assert_close(captures[n].run([x])[0], many(x)[0])
    for first in sizes:  # results as inputs
        for second in sizes:
            (y,) = captures[first].run([fresh(first)])
            z = y[:second] if second <= first else y.repeat(60)[:second]
            want = many(z.clone())[0]
            torch.testing.assert_close(captures[second].run([z])[0], want)


@pytest.mark.filterwarnings("ignore:A result of a captured graph")
def test_results_outlive_their_capture():
    pool = DevicePool(torch.cuda)
    one = captured(many, fresh(1000), pool=pool)
    captured(many, fresh(500), pool=pool)
    x = fresh(1000)
    address = one.run([x])[0].data_ptr()
    (kept,) = one.run([x])
    assert kept.data_ptr() == address
    want = many(x)[0]
    del one, pool
    gc.collect()
    torch.cuda.empty_cache()
    torch.full((MIB,), 7.0, device="cuda")
    torch.testing.assert_close(kept, want)


def test_memory_is_freed_with_the_captures():
    x = fresh(4 * MIB)
    captured(many, x).close()
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for _ in range(20):
        capture = captured(many, x)
        capture.run([x])
        del capture
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before + 4 * MIB


def test_random_operators_draw_what_eager_draws():
    def function(x):
        return (x + torch.rand(5, device="cuda") + nn.functional.dropout(x, 0.5),)

    x = fresh(5)
    torch.cuda.manual_seed(3)
    want = [function(x)[0] for _ in range(3)]
    torch.cuda.manual_seed(3)
    capture = captured(function, x, clone_output=True)
    got = [capture.run([x])[0] for _ in range(3)]
    torch.testing.assert_close(got, want)
    assert not torch.equal(got[0], got[1])


def test_after_a_failed_capture_everything_works():
    x = torch.tensor([1, 0, 2], device="cuda")
    stream = torch.cuda.current_stream()
    with pytest.raises(CaptureError, match=r"aten\.nonzero"):
        captured(lambda x: (torch.nonzero(x + 0) * 2,), x, mode="real")
    assert torch.cuda.current_stream() == stream
    assert not torch.cuda.is_current_stream_capturing()
    torch.cuda.synchronize()
    torch.rand(3, device="cuda")  # the generator is not capturing either
    assert torch.cuda.initial_seed() is not None
    torch.cuda.manual_seed(3)
    before = torch.cuda.memory_allocated()
    capture = captured(lambda x: (x * 2 + torch.rand(3, device="cuda"),), x)
    torch.cuda.manual_seed(5)
    got = capture.run([x])[0].clone()
    torch.cuda.manual_seed(5)
    torch.testing.assert_close(got, x * 2 + torch.rand(3, device="cuda"))
    capture.close()
    del capture, got
    gc.collect()
    assert torch.cuda.memory_allocated() <= before + MIB


def test_runs_on_several_streams():
    capture = captured(many, fresh(1000), clone_output=True)
    streams = [torch.cuda.Stream() for _ in range(3)]
    xs = [fresh(1000) for _ in range(12)]
    torch.cuda.synchronize()
    got = []
    for i, x in enumerate(xs):
        with torch.cuda.stream(streams[i % 3]):
            got.append(capture.run([x])[0])
    torch.cuda.synchronize()
    for x, y in zip(xs, got, strict=True):
        torch.testing.assert_close(y, many(x)[0])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_on_the_second_device():
    x = torch.randn(4, 4, device="cuda:1")
    capture = captured(lambda x: (torch.mm(x, x) + 1,), x, clone_output=True)
    for _ in range(2):
        x = torch.randn(4, 4, device="cuda:1")
        torch.testing.assert_close(capture.run([x])[0], torch.mm(x, x) + 1)
    assert torch.cuda.current_device() == 0


@pytest.mark.parametrize(
    "expression",
    ["x @ x", "torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3])", "torch.bmm(x[None], x[None])",
     "torch.softmax(x.half() @ x.half(), -1)", "x.exp().sum(0).argsort()"],
)  # fmt: skip
def test_libraries_are_ready_in_a_new_process(expression):
    """The first work of a process on the device is the capture: no library handle exists yet."""
    program = f"""
        import torch
        from torch.fx.experimental.proxy_tensor import make_fx
        from torchair.capture.device_graph import DeviceCapture

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        function = lambda x: ({expression},)
        x = torch.arange(64.0).view(8, 8).div(64).cuda()
        gm = make_fx(function, tracing_mode="fake")(x)
        capture = DeviceCapture(gm, [x], device_module=torch.cuda, clone_output=True)
        for k in range(2):
            x = x + k
            torch.testing.assert_close(capture.run([x])[0], function(x)[0])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_streams_inside_a_capture() -> None:
    """Branches on two streams, with events between them, agree with eager over many replays."""
    from tests.runtime.lane_graphs import Builder

    aten = torch.ops.aten
    x = fresh(256, 256) / 16
    b = Builder(x)
    (given,) = b.inputs
    first = second = given
    for _ in range(4):
        first = b.call(aten.mm.default, first, given)
        second = b.call(aten.sin.default, b.call(aten.mm.default, second, given, stream="side"), stream="side")
    token = b.record(stream="side")
    b.wait(token)
    both = b.call(aten.add.Tensor, first, second)
    b.wait(both, stream="other")
    last = b.call(aten.tanh.default, both, stream="other")
    gm = b.finish(last, second)
    capture = DeviceCapture(gm, [x], device_module=torch.cuda)
    for _ in range(20):
        value = fresh(256, 256) / 16
        got = [t.clone() for t in capture.run([value])]
        torch.cuda.synchronize()
        want = value
        side = value
        for _ in range(4):
            want, side = want @ value, (side @ value).sin()
        torch.testing.assert_close(got, [(want + side).tanh(), side])
