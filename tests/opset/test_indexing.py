"""Forms of the operators on positions that no converter makes, and what they do to memory."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from tests.opset.test_shape import host, inferred
from torchair.ir import DType, TensorType
from torchair.opset.indexing import (
    Gather,
    GatherV2,
    IndexByTensor,
    IndexPutV2,
    ScatterElements,
    ScatterElementsV2,
    ScatterNdUpdate,
    StridedSliceAssignV2,
)
from torchair.opset.memory import AsStrided, TensorMove, ViewCopy

X = torch.arange(24.0).reshape(2, 3, 4)
S = sympy.Symbol("s0", integer=True, positive=True)


def test_gather_along_an_axis() -> None:
    i = torch.tensor([[2, 0], [1, 1]])
    assert_close(lowered(GatherV2, X, i, 1), X[:, i])
    assert_close(lowered(GatherV2, X, i, [-1]), X[..., i])
    assert_close(lowered(Gather, X, i % 2), X[i % 2])
    assert_close(lowered(GatherV2, X, i - 3, 1, negative_index_support=True), X[:, i - 3])
    with pytest.raises((IndexError, RuntimeError), match=r"out of"):
        lowered(GatherV2, X, i - 3, 1)


@pytest.mark.parametrize("axis", [1, 2, 3, -1])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_gather_in_step(axis: int, shape: tuple[int, ...]) -> None:
    x, i = torch.randn(2, 3, 4, 5), torch.randint(0, 3, (2, *shape))
    expected = torch.stack([torch.index_select(a, (axis % 4) - 1, b.reshape(-1)) for a, b in zip(x, i, strict=True)])
    size = [*x.shape[: axis % 4], *shape, *x.shape[axis % 4 + 1 :]]
    assert_close(lowered(GatherV2, x, i, axis, batch_dims=1), expected.reshape(size))
    if axis == 1:
        assert_close(lowered(Gather, x, i, batch_dims=1), expected.reshape(size))


def test_gather_in_step_along_two_dimensions() -> None:
    x, i = torch.randn(2, 3, 4, 5), torch.randint(0, 5, (2, 3, 6))
    expected = x.gather(3, i[:, :, None].expand(2, 3, 4, 6))
    assert_close(lowered(GatherV2, x, i, 3, batch_dims=2), expected)


def test_contents() -> None:
    x, axis = host(S, 4, 2), host(0)
    assert inferred(GatherV2, x, host(2, 0), axis).content == (2, S)
    assert inferred(Gather, x, TensorType.of(DType.DT_INT64, (), content=[-3])).content == (S,)
    assert inferred(Gather, x, host(S)).content is None


def test_indices_without_a_mask() -> None:
    i = torch.tensor([1, 0])
    assert_close(lowered(IndexByTensor, X, (i, i)), X[i, i])
    assert_close(lowered(IndexByTensor, X, (i, i), indices_mask=[1, 0, 1]), X[i, :, i])


def test_rows_by_position() -> None:
    x, rows, places = X.clone(), torch.randn(2, 4), torch.tensor([[1, 2], [0, 0]], dtype=torch.int32)
    y = lowered(ScatterNdUpdate, x, places, rows)
    expected = X.clone()
    expected[1, 2], expected[0, 0] = rows
    assert y.data_ptr() == x.data_ptr()
    assert_close(y, expected)


def test_scatter_elements_leaves_its_input() -> None:
    i = torch.tensor([[0, 1, 1]])
    for reduction, expected in {
        "none": X[0].scatter(0, i, X[1]),
        "add": X[0].scatter_add(0, i, X[1]),
        "mul": X[0].scatter_reduce(0, i, X[1], "prod"),
    }.items():
        before = X[0].clone()
        assert_close(lowered(ScatterElements, before, i.int(), X[1], reduction=reduction), expected)
        assert_close(before, X[0])
        assert_close(lowered(ScatterElementsV2, before, i, X[1], reduction=reduction), expected)
        assert_close(before, expected)
    with pytest.raises(ValueError, match=r"reduction must be 'none', 'add' or 'mul', not 'max'"):
        lowered(ScatterElementsV2, X.clone(), i, X, reduction="max")


def test_a_written_slice_with_masks() -> None:
    x = X.clone()
    y = lowered(
        StridedSliceAssignV2,
        x,
        torch.full((2, 4), -1.0),
        [0, 1],
        [0, 2],
        [1, 1],
        begin_mask=1,
        end_mask=1,
        shrink_axis_mask=2,
    )
    assert y.data_ptr() == x.data_ptr()
    assert_close(x[:, 1], torch.full((2, 4), -1.0))
    assert_close(x[:, ::2], X[:, ::2])


# --- memory ---

OVERLAPPING = {
    "expanded": lambda: torch.zeros(1, 4).expand(3, 4),
    "windows": lambda: torch.zeros(5).as_strided((3, 3), (1, 1)),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_overlapping_elements_are_copied_before_a_write(name: str) -> None:
    x: Any = OVERLAPPING[name]()
    y = lowered(IndexPutV2, x, torch.ones(1), [1, 1], [1, 1], (torch.tensor([0]), torch.tensor([1])))
    assert y.sum() == 1
    assert x.sum() == 0


@pytest.mark.parametrize(
    "x", [torch.zeros(4, 3).t(), torch.zeros(4, 6)[:, ::2], torch.zeros(2, 3, 4).permute(2, 0, 1)[1:]]
)
def test_gaps_and_other_orders_are_written_in_place(x: torch.Tensor) -> None:
    y = lowered(IndexPutV2, x, torch.ones(1), [1], [1], (torch.tensor([1]),))
    assert y.data_ptr() == x.data_ptr()
    assert y.stride() == x.stride()


def test_a_write_that_reads_its_own_memory() -> None:
    x = torch.arange(6.0)
    lowered(StridedSliceAssignV2, x, x[:5], [1], [6], [1], [0])
    assert_close(x, torch.tensor([0.0, 0, 1, 2, 3, 4]))
    i = torch.tensor([1, 2, 0])
    lowered(ScatterElementsV2, i, i, i)
    assert_close(i, torch.tensor([0, 1, 2]))


def test_a_copy_keeps_strides_where_they_are_asked_for() -> None:
    assert TensorMove.strided_lowering is not None
    base = torch.arange(40.0)
    for x in (
        base.as_strided((3, 4), (10, 2), 5),
        base.view(5, 8).t()[2:],
        base[3:],
        torch.zeros(1).expand(3),
        base[:0].view(0, 2).t(),
    ):
        y = TensorMove.strided_lowering(x)
        assert_close(y, x)
        assert y.numel() < 2 or y.stride() == x.stride()
        assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr() or not x.numel()
        assert lowered(TensorMove, x).is_contiguous() or x.stride()[0] == 1


def test_views_count_from_the_first_element() -> None:
    x = torch.arange(10.0)[2:]
    view = lowered(AsStrided, x, [2, 2], [3, 1], [1])
    assert_close(view, torch.tensor([[3.0, 4], [6, 7]]))
    args = ([2, 2], [3, 1], 1)
    assert lowered(ViewCopy, x, *args, view, *args).data_ptr() == x.data_ptr()
    lowered(ViewCopy, x, *args, view + 10, *args)
    assert_close(x, torch.tensor([2.0, 13, 14, 5, 16, 17, 8, 9]))
    # Another view of the same memory is not the view itself.
    lowered(ViewCopy, x, [3], [1], 0, x[4:7], [3], [1], 0)
    assert_close(x[:3], torch.tensor([16.0, 17, 8]))
