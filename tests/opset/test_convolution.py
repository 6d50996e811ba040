"""Data formats and pads that no converter makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as nnf

from tests.opset.test_matrix import lowered
from torchair.opset.convolution import (
    Conv2D,
    Conv2DBackpropFilter,
    Conv2DBackpropInput,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
)

X, W, BIAS = torch.randn(2, 4, 9, 8), torch.randn(6, 2, 3, 2), torch.randn(6)
NCHW: dict[str, Any] = {"strides": (1, 1, 2, 1), "dilations": (1, 1, 1, 2), "data_format": "NCHW", "groups": 2}
NHWC: dict[str, Any] = {"strides": (1, 2, 1, 1), "dilations": (1, 1, 2, 1), "data_format": "NHWC", "groups": 2}
PADS = (1, 1, 2, 2)


def expected(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return nnf.conv2d(x, w, BIAS, (2, 1), (1, 2), (1, 2), 2)


def test_channels_may_be_last():
    y = lowered(Conv2D, X.permute(0, 2, 3, 1), W.permute(2, 3, 1, 0), BIAS, pads=PADS, **NHWC)
    torch.testing.assert_close(y, expected(X, W).permute(0, 2, 3, 1))


def test_pads_may_differ_at_the_ends():
    y = lowered(Conv2D, X, W, BIAS, pads=(0, 3, 1, 2), **NCHW)
    torch.testing.assert_close(y, nnf.conv2d(nnf.pad(X, (1, 2, 0, 3)), W, BIAS, (2, 1), 0, (1, 2), 2))


@pytest.mark.parametrize("pads", [PADS, (0, 3, 1, 2)])
@pytest.mark.parametrize("last", [False, True])
def test_gradients(pads, last):
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    top, bottom, left, right = pads
    y = nnf.conv2d(nnf.pad(x, (left, right, top, bottom)), w, None, (2, 1), 0, (1, 2), 2)
    dy = torch.randn_like(y)
    of_x, of_w = torch.autograd.grad(y, (x, w), dy)
    attrs = {"pads": pads, **(NHWC if last else NCHW)}
    data, filters = ((0, 2, 3, 1), (2, 3, 1, 0)) if last else ((0, 1, 2, 3), (0, 1, 2, 3))
    gradient, image, kernel = dy.permute(data), X.permute(data), W.permute(filters)
    got_x = lowered(Conv2DBackpropInput, list(image.shape), kernel, gradient, **attrs)
    got_w = lowered(Conv2DBackpropFilter, image, list(kernel.shape), gradient, **attrs)
    torch.testing.assert_close(got_x, of_x.permute(data), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got_w, of_w.permute(filters), rtol=1e-5, atol=1e-4)


def test_transposed_with_channels_last():
    w = torch.randn(4, 3, 3, 2)
    y = nnf.conv_transpose2d(X, w, None, (2, 1), 1, (1, 0))
    got = lowered(
        Conv2DTranspose,
        [2, *y.shape[2:], 3],
        X.permute(0, 2, 3, 1),
        w.permute(2, 3, 1, 0),
        strides=(1, 2, 1, 1),
        pads=(1, 1, 1, 1),
        output_padding=(0, 1, 0, 0),
        data_format="NHWC",
    )
    torch.testing.assert_close(got, y.permute(0, 2, 3, 1))


def test_volumes():
    x, w = torch.randn(1, 2, 4, 5, 6), torch.randn(3, 2, 2, 3, 2)
    attrs = {"strides": (1, 1, 1, 2, 1), "pads": (0, 0, 1, 1, 1, 1), "data_format": "NCDHW"}
    torch.testing.assert_close(lowered(Conv3D, x, w, **attrs), nnf.conv3d(x, w, None, (1, 2, 1), (0, 1, 1)))
    y = nnf.conv_transpose3d(x, w.transpose(0, 1), None, (1, 2, 1), (0, 1, 1))
    got = lowered(Conv3DTranspose, list(y.shape), x, w.transpose(0, 1), **attrs)
    torch.testing.assert_close(got, y)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="QuantConv2D"):
        lowered(Conv2D, X, W, pads=PADS, offset_x=1, **NCHW)
    with pytest.raises(ValueError, match="do not fit NCHW"):
        lowered(Conv2D, X, W, pads=(1, 1), **NCHW)
    with pytest.raises(ValueError, match="do not fit NCDHW"):
        lowered(Conv2D, X, W, pads=PADS, **{**NCHW, "data_format": "NCDHW"})
    with pytest.raises(ValueError, match="strides of batch and channels"):
        lowered(Conv2D, X, W, pads=PADS, **{**NCHW, "strides": (2, 1, 1, 1)})
    with pytest.raises(ValueError, match="equal pads at both ends"):
        lowered(Conv2DTranspose, [], X, W, pads=(0, 1, 0, 0), **NCHW)
