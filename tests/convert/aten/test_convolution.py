from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nnf

from tests.convert.conversion import check, converted_graphs, only, samples
from tests.convert.operands import dtypes

FLOAT, HALF = torch.float32, torch.bfloat16


def made(*shapes, dtype=FLOAT, grad=False):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_(grad) for shape in shapes]


#: name -> function, shapes of input, weight and bias, the operators of the forward and of the backward graph.
CASES = {
    "conv1d": (
        lambda x, w, b: nnf.conv1d(x, w, b, 2, 1, 2, 2),
        ((2, 4, 9), (6, 2, 3), (6,)),
        "Conv2D",
        "Conv2DBackprop*",
    ),
    "conv2d": (
        lambda x, w, b: nnf.conv2d(x, w, b, (2, 1), (1, 0)),
        ((2, 4, 9, 8), (6, 4, 3, 2), (6,)),
        "Conv2D",
        "Conv2DBackprop*",
    ),
    "depthwise": (
        lambda x, w, b: nnf.conv2d(x, w, b, dilation=2, groups=4),
        ((2, 4, 9, 8), (8, 1, 3, 3), (8,)),
        "Conv2D",
        "Conv2DBackprop*",
    ),
    "conv3d": (
        lambda x, w, b: nnf.conv3d(x, w, b, 1, (1, 0, 1)),
        ((2, 4, 5, 6, 7), (6, 4, 3, 2, 2), (6,)),
        "Conv3D",
        "Conv3DBackprop*",
    ),
    "transposed1d": (
        lambda x, w, b: nnf.conv_transpose1d(x, w, b, 2, 1, 1, 2),
        ((2, 4, 9), (4, 3, 3), (6,)),
        "Conv2DTranspose",
        "Conv2D Conv2DBackpropFilter",
    ),
    "transposed2d": (
        lambda x, w, b: nnf.conv_transpose2d(x, w, b, (2, 1), 1, (1, 0)),
        ((2, 4, 5, 6), (4, 3, 3, 2), (3,)),
        "Conv2DTranspose",
        "Conv2D Conv2DBackpropFilter",
    ),
    "transposed3d": (
        lambda x, w, b: nnf.conv_transpose3d(x, w, b, 2, 1, 1),
        ((1, 4, 3, 4, 5), (4, 3, 3, 3, 3), (3,)),
        "Conv3DTranspose",
        "Conv3D Conv3DBackpropFilter",
    ),
}


@pytest.mark.parametrize("name", CASES)
@dtypes((FLOAT,), slow=(HALF, torch.float64))
def test_convolutions_and_their_gradients_equal_eager(name, dtype):
    f, shapes, forward, backward = CASES[name]
    kernel, *more = backward.split()
    ops = [forward, *more, *([kernel[:-1] + "Input", kernel[:-1] + "Filter"] if kernel.endswith("*") else [kernel])]
    # The gradients are three sums, which eager's kernel of half precision makes in one go.
    tolerance = 1e-2 if dtype is HALF else 1e-5
    arguments = made(*shapes, dtype=dtype, grad=True)
    check(f, *arguments, backward=True, rtol=tolerance, atol=tolerance, ops=ops, unconverted_ops="error")


@pytest.mark.parametrize("name", CASES)
def test_results_are_exactly_eager_s(name):
    f, shapes, *_ = CASES[name]
    x, w, b = made(*shapes)
    check(f, x, w, b, unconverted_ops="error")
    check(lambda x, w: f(x, w, None), x, w, unconverted_ops="error")
    check(lambda x, w, b: f(x[0], w, b), x, w, b, unconverted_ops="error")  # without a batch


def test_symbolic_sizes():
    for name in ("conv1d", "transposed2d"):
        f, shapes, *_ = CASES[name]
        arguments = made(*shapes, grad=True)
        check(f, *arguments, dynamic=True, backward=True, rtol=1e-5, atol=1e-5, unconverted_ops="error")


def test_layouts_batches_and_dtypes():
    x, w = made((2, 4, 9, 8), (6, 4, 3, 3))
    channels_last = torch.channels_last
    check(nnf.conv2d, x.to(memory_format=channels_last), w.to(memory_format=channels_last), unconverted_ops="error")
    check(nnf.conv2d, x[:0], w, unconverted_ops="error")
    check(nnf.conv2d, (x * 9).long(), (w * 9).long(), unconverted_ops="error")
    check(lambda x, w: nnf.conv2d(x, w, padding="same"), x, w[..., :2], unconverted_ops="error")


def test_gradients_that_nobody_wants_are_not_computed():
    f, shapes, *_ = CASES["conv2d"]
    x, w, b = made(*shapes)
    graphs = check(f, x, w.requires_grad_(), b, backward=True, rtol=1e-5, atol=1e-5)
    names = [node.op for node in graphs[1]]
    assert "Conv2DBackpropFilter" in names
    assert "Conv2DBackpropInput" not in names
    assert "ReduceSum" not in names


def test_an_output_padding_beyond_the_stride_has_no_exact_gradient():
    x, w = made((1, 2, 4, 4), (2, 3, 3, 3), grad=True)

    def f(x, w):
        return nnf.conv_transpose2d(x, w, stride=1, output_padding=1, dilation=2)

    graphs = check(f, x, w, backward=True, rtol=1e-5, atol=1e-5, ops=["Conv2DTranspose", "torch_call"])
    assert [n.call.target for n in graphs[1] if n.call] == ["aten::convolution_backward.default"]


def test_numbers_become_attributes_of_the_data_format():
    f, shapes, *_ = CASES["conv2d"]
    (graph,) = converted_graphs(f, *made(*shapes))
    node = only(graph, "Conv2D")
    assert node.attrs == {
        "strides": (1, 1, 2, 1),
        "pads": (1, 1, 0, 0),
        "dilations": (1, 1, 1, 1),
        "groups": 1,
        "data_format": "NCHW",
        "offset_x": 0,
    }


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"])
def test_samples(name):
    for op, args, kwargs in samples(f"nn.functional.{name}", FLOAT, count=1):
        arguments = [a.detach() for a in args if isinstance(a, torch.Tensor)]
        rest = args[len(arguments) :]
        check(lambda *a, op=op, r=rest, kw=kwargs: op(*a, *r, **kw), *arguments, unconverted_ops="error")
