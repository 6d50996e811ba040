"""Launches that need no dispatcher give what eager mode gives, whatever becomes of the tensors they were made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from torchair.capture.record import record
from torchair.runtime.instance import Instance, new_arena


def _instance(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> Instance:
    return Instance(record(make_fx(function, tracing_mode="fake")(*inputs), {}, **options), new_arena())


def _same(made: Instance, function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    """Outputs and inputs afterwards are the bits of eager mode."""
    theirs = [x.clone() for x in inputs]
    expected = function(*theirs)
    results = made.run(list(inputs))
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    assert [r.stride() for r in results] == [e.stride() for e in expected]
    for ours, eager in zip([*results, *inputs], [*expected, *theirs], strict=True):
        assert ours.shape == eager.shape
        assert torch.equal(ours.nan_to_num(7.5), eager.nan_to_num(7.5))
        assert torch.equal(ours.isnan(), eager.isnan())


_SHAPES = [
    (1, 64, 64),
    (1, 2, 3),
    (1, 300, 7),
    (5, 64, 64),
    (33, 17, 129),
    (2, 1, 8),
    (2, 8, 1),
    (1, 1, 1),
    (0, 4, 4),
    (3, 0, 4),
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("rows", "k", "columns"), _SHAPES)
def test_products_are_the_bits_of_eager_mode(
    rows: int, k: int, columns: int, dtype: torch.dtype, transposed: bool
) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        matrix = w.t() if transposed else w
        y = torch.addmm(b, x, matrix)
        return y.abs(), torch.mm(x + 1, matrix) * 2, y

    x = torch.randn(rows, k, dtype=dtype)
    w = torch.randn(*((columns, k) if transposed else (k, columns)), dtype=dtype)
    b = torch.randn(columns, dtype=dtype)
    made = _instance(function, x, w, b, static_inputs=[1, 2])
    for _ in range(3):
        _same(made, function, x, w, b)
        x = torch.randn_like(x)


def test_products_pass_nan_and_infinity_on() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.addmm(b, x, w.t()) * 1

    x, w, b = torch.ones(1, 4), torch.ones(4, 4), torch.zeros(4)
    made = _instance(function, x, w, b)
    x[0, 1] = float("inf")
    w[0, 1] = 0
    b[2] = float("nan")
    w[3, 1] = -1
    _same(made, function, x, w, b)


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (1.0, 1.0), (0, 1), (0.5, 1), (1, -2)])
def test_factors_of_a_product(beta: float, alpha: float) -> None:
    def function(b: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.addmm(b, x, w, beta=beta, alpha=alpha) + 1

    inputs = torch.tensor([float("nan"), 1, 2]), torch.randn(2, 3), torch.randn(3, 3)
    _same(_instance(function, *inputs), function, *inputs)


@pytest.mark.parametrize(
    "bias", [torch.randn(3), torch.randn(1, 3), torch.randn(2, 3), torch.randn(1), torch.randn(6)[::2], torch.randn(())]
)
def test_a_bias_of_any_shape(bias: torch.Tensor) -> None:
    def function(b: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.addmm(b, x, w) + 1

    inputs = bias, torch.randn(2, 4), torch.randn(4, 3)
    _same(_instance(function, *inputs), function, *inputs)


def test_a_part_of_a_matrix_as_operand() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.mm(x[:, 2:6], w[:4, 1:]) + 1, torch.mm(x[1:2], w[:, 3:].t().t()) + 1, torch.mm(x, w) + 1

    inputs = torch.randn(3, 8), torch.randn(8, 9)
    _same(_instance(function, *inputs), function, *inputs)


@pytest.fixture
def rounded_products() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("rounded_products")
def test_products_are_rounded_where_the_user_allows_it() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.mm(x, w) + 1

    inputs = torch.randn(64, 512), torch.randn(512, 512)
    _same(_instance(function, *inputs), function, *inputs)


def _chain(x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> Any:
    for _ in range(5):
        x = torch.tanh(x * scale + shift) - torch.tanh(x + 0.5) / 3
    return x, (x * 2).exp()


def test_inputs_at_other_addresses_each_run() -> None:
    inputs = [torch.randn(4) for _ in range(3)]
    made, kept = _instance(_chain, *inputs), []
    for i in range(8):
        _same(made, _chain, *inputs)
        kept.append(inputs[i % 3])  # so that its address is not given out again
        inputs[i % 3] = torch.randn(4)


def test_the_same_tensor_as_several_inputs() -> None:
    x, y, z = (torch.randn(4) for _ in range(3))
    made = _instance(_chain, x, y, z)
    for inputs in ((x, y, z), (x, x, z), (x, x, x), (x, y, x), (z, y, x)):
        _same(made, _chain, *inputs)


def _promise_breakers() -> list[torch.Tensor]:
    return [
        torch.randn(4, dtype=torch.complex64).conj().imag,  # negative bit
        torch.randn(8)[::2],
        torch._efficientzerotensor(4),
        torch.randn(1).expand(4),
    ]


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("position", range(3))
def test_an_input_that_breaks_its_promise_is_computed_with(which: int, position: int) -> None:
    inputs = [torch.randn(4) for _ in range(3)]
    made = _instance(_chain, *inputs)
    others = list(inputs)
    others[position] = _promise_breakers()[which]
    expected = _chain(*others)
    for ours, eager in zip(made.run(list(others)), expected, strict=True):
        assert torch.equal(ours, eager)
    _same(made, _chain, *inputs)


def test_an_input_that_is_missing_is_an_error_and_the_plan_runs_again() -> None:
    inputs = [torch.randn(4) for _ in range(3)]
    made = _instance(_chain, *inputs)
    _same(made, _chain, *inputs)
    with pytest.raises(Exception, match=r"mul"):
        made.run([inputs[0], None, inputs[2]])
    _same(made, _chain, *inputs)


def test_a_mode_sees_every_operator() -> None:
    inputs = [torch.randn(4) for _ in range(3)]
    made = _instance(_chain, *inputs)
    seen: list[str] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    made.run(list(inputs))
    with Mode():
        made.run(list(inputs))
    assert sum("aten.tanh" in name for name in seen) == 10


def test_writes_to_inputs_are_seen_by_later_launches() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        before = x + y
        torch.ops.aten.add_.Tensor(x, y)
        after = x * y
        torch.ops.aten.mul.out(x, y, out=y)
        return before, after, y - x

    inputs = torch.randn(5), torch.randn(5)
    made = _instance(function, *inputs)
    for _ in range(3):
        _same(made, function, *(torch.randn(5) for _ in range(2)))


def _written_by_an_operator(x: torch.Tensor, y: torch.Tensor) -> Any:
    a = x * y
    torch.ops.aten.add_.Tensor(x, a)
    return x * y, x - y


def _written_by_a_kernel_too(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = _written_by_an_operator(x, y)
    return a, b, torch.ops.aten.mul.out(x, a, out=x) + y


@pytest.mark.parametrize("function", [_written_by_an_operator, _written_by_a_kernel_too])
def test_inputs_that_share_memory_until_one_is_written(function: Callable[..., Any]) -> None:
    made = _instance(function, torch.randn(5), torch.randn(5))
    for _ in range(3):
        base = torch.randn(5)
        x, y = torch._lazy_clone(base), torch._lazy_clone(base)
        theirs = base.clone()
        expected = function(theirs, base.clone())
        for ours, eager in zip(made.run([x, y]), expected, strict=True):
            assert torch.equal(ours, eager)
        assert torch.equal(x, theirs)
        assert torch.equal(y, base)


_library = torch.library.Library("direct_tests", "FRAGMENT")
_library.define("replace_memory(Tensor(a!) x) -> ()")


def _replace_memory(x: torch.Tensor) -> None:
    torch.Tensor.set_(x, torch.full((4,), 3.0))  # type: ignore[call-overload]


_library.impl("replace_memory", _replace_memory, "CPU")
_library.impl("replace_memory", lambda x: None, "Meta")


def test_an_operator_that_gives_an_input_other_memory() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        torch.ops.direct_tests.replace_memory(x)
        return y, x + 1

    made = _instance(function, torch.zeros(4))
    for value in range(3):
        first, second = made.run([torch.full((4,), float(value))])
        assert torch.equal(first, torch.full((4,), value + 1.0))
        assert torch.equal(second, torch.full((4,), 4.0))


def test_results_that_are_returned_are_read_again_and_are_fresh() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = torch.mm(x, w)
        z = torch.tanh(y)
        return y, z, z * y

    inputs = torch.randn(2, 3), torch.randn(3, 3)
    made = _instance(function, *inputs)
    first = made.run(list(inputs))
    copies = [t.clone() for t in first]
    _same(made, function, torch.randn(2, 3), torch.randn(3, 3))
    assert all(torch.equal(t, c) for t, c in zip(first, copies, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_relu(dtype: torch.dtype, layout: torch.memory_format) -> None:
    def function(x: torch.Tensor) -> Any:
        return (x + 1).relu() + 1, x.relu()

    x = (torch.randn(2, 3, 4, 5) * 5).to(dtype).to(memory_format=layout)
    if dtype.is_floating_point:
        x[0, 0, 0] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, -1.0])
    _same(_instance(function, x), function, x)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (4,), (3, 5), (1025,), (2, 600), (40_000,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.float16])
def test_elementwise_launches_of_one_kind_share_what_they_run_over(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        a = x * 2 - y * 2 + x * 3
        b = torch.maximum(a, y) - torch.maximum(y, x).clamp_min(1).clamp_min(2)
        c = torch.add(a, b, alpha=2) + torch.sub(b, a, alpha=3) - torch.add(b, 5) + torch.sub(x.abs(), -b)
        return c, torch.minimum(c, a).neg(), torch.add(c, 2, alpha=2)

    def values() -> torch.Tensor:
        return (torch.randn(shape) * 4).to(dtype)

    made = _instance(function, values(), values())
    for _ in range(3):
        _same(made, function, values(), values())
