"""Programs that are hard for capture: numbers and sizes of a single call, random numbers, functions as operands.

Each runs several times with fresh values at new addresses, and all that a caller can see is compared with eager.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from tests.conformance.op_db import CAPTURE, backend
from tests.pipeline.agreement import assert_agrees
from torchair.pipeline.backends import Backend
from torchair.pipeline.capture_mode import CapturedGraph

Calls = Sequence[Sequence[Any]]


def _check(function: Callable[..., Any], calls: Calls, *, dynamic: bool | None = None, **tolerances: Any) -> Backend:
    used = backend(CAPTURE)
    compiled = torch.compile(function, backend=used, fullgraph=True, dynamic=dynamic)
    kept = []
    for args in calls:
        assert_agrees(function, compiled, args, **tolerances)
        kept.append(args)
    return used


def _captures(used: Backend) -> list[int]:
    """How many captures each graph of a backend has."""
    return [len(g.captures) for g in used.graphs if isinstance(g, CapturedGraph)]


def _floats(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


# --- numbers ---


def test_an_offset_is_passed_at_run_time() -> None:
    used = _check(
        lambda x, pos: (x.narrow(1, pos, 1) + 1, x.select(1, pos).sum()),
        [[_floats(3, 9, seed=i), i] for i in (2, 3, 4, 5, 8)],
        dynamic=True,
    )
    assert _captures(used) == [1]


def test_a_factor_is_passed_at_run_time() -> None:
    used = _check(
        lambda x, n: (x * n, x + n, (x > n).sum(), torch.full((2,), n), x.clamp(min=n), n * 3),
        [[_floats(3, 4, seed=i), i] for i in (2, 7, -3, 5)],
        dynamic=True,
    )
    assert max(_captures(used)) == 1


def test_a_factor_keeps_integers_integers() -> None:
    _check(
        lambda x, n: (x * n, x // n, x / n, x % n, x**2 + n),
        [[torch.arange(6) + i, i] for i in (2, 7, 9)],
        dynamic=True,
    )


def test_floating_numbers_change_from_call_to_call() -> None:
    _check(lambda x, f: (x * f, x + f), [[_floats(3), f] for f in (0.5, 1.5, -2.0, 3.25)], dynamic=True)


def test_a_size_makes_captures() -> None:
    used = _check(
        lambda cache, n: cache[:, :n].sum(1) + n, [[_floats(3, 9, seed=i), i] for i in (2, 3, 4, 3, 2)], dynamic=True
    )
    assert _captures(used) == [3]


def test_a_key_value_cache_is_written_at_a_position() -> None:
    def step(cache: torch.Tensor, new: torch.Tensor, pos: int) -> torch.Tensor:
        cache.select(1, pos).copy_(new)  # Dynamo compiles cache[:, pos] once for each pos
        return cache.sum(1)

    used = _check(step, [[_floats(2, 8, 3, seed=i), _floats(2, 3, seed=i), i] for i in (2, 3, 4, 7)], dynamic=True)
    assert _captures(used) == [1]


@pytest.mark.parametrize("first", [0, 1])
def test_first_call_has_batch(first: int) -> None:
    _check(
        lambda x: (x @ torch.ones(3, 2), x.sum(0), x.softmax(-1), torch.cat([x, x * 2])),
        [[_floats(n, 3, seed=n)] for n in (first, 4, 2, first)],
        dynamic=True,
        rtol=1e-5,
        atol=1e-6,
    )


# --- sizes that depend on values ---


@pytest.fixture
def data_dependent() -> Any:
    from torch._dynamo import config

    with config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def _mask(size: int, seed: int) -> torch.Tensor:
    return _floats(size, seed=seed) > 0


DATA_DEPENDENT: dict[str, tuple[Callable[..., Any], Callable[[int], list[Any]]]] = {
    "nonzero": (lambda x: (x > 0).nonzero() * 2, lambda i: [_floats(8, seed=i)]),
    "masked_select": (lambda x, m: torch.masked_select(x, m).exp().sum(), lambda i: [_floats(8, seed=i), _mask(8, i)]),
    "mask_index": (lambda x, m: (x * 2)[m] + 1, lambda i: [_floats(8, seed=i), _mask(8, i)]),
    "unique": (
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda i: [torch.arange(9) % (i + 2)],
    ),
    "repeat_interleave": (
        lambda x, r: torch.repeat_interleave(x * 2, r, dim=0) + 1,
        lambda i: [_floats(3, 2, seed=i), torch.tensor([i, 1, 2])],
    ),
    "nonzero_then_views": (
        lambda x: (x > 0).nonzero().t().reshape(1, -1).unsqueeze(0) + 1,
        lambda i: [_floats(8, seed=i)],
    ),
    "nonzero_sizes": (lambda x: (lambda n: torch.ones(n.shape[0] * 2 + 1))((x > 0).nonzero()), lambda i: [_floats(8)]),
}


@pytest.mark.usefixtures("data_dependent")
@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_sizes_depend_on_values(name: str) -> None:
    function, args = DATA_DEPENDENT[name]
    used = _check(function, [args(i) for i in range(4)])
    assert _captures(used) == [1]


@pytest.mark.usefixtures("data_dependent")
def test_item_decides_a_size() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> Any:
        k: Any = (n + 0).item()
        torch._check(k >= 1)
        torch._check(k <= 8)
        return x.narrow(0, 0, k) * 2, torch.arange(k), torch.zeros(k, 3) + k, x * k

    used = _check(function, [[_floats(8, seed=i), torch.tensor(i)] for i in (2, 5, 8, 1)])
    assert _captures(used) == [1]


@pytest.mark.usefixtures("data_dependent")
def test_item_is_a_factor() -> None:
    _check(lambda x, n: (x * n.item(), x + n.item() / 2), [[_floats(4), torch.tensor(f)] for f in (0.5, 2.0, -1.0)])
    _check(lambda x, n: x * n.item(), [[torch.arange(4), torch.tensor(i)] for i in (2, 3, 4)])


@pytest.mark.usefixtures("data_dependent")
def test_a_broken_check_raises_and_the_plan_runs_again() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        k = (n + 0).item()
        torch._check(k <= 8)
        return x * k

    compiled = torch.compile(function, backend=backend(CAPTURE), fullgraph=True)
    x = _floats(4)
    assert torch.equal(compiled(x, torch.tensor(3)), x * 3)
    with pytest.raises(RuntimeError, match="u0 <= 8"):
        compiled(x, torch.tensor(9))
    assert torch.equal(compiled(x, torch.tensor(5)), x * 5)


# --- operators that take functions ---


def test_cond() -> None:
    def function(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.cond(flag, lambda a: a.sin() + 1, lambda a: a.cos() * 2, (y,)) + y

    _check(function, [[_floats(3, seed=i), torch.tensor(i % 2 == 0)] for i in range(4)])


def test_while_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def function(n: torch.Tensor, x: torch.Tensor) -> Any:
        return while_loop(lambda i, _: i < 5, lambda i, v: (i + 1, v * 2 + i), (n * 1, x + 1))

    _check(function, [[torch.tensor(i), _floats(3, seed=i)] for i in (0, 3, 7)])


@torch.library.custom_op("capture_tests::scale_into", mutates_args=["out"])
def _scale_into(x: torch.Tensor, out: torch.Tensor, by: float) -> None:
    out.copy_(x * by)


@torch.library.custom_op("capture_tests::bump_both", mutates_args=["a", "b"])
def _bump_both(a: torch.Tensor, b: torch.Tensor | None) -> torch.Tensor:
    a.add_(1)
    if b is not None:
        b.mul_(2)
    return a.sum()


@_bump_both.register_fake
def _(a: torch.Tensor, b: torch.Tensor | None) -> torch.Tensor:
    return a.new_empty(())


def test_custom_operators_that_write() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        t = x + 1
        torch.ops.capture_tests.scale_into(x, y, 2.0)
        total = torch.ops.capture_tests.bump_both(t, y[1:])
        again = torch.ops.capture_tests.bump_both(x, None)
        return t, total, again, y * 1

    _check(function, [[_floats(4, 2, seed=i), _floats(4, 2, seed=9 + i)] for i in range(3)])


# --- random numbers ---


def test_random_numbers_are_those_of_eager() -> None:
    def function(x: torch.Tensor) -> Any:
        return (
            torch.rand_like(x),
            torch.randint(0, 9, (4,)),
            torch.bernoulli(x.sigmoid()),
            torch.normal(x, 1.0),
            nn.functional.dropout(x, 0.3),
            torch.multinomial(x.abs() + 0.1, 2),
            torch.empty_like(x).uniform_(-1, 1),
            torch.empty_like(x).normal_(),
            torch.empty(5).exponential_(),
            torch.randperm(7),
            nn.functional.rrelu(x, training=True),
        )

    used = backend(CAPTURE)
    compiled = torch.compile(function, backend=used, fullgraph=True)
    torch.manual_seed(1)
    want = [function(_floats(3, 4)) for _ in range(3)]
    state = torch.get_rng_state()
    torch.manual_seed(1)
    got = [compiled(_floats(3, 4)) for _ in range(3)]
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_in_training_draws_as_eager() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x * 2, 0.5).sin() + torch.rand_like(x)

    compiled = torch.compile(function, backend=backend(CAPTURE), fullgraph=True)
    results = []
    for run in (function, compiled):
        torch.manual_seed(5)
        x = _floats(6, 6).requires_grad_()
        for _ in range(3):
            run(x).sum().backward()
        results.append((x.grad, torch.get_rng_state()))
    torch.testing.assert_close(*results, rtol=0, atol=0)


# --- where a call stands ---


def test_inference_mode_and_no_grad_and_grad() -> None:
    layer = nn.Linear(4, 4)
    compiled = torch.compile(layer, backend=backend(CAPTURE), fullgraph=True)
    for context in (torch.inference_mode, torch.no_grad, torch.enable_grad, torch.inference_mode):
        x = _floats(2, 4)
        with context():
            got, want = compiled(x), layer(x)
        torch.testing.assert_close(got, want)
        assert got.requires_grad == want.requires_grad
        assert got.is_inference() == want.is_inference()


def test_autocast() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        with torch.autocast("cpu", enabled=False):
            exact = a @ b
        return exact, a @ b, (a @ b).softmax(-1), a + b

    compiled = torch.compile(function, backend=backend(CAPTURE), fullgraph=True)
    for i in range(3):
        a, b = _floats(4, 4, seed=i), _floats(4, 4, seed=i + 7)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got, want = compiled(a, b), function(a, b)
        torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_layers_of_other_dtypes(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3), nn.Softmax(-1)).to(dtype)
    with torch.no_grad():
        _check(model.forward, [[_floats(4, 8, seed=i).to(dtype)] for i in range(3)])


def test_channels_last() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 1), nn.SiLU()
    ).eval()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.no_grad():
        _check(
            model.forward,
            [[_floats(2, 3, 8, 8, seed=i).contiguous(memory_format=torch.channels_last)] for i in range(3)],
            rtol=1e-5,
            atol=1e-5,
        )


def test_conjugate_and_negative_views() -> None:
    def function(x: torch.Tensor) -> Any:
        c = x.conj()
        return c * 2, c.imag + 1, (c @ x.mT).abs(), c.clone(), torch.view_as_real(c.resolve_conj()), c, x.conj().sum()

    def make(i: int) -> torch.Tensor:
        return torch.complex(_floats(3, 3, seed=i), _floats(3, 3, seed=i + 5))

    _check(function, [[make(i)] for i in range(3)], rtol=1e-6, atol=1e-6)


def test_strides_of_floor_division_of_odd_layouts() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.ops.aten.floor_divide(x, y).unsqueeze(0)[0], torch.xlogy(x, y) * 1

    _check(function, [[_floats(4, 3, seed=i).t().abs(), torch.tensor(2.0)] for i in range(2)])


def test_weights_are_replaced_and_updated() -> None:
    layer = nn.Linear(4, 3)
    compiled = torch.compile(layer, backend=backend(CAPTURE), fullgraph=True)
    x = _floats(2, 4)
    with torch.no_grad():
        for round_ in range(5):
            torch.testing.assert_close(compiled(x), layer(x))
            if round_ % 2:
                layer.weight.data = _floats(3, 4, seed=round_)
            else:
                layer.weight.add_(1)
        layer.weight = nn.Parameter(_floats(3, 4, seed=77))
        torch.testing.assert_close(compiled(x), layer(x))


def test_training_with_dynamic_sizes() -> None:
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2))
    theirs = copy.deepcopy(ours)
    compiled: Any = torch.compile(ours, backend=backend(CAPTURE), fullgraph=True, dynamic=True)
    for n in (3, 5, 3, 8):
        x = _floats(n, 4, seed=n)
        for model in (compiled, theirs):
            model.zero_grad()
            (model(x).reshape(-1)[: n - 1] ** 2).sum().backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-6)


def test_version_counters_advance() -> None:
    compiled = torch.compile(lambda x: x.add_(1) * 2, backend=backend(CAPTURE), fullgraph=True)
    x = _floats(3)
    for expected in (1, 2, 3):
        compiled(x)
        assert x._version == expected


def test_two_threads_call_one_function() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = (x @ w).tanh() * 1.5 + x
        return x

    compiled = torch.compile(function, backend=backend(CAPTURE), fullgraph=True)
    cases = [(_floats(16, 16, seed=i), _floats(16, 16, seed=i + 50)) for i in range(4)]
    want = [function(*case) for case in cases]
    compiled(*cases[0])
    problems: list[str] = []

    def work(which: int) -> None:
        for _ in range(200):
            if not torch.equal(compiled(*cases[which]), want[which]):
                problems.append(f"thread {which} differs")
                return

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_tensors_agree_or_are_refused(layout: str) -> None:
    def function(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(a, x * 2) + 1

    compiled = torch.compile(function, backend=backend(CAPTURE))
    for i in range(3):
        dense = _floats(4, 4, seed=i).relu()
        a = dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()
        torch.testing.assert_close(compiled(a, _floats(4, 2, seed=i)), function(a, _floats(4, 2, seed=i)))


def test_a_sparse_tensor_of_intermediate_values() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        s = (x * 2).to_sparse()
        y = (x + 1).tanh()
        return s.to_dense() + y.exp()

    compiled = torch.compile(function, backend=backend(CAPTURE))
    for i in range(3):
        x = _floats(4, 4, seed=i)
        torch.testing.assert_close(compiled(x), function(x))
