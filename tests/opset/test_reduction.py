"""What the reductions do beyond what the converters use."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from torchair.opset.operator import AscendOp
from torchair.opset.reduction import (
    ArgMaxV2,
    LpNormV2,
    ReduceAll,
    ReduceAny,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProdD,
    ReduceStdV2,
    ReduceSum,
    ReduceVar,
    index32,
)


@pytest.mark.parametrize("op", [ReduceSum, ReduceMax, ReduceMin, ReduceLogSumExp], ids=lambda op: op.name)
def test_empty_axes_reduce_nothing(op: AscendOp) -> None:
    x = torch.randn(2, 3)
    y = lowered(op, x, [], keep_dims=False)
    assert_close(y, x)
    assert y.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("op", [ReduceAny, ReduceAll], ids=lambda op: op.name)
def test_empty_axes_of_logical_reductions(op: AscendOp) -> None:
    x = torch.tensor([True, False])
    assert_close(lowered(op, x, [], keep_dims=True), x)


def test_one_axis_may_be_a_number() -> None:
    x = torch.randn(2, 3)
    assert_close(lowered(ReduceSum, x, 1, keep_dims=True), x.sum(1, keepdim=True))
    assert_close(lowered(ArgMaxV2, x, [0], dtype=3), x.argmax(0).int())


def test_empty_axes_of_a_mean_are_all_or_none() -> None:
    x = torch.randn(2, 3)
    assert_close(lowered(ReduceMean, x, [], keep_dims=False, noop_with_empty_axes=True), x)
    assert_close(lowered(ReduceMean, x, [], keep_dims=False, noop_with_empty_axes=False), x.mean())


@pytest.mark.parametrize(
    ("axes", "keep"), [((), False), ((0,), True), ((2, 0), False), ((-1, 1), True), ((0, 1, 2), True)]
)
def test_a_product_over_several_axes(axes: tuple[int, ...], keep: bool) -> None:
    x = torch.randint(1, 4, (2, 3, 4))
    expected = x
    for axis in axes:
        expected = expected.prod(axis, keepdim=True)
    if not keep:
        expected = expected.squeeze(axes) if axes else expected
    assert_close(lowered(ReduceProdD, x, axes=axes, keep_dims=keep), expected)


def test_a_norm_is_at_least_epsilon() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    y = lowered(LpNormV2, x, p=2.0, axes=(1,), keepdim=False, epsilon=1e-3)
    assert_close(y, torch.tensor([1e-3, 5.0]))


@pytest.mark.parametrize(("op", "function"), [(ReduceVar, torch.var_mean), (ReduceStdV2, torch.std_mean)])
def test_the_mean_is_there_when_it_is_asked_for(op: AscendOp, function: object) -> None:
    x = torch.randn(4, 5)
    spread, mean = lowered(op, x, dim=(1,), correction=2, keepdim=True, is_mean_out=True)
    expected = function(x, 1, correction=2, keepdim=True)  # type: ignore[operator]
    assert_close((spread, mean), expected)
    spread, mean = lowered(op, x, dim=(1,), correction=2, keepdim=True, is_mean_out=False)
    assert_close(spread, expected[0])
    assert mean.shape == (0,)


def test_positions_that_int32_cannot_hold_are_an_error() -> None:
    assert index32(torch.tensor([5]), 2**31).dtype is torch.int32
    with pytest.raises(ValueError, match="a dimension of 2147483649 elements has positions that int32 cannot hold"):
        index32(torch.tensor([5]), 2**31 + 1)
