from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nnf

from tests.convert.conversion import check, converted_graphs, only

FLOAT, HALF = torch.float32, torch.bfloat16


def images(*shape, dtype=FLOAT, grad=False):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    return x.requires_grad_(grad)


ADAPTIVE = ("AdaptiveAvgPool2d", "AdaptiveAvgPool2dGrad")
PLANE, VOLUME = (2, 3, 8, 9), (2, 3, 6, 8, 9)

#: name -> function, shape of the input, the operators of the forward and of the backward graph.
CASES = {
    "max2d": (lambda x: nnf.max_pool2d(x, 3, 2, 1), PLANE, "MaxPool3DWithArgmaxV2", "MaxPool3DGradWithArgmax"),
    "max2d dilated": (
        lambda x: nnf.max_pool2d(x, (3, 2), (2, 1), (1, 0), (2, 1), True),
        PLANE,
        "MaxPool3DWithArgmaxV2",
        "MaxPool3DGradWithArgmax",
    ),
    "max3d": (lambda x: nnf.max_pool3d(x, 3, 2, 1), VOLUME, "MaxPool3DWithArgmaxV2", "MaxPool3DGradWithArgmax"),
    "avg1d": (lambda x: nnf.avg_pool1d(x, 3, 2, 1), PLANE[1:], "AvgPoolV2", "AvgPoolV2Grad"),
    "avg2d": (lambda x: nnf.avg_pool2d(x, 3, 2, 1, True, False), PLANE, "AvgPoolV2", "AvgPoolV2Grad"),
    "avg2d divisor": (
        lambda x: nnf.avg_pool2d(x, (3, 2), divisor_override=5),
        PLANE,
        "AvgPoolV2",
        "AvgPoolV2Grad",
    ),
    "avg3d": (lambda x: nnf.avg_pool3d(x, 3, 2, 1, True, False), VOLUME, "AvgPool3D", "AvgPool3DGrad"),
    "adaptive avg1d": (
        lambda x: nnf.adaptive_avg_pool1d(x, 5),
        PLANE[1:],
        "AdaptiveAvgPool2d",
        "AdaptiveAvgPool2dGrad",
    ),
    "adaptive avg2d": (
        lambda x: nnf.adaptive_avg_pool2d(x, (5, 4)),
        PLANE,
        "AdaptiveAvgPool2d",
        "AdaptiveAvgPool2dGrad",
    ),
    "adaptive max2d": (
        lambda x: nnf.adaptive_max_pool2d(x, (4, 3)),
        PLANE,
        "MaxPool3DWithArgmaxV2",
        "MaxPool3DGradWithArgmax",
    ),
    "adaptive max3d": (
        lambda x: nnf.adaptive_max_pool3d(x, (3, 4, 3)),
        VOLUME,
        "MaxPool3DWithArgmaxV2",
        "MaxPool3DGradWithArgmax",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pooling_and_its_gradient_equal_eager(name):
    f, shape, *ops = CASES[name]
    x = images(*shape, grad=True)
    check(f, x, backward=True, ops=ops, unconverted_ops="error")
    check(lambda x: f(x[0]), x, unconverted_ops="error")  # without a batch


@pytest.mark.parametrize("name", [name for name in CASES if name != "avg3d"])
def test_half_precision(name):
    f, shape, *_ = CASES[name]
    check(f, images(*shape, dtype=HALF), unconverted_ops="error")


def test_adaptive_means_of_volumes_are_ordinary_ones_where_windows_are_alike():
    x = images(*VOLUME, grad=True)

    def even(x):
        return nnf.adaptive_avg_pool3d(x, (3, 4, 3))

    # Eager divides by each size of the window in turn.
    check(even, x, backward=True, rtol=1e-6, atol=1e-7, ops=["AvgPool3D", "AvgPool3DGrad"], unconverted_ops="error")
    check(even, x.detach().bfloat16(), ops=["torch_call"])
    check(lambda x: nnf.adaptive_avg_pool3d(x, (4, 4, 3)), x, ops=["torch_call"], backward=True)


def test_indices_count_as_eager_s():
    x = images(*PLANE)
    x[1] = 0
    x[0, 0, 2:5, 3] = torch.nan

    def f(x):
        return (
            nnf.max_pool2d(x, 3, 2, 1, return_indices=True),
            nnf.max_pool1d(x[0], 3, return_indices=True),
            nnf.max_pool3d(x, 3, 2, 1, return_indices=True),
            nnf.adaptive_max_pool2d(x, (4, 3), return_indices=True),
        )

    check(f, x, unconverted_ops="error")


def test_windows_of_different_sizes_stay_torch_calls():
    check(lambda x: nnf.adaptive_max_pool2d(x, (5, 3)), images(*PLANE, grad=True), backward=True, ops=["torch_call"])


def test_symbolic_sizes():
    def f(x):
        return nnf.max_pool2d(x, 3, 2, 1), nnf.avg_pool2d(x, 3, 2, 1, True), nnf.adaptive_avg_pool2d(x, 3)

    check(f, images(*PLANE), dynamic=True, unconverted_ops="error")


def test_the_size_of_an_adaptive_gradient_is_an_attribute():
    graphs = check(lambda x: nnf.adaptive_avg_pool2d(x, 3), images(*PLANE, grad=True), dynamic=True, backward=True)
    targets = [node.call.target for node in graphs[-1] if node.call]
    assert targets == ["aten::_adaptive_avg_pool2d_backward.default"]


def test_integers_and_channels_last():
    x = images(*PLANE)
    check(lambda x: (nnf.max_pool2d(x, 3), nnf.avg_pool2d(x, 3)), (x * 9).long(), unconverted_ops="error")
    channels_last = x.to(memory_format=torch.channels_last)
    check(lambda x: (nnf.max_pool2d(x, 3), nnf.avg_pool2d(x, 3)), channels_last, unconverted_ops="error")
    check(lambda x: nnf.adaptive_avg_pool2d(x, 1), x, ops=["ReduceMean"], unconverted_ops="error")


def test_attributes_of_max_pooling_of_planes():
    (graph,) = converted_graphs(CASES["max2d"][0], images(*PLANE))
    node = only(graph, "MaxPool3DWithArgmaxV2")
    assert node.inputs[0].shape == (2, 3, 1, 8, 9)
    assert {name: node.attrs[name] for name in ("ksize", "strides", "pads", "dilation")} == {
        "ksize": (1, 3, 3),
        "strides": (1, 2, 2),
        "pads": (0, 1, 1),
        "dilation": (1, 1, 1),
    }
