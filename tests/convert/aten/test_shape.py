"""Views, joins, splits and repetitions agree with eager, in the operators of Ascend IR."""

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
    """Different elements, as far as the dtype has so many."""
    count = torch.Size(shape).numel()
    x = torch.arange(1, count + 1).reshape(shape)
    return (
        torch.complex(x.double(), -x.double()).to(dtype)
        if dtype.is_complex
        else (x % 3 == 0 if dtype is torch.bool else x).to(dtype)
    )


#: Of a tensor [2, 3, 4].
VIEWS: Functions = {
    "view": lambda x: x.view(6, 4),
    "view(-1)": lambda x: x.view(2, -1),
    "view 0-d": lambda x: x[0, 0, :1].view(()),
    "reshape": lambda x: x.transpose(0, 1).reshape(4, -1),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(-1, (2, -1)),
    "permute": lambda x: x.permute(-1, 0, 1),
    "transpose": lambda x: x.transpose(0, -1),
    "t": lambda x: (x[0].t(), x[0, 0].t(), x[0, 0, 0].t(), x[0, 0, 0].transpose(0, -1)),
    "expand": lambda x: x[:, :1].expand(5, -1, 3, 4),
    "expand 0-d": lambda x: x[0, 0, 0].expand(2, 2),
    "unsqueeze": lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(2), x[0, 0, 0].unsqueeze(0)),
    "squeeze": lambda x: x[:1, :, :1].squeeze(),
    "squeeze.dim": lambda x: (x[:1].squeeze(0), x.squeeze(0), x[..., :1].squeeze(-1), x[0, 0, 0].squeeze(0)),
    "squeeze.dims": lambda x: (x[:1, :, :1].squeeze((0, -1)), x[:1].squeeze((0, 1))),
    "slice": lambda x: (x[1:], x[:, :2], x[..., -3:-1], x[:, ::2], x[..., 1:4:2]),
    "slice out of bounds": lambda x: (x[-100:100], x[:, 5:], x[..., 3:1], x[:, -100:1], x[2:2]),
    "select": lambda x: (x[0], x[-1], x[:, 1], x[..., -2], x.select(1, 2)),
    "split": lambda x: (x.split(2, 2), x.split(2, 1), x.split([1, 0, 3], -1), x.split(5)),
    "unsafe split": lambda x: (torch.unsafe_split(x, 2, 1), torch.unsafe_split_with_sizes(x, [1, 2], 1)),
    "chunk": lambda x: (x.chunk(2, -1), x.chunk(2, 1), x.tensor_split(3, 2), x.tensor_split((1, 2), 1)),
    "unbind": lambda x: (x.unbind(), x.unbind(-1)),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1, -1, 0), x.diagonal(-1, 1, 2), x.diagonal(9)),
    "narrow": lambda x: (x.narrow(1, 1, 2), x.narrow(-1, -2, 1)),
    "movedim": lambda x: (x.movedim(0, -1), x.mT, x[0].T, x.swapaxes(0, 1)),
}

COPIES: Functions = {
    "cat": lambda x: (torch.cat([x, x[:, :1]], 1), torch.cat([x], -1), torch.cat([x, x[:0]])),
    "cat with empty": lambda x: torch.cat([x.new_empty(0), x, x.new_empty(0)], 1),
    "cat of empty": lambda x: torch.cat([x.new_empty(0), x.new_empty(0)]),
    "stack": lambda x: (torch.stack([x, x]), torch.stack([x, x, x], -1), torch.stack([x, x], 1)),
    "flip": lambda x: (x.flip(0), x.flip(-1, 0), x.flip(()), x[0, 0, 0].flip(())),
    "roll": lambda x: (x.roll(1, 0), x.roll((2, -5), (1, -1)), x.roll(3)),
    "repeat": lambda x: (x.repeat(2, 1, 3), x.repeat(2, 1, 1, 1), x.repeat(1, 0, 1), x[0].tile(2)),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "view_copy": lambda x: (torch.view_copy(x, (6, 4)), torch.permute_copy(x, (2, 0, 1)), torch.select_copy(x, 1, -1)),
    "slice_copy": lambda x: (
        torch.slice_copy(x, 1, 0, 2),
        torch.ops.aten.split_copy(x, 2, 1),
        torch.ops.aten.unbind_copy(x, 1),
    ),
    "expand_copy": lambda x: (torch.expand_copy(x, (2, 2, 3, 4)), torch.alias_copy(x), torch.detach_copy(x)),
}

MATRICES: Functions = {
    "tril": lambda x: (x.tril(), x.tril(1), x.tril(-2)),
    "triu": lambda x: (x.triu(), x.triu(2), x[0].triu(-1)),
    "diagonal_scatter": lambda x: (
        torch.diagonal_scatter(x, x[:, 0, :3], 1, 1, 2),
        torch.diagonal_scatter(x, x[0, 0, :2].expand(4, 2), 0, 1, 0),
    ),
}

DTYPES = dtypes((torch.float32, torch.bool), (torch.int64, torch.bfloat16, torch.complex64, torch.uint8, torch.float64))


@DTYPES
@pytest.mark.parametrize("dynamic", [False, True])
def test_views_equal_eager(dtype, dynamic):
    x = elements(dtype, 2, 3, 4)
    # Of a clone: views of an argument are made again outside the graph.
    check(lambda x: all_of(VIEWS, x.clone()), x, dynamic=dynamic, unconverted_ops="error")


@DTYPES
@pytest.mark.parametrize("functions", [COPIES, MATRICES], ids=["copies", "matrices"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_copies_equal_eager(dtype, functions, dynamic):
    check(lambda x: all_of(functions, x), elements(dtype, 2, 3, 4), dynamic=dynamic, unconverted_ops="error")


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0)], ids=str)
def test_empty_tensors(shape):
    functions: Functions = {
        "view": lambda x: (x.view(-1), x.view(0, 2), x.permute(2, 0, 1), x.expand(2, *shape)),
        "cat": lambda x: (torch.cat([x, x], 1), torch.stack([x, x]), x.flip(0), x.roll(1, 1), x.repeat(2, 1, 1)),
        "parts": lambda x: (x[:, 1], x[..., 5:], x.split(2, 1), x.diagonal(0, 0, 2), x.tril()),
    }
    check(lambda x: all_of(functions, x), torch.ones(shape), unconverted_ops="error")


def test_cat_promotes():
    a, b, c = torch.ones(2, 3, dtype=torch.int32), torch.full((1, 3), 1.5), torch.zeros(2, 3, dtype=torch.bool)
    graphs = check(
        lambda a, b, c: (
            torch.cat([a, b]),
            torch.cat([a, c], -1),
            torch.cat([b.half(), b.bfloat16()]),
            torch.stack([a, c]),
        ),
        *(a, b, c),
        unconverted_ops="error",
    )
    joined = [node for node in graphs[0] if node.op in ("ConcatV2", "Pack")]
    assert len(joined) == 4
    assert all({v.dtype for v in node.inputs[0]} == {node.output.dtype} for node in joined)  # type: ignore[union-attr]


def test_view_of_another_dtype():
    x = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    views: Functions = {
        "same size": lambda x: x.view(torch.int32),
        "smaller": lambda x: (x.view(torch.int16), x.view(torch.uint8)),
        "larger": lambda x: (x.view(torch.int64), x.view(torch.complex64)),
        "of a slice": lambda x: (x[:, 1:].view(torch.float64), x[..., ::2].view(torch.int32)),
        "complex": lambda x: (torch.view_as_complex(x[..., :2]), torch.view_as_real(x.view(torch.complex64))),
        "0-d": lambda x: x[0, 0, 0].view(torch.int32),
        "copy": lambda x: torch.view_copy(x, dtype=torch.int16),
    }
    for dynamic in (False, True):
        check(lambda x: all_of(views, x.clone()), x, dynamic=dynamic, unconverted_ops="error", ops=["Bitcast"])


IR: list[tuple[Callable[..., Any], list[str]]] = [
    (lambda x: x.view(6, 4) + 1, ["Reshape"]),
    (lambda x: x.permute(2, 0, 1) + 1, ["Transpose"]),
    (lambda x: x.expand(2, 2, 3, 4) + 1, ["BroadcastTo"]),
    (lambda x: x[:1].squeeze() + 1, ["StridedSliceV2", "Squeeze"]),
    (lambda x: x.unsqueeze(1) + 1, ["Unsqueeze"]),
    (lambda x: x[:, 1:3] + 1, ["StridedSliceV2"]),
    (lambda x: x[:, 1] + 1, ["StridedSliceV2"]),
    (lambda x: x.split(2, 2)[0] + 1, ["SplitV"]),
    (lambda x: x.unbind(1)[0] + 1, ["Unpack"]),
    (lambda x: x.diagonal(0, 1, 2) + 1, ["MatrixDiagPartV2"]),
    (lambda x: x.diagonal() + 1, ["Transpose", "MatrixDiagPartV2"]),
    (lambda x: torch.cat([x, x]), ["ConcatV2"]),
    (lambda x: torch.stack([x, x]), ["Pack"]),
    (lambda x: x.flip(0), ["ReverseV2"]),
    (lambda x: x.roll(1, 0), ["Roll"]),
    (lambda x: x.repeat(1, 2, 1), ["Tile"]),
    (lambda x: x.tril(), ["Tril"]),
    (lambda x: x.triu(), ["Triu"]),
    (
        lambda x: torch.diagonal_scatter(x, x[:, 0, :3], 0, 1, 2),
        ["StridedSliceV2", "StridedSliceV2", "MatrixSetDiagV2"],
    ),
]


@pytest.mark.parametrize(("fn", "expected"), IR, ids=lambda p: p[-1] if isinstance(p, list) else "")
def test_the_ir_operators(fn, expected):
    found = [op for op in converted_ops(fn, torch.ones(2, 3, 4)) if op not in ("Add", "Cast")]
    assert found == expected


def test_a_whole_slice_is_no_slice():
    assert converted_ops(lambda x: x[:, :, 0:4] + 1, torch.ones(2, 3, 4)) == ["Add"]


def test_results_share_storage_as_in_eager():
    def fn(x):
        y = x + 1
        parts = (y.view(-1), y.mT, y[:, 1], y[..., 1:], *y.split(2, 1), *y.unbind(), y.expand(2, 2, 3, 4), y.diagonal())
        return (y, *parts, y.view(torch.int32), torch.view_as_real(y.view(torch.complex64)), y.unsqueeze(0).squeeze(0))

    results = torch.compile(fn, backend=reference_backend(), fullgraph=True)(torch.ones(2, 3, 4))
    assert len({r.untyped_storage().data_ptr() for r in results}) == 1
    assert_close(results, fn(torch.ones(2, 3, 4)), check_stride=True)


# --- symbolic sizes, bounds and positions ---


def test_one_graph_serves_all_sizes():
    graphs = []
    inner = reference_backend(unconverted_ops="error")

    def backend(gm, inputs):
        graphs.append(gm)
        return inner(gm, inputs)

    def fn(x, index):
        a = x.view(-1, x.shape[-1]).t().contiguous().view(x.shape[-1], x.shape[0], -1).permute(1, 2, 0)
        b = torch.cat([a, x], 1)[:, 1:-1].flip(0)
        c = b.select(1, -1).unsqueeze(0).expand(3, -1, -1).reshape(-1, x.shape[-1])
        d = torch.nn.functional.pad(x, (1, 2, 0, 1)).repeat(1, 2, 1)
        return (
            a,
            b,
            c,
            d,
            x[:, 0].diagonal(),
            x.tril(),
            x[index],
            x[:, : x.shape[1] - 2],
            torch.stack([x, x], 1).flatten(1, 2),
        )

    compiled = torch.compile(fn, backend=backend, dynamic=True, fullgraph=True)
    for *sizes, count in ((4, 5, 6, 2), (3, 7, 5, 3), (9, 12, 8, 4), (5, 4, 16, 2)):
        x, index = torch.randn(sizes), torch.arange(count)
        assert_close(compiled(x, index), fn(x, index), rtol=0, atol=0)
    assert len(graphs) == 1


def test_symbolic_bounds():
    def fn(x, start, end):
        y = x + 1
        return y[start:end], y[:, -end:], y[start], y[-start], y.narrow(1, start, end), y.expand(end, -1, -1).clone()

    for dynamic in (False, True):
        check(fn, torch.randn(6, 5), 1, 3, dynamic=dynamic, unconverted_ops="error")


def test_a_symbolic_shift_or_diagonal_stays_a_torch_call():
    def fn(x, n):
        return x.roll(n, 0), x.tril(n)

    (graph,) = check(fn, torch.randn(4, 4), 3, dynamic=True)
    assert {node.call.target for node in graph if node.call is not None} == {
        "aten::roll.default",
        "aten::tril.default",
    }


def test_sizes_that_depend_on_data():
    def fn(x, mask):
        positions = mask.nonzero()
        rows = x[positions[:, 0]]
        return rows.view(-1), rows.unsqueeze(1).expand(-1, 3, -1), torch.cat([rows, rows]), rows[:, 1:].mT.flatten()

    x, mask = torch.randn(5, 4), torch.tensor([True, False, True, True, False])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(fn, x, mask, ops=["torch_call", "Reshape", "BroadcastTo", "ConcatV2"])


def test_a_bound_that_depends_on_data():
    def fn(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k] * 2, x.new_ones(k), k + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(fn, torch.randn(5), torch.tensor(3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *[
            (n, "")
            for n in ("view", "reshape", "permute", "expand", "squeeze", "narrow", "select", "diagonal", "unfold")
        ],
        *[
            (n, "")
            for n in ("cat", "stack", "flip", "roll", "repeat", "tile", "tril", "triu", "unbind", "diagonal_copy")
        ],
        *[("squeeze", "multiple"), ("split", "list_args"), ("as_strided", ""), ("diagonal_scatter", "")],
        *[(n, "") for n in ("block_diag", "rot90")],
    ],
)
def test_samples(name, variant):
    check_samples(name, torch.float32, variant=variant)
