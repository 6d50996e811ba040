"""Random operators run as torch calls: a compiled function draws what eager draws from the same seed."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as nnf

import torchair
from tests.convert.conversion import check
from torchair.config import CompilerConfig

X = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))


def test_made_from_sizes():
    def f():
        return (
            torch.rand(3, 4),
            torch.randn(3, dtype=torch.float64),
            torch.randint(3, 90, (5,)),
            torch.randperm(10),
            torch.rand(2, dtype=torch.bfloat16),
        )

    check(f, seed=7)


def test_made_like_tensors():
    def f(x):
        return (
            torch.rand_like(x),
            torch.randn_like(x),
            torch.randint_like(x, 9),
            torch.bernoulli(x.sigmoid()),
            torch.bernoulli(x, 0.3),
            torch.normal(x, 1.0),
            torch.normal(x, x.abs()),
            torch.normal(1.0, x.abs()),
            torch.multinomial(x.sigmoid(), 2),
            torch.multinomial(x.sigmoid(), 20, replacement=True),
            torch.poisson(x.abs()),
            torch.binomial(torch.full_like(x, 5.0), x.sigmoid()),
        )

    check(f, X, seed=7)
    check(f, X.double(), seed=7)


def test_written_in_place():
    def f(x):
        y = x.clone()
        drawn = [y.bernoulli_(0.3) + 0, y.normal_(2, 3) + 0, y.uniform_(2, 3) + 0, y.exponential_(2) + 0]
        return *drawn, y.cauchy_(2) + 0, y.log_normal_() + 0, y.geometric_(0.2), x.uniform_()

    check(f, X, seed=7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout(dtype):
    def f(x):
        y = nnf.dropout(nnf.dropout(x, 0.4) + torch.rand(5, dtype=x.dtype), 0.1)
        return y * x, nnf.dropout2d(x[None, :, :, None], 0.4), nnf.alpha_dropout(x, 0.4, training=True)

    graphs = check(f, X.to(dtype), seed=7)
    targets = [node.call.target for node in graphs[0] if node.call]
    assert targets.count("aten::native_dropout.default") == 2
    if dtype is torch.float32:
        check(lambda x: nnf.dropout(x, 0.4) * x, X.clone().requires_grad_(), seed=7, backward=True)


def test_symbolic_sizes():
    def f(x):
        return x[torch.randperm(x.shape[0])], torch.rand(x.shape[0], 3) + torch.randint(5, (x.shape[0], 3))

    check(f, X, dynamic=True, seed=7)


def test_each_call_draws_anew_and_a_seed_repeats_it():
    config = CompilerConfig()
    config.engine = "reference"
    f = torch.compile(lambda: torch.rand(100), backend=torchair.get_npu_backend(compiler_config=config))
    torch.manual_seed(1)
    first, second = f(), f()
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(f(), first)
    assert torch.equal(f(), second)


def test_draws_that_nobody_reads_stay_in_the_graph():
    def f(x):
        torch.rand(3)
        unread = torch.rand_like(x)
        del unread
        return (torch.rand(2) + x[0, :2],)

    graph = make_fx(f)(X)
    assert [str(node.target) for node in graph.graph.nodes].count("aten.rand.default") == 2
    config = CompilerConfig()
    config.engine = "reference"
    compiled = torchair.get_compiler(config)(graph, [X])
    torch.manual_seed(7)
    expected = f(X)[0]
    torch.manual_seed(7)
    assert torch.equal(compiled(X)[0], expected)


def test_random_operators_are_named_in_the_error():
    with pytest.raises(Exception, match=r"aten\.rand\.default"):
        check(lambda: torch.rand(3), unconverted_ops="error")
