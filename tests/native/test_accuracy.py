"""Reductions, normalizations and products are no worse than twice eager's error, measured against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.native.graphs import lowered
from torchair.native.program import compile_programs

pytestmark = pytest.mark.usefixtures("support")

_Function = Callable[..., tuple[Tensor, ...]]
#: Functions, and the sizes of their arguments.
_CASES: dict[str, tuple[_Function, list[tuple[int, ...]]]] = {
    "sum of rows": (lambda x: (x.sum(-1),), [(64, 5000)]),
    "sum of columns": (lambda x: (x.sum(0),), [(5000, 64)]),
    "sum of all": (lambda x: (x.sum(),), [(300, 700)]),
    "sum of squares": (lambda x: ((x * x).sum(-1),), [(64, 5000)]),
    "mean": (lambda x: (x.mean(-1), x.mean(0)), [(300, 700)]),
    "product of rows": (lambda x: ((1 + x / 50).prod(-1),), [(64, 200)]),
    "variance": (lambda x: (x.var(-1), x.std(-1)), [(64, 3000)]),
    "variance far from zero": (lambda x: ((x + 100).var(-1),), [(64, 3000)]),
    "logsumexp": (lambda x: (torch.logsumexp(x * 5, -1),), [(64, 3000)]),
    "softmax of rows": (lambda x: (torch.softmax(x * 5, -1),), [(64, 3000)]),
    "softmax of columns": (lambda x: (torch.softmax(x * 5, 0),), [(300, 64)]),
    "log_softmax": (lambda x: (torch.log_softmax(x * 5, -1),), [(64, 3000)]),
    "layer_norm": (lambda x, w, b: (functional.layer_norm(x, (768,), w, b),), [(64, 768), (768,), (768,)]),
    "layer_norm far from zero": (lambda x: (functional.layer_norm(x + 100, (768,)),), [(64, 768)]),
    "rms_norm": (lambda x, w: (functional.rms_norm(x, (768,), w, 1e-6),), [(64, 768), (768,)]),
    "group_norm": (lambda x: (functional.group_norm(x, 4),), [(4, 32, 20, 20)]),
    "batch_norm": (lambda x: (functional.batch_norm(x, None, None, training=True),), [(16, 32, 20)]),
    "product of one row": (lambda x, w: (x @ w,), [(1, 2000), (2000, 96)]),
    "product of one row, other layout": (lambda x, w: (functional.linear(x, w),), [(1, 2000), (96, 2000)]),
    "product of eight rows": (lambda x, w, b: (torch.addmm(b, x, w),), [(8, 2000), (2000, 96), (96,)]),
    "product of eight rows, other layout": (lambda x, w: (functional.linear(x, w),), [(8, 2000), (96, 2000)]),
}  # fmt: skip


def _error(got: Tensor, exact: Tensor) -> float:
    """Root of the mean square."""
    return float((got.double() - exact).square().mean().sqrt())


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def compiled(request: pytest.FixtureRequest) -> tuple[torch.dtype, dict[str, Any]]:
    """All cases in one dtype, compiled together."""
    torch.manual_seed(0)
    modules, programs = {}, []
    for name, (function, shapes) in _CASES.items():
        arguments = [torch.randn(shape).to(request.param) for shape in shapes]
        module, record = lowered(function, *arguments)
        assert record.programs, name
        programs += record.programs
        modules[name] = module, arguments
    compile_programs(programs)
    return request.param, modules


@pytest.mark.parametrize("name", _CASES)
def test_no_worse_than_twice_the_error_of_eager(compiled: tuple[torch.dtype, dict[str, Any]], name: str) -> None:
    dtype, modules = compiled
    module, arguments = modules[name]
    function = _CASES[name][0]
    exact = function(*(t.double() for t in arguments))
    for got, eager, truth in zip(module(*arguments), function(*arguments), exact, strict=True):
        assert got.dtype is eager.dtype is dtype
        # A result or two may be rounded the other way.
        spare = 0.1 * torch.finfo(dtype).eps * float(truth.square().mean().sqrt())
        assert _error(got, truth) <= 2 * _error(eager, truth) + spare


def test_a_product_past_the_range_of_float32() -> None:
    x = torch.full((2, 150), 100.0)
    x[0, 140], x[1, :75] = 0, 0.01  # the products are 0 and 1; 20 factors leave the range
    module, record = lowered(lambda x: (x.prod(-1), x.t().contiguous().prod(0)), x)
    assert record.programs
    compile_programs(record.programs)
    for result in module(x):
        torch.testing.assert_close(result, torch.tensor([0.0, 1.0]))
