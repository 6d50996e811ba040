from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nnf

from tests.convert.conversion import check, converted_ops
from tests.convert.operands import dtypes

FLOAT, HALF = torch.float32, torch.bfloat16


def images(*shape, dtype=FLOAT, grad=False):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 200 - 100
    return (x.abs() if dtype is torch.uint8 else x).to(dtype).requires_grad_(grad)


#: name -> how an image is resized, the operators of the forward and of the backward graph.
CASES = {
    "nearest, scale": (
        lambda x: nnf.interpolate(x, scale_factor=2),
        "ResizeNearestNeighborV2",
        "ResizeNearestNeighborV2Grad",
    ),
    "nearest, size": (
        lambda x: nnf.interpolate(x, size=(7, 4)),
        "ResizeNearestNeighborV2",
        "ResizeNearestNeighborV2Grad",
    ),
    "nearest, line": (
        lambda x: nnf.interpolate(x[0], size=13),
        "ResizeNearestNeighborV2",
        "ResizeNearestNeighborV2Grad",
    ),
    "bilinear, scale": (
        lambda x: nnf.interpolate(x, scale_factor=(2, 3), mode="bilinear"),
        "ResizeBilinearV2",
        "ResizeBilinearV2Grad",
    ),
    "bilinear, corners": (
        lambda x: nnf.interpolate(x, size=(3, 9), mode="bilinear", align_corners=True),
        "ResizeBilinearV2",
        "ResizeBilinearV2Grad",
    ),
}


@dtypes((FLOAT, torch.uint8), slow=(HALF, torch.float64))
@pytest.mark.parametrize("name", CASES)
def test_resizing_equals_eager(name, dtype):
    f, op, _ = CASES[name]
    check(f, images(2, 3, 5, 7, dtype=dtype), ops=[op], unconverted_ops="error")


@dtypes((FLOAT,), slow=(HALF,))
@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_eager(name, dtype):
    f, *ops = CASES[name]
    check(f, images(2, 3, 5, 7, dtype=dtype, grad=True), backward=True, ops=ops, unconverted_ops="error")


def test_lines():
    def f(x):
        return nnf.interpolate(x, size=9, mode="linear"), nnf.interpolate(x, size=9, mode="linear", align_corners=True)

    # In torch 2.6 the kernels of lines and planes round differently.
    check(f, images(2, 3, 7), ops=["ResizeBilinearV2"], unconverted_ops="error", rtol=2e-6, atol=1e-6)
    check(f, images(2, 3, 7, dtype=HALF), ops=["torch_call"])


def test_a_scale_that_is_not_the_ratio_of_the_sizes_stays_a_torch_call():
    def f(x):
        return nnf.interpolate(x, scale_factor=1.3), nnf.interpolate(x, scale_factor=1.3, mode="bilinear")

    check(f, images(2, 3, 5, 7), ops=["torch_call"])

    def g(x):
        return torch.ops.aten.upsample_nearest2d.default(x, [7, 14], 2.0, 2.0)

    check(g, images(2, 3, 5, 7), ops=["torch_call"])


def test_symbolic_sizes():
    def f(x, y):
        return (
            nnf.interpolate(x, scale_factor=2),
            nnf.interpolate(x, size=y.shape[2:]),
            nnf.interpolate(x, scale_factor=3, mode="bilinear"),
        )

    names = ["ResizeNearestNeighborV2", "ResizeBilinearV2"]
    check(f, images(2, 3, 5, 7), images(1, 1, 8, 6), dynamic=True, ops=names, unconverted_ops="error")


def test_gradients_with_symbolic_sizes():
    def f(x):
        return nnf.interpolate(x, scale_factor=2), nnf.interpolate(x, scale_factor=2, mode="bilinear")

    # PyTorch's decomposition, which interpolates in another order.
    check(f, images(2, 3, 5, 7, grad=True), dynamic=True, backward=True, rtol=1e-5, atol=1e-4)


def test_other_resizing_decomposes():
    def f(x):
        return (
            nnf.interpolate(x, size=(7, 4), mode="nearest-exact"),
            nnf.interpolate(x, size=(7, 4), mode="bicubic"),
            nnf.interpolate(x[None], size=(2, 4, 5), mode="trilinear"),
            nnf.interpolate(x[None], size=(2, 4, 5)),
        )

    check(f, images(2, 3, 5, 7), rtol=1e-4, atol=1e-4, unconverted_ops="error")


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_samples_equal_eager(padding):
    def f(x, grid):
        modes = ("bilinear", "nearest", "bicubic")
        return [nnf.grid_sample(x, grid, mode, padding, align_corners=mode == "nearest") for mode in modes]

    grid = (torch.rand(2, 4, 5, 2, generator=torch.Generator().manual_seed(1)) * 2.6 - 1.3).requires_grad_()
    names = ["GridSampler2D", "GridSampler2DGrad"]
    x = images(2, 3, 5, 7, grad=True)
    # Three gradients of one tensor are summed.
    check(f, x, grid, backward=True, ops=names, unconverted_ops="error", rtol=1e-5, atol=1e-4)
    check(lambda x, g: nnf.grid_sample(x, g, align_corners=True), x.detach(), grid, backward=True, ops=names)


def test_volumes():
    grid = torch.rand(1, 4, 5, 6, 3, generator=torch.Generator().manual_seed(1)) * 2.6 - 1.3

    def f(x, grid):
        return nnf.grid_sample(x, grid, align_corners=False), nnf.grid_sample(x, grid, "nearest", "border", True)

    check(f, images(1, 2, 3, 5, 7), grid, ops=["GridSampler3D"], unconverted_ops="error")


def test_rearranged_pixels_decompose():
    def f(x):
        return nnf.pixel_shuffle(x, 2), nnf.pixel_unshuffle(x, 2), nnf.unfold(x, (2, 3), 2, 1, 1)

    check(f, images(1, 8, 4, 6), unconverted_ops="error")
    check(lambda x: nnf.fold(x, (4, 5), (2, 2)), images(1, 12, 12), rtol=1e-6, atol=1e-5, unconverted_ops="error")


def test_one_operator_is_all():
    assert converted_ops(CASES["nearest, scale"][0], images(2, 3, 5, 7)) == ["ResizeNearestNeighborV2"]
