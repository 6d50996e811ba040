"""Reading and writing at positions agrees with eager, and writes a cache where it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from tests.convert.conversion import check, check_samples, converted_ops, reference_backend
from tests.convert.operands import all_of, dtypes

Functions = dict[str, Callable[..., Any]]


def elements(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0 if dtype is torch.uint8 else -9, 10, shape, generator=generator)
    return (x > 0) if dtype is torch.bool else (x * (0.5 if dtype.is_floating_point else 1)).to(dtype)


DTYPES = dtypes((torch.float32, torch.int64), (torch.bool, torch.bfloat16, torch.complex64, torch.uint8, torch.float64))
PLACES, OTHERS = torch.tensor([0, -1, 1, 1]), torch.tensor([[2, 0, -3, 1]], dtype=torch.int32)

#: Of x [3, 4, 5], positions i [4] and j [1, 4] with negative ones among them, and p [2], q [2] without.
READS: Functions = {
    "one index": lambda x, i, j: (x[i], x[:, i], x[..., i], x[i.view(2, 2)], x[i[:0]]),
    "several": lambda x, i, j: (x[i, j], x[i, :, j], x[:, i, j], x[i, j, i], x[i, 1], x[0, i]),
    "with None": lambda x, i, j: (x[None, i], x[i, None], x[:, None, i]),
    "select": lambda x, i, j: (x.index_select(0, i.abs()), x.index_select(-1, i.abs()), x.index_select(1, i.abs()[0])),
    "gather": lambda x, i, j: (x.gather(0, i.abs().view(2, 2, 1)), x.gather(-1, (j.abs() % 2).long()[None])),
    "take": lambda x, i, j: (x.take(i), torch.take_along_dim(x, i.abs().view(1, 4, 1), 0)),
    "0-d": lambda x, i, j: (x[0, 0, 0].gather(0, i[0] * 0), x[0, 0, 0].take(i[:1] * 0)),
}
#: New rows come from y, which is like x.
WRITES: Functions = {
    "index_put": lambda x, y, p, q: (
        x.index_put((p,), y[0]),
        x.index_put((p, q), y[:2, 0]),
        x.index_put((p, -q, q), y[0, 0, :2]),
        torch.ops.aten.index_put(x, [None, p], y[:, :2]),
        torch.ops.aten.index_put(x, [None, None, q], y[0, 0, 0]),
    ),
    "index_copy": lambda x, y, p, q: (x.index_copy(0, p, y[:2]), x.index_copy(-1, q, y[..., :2])),
    "index_fill": lambda x, y, p, q: (x.index_fill(1, p, 1), x.index_fill(-1, q, y[0, 0, 0])),
    "scatter": lambda x, y, p, q: (
        x.scatter(0, p.view(2, 1, 1), y),
        x.scatter(-1, q.view(1, 1, 2), y),
        x.scatter(1, p.view(1, 2, 1), 1),
        x.scatter(1, p[:0].view(1, 0, 1), y),
        x[0, 0, 0].scatter(0, p[0] * 0, y[0, 0, 0]),
    ),
    "slices": lambda x, y, p, q: (
        torch.slice_scatter(x, y[1:], 0, 1),
        torch.slice_scatter(x, y[:, ::2], 1, 0, 4, 2),
        torch.slice_scatter(x, y[..., :2], -1, -2),
        torch.slice_scatter(x, y),
        torch.select_scatter(x, y[:, 1], 1, -1),
        torch.select_scatter(x, y[0], 0, 2),
    ),
    "masked": lambda x, y, p, q: (
        torch.masked_scatter(x, (p == 0).view(2, 1, 1)[:1], y),
        torch.masked_scatter(x[0], torch.ones(3, 4, 5, dtype=torch.bool), y),
    ),
    "put": lambda x, y, p, q: x.put(p, y[0, 0, :2]),
    "assignment": lambda x, y, p, q: (
        assigned(x, y, p, q),
        assigned(x.mT, y.mT, p, q),
        assigned(y[..., 1:].expand(3, 4, 4), x, p, q),
    ),
}
SUMS: Functions = {
    "index_put": lambda x, y, p, q: (
        x.index_put((p * 0,), y[:2], accumulate=True),
        torch.ops.aten.index_put(x, [None, q * 0], y[:, :2], True),
    ),
    "index_add": lambda x, y, p, q: (
        x.index_add(0, p * 0, y[:2]),
        x.index_add(-1, q, y[..., :2], alpha=3),
        x.index_add(1, p, y[:, :2], alpha=1),
    ),
    "scatter_add": lambda x, y, p, q: (
        x.scatter_add(0, (y.abs() * 0).long(), y),
        x.scatter_add(1, p.view(1, 2, 1) * 0, y),
    ),
    "scatter_reduce": lambda x, y, p, q: (
        x.scatter_reduce(0, (y.abs() * 0).long(), y, "sum"),
        x.scatter_reduce(0, (y.abs() * 0).long(), y, "prod"),
    ),
    "put": lambda x, y, p, q: x.put(p * 0, y[0, 0, :2], accumulate=True),
}


def assigned(x: torch.Tensor, y: torch.Tensor, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """A copy of ``x`` that indexed assignments wrote."""
    x = x.clone()
    x[p] = y[:2, :, : x.shape[2]]
    x[:, q] = y[:, :2, : x.shape[2]]
    x[1:, 0] = 1
    x[x == 1] = 0
    x[:, torch.arange(x.shape[1]) % 2 == 0] = y[0, 0, 0]
    return x


P, Q = torch.tensor([0, 2]), torch.tensor([3, 1])


@DTYPES
@pytest.mark.parametrize("dynamic", [False, True])
def test_reads_equal_eager(dtype, dynamic):
    x = elements(dtype, 3, 4, 5)
    check(lambda *args: all_of(READS, *args), x, PLACES, OTHERS, dynamic=dynamic)


@DTYPES
@pytest.mark.parametrize("dynamic", [False, True])
def test_writes_equal_eager(dtype, dynamic):
    x, y = elements(dtype, 3, 4, 5), elements(dtype, 3, 4, 5).flip(0)
    functions = WRITES if dtype is torch.bool else {**WRITES, **{f"{name}, summed": f for name, f in SUMS.items()}}
    check(lambda *args: all_of(functions, *args), x, y, P, Q, dynamic=dynamic)


def test_the_factor_of_index_add():
    x, y = torch.randn(3, 4), torch.randn(2, 4)
    for alpha in (0.3, 2.0, -1):
        check(lambda x, y, p, alpha=alpha: x.index_add(0, p, y, alpha=alpha), x, y, P, unconverted_ops="error")
        check(
            lambda x, y, p, alpha=alpha: x.half().index_add(0, p, y.half(), alpha=alpha),
            x,
            y,
            P,
            unconverted_ops="error",
        )


@pytest.mark.parametrize("reduce", ["mean", "amax", "amin"])
def test_other_reductions_stay_torch_calls(reduce):
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    index = torch.tensor([[0, 1, 1, 0]]).expand(3, 4)
    check(lambda x, y, i: x.scatter_reduce(0, i, y, reduce), x, y, index, ops=["torch_call"])
    check(lambda x, y, i: x.scatter_reduce(0, i, y, "sum", include_self=False), x, y, index, ops=["torch_call"])


def test_masks():
    def fn(x, mask, row):
        y = x.clone()
        y[mask, :2] = 5.0
        z = x.index_put((row,), torch.tensor(2.0))
        return x[mask], x[row], y, z, x.masked_select(mask[..., None])

    x, mask, row = (
        torch.randn(2, 3, 4),
        torch.tensor([[True, False, True], [False, False, True]]),
        torch.tensor([True, False]),
    )
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(fn, x, mask, row, ops=["torch_call", "MaskedFill"])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_embedding(dtype):
    table, indices = torch.randn(7, 3, requires_grad=True), torch.tensor([[1, 6, 0], [1, 1, 6]], dtype=dtype)
    functions: Functions = {
        "plain": torch.nn.functional.embedding,
        "padding": lambda i, w: torch.nn.functional.embedding(i, w, padding_idx=1),
        "frequency": lambda i, w: torch.nn.functional.embedding(i, w, padding_idx=-1, scale_grad_by_freq=True),
        "0-d": lambda i, w: torch.nn.functional.embedding(i[0, 0], w),
    }
    for dynamic in (False, True):
        fn = lambda i, w: list(all_of(functions, i, w).values())  # noqa: E731
        # A symbolic number of rows cannot be an attribute.
        ops = ["GatherV2", "torch_call" if dynamic else "EmbeddingDenseGrad"]
        check(fn, indices, table, backward=True, dynamic=dynamic, ops=ops)


def test_gradients_of_reads_and_writes():
    def fn(x, y, i, p):
        return (
            x[:, i],
            x.index_select(1, p),
            x.gather(0, p.view(2, 1)),
            x.index_copy(0, p, y),
            x[1:, ::2],
            torch.cat([x, y]),
        )

    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(2, 4, requires_grad=True)
    for dynamic in (False, True):
        # Gradients that meet are added in an order that is free.
        check(fn, x, y, PLACES, P, backward=True, dynamic=dynamic, rtol=1e-6, atol=1e-6)


def test_a_position_outside_is_an_error():
    compiled = torch.compile(lambda x, i: x[i] + 1, backend=reference_backend(), fullgraph=True)
    with pytest.raises(Exception, match=r"out of range|out of bounds"):
        compiled(torch.ones(3), torch.tensor([5]))


SPREAD = ("Reshape", "BroadcastTo", "TensorMove")
NEGATIVE, INT32 = torch.tensor([0, -1]), torch.tensor([0, 1], dtype=torch.int32)
REFUSED: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:2]), NEGATIVE),
    "index_copy of columns": (lambda x, i: x.index_copy(1, i, x[:, :2]), NEGATIVE),
    "index_copy of a number": (lambda x, i: x[0, 0].index_copy(0, i[1], x[1, 1]), NEGATIVE),
    "index_copy(int32)": (lambda x, i: x.index_copy(0, i, x[:2]), INT32),
    "index_fill(int32)": (lambda x, i: x.index_fill(0, i, 1), INT32),
    "index_fill(tensor, int32)": (lambda x, i: x.index_fill(0, i, x[0, 0]), INT32),
    "put(int32)": (lambda x, i: x.put(i, x[0, :2]), INT32),
    "index_add": (lambda x, i: x.index_add(0, i, x[:2]), NEGATIVE),
    "index_select": (lambda x, i: x.index_select(0, i), NEGATIVE),
    "gather": (lambda x, i: x.gather(1, i[None]), NEGATIVE),
    "scatter": (lambda x, i: x.scatter(1, i[None], x), NEGATIVE),
    "embedding": (lambda x, i: torch.nn.functional.embedding(i, x), NEGATIVE),
    "take": (lambda x, i: x.take(i * 100), NEGATIVE),
    "index_fill": (lambda x, i: x.index_fill(0, i * 100, 1), NEGATIVE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_positions_that_eager_refuses_are_refused(name):
    fn, index = REFUSED[name]
    x = torch.arange(12.0).view(3, 4)
    with pytest.raises((RuntimeError, IndexError)):
        fn(x, index)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"out of bounds|out of range|Expected a long|dtype int64"):
        torch.compile(fn, backend=reference_backend(), fullgraph=True)(x, index)


def test_copies_and_fills_of_single_elements():
    def fn(x, i):
        number = x[1, 1]
        return (
            number.index_copy(0, i[:1], x[0, 0]),
            number.index_copy(0, i[0], x[0, :1]),
            x[0].index_copy(0, i[1], x[0, 3]),
            x[0].index_copy(0, i[:0], x[1, :0]),
            number.index_fill(0, i[0], 7),
            number.index_fill(0, i[:1], x[0, 3]),
            x.index_fill(1, i[1], 7),
            x.index_fill(-2, -i, x[0, 2]),
            x.long().index_fill(0, i, 1.5),
        )

    for dynamic in (False, True):
        check(fn, torch.arange(12.0).view(3, 4), torch.tensor([0, 1]), dynamic=dynamic, unconverted_ops="error")


IR: list[tuple[Callable[..., Any], list[str]]] = [
    (lambda x, y, p, q: x[:, p], ["IndexByTensor"]),
    (lambda x, y, p, q: x.index_select(1, p), ["GatherV2"]),
    (lambda x, y, p, q: x.gather(0, p.view(2, 1, 1)), ["Reshape", "GatherElements"]),
    (lambda x, y, p, q: x.index_put((p,), y[0]), ["StridedSliceV2", "TensorMove", "IndexPutV2"]),
    (lambda x, y, p, q: x.index_copy(0, p, y[:2]), ["StridedSliceV2", *SPREAD, "ScatterElementsV2"]),
    (lambda x, y, p, q: x.index_fill(0, p, 2), ["TensorMove", "IndexPutV2"]),
    (lambda x, y, p, q: x.index_add(0, p, y[:2]), ["StridedSliceV2", "TensorMove", "InplaceIndexAdd"]),
    (lambda x, y, p, q: x.scatter(0, p.view(2, 1, 1), y), ["Reshape", "TensorMove", "ScatterElementsV2"]),
    (lambda x, y, p, q: torch.slice_scatter(x, y[1:], 0, 1), ["StridedSliceV2", "TensorMove", "StridedSliceAssignV2"]),
    (lambda x, y, p, q: torch.select_scatter(x, y[0], 0, 1), ["StridedSliceV2", "TensorMove", "StridedSliceAssignV2"]),
    (lambda x, y, p, q: torch.masked_scatter(x, y > 0, y), ["Greater", "MaskedScatter"]),
]


@pytest.mark.parametrize(("fn", "expected"), IR, ids=lambda p: p[-1] if isinstance(p, list) else "")
def test_the_ir_operators(fn, expected):
    assert converted_ops(fn, torch.ones(3, 4, 5), torch.ones(3, 4, 5), P, Q) == expected


# --- a cache that is written ---


def _index_put(cache, new, at):
    cache[:, :, at] = new


def _index_copy(cache, new, at):
    cache.index_copy_(2, at, new)


def _index_add(cache, new, at):
    cache.index_add_(2, at, new)


def _slice(cache, new, at):
    cache[:, :, 2:4] = new


def _select(cache, new, at):
    cache[:, :, 3] = new[:, :, 0]


def _scatter(cache, new, at):
    cache.scatter_(2, at.view(1, 1, -1, 1).expand(new.shape), new)


CACHE_WRITES = (_index_put, _index_copy, _index_add, _slice, _select, _scatter)


@pytest.mark.parametrize("write", CACHE_WRITES, ids=lambda f: f.__name__.removeprefix("_"))
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_cache_is_written_where_it_lies(write, dynamic):
    def step(cache, new, at):
        write(cache, new, at)
        return (cache * 2).sum(2)

    cache, new, at = torch.randn(2, 3, 8, 4), torch.randn(2, 3, 2, 4), torch.tensor([3, 4])
    (graph,) = check(step, cache, new, at, dynamic=dynamic, unconverted_ops="error")
    (update,) = graph.updates
    assert "TensorMove" not in {node.op for node in graph}
    assert update[1].producer is not None
    assert update[1].producer.writes
    # The same for a cache with gaps between its rows.
    check(step, torch.randn(2, 3, 8, 9)[..., 2:6], new, at, dynamic=dynamic, unconverted_ops="error")


@pytest.mark.parametrize("write", CACHE_WRITES, ids=lambda f: f.__name__.removeprefix("_"))
def test_the_old_cache_is_kept_while_it_is_read(write):
    def step(cache, new, at):
        before = cache[0].clone()
        view = cache.clone()
        write(view, new, at)
        write(cache, new + 1, at)
        return before, view, cache + before[0]

    check(step, torch.randn(2, 3, 8, 4), torch.randn(2, 3, 2, 4), torch.tensor([3, 4]), unconverted_ops="error")


def test_a_cache_that_is_written_from_itself():
    def step(cache):
        cache[1:] = cache[:-1].clone()
        cache[:, 0] = cache[:, 1]
        cache[0, 2:] = cache[0, :-2].clone()
        return cache.sum(0)

    check(step, torch.randn(4, 6), unconverted_ops="error")


def test_expanded_tensors_are_copied_before_they_are_written():
    def fn(row, p, y):
        x = row.expand(3, 4)
        return (
            x.index_put((p,), y),
            x.scatter(0, p.view(2, 1), y),
            torch.slice_scatter(x, y, 0, 1),
            x.index_add(0, p, y),
        )

    check(fn, torch.randn(1, 4), P, torch.randn(2, 4), unconverted_ops="error")


def test_steps_of_decoding():
    """A static cache over several calls of one compiled step."""

    def step(cache, new, at):
        cache.index_copy_(2, at, new)
        return torch.nn.functional.softmax(cache.sum(-1), -1)

    compiled = torch.compile(step, backend=reference_backend(unconverted_ops="error"), fullgraph=True)
    ours, theirs = torch.zeros(1, 2, 8, 4), torch.zeros(1, 2, 8, 4)
    address = ours.data_ptr()
    for position in range(8):
        new, at = torch.randn(1, 2, 1, 4), torch.tensor([position])
        assert_close(compiled(ours, new, at), step(theirs, new, at), rtol=0, atol=0)
        assert torch.equal(ours, theirs)
    assert ours.data_ptr() == address


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("__getitem__", "index_put", "index_select", "index_add", "index_copy", "index_fill", "gather", "scatter"),
        *("scatter_add", "slice_scatter", "select_scatter", "masked_scatter", "take", "put", "take_along_dim"),
    ],
)
def test_samples(name):
    check_samples(name, torch.float32)
