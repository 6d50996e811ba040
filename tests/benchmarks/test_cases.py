"""The workloads are what their names say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.cases import CASES, GOALS
from benchmarks.harness import Unavailable
from benchmarks.models import DecodeStep
from benchmarks.results import Goal
from benchmarks.variants import DEFAULTS, VARIANTS

CPU = torch.device("cpu")
OPERATORS = {"mlp16": 64, "tiny60": 60, "chain64": 60, "chain2048": 60, "one_op": 1}


def require(name: str) -> None:
    try:
        CASES[name].require()
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", list(CASES))
@torch.no_grad()
def test_case_keeps_its_contract(name: str) -> None:
    """Other values for another seed, of the same shapes; the same result for the same arguments."""
    require(name)
    workload = CASES[name].build(CPU)
    first, second = workload.inputs(0), workload.inputs(1)
    assert [(x.shape, x.dtype) for x in first] == [(x.shape, x.dtype) for x in second]
    out = workload.function(*first)
    assert not torch.equal(workload.function(*second), out)
    torch.testing.assert_close(workload.function(*workload.inputs(0)), out, rtol=0, atol=0)
    assert out.isfinite().all()


@pytest.mark.parametrize("name", list(OPERATORS))
@torch.no_grad()
def test_number_of_operators(name: str) -> None:
    workload = CASES[name].build(CPU)
    graph = make_fx(workload.function)(*workload.inputs(0)).graph
    calls = [node.target for node in graph.nodes if node.op == "call_function"]
    # Linear is a product with a transposed view, which costs no kernel.
    assert len([target for target in calls if target is not torch.ops.aten.t.default]) == OPERATORS[name]


def test_weights_of_the_decode_step() -> None:
    model = DecodeStep()
    read = sum(p.numel() for p in model.parameters()) - model.embedding.weight.numel()
    assert round(4 * read / 1e6, 1) == 29.5


@torch.no_grad()
def test_decode_step_sees_earlier_tokens_and_no_later_ones() -> None:
    torch.manual_seed(0)
    model = DecodeStep(width=32, hidden=48, layers=2, heads=2, vocabulary=50, positions=8)

    def step(token: int, position: int) -> Tensor:
        out: Tensor = model(torch.tensor([[token]]), torch.tensor([position]))
        return out

    step(3, 0)
    seen = step(5, 1)
    step(7, 2)
    assert torch.equal(step(5, 1), seen)
    step(4, 0)
    assert not torch.equal(step(5, 1), seen)
    for cache in (cache for layer in model.layers for cache in layer.buffers()):
        assert cache[:, :, :3].ne(0).any()
        assert cache[:, :, 3:].eq(0).all()


def test_names_that_refer_to_each_other() -> None:
    for names in DEFAULTS.values():
        assert set(names) <= set(VARIANTS)
        assert names[0] == "eager"
    for goal in GOALS:
        assert isinstance(goal, Goal)
        assert goal.case in {*CASES, *(f"{case.name}_loaded" for case in CASES.values() if case.loaded)}
        assert goal.variant in VARIANTS
        assert goal.over in {"best peer", "floor", *VARIANTS}
