"""Numbers that Python computes from symbolic sizes, as operands: all engines agree with eager."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from tests.conformance.op_db import CAPTURE, STATIC, backend
from tests.pipeline.agreement import assert_agrees


def _quotients(x: Tensor) -> list[Tensor]:
    n = x.shape[0]
    numbers = [n / 2, n / (n + 1), int(n * 0.5), round(n / 3), math.floor(n * 0.3), math.ceil(n / 4), -n // 3, n**0.5]
    numbers += [min(n / 2, 3.5), n / 3 // 1, round(n / 3, 1), torch.sym_max(n, 7), 2.0**n, n & 3, n | 8, n ^ 1]
    return [x * number for number in numbers]


def _functions(x: Tensor) -> list[Tensor]:
    n = x.shape[0] / 20
    functions = (
        math.sqrt, math.log2, math.cos, math.sin, math.tan, math.acos, math.asin, math.atan, math.cosh, math.sinh,
        math.tanh,
    )  # fmt: skip
    return [x + math.cos(x.shape[0]), *(x + function(n) for function in functions)]


def _arguments(x: Tensor) -> list[Tensor]:
    half = x.shape[0] / 2
    rows = x.view(1, 1, -1, 1).expand(1, 1, -1, 8)
    return [
        torch.full((3,), half),
        torch.arange(half),
        torch.linspace(0, half, 5),
        torch.nn.functional.pad(x, (0, 2), value=half),
        torch.where(x > 0, half, 0.5),
        x.masked_fill(x > 0, half),
        x.clamp(max=half / 9),
        x.bool() + half,
        x.long() * half,
        x.to(torch.bfloat16) * (half / 3),
        torch.add(x, x, alpha=half),
        torch.nn.functional.scaled_dot_product_attention(rows, rows, rows, scale=1 / math.sqrt(x.shape[0])),
        x.new_zeros(int(x.shape[0] * 1.5)),
        x[: math.ceil(half)],
    ]


def _numbers(x: Tensor) -> tuple[Tensor, float, int, float]:
    return x * 2, x.shape[0] / 2, int(x.shape[0] * 0.7), math.sqrt(x.shape[0])


# Inductor's C++ has no text for functions of sizes but the square root.
_INDUCTOR = [(f, "inductor") for f in (_quotients, _arguments, _numbers)]
_OTHERS = itertools.product([_quotients, _functions, _arguments, _numbers], ["native", "reference", CAPTURE, STATIC])


@pytest.mark.parametrize(("function", "engine"), [*_OTHERS, *_INDUCTOR])
def test_numbers_from_sizes(function, engine: str) -> None:
    compiled = torch.compile(function, backend=backend(engine), dynamic=True, fullgraph=True)
    for size in (5, 6, 9, 5):
        assert_agrees(function, compiled, [torch.randn(size)], rtol=1e-6, atol=1e-7)


def _known_late(x: Tensor) -> list[Tensor]:
    rows = x[(x[:, 0] > 0).nonzero().squeeze(1)] * 2
    return [rows.sum(0) + rows.shape[0], x * (rows.shape[0] / 2), torch.arange(rows.shape[0]) * rows.shape[0] + 1]


@pytest.mark.parametrize("engine", ["reference", CAPTURE, STATIC])
def test_numbers_from_sizes_that_are_known_late(engine: str) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(_known_late, backend=backend(engine), dynamic=True, fullgraph=True)
        for size in (7, 5, 9, 7):
            assert_agrees(_known_late, compiled, [torch.randn(size, 3)], rtol=1e-6)
