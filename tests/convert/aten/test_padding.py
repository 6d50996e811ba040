"""Padding agrees with eager, in the operators of Ascend IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import pad

from tests.convert.conversion import check, converted_ops
from tests.convert.operands import all_of, dtypes

Functions = dict[str, Callable[..., Any]]

CONSTANT: Functions = {
    "one dimension": lambda x: (pad(x, (1, 2)), pad(x, (0, 0)), pad(x, (0, 3))),
    "several": lambda x: pad(x, (1, 2, 0, 1, 2, 0)),
    "value": lambda x: (pad(x, (1, 2), value=1), pad(x, (1, 0, 0, 2), value=2.5)),
    "negative": lambda x: (pad(x, (-1, 2)), pad(x, (1, -2, -1, 0)), pad(x, (-1, -1, 3, -1), value=1)),
    "all cut": lambda x: pad(x, (-2, -2)),
    "a scalar": lambda x: pad(x[0, 0, 0], ()),
}
MIRRORED: Functions = {
    "reflect 1": lambda x: (pad(x, (1, 2), mode="reflect"), pad(x[0], (3, 0), mode="reflect")),
    "reflect 2": lambda x: (pad(x, (1, 2, 0, 1), mode="reflect"), pad(x[None], (1, 0, 2, 2), mode="reflect")),
    "reflect 3": lambda x: pad(x[None], (1, 2, 0, 1, 1, 0), mode="reflect"),
    "edge 1": lambda x: (pad(x, (1, 2), mode="replicate"), pad(x[0], (5, 0), mode="replicate")),
    "edge 2": lambda x: (pad(x, (1, 2, 0, 1), mode="replicate"), pad(x[None], (-1, 0, 2, 2), mode="replicate")),
    "edge 3": lambda x: pad(x[None], (1, 2, 0, 1, 3, 0), mode="replicate"),
    "circular": lambda x: (pad(x, (1, 2), mode="circular"), pad(x, (1, 2, 1, 0), mode="circular")),
}


@dtypes((torch.float32, torch.int64), (torch.bool, torch.bfloat16, torch.uint8, torch.complex64, torch.float64))
@pytest.mark.parametrize("dynamic", [False, True])
def test_constant_padding_equals_eager(dtype, dynamic):
    x = torch.arange(1, 25).reshape(2, 3, 4).to(dtype)
    unconverted = "run" if dtype.is_complex else "error"
    check(lambda x: all_of(CONSTANT, x), x, dynamic=dynamic, unconverted_ops=unconverted)


@pytest.mark.parametrize("value", [-0.0, float("inf"), float("-inf"), float("nan"), 1e-30])
def test_special_values(value):
    (graph,) = check(lambda x: 1 / pad(x, (1, 1), value=value), torch.ones(3), unconverted_ops="error")
    (node,) = (n for n in graph if n.op == "PadV3")
    assert node.inputs[2] is not None


@pytest.mark.parametrize("dynamic", [False, True])
def test_mirrored_padding_equals_eager(dynamic):
    x = torch.randn(2, 3, 4, requires_grad=True)
    check(lambda x: all_of(MIRRORED, x), x, dynamic=dynamic, unconverted_ops="error")
    check(lambda x: list(all_of(MIRRORED, x).values()), x, dynamic=dynamic, backward=True, ops=["PadV3Grad"])


def test_symbolic_amounts():
    def fn(x, before, after):
        return pad(x, (before, after)), pad(x, (0, 8 - x.shape[1])), pad(x, (0, x.shape[0], before, 0), value=3)

    check(fn, torch.randn(4, 5), 1, 2, dynamic=True, unconverted_ops="error")


def test_the_ir_operators():
    x = torch.ones(2, 3, 4)
    assert converted_ops(lambda x: pad(x, (1, 2)), x) == ["PadV3"]
    assert converted_ops(lambda x: pad(x, (-1, 2)), x) == ["StridedSliceV2", "PadV3"]
    assert converted_ops(lambda x: pad(x, (1, 2), mode="reflect"), x) == ["PadV3"]
