"""Attributes that no converter gives, and symbolic sizes as engines trace them."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as nnf

from tests.opset.test_matrix import lowered
from torchair.opset.resampling import GridSampler3D, ResizeBilinearV2, ResizeNearestNeighborV2

X = torch.randn(2, 3, 5, 7)


def test_nearest_neighbors_of_symbolic_sizes():
    def f(x, y):
        return lowered(ResizeNearestNeighborV2, x, list(y.shape))

    traced = make_fx(f, tracing_mode="symbolic")(X, torch.empty(9, 4))
    for height in range(1, 40):
        for width in (3, 7, 20):
            expected = nnf.interpolate(X, size=(height, width))
            assert torch.equal(traced(X, torch.empty(height, width)), expected)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="nearest neighbors with align_corners"):
        lowered(ResizeNearestNeighborV2, X, [4, 4], align_corners=True)
    with pytest.raises(ValueError, match="one of align_corners and half_pixel_centers"):
        lowered(ResizeBilinearV2, X, [4, 4])
    with pytest.raises(ValueError, match="data_format NDHWC is not supported"):
        lowered(GridSampler3D, X[None], torch.rand(1, 2, 2, 2, 3), data_format="NDHWC")
