"""Option ``verify_every``: calls that run eagerly too, and the operator that differs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn

import torchair
from tests.conformance.op_db import backend as ge_backend
from torchair.capture import record
from torchair.errors import VerificationError
from torchair.opset.operator import operators
from torchair.pipeline import verify

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def captured(function: Callable[..., Any], every: int = 1, **options: Any) -> Any:
    return torch.compile(function, backend="npugraph_ex", options={"verify_every": every, **options})


def program(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x) * 2
    cache.add_(y)
    return (y.exp() + cache).sum(0)


def count_eager_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    runs: list[int] = []
    compare = verify.VerifiedGraph._compare

    def counted(self: Any, *args: Any) -> None:
        runs.append(self._calls)
        compare(self, *args)

    monkeypatch.setattr(verify.VerifiedGraph, "_compare", counted)
    return runs


@pytest.mark.parametrize("mode", ["capture", "ge"])
def test_right_results_pass(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = count_eager_runs(monkeypatch)
    if mode == "capture":
        run = captured(program, 2)
    else:
        config = torchair.CompilerConfig()
        config.engine = "reference"
        config.debug.verify_every = 2
        run = torch.compile(program, backend=torchair.get_npu_backend(compiler_config=config))
    x, cache, want = torch.randn(3, 4), torch.zeros(3, 4), torch.zeros(3, 4)
    for _ in range(5):
        torch.testing.assert_close(run(x, cache), program(x, want))
        torch.testing.assert_close(cache, want)
    assert runs == [2, 4]
    assert len(torchair.explain(run).graphs) == 1


def test_random_numbers_advance_once() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    run, x = captured(noisy), torch.ones(20)
    torch.manual_seed(5)
    got = [run(x), run(x), torch.rand(3)]
    torch.manual_seed(5)
    want = [noisy(x), noisy(x), torch.rand(3)]
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=0)


def test_training() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Linear(3, 1))
    run = captured(model)
    for _ in range(2):
        run(torch.ones(2, 3)).sum().backward()
    got = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    for _ in range(2):
        model(torch.ones(2, 3)).sum().backward()
    for g, p in zip(got, model.parameters(), strict=True):
        torch.testing.assert_close(g, p.grad)


def test_inputs_that_share_memory() -> None:
    def shared(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return b + a[:3]

    run = captured(shared)
    for _ in range(2):
        base, other = torch.arange(6.0), torch.arange(6.0)
        torch.testing.assert_close(run(base[:4], base[2:5]), shared(other[:4], other[2:5]))
        torch.testing.assert_close(base, other)


class SharesItsWeight(nn.Module):
    """A buffer over a row of the weight, which has a storage of its own, so that PyTorch does not see it."""

    row: torch.Tensor

    def __init__(self, *, writes: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 3))
        self.register_buffer("row", torch.from_numpy(self.weight.detach().numpy())[1])
        self.writes = writes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.writes:
            self.row.add_(1)
            return x @ self.weight
        return x @ self.weight + self.row.exp()


def compiled_in(mode: str, model: nn.Module) -> Any:
    if mode == "capture":
        return captured(model)
    made = ge_backend("reference")
    made.keywords["compiler_config"].debug.verify_every = 1
    return torch.compile(model, backend=made)


@pytest.mark.parametrize("mode", ["capture", "ge"])
def test_a_buffer_in_the_memory_of_a_parameter(mode: str) -> None:
    model, same = (SharesItsWeight(writes=False) for _ in range(2))
    run = compiled_in(mode, model)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        for _ in range(2):
            torch.testing.assert_close(run(torch.eye(3)), same(torch.eye(3)))
            same.weight.mul_(2)
            model.weight.mul_(2)


@pytest.mark.parametrize("mode", ["capture", "ge"])
def test_a_buffer_that_is_written_in_the_memory_of_a_parameter(mode: str) -> None:
    """What is right depends on the order of a write and a read that PyTorch takes for independent."""
    model = SharesItsWeight(writes=True)
    run = compiled_in(mode, model)
    with pytest.warns(UserWarning, match="verify_every leaves out calls where the inputs"), torch.no_grad():
        run(torch.eye(3))
    assert model.weight.tolist() == [[1, 1, 1], [2, 2, 2], [1, 1, 1]]


def test_a_custom_operator_that_writes() -> None:
    @torch.library.custom_op("verifying::accumulate", mutates_args=("x",))
    def accumulate(x: torch.Tensor, y: torch.Tensor) -> None:
        x.add_(y)

    run = captured(lambda x, y: (accumulate(x, y), x * 2)[1])
    x, y = torch.zeros(3), torch.ones(3)
    for i in range(1, 3):
        assert run(x, y).tolist() == [2.0 * i] * 3


def wrong_kernel(monkeypatch: pytest.MonkeyPatch, wrong: Any, instead: Any) -> None:
    """Let the recorder write down another operator than the graph has."""
    original = record._Recording._step

    def step(self: Any, launch: Any, node: fx.Node) -> None:
        if node.target is wrong:
            launch = type(launch)(instead, launch.args, launch.results, launch.may_alias)
        original(self, launch, node)

    monkeypatch.setattr(record._Recording, "_step", step)


def test_a_wrong_launch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_kernel(monkeypatch, aten.exp.default, aten.sin.out)
    run = captured(program)
    with pytest.raises(
        VerificationError, match=r"aten\.exp\.default \(node exp\): result 0 differs: by up to"
    ) as caught:
        run(torch.ones(3, 4), torch.zeros(3, 4))
    assert "return (y.exp() + cache).sum(0)" in caught.value.where[0]


def test_a_wrong_pass_is_found() -> None:
    def careless(gm: fx.GraphModule, inputs: Any, config: Any) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=aten.tanh.default):
            node.target = aten.sigmoid.default

    run = captured(program, post_grad_custom_post_pass=careless)
    with pytest.raises(VerificationError, match=r"aten\.sigmoid\.default \(node tanh\)"):
        run(torch.ones(3, 4), torch.zeros(3, 4))


def test_what_a_pass_made_is_mentioned() -> None:
    def careless(gm: fx.GraphModule, inputs: Any, config: Any) -> None:
        (node,) = gm.graph.find_nodes(op="call_function", target=aten.tanh.default)
        with gm.graph.inserting_after(node):
            made = gm.graph.create_node("call_function", aten.sigmoid.default, node.args, name="instead")
        made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        gm.graph.erase_node(node)

    run = captured(program, post_grad_custom_post_pass=careless)
    with pytest.raises(
        VerificationError, match=r"it follows aten\.sigmoid\.default \(node instead\), which passes made"
    ):
        run(torch.ones(3, 4), torch.zeros(3, 4))


def test_a_wrong_input_afterwards_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_kernel(monkeypatch, aten.add_.Tensor, aten.sub_.Tensor)
    run = captured(lambda cache, x: cache.add_(x).sum() * 0)
    with pytest.raises(VerificationError, match="node add"):
        run(torch.zeros(3), torch.ones(3))


def test_a_wrong_lowering_of_ge_mode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ge_backend("reference")
    made.keywords["compiler_config"].debug.verify_every = 1
    torch.compile(program, backend=ge_backend("reference"))(torch.ones(2, 2), torch.zeros(2, 2))  # loads the opset
    monkeypatch.setattr(operators["Exp"], "lowering", lambda x, **_: torch.sin(x))
    run = torch.compile(program, backend=made)
    with pytest.raises(VerificationError, match=r"aten\.exp\.default \(node exp\)"):
        run(torch.ones(3, 4), torch.zeros(3, 4))
