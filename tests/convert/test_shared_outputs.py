"""Results that are views of one another stay so where an engine makes their base in other strides than FX promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import torchair
from tests.convert.conversion import converted_graphs
from tests.pipeline.agreement import assert_agrees
from torchair.config import CompilerConfig


def _added(x: Tensor) -> Tensor:
    return (x.t() * 2).index_add_(0, torch.tensor([1, 1]), x[:2])


def _replaced(x: Tensor) -> Tensor:
    return (x.t() * 2).index_copy_(0, torch.tensor([1]), x[:1])


def _scattered(x: Tensor) -> Tensor:
    return (x.t() * 2).scatter_(0, torch.tensor([[1, 1, 1, 1]]), x[:1])


def _summed(x: Tensor) -> Tensor:
    return (x.t() * 2).scatter_add_(0, torch.tensor([[1, 1, 1, 1]]), x[:1])


def _divided(x: Tensor) -> Tensor:
    return torch.div(x.t(), 0.3, rounding_mode="floor")


def _product(x: Tensor) -> Tensor:
    return torch.baddbmm(x.t()[None], x.t()[None], x.t()[None])[0]


def _turned(x: Tensor) -> Tensor:
    return torch.t_copy(x)


BASES = [_added, _replaced, _scattered, _summed, _divided, _product, _turned]
VIEWS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "a part": lambda v: (v[1:], v),
    "a transposed part": lambda v: (v, v.t()[2]),
    "the same": lambda v: (v, v.view_as(v)),
    "two parts": lambda v: (v[1:], v[:2]),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_views_stay_views_of_their_base(base, view, engine) -> None:
    def function(x):
        return VIEWS[view](base(x))

    config = CompilerConfig()
    config.engine = engine
    compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config))
    # Strides are those of the functional operators that PyTorch's graphs are made of, which may be others than eager's.
    assert_agrees(function, compiled, [torch.randn(4, 4)], rtol=1e-5, atol=1e-5, strides=False)
    results = compiled(torch.randn(4, 4))
    results[0].fill_(7.0)
    assert all(bool((result == 7).any()) for result in results[1:])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_symbolic_sizes(engine) -> None:
    def function(x):
        v = torch.div(x.t(), 0.3, rounding_mode="floor")
        return v[1:], v

    config = CompilerConfig()
    config.engine = engine
    compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), dynamic=True)
    for rows in (3, 5, 8):
        assert_agrees(function, compiled, [torch.randn(rows, rows + 2)], strides=False)


@pytest.mark.parametrize(
    ("function", "added"),
    [
        pytest.param(lambda x: (lambda v: (v[1:], v))(torch.div(x.t(), 0.3, rounding_mode="floor")), 1, id="needed"),
        pytest.param(lambda x: torch.div(x.t(), 0.3, rounding_mode="floor"), 0, id="alone"),
        pytest.param(lambda x: (x.t()[1:], x.t()), 0, id="an input"),
    ],
)
def test_only_where_results_share_memory(function, added) -> None:
    (graph,) = converted_graphs(function, torch.randn(4, 4))
    assert sum(node.op == "Identity" and bool(node.operand_strides) for node in graph) == added
