"""What the normalizations do beyond what the converters use."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from torchair.errors import ArgumentError
from torchair.opset.normalization import AddRmsNorm, BatchNormV3, GroupNormGrad, GroupNormV2, RmsNorm


def test_group_normalization_with_channels_last() -> None:
    x, gamma, beta = torch.randn(2, 3, 5, 6), torch.randn(6), torch.randn(6)
    first = x.movedim(-1, 1).contiguous()
    y, mean, rstd = lowered(GroupNormV2, x, gamma, beta, num_groups=3, data_format="NHWC", eps=1e-5, is_training=True)
    assert_close(y, F.group_norm(first, 3, gamma, beta).movedim(1, -1))
    dy = torch.randn(2, 3, 5, 6)
    required = {"dx_is_require": True, "dgamma_is_require": True, "dbeta_is_require": True}
    last = lowered(GroupNormGrad, dy, mean, rstd, x, gamma, num_groups=3, data_format="NHWC", **required)
    plain = lowered(
        GroupNormGrad,
        dy.movedim(-1, 1).contiguous(),
        mean,
        rstd,
        first,
        gamma,
        num_groups=3,
        data_format="NCHW",
        **required,
    )
    assert_close(last[0], plain[0].movedim(1, -1))
    assert_close(last[1:], plain[1:])


def test_gradients_that_are_not_required_are_empty() -> None:
    x, gamma = torch.randn(2, 6, 5), torch.randn(6)
    options = {"num_groups": 2, "data_format": "NCHW"}
    _, mean, rstd = lowered(GroupNormV2, x, gamma, gamma, eps=1e-5, is_training=True, **options)
    required = {"dx_is_require": True, "dgamma_is_require": False, "dbeta_is_require": False}
    dx, dgamma, dbeta = lowered(GroupNormGrad, x, mean, rstd, x, gamma, **options, **required)
    assert (dx.shape, dgamma.shape, dbeta.shape) == (x.shape, (0,), (0,))


def test_a_data_format_that_does_not_exist() -> None:
    x, gamma = torch.randn(2, 6, 5), torch.randn(6)
    with pytest.raises(ArgumentError) as caught:
        lowered(GroupNormV2, x, gamma, gamma, num_groups=2, data_format="NC", eps=1e-5, is_training=True)
    assert caught.value.why == ("data_format is 'NC'",)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rms_norm_returns_what_it_divided_by(dtype: torch.dtype) -> None:
    x, gamma = torch.randn(3, 4, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype)
    y, rstd = lowered(RmsNorm, x, gamma, epsilon=1e-3)
    assert_close(y, F.rms_norm(x, (4, 6), gamma, 1e-3), rtol=0, atol=0)
    assert rstd.shape == (3, 1, 1)
    assert rstd.dtype is (torch.float64 if dtype is torch.float64 else torch.float32)
    assert_close(rstd, (x.to(rstd.dtype).pow(2).mean((1, 2), keepdim=True) + 1e-3).rsqrt())


def test_batch_normalization_updates_the_running_statistics_in_place() -> None:
    x, ones = torch.randn(4, 3, 5), torch.ones(3)
    mean, var = torch.zeros(3), torch.ones(3)
    results = lowered(BatchNormV3, x, ones, ones, mean, var, epsilon=1e-5, momentum=0.1, is_training=True)
    assert results[1] is mean
    assert results[2] is var
    assert_close(mean, 0.1 * x.mean((0, 2)))
    assert_close(var, 0.9 + 0.1 * x.var((0, 2)))
    assert BatchNormV3.prototype.reference_outputs == ("running_mean", "running_var")


def test_a_sum_before_rms_norm_is_rounded_first() -> None:
    x, other, gamma = (torch.randn(shape).bfloat16() for shape in ((2, 8), (2, 8), (8,)))
    y, rstd, total = lowered(AddRmsNorm, x, other, gamma, epsilon=1e-3)
    torch.testing.assert_close(total, x + other, rtol=0, atol=0)
    expected = lowered(RmsNorm, x + other, gamma, epsilon=1e-3)
    torch.testing.assert_close((y, rstd), tuple(expected), rtol=0, atol=0)
