"""Attributes that no converter gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as nnf

from tests.opset.test_matrix import lowered
from torchair.ir import DType
from torchair.opset.pooling import AvgPool3D, AvgPoolV2, AvgPoolV2Grad, MaxPool3DGradWithArgmax, MaxPool3DWithArgmaxV2

X = torch.randn(2, 3, 8, 9)
WINDOW: dict[str, Any] = {"ksize": (1, 1, 3, 2), "strides": (1, 1, 2, 1)}


def test_global_and_valid_padding():
    torch.testing.assert_close(lowered(AvgPoolV2, X, global_pooling=True, **WINDOW), X.mean((2, 3), keepdim=True))
    y = lowered(AvgPoolV2, X, padding_mode="VALID", pads=(1, 1, 1, 1), **WINDOW)
    torch.testing.assert_close(y, nnf.avg_pool2d(X, (3, 2), (2, 1)))
    gradient = lowered(AvgPoolV2Grad, [2, 3, 8, 9], torch.ones(2, 3, 1, 1), global_pooling=True, **WINDOW)
    torch.testing.assert_close(gradient, torch.full_like(X, 1 / 72))


def test_windows_of_volumes_may_name_batch_and_channels():
    x = torch.randn(1, 2, 4, 5, 6)
    y = lowered(
        AvgPool3D, x, ksize=(1, 1, 2, 2, 3), strides=(1, 1, 1, 2, 1), pads=(0, 0, 1, 1, 1, 1), data_format="NCDHW"
    )
    torch.testing.assert_close(y, nnf.avg_pool3d(x, (2, 2, 3), (1, 2, 1), (0, 1, 1)))


@pytest.mark.parametrize("depth", [1, 3])
def test_indices_are_int32_by_default(depth):
    x = torch.randn(2, 3, depth, 8, 9, requires_grad=True)
    window: dict[str, Any] = {"ksize": (1, 3, 2), "strides": (1, 2, 1), "pads": (0, 1, 1)}
    expected, indices = nnf.max_pool3d_with_indices(x, (1, 3, 2), (1, 2, 1), (0, 1, 1))
    y, argmax = lowered(MaxPool3DWithArgmaxV2, x, **window)
    assert argmax.dtype is torch.int32
    torch.testing.assert_close((y, argmax.long()), (expected, indices))
    assert lowered(MaxPool3DWithArgmaxV2, x, dtype=DType.DT_INT64, **window)[1].dtype is torch.int64
    dy = torch.randn_like(y)
    torch.testing.assert_close(
        lowered(MaxPool3DGradWithArgmax, x.detach(), dy, argmax, **window), torch.autograd.grad(expected, x, dy)[0]
    )


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="padding_mode SAME is not supported"):
        lowered(AvgPoolV2, X, padding_mode="SAME", **WINDOW)
    with pytest.raises(ValueError, match="data_format NHWC is not supported"):
        lowered(AvgPoolV2, X, data_format="NHWC", **WINDOW)
    with pytest.raises(ValueError, match="pads differ"):
        lowered(AvgPoolV2, X, pads=(0, 1, 0, 0), **WINDOW)
    with pytest.raises(ValueError, match="one number for each dimension"):
        lowered(AvgPoolV2, X, ksize=(1, 3, 3, 1), strides=(1, 1, 1, 1))
