"""Native programs in graphs: what is fused, the order of reads and writes, indices out of range."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.native.graphs import assert_close, check, lowered, native, traced
from torchair.native import NativeProgram, PartitionRecord
from torchair.native.program import compile_programs

pytestmark = pytest.mark.usefixtures("support")


def _kernels(record: PartitionRecord) -> list[tuple[str, bool]]:
    """Kind of each function, and whether workers wait before it."""
    return [(g.kind, g.barrier) for p in record.programs for g in p.groups]


# --- what is fused ---


def test_a_chain_with_two_reductions_is_one_function() -> None:
    record = check(lambda x: (torch.softmax(x * 2 + 1, -1),), torch.randn(6, 33))
    assert _kernels(record) == [("rows", False)]


def test_reductions_of_other_axes_are_functions_of_their_own() -> None:
    record = check(lambda x: (x.sum(0), x.sum(1)), torch.randn(40, 33))
    assert sorted(kind for kind, _ in _kernels(record)) == ["columns", "rows"]


def test_workers_wait_where_one_reads_what_another_wrote() -> None:
    record = check(lambda x: ((x.sum(1, keepdim=True) * x).sum(0),), torch.rand(300, 301))
    assert any(barrier for _, barrier in _kernels(record)[1:])


def test_independent_functions_do_not_wait() -> None:
    record = check(lambda x, y: (x + 1, y.sum(1)), torch.randn(300, 301), torch.randn(200, 205))
    assert [barrier for _, barrier in _kernels(record)] == [False, False]


# --- order of reads and writes ---


def test_a_result_that_is_read_outside_is_computed_before_what_it_is_made_of_is_written() -> None:
    """Seed 29 of the random graphs: the reader outside stands before the write, and runs after the program."""

    def function(x: Tensor) -> tuple[Tensor]:
        y = x.tanh()
        z = torch.linalg.matrix_exp(y)  # a call between programs
        x.copy_(torch.zeros_like(x))
        return (z,)

    check(function, torch.rand(3, 3))


def test_a_view_read_later_shows_what_was_there() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        old = (x * 2).t()
        x.copy_(y)
        return old + 1, x * old.t()

    check(function, torch.randn(4, 5), torch.randn(4, 5))


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.copy_(x.flip(0)),
        lambda x: x.copy_(x.t() + 1),
        lambda x: x[1:].copy_(x[:-1] * 2),
        lambda x: x.sub_(x.sum(0)),
        lambda x: x.copy_(torch.softmax(x, -1)),
        lambda x: x.index_put_((torch.tensor([1, 3, 1]),), x[:3].clone(), accumulate=True),
        lambda x: x.scatter_(0, (x > 0).long(), x.clone()),
        lambda x: x.diagonal().add_(1),
    ],
    ids=["flip", "transposed", "shifted", "centered", "softmax", "index_put", "scatter", "diagonal"],
)
def test_a_tensor_is_written_with_what_is_read_from_it(write: Callable[[Tensor], Any]) -> None:
    def function(x: Tensor) -> tuple[Tensor]:
        write(x)
        return (x * 2,)

    check(function, torch.randn(5, 5))


def test_two_arguments_trade_places() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor]:
        old = x.clone()
        x.copy_(y)
        y.copy_(old)
        return (x - y,)

    check(function, torch.randn(4, 5), torch.randn(4, 5))


def test_written_arguments_have_new_versions() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor]:
        x.add_(1)
        return (x * y,)

    x, y = torch.randn(4), torch.randn(4)
    module, _ = lowered(function, x, y)
    before = x._version, y._version
    module(x, y)
    assert x._version > before[0]
    assert y._version == before[1]


def test_scattered_indices_of_several_axes_pass_through_one_loop() -> None:
    index = torch.randint(0, 20, (3, 5))
    record = check(
        lambda x, i, v: (x.index_put((i,), v * 2), x.index_put((i,), v, accumulate=True)),
        torch.randn(20), torch.randperm(20)[:15].view(3, 5), torch.randn(3, 5),
    )  # fmt: skip
    assert record.programs
    check(lambda x, i, v: (x.index_put((i,), v, accumulate=True),), torch.randn(20), index, torch.randn(3, 5))


# --- indices out of range ---

_X = torch.arange(20.0).view(4, 5)


@pytest.mark.parametrize(
    ("function", "arguments", "named"),
    [
        (lambda x, i: (x[i],), (_X, torch.tensor([0, 4])), "aten.index.Tensor"),
        (lambda x, i: (x[i] + 1,), (_X, torch.tensor([-5])), "aten.index.Tensor"),
        (lambda x, i: (x.gather(0, i),), (_X, torch.tensor([[0, 4, 0, 0, 0]])), "aten.gather"),
        (lambda x, i: (x.scatter(0, i, 1.0),), (_X, torch.tensor([[0, -1, 0, 0, 0]])), "aten.scatter"),
    ],
)
def test_an_index_out_of_range_names_the_operator(function: Any, arguments: Any, named: str) -> None:
    module, record = lowered(function, *arguments)
    assert record.programs
    with pytest.raises(IndexError, match=f"out of range in .*{named}"):
        module(*arguments)
    good = (arguments[0], torch.zeros_like(arguments[1]))
    assert_close(module(*good), function(*good))  # nothing is left of the error


def test_nothing_is_written_at_an_index_out_of_range() -> None:
    def function(x: Tensor, i: Tensor) -> tuple[Tensor]:
        x.index_put_((i,), torch.full((), 7.0))
        return (x + 1,)

    x = _X.clone()
    module, _ = lowered(function, x, torch.tensor([1, 2]))
    with pytest.raises(IndexError, match="index_put"):
        module(x, torch.tensor([2, 9]))
    assert torch.equal(x[[0, 1, 3]], _X[[0, 1, 3]])


def test_an_axis_without_elements_is_left_to_the_operator() -> None:
    x, index = torch.randn(0, 5), torch.tensor([0])
    module, record = lowered(lambda x, i: (x[i] * 2,), x, index)
    assert "no element" in record.left["aten.index.Tensor"]
    with pytest.raises(IndexError):
        module(x, index)


# --- extremes ---


def test_special_numbers() -> None:
    numbers = torch.tensor([0.0, -0.0, 1.5, -2.5, float("inf"), float("-inf"), float("nan")])

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.maximum(x, y),
            x.relu(),
            x.clamp(-1, 1),
            x.sign(),
            x.round(),
            x.amax(0),
            x.argmax(),
            x + 0.0,
            x / y,
        )

    check(function, numbers, numbers.flip(0))
    module, _ = lowered(lambda x: (x.relu(), x.clamp(0, 1)), numbers)
    for got, want in zip(module(numbers), (numbers.relu(), numbers.clamp(0, 1)), strict=True):
        assert torch.equal(got.signbit(), want.signbit())


def test_roots_of_float16_are_those_of_its_pow() -> None:
    check(lambda x: (x**0.5, x**-0.5, x**2), torch.tensor([4.0, -0.0, float("-inf")], dtype=torch.float16))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_integers_wrap_around(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = torch.tensor([0, 1, info.max, info.min, info.max - 1, 7], dtype=dtype)
    check(lambda x, y: (x + y, x * y, -x, x - y, x.abs(), (x * y).sum(), x.prod(0)), x, x.flip(0).contiguous())


def test_no_elements_and_no_axes() -> None:
    record = check(
        lambda a, b, s: (a + s, a.sum(0), b.sum(1), (a * 2).sum(), b.prod(1), torch.cat([a, a * 2]), s.sum() * 2),
        torch.randn(0, 4), torch.randn(3, 0), torch.tensor(3.0),
    )  # fmt: skip
    assert record.programs


def test_strides_beyond_int32() -> None:
    big = torch.zeros(1, 1).as_strided((1, 1), (2**33, 2**32))
    check(lambda x: (x + 1, x.sum(0)), big)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_products_of_few_rows_in_all_layouts(rows: int, dtype: torch.dtype) -> None:
    """No worse than twice the library's error, measured against float64."""

    def function(a: Tensor, b: Tensor, bt: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return (a @ b, a @ bt.t(), torch.addmm(c, a, b), a.t().contiguous().t() @ b, a[:1] @ bt.t())

    arguments = [torch.randn(s).to(dtype) for s in ((rows, 300), (300, 35), (35, 300), (35,))]
    module, record = lowered(function, *arguments)
    assert not any(op in record.left for op in ("aten.mm.default", "aten.addmm.default"))
    exact = function(*(t.double() for t in arguments))
    for got, eager, truth in zip(module(*arguments), function(*arguments), exact, strict=True):
        error, theirs = ((t.double() - truth).abs().max() for t in (got, eager))
        assert error <= 2 * theirs + 1e-7 * truth.abs().max()


# --- calls ---


def test_programs_run_in_threads() -> None:
    module, record = lowered(lambda x: (torch.softmax(x.tanh(), -1) * x.sum(),), torch.randn(64, 100))
    compile_programs(record.programs)
    inputs = [torch.randn(64, 100) for _ in range(4)]
    want = [torch.softmax(x.tanh(), -1) * x.sum() for x in inputs]
    problems: list[BaseException] = []

    def work(x: Tensor, expected: Tensor) -> None:
        try:
            for _ in range(50):
                assert_close(module(x), [expected])
        except BaseException as e:  # noqa: BLE001
            problems.append(e)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, want, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_program_is_bound_once_for_each_size() -> None:
    def function(x: Tensor) -> tuple[Tensor]:
        return (torch.softmax(x * 2, -1),)

    module, record = native(traced(function, [torch.randn(5, 7)], mode="symbolic"))
    (program,) = record.programs
    assert isinstance(program, NativeProgram)
    for shape in ((5, 7), (9, 3), (5, 7)):
        x = torch.randn(shape)
        assert_close(module(x), function(x))
    assert len(program._bound) == 2


def test_reductions_to_few_results_have_parts_for_several_workers() -> None:
    def program(x: Tensor, y: Tensor, z: Tensor) -> list[Tensor]:
        results = [x.sum(), x.amax(), (x > 3).any(), x.double().mean(), (x * 0.001 + 1).prod(), x.argmax()]
        return [*results, x.sum(0), x.var(0), y.sum(1), y.var(1, keepdim=True), y.amin((0, 1)), z.sum((0, 2)), z.sum()]

    torch.manual_seed(0)
    x, y, z = torch.randn(70_000, 3), torch.randn(2, 65_600), torch.randn(3, 2, 33_000)
    check(program, x, y, z)
    _, record = lowered(lambda x: (x.sum(0),), x)
    (program_,) = record.programs
    assert [g.rows for g in program_.groups] == [(56, 3), (3,)], "70,000 / 56 elements each"
    _, record = lowered(lambda x: (x.sum(0),), torch.randn(65_537, 1))
    assert len(record.programs[0].groups) == 1, "a prime number of elements"
    _, record = lowered(lambda x: (x.sum(0),), x[:1000])
    assert len(record.programs[0].groups) == 1, "few elements"


def test_a_scan_does_not_compute_its_steps_again_and_again() -> None:
    def mixed(even: Tensor, odd: Tensor) -> Tensor:
        return torch.stack([even, odd], 1).flatten(0, 1)

    def scan(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Of ``h = a * h + b`` by halving, as ``torch.associative_scan`` runs."""
        if a.shape[0] == 1:
            return a, b
        odd_a, odd_b = scan(a[1::2] * a[::2], a[1::2] * b[::2] + b[1::2])
        even_a = torch.cat([a[:1], a[2::2] * odd_a[:-1]])
        even_b = torch.cat([b[:1], a[2::2] * odd_b[:-1] + b[2::2]])
        return mixed(even_a, odd_a), mixed(even_b, odd_b)

    record = check(lambda a, b: scan(a.sigmoid(), b), torch.randn(128, 5), torch.randn(128, 5))
    bodies = [k.body for p in record.programs for k in p.kernels]
    assert max(body.count("\n") for body in bodies) < 400


@pytest.mark.parametrize(("x", "values"), [((4,), (1, 1)), ((), (1,)), ((4, 5), (3,)), ((4, 5), (2, 5))], ids=str)
def test_values_that_do_not_fit_are_refused_by_the_operator(x: tuple[int, ...], values: tuple[int, ...]) -> None:
    """The fake kernel of ``index_put`` takes them."""

    def function(x: Tensor, at: Tensor, values: Tensor) -> Tensor:
        return torch.ops.aten.index_put(x, [at], values) * 2

    arguments = torch.randn(x), torch.tensor([0, 1, 2])[: 3 if x else 1], torch.randn(values)
    with pytest.raises((RuntimeError, IndexError)) as eager:
        function(*arguments)
    compiled = torch.compile(function, backend="torchair", fullgraph=True)
    with pytest.raises(RuntimeError) as ours:
        compiled(*arguments)
    assert str(eager.value) in str(ours.value)
