"""Graphs that an engine cannot take or fails to compile, and sizes without a value."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline

import torchair
from tests.engines.graphs import inductor, read, registered
from tests.errors.texts import compile_error, raised, text_of
from torchair.errors import EngineCompileError, ExecutionError, ShapeError, UnsupportedGraphError
from torchair.ir.symbols import evaluate


def on_inductor(config: torchair.CompilerConfig) -> None:
    config.engine = "inductor"


def test_a_size_that_depends_on_data() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.nonzero()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        text = compile_error(program, torch.ones(3), kind=UnsupportedGraphError, configure=on_inductor)
    assert_expected_inline(
        text,
        """\
The inductor engine cannot run a graph [TA406]
  why:
    the size of a result of aten::nonzero.default (node torch_call, FX node nonzero) is known only when it has run
  fix:
    config.engine = "reference"
  where:
    test_engine_errors.py:LINE, in program: CODE""",
    )


def test_a_constant_of_another_layout() -> None:
    graph = read('graph g():\n  %c: float32[3, 3] = Const(value=blob("c"))\n  return %c\n', c=torch.eye(3).to_sparse())
    assert_expected_inline(
        raised(lambda: inductor(graph), UnsupportedGraphError),
        """\
The inductor engine cannot run a graph [TA406]
  why:
    a constant is sparse_coo
  fix:
    config.engine = "reference\"""",
    )


def test_a_result_of_another_layout() -> None:
    text = """graph g(%x: float32[3, 3]):
                %s: float32[3, 3] = torch_call(%x) call aten::_to_sparse.default($0)
                %d: float32[3, 3] = torch_call<back>(%s) call aten::_to_dense.default($0)
                return %d
           """
    assert_expected_inline(
        raised(lambda: inductor(text), UnsupportedGraphError),
        """\
The inductor engine cannot run a graph [TA406]
  why:
    aten::_to_sparse.default (node torch_call, FX node -)
    a result of it is sparse_coo
  fix:
    config.engine = "reference\"""",
    )


def test_a_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("the compiler is broken")

    def program(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).exp()

    with monkeypatch.context() as patch:
        patch.setattr("torch._inductor.compile_fx.compile_fx_inner", broken)
        config = torchair.CompilerConfig()
        config.engine = "inductor"
        compiled = torch.compile(program, backend=torchair.get_npu_backend(compiler_config=config))
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught, torch.no_grad():
            compiled(torch.ones(3))
    text = re.sub(r"graph_\d+", "graph_N", text_of(caught.value.inner_exception))
    assert_expected_inline(
        text,
        """\
The inductor engine failed to compile a graph [TA407]
  why:
    graph_N, 3 nodes
    RuntimeError: the compiler is broken
  fix:
    config.engine = "reference\"""",
    )


def test_an_operator_that_cannot_be_traced() -> None:
    text = """graph g(%x: float32[2], %y: float32[3]):
                %a: float32[2] = Add(%x, %y)  # from add aten.add.Tensor at model.py:3, in f: return x + y
                return %a
           """
    assert_expected_inline(
        raised(lambda: inductor(text), EngineCompileError),
        """\
The inductor engine failed to trace an operator [TA407]
  why:
    Add (node Add, FX node add)
    RuntimeError: Attempting to broadcast a dimension of length 3 at -1! Mismatching argument at index 1 had torch.Size([3]); but expected shape should be broadcastable to [2]
  fix:
    config.engine = "reference"
  where:
    model.py:LINE, in f: CODE""",
    )


def test_a_kernel_that_returns_another_number_of_results() -> None:
    text = "graph g(%x: float32[2]):\n  %y: float32[2] = TextTwoResults(%x)\n  return %y\n"
    with registered("TextTwoResults", lambda x: (x, x), inputs=[("x",)]):
        assert_expected_inline(
            raised(lambda: inductor(text)(torch.ones(2)), ExecutionError),
            """\
An operator returned another number of results than its prototype has [TA403]
  why:
    TextTwoResults returned 2, 1 are declared
  fix:
    Correct the kernel, or the prototype.""",
        )


def test_a_size_without_a_value() -> None:
    graph = read("graph g(%x: float32[s0, 4]):\n  return %x\n")
    (size, _) = graph.inputs[0].shape
    assert_expected_inline(
        raised(lambda: evaluate(size * 2, {"s1": 3}), ShapeError),
        """\
A symbolic size has no value [TA304]
  why:
    2*sN needs sN, which no input of the graph gives
  fix:
    If the graph came from torch.compile, this is a defect of TorchAir; please report it with the graph.""",
    )
