"""Activation checkpointing: what the backward graph computes again draws the same random numbers."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor, fx
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import torchair
from tests.errors.texts import text_of
from torchair import _torch_compat
from torchair.errors import UnconvertedOperatorsError
from torchair.pipeline.backends import Backend
from torchair.pipeline.ge_mode import CompiledGraph
from torchair.pipeline.rng_state import expand_rng_wrappers

Program = Callable[..., Tensor]


def backend(engine: str = "reference", **experimental: Any) -> Backend:
    config = torchair.CompilerConfig()
    config.engine = engine
    for name, value in experimental.items():
        setattr(config.experimental_config, name, value)
    return torchair.get_npu_backend(compiler_config=config)


def trained(program: Program, *args: Tensor, steps: int = 2) -> list[Tensor]:
    """Losses and gradients of a few steps, then a number drawn afterwards."""
    torch.manual_seed(3)
    results = []
    for _ in range(steps):
        inputs = [arg.detach().clone().requires_grad_() for arg in args]
        loss = program(*inputs)
        loss.backward()
        results += [loss.detach(), *(x.grad for x in inputs if x.grad is not None)]
    assert len(results) == steps * (1 + len(args))
    return [*results, torch.rand(1)]


def dropout_twice(x: Tensor, w: Tensor) -> Tensor:
    def block(x: Tensor, w: Tensor) -> Tensor:
        return functional.dropout(functional.dropout(x @ w, 0.3).relu() @ w, 0.5)

    # Without checkpointing in between, and with a draw that is not wrapped.
    y = functional.dropout(checkpoint(block, x, w, use_reentrant=False), 0.2)
    return checkpoint(block, y, w, use_reentrant=False).square().sum()


def rand_like(x: Tensor, w: Tensor) -> Tensor:
    def block(x: Tensor, w: Tensor) -> Tensor:
        return (x * torch.rand_like(x) + torch.rand(x.shape, device="cpu")).exp() @ w

    return checkpoint(block, x, w, use_reentrant=False).sum()


def attention(x: Tensor, w: Tensor) -> Tensor:
    def block(x: Tensor, w: Tensor) -> Tensor:
        heads = (x @ w).view(1, 2, 4, -1)
        return functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.4)

    return checkpoint(block, x, w, use_reentrant=False).square().sum()


@pytest.mark.parametrize(
    ("program", "engine"),
    [(dropout_twice, "reference"), (rand_like, "reference"), (attention, "reference"), (attention, "inductor")],
)
def test_gradients_are_eagers(program: Program, engine: str) -> None:
    # In float64, so that other orders of sums do not hide other random numbers.
    x, w = torch.randn(4, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    compiled = torch.compile(program, backend=backend(engine), fullgraph=True)
    tolerance = 0.0 if engine == "reference" else 1e-12
    torch.testing.assert_close(trained(compiled, x, w), trained(program, x, w), rtol=tolerance, atol=tolerance)


def test_gradients_are_eagers_with_symbolic_sizes() -> None:
    compiled = torch.compile(dropout_twice, backend=backend(), fullgraph=True, dynamic=True)
    w = torch.randn(8, 8)
    for rows in (4, 7):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(trained(compiled, x, w), trained(dropout_twice, x, w), rtol=0, atol=0)


def test_gradients_are_eagers_when_the_graph_runs_eagerly() -> None:
    config = torchair.CompilerConfig()
    config.debug.run_eagerly = True
    compiled = torch.compile(dropout_twice, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    torch.testing.assert_close(trained(compiled, x, w), trained(dropout_twice, x, w), rtol=0, atol=0)


def test_a_model_in_a_backend_of_ones_own() -> None:
    from torch._dynamo.backends.common import aot_autograd

    config = torchair.CompilerConfig()
    config.engine = "reference"
    compiler = torchair.get_compiler(config)

    def boxed(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        run = compiler(gm, inputs)
        return _torch_compat.make_boxed(lambda args: run(*args))

    own = aot_autograd(fw_compiler=boxed, bw_compiler=boxed)
    compiled = torch.compile(dropout_twice, backend=own, fullgraph=True)
    x, w = torch.randn(4, 8), torch.randn(8, 8)
    torch.testing.assert_close(trained(compiled, x, w), trained(dropout_twice, x, w), rtol=0, atol=0)


def test_the_state_of_the_generator_is_put_back() -> None:
    made = backend()
    compiled = torch.compile(dropout_twice, backend=made, fullgraph=True)
    x, w = (torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True))
    loss = compiled(x, w)
    before = torch.get_rng_state()
    loss.backward()
    assert torch.equal(torch.get_rng_state(), before)
    forward, backward = (graph.text for graph in made.graphs if isinstance(graph, CompiledGraph))
    assert forward.count("air::get_rng_state") == 4
    assert forward.count("air::set_rng_state") == 0
    assert backward.count("air::get_rng_state") == 4
    assert backward.count("air::set_rng_state") == 8


def test_a_graph_without_wrappers_stays_as_it_is() -> None:
    gm = fx.symbolic_trace(lambda x: x + 1)
    assert expand_rng_wrappers(gm) is gm


def test_it_is_not_converted_to_ascend_ir() -> None:
    def program(x: Tensor) -> Tensor:
        return checkpoint(lambda x: torch.rand_like(x) * x.exp(), x, use_reentrant=False).sum()

    compiled = torch.compile(program, backend=backend(unconverted_ops="error"), fullgraph=True)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(torch.ones(2, requires_grad=True))
    error = caught.value.inner_exception
    assert isinstance(error, UnconvertedOperatorsError)
    assert_expected_inline(
        text_of(error),
        """\
Some operators cannot be converted to Ascend IR [TA201]
  why:
    air.get_rng_state.default: it is about the state of torch's random generator, which no Ascend operator uses (1 node, first get_rng_state_default)
    aten.rand_like.default: no converter is registered (1 node, first rand_like_default)
  fix:
    Draw no random numbers (dropout) in what torch.utils.checkpoint computes again.
    Register a converter:

    @torchair.register_fx_node_ge_converter(torch.ops.aten.rand_like.default)
    def convert_rand_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        return torchair.ge.custom_op(
            "RandLike",
            inputs={"self": self},
            outputs=["out0"],
            attrs={**({"dtype": torchair.ge.attr.DataType(dtype)} if dtype is not None else {}), **({"pin_memory": torchair.ge.attr.Bool(pin_memory)} if pin_memory is not None else {})},
        )
  where:
    test_checkpointing.py:LINE, in <lambda>: CODE""",
    )
