"""Operators that fail while a compiled graph runs."""
# The texts are as long as they are.

from __future__ import annotations

import copy

import pytest
import torch
from expecttest import assert_expected_inline
from torch import fx

import torchair
from tests.custom_operators import define, ops
from tests.errors.texts import raised, text_of
from torchair.engines import select_engine
from torchair.errors import (
    EngineError,
    ExecutionError,
    GraphInputError,
    MissingFakeKernelError,
    ScopeError,
    TorchAirError,
)
from torchair.frontend.scope_pairs import check_scopes
from torchair.pipeline.backends import get_compiler

X = torch.ones(2, 3)

define("text_no_kernel(Tensor x) -> Tensor", None, lambda x: torch.empty_like(x))
define("text_raises(Tensor x) -> Tensor", lambda x: x.nothing, lambda x: torch.empty_like(x))


def run_error(program, engine: str) -> tuple[str, TorchAirError]:
    config = torchair.CompilerConfig()
    config.engine = engine
    compiled = torch.compile(program, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
    with torch.no_grad(), pytest.raises(ExecutionError) as caught:
        compiled(X)
    return text_of(caught.value), caught.value


def test_a_missing_kernel() -> None:
    """PyTorch's list of all dispatch keys is not repeated."""
    text, error = run_error(lambda x: ops.text_no_kernel(x), "reference")
    assert_expected_inline(
        text,
        """\
An operator failed while the compiled graph ran [TA403]
  why:
    TextNoKernel (node TextNoKernel, FX node text_no_kernel)
    NotImplementedError: Could not run 'custom_operators::text_no_kernel' with arguments from the 'CPU' backend.
  fix:
    Register a kernel of the torch operator:

    @torch.library.impl("custom_operators::text_no_kernel", "CPU")
    def text_no_kernel(*args):
        ...  # compute and return the results

    or one of the Ascend IR operator: @torchair.ge.register_kernel("TextNoKernel")

    torchair.check_operator("custom_operators::text_no_kernel") lists what else it lacks.
  where:
    test_run_time_errors.py:LINE, in <lambda>: CODE""",
    )
    assert isinstance(error, NotImplementedError)
    assert str(copy.copy(error)) == str(error)


def test_a_missing_kernel_with_inductor() -> None:
    text, _ = run_error(lambda x: ops.text_no_kernel(x) + 1, "inductor")
    assert "Could not run 'custom_operators::text_no_kernel' with arguments from the 'CPU' backend.\n" in text
    assert '@torch.library.impl("custom_operators::text_no_kernel", "CPU")' in text
    assert "BackendSelect" not in text


def test_a_kernel_that_raises() -> None:
    text, _ = run_error(lambda x: ops.text_raises(x), "reference")
    assert_expected_inline(
        text,
        """\
An operator failed while the compiled graph ran [TA403]
  why:
    TextRaises (node TextRaises, FX node text_raises)
    AttributeError: 'Tensor' object has no attribute 'nothing'
  fix:
    Compare with eager mode: the same operator fails there too if its inputs are wrong.
  where:
    test_run_time_errors.py:LINE, in <lambda>: CODE""",
    )


def test_an_engine_that_does_not_exist() -> None:
    text = raised(lambda: select_engine("fast"), EngineError)
    assert_expected_inline(
        text,
        """\
There is no engine of that name [TA401]
  why:
    config.engine is 'fast'; known: auto, reference, inductor, native
  fix:
    config.engine = "auto\"""",
    )


def test_other_inputs_than_the_graph_was_compiled_for() -> None:
    config = torchair.CompilerConfig()
    config.engine = "reference"
    run = get_compiler(config)(fx.symbolic_trace(lambda x: (torch.ops.aten.relu.default(x),)), [X])
    text = raised(lambda: run(torch.ones(4)), GraphInputError)
    assert_expected_inline(
        text,
        """\
A compiled graph was called with inputs that it was not compiled for [TA404]
  why:
    input 0 (%arg0_1) is float32[4], compiled for float32[2, 3]
  fix:
    Call it with tensors like the example inputs; compile with symbolic sizes (dynamic=True) for others.""",
    )


def test_a_meta_function_that_is_missing() -> None:
    define("text_no_meta(Tensor x) -> Tensor", lambda x: x + 1)
    module = fx.symbolic_trace(lambda x: ops.text_no_meta(x))
    text = raised(lambda: get_compiler()(module, [X]), MissingFakeKernelError)
    assert_expected_inline(
        text,
        """\
An operator has no fake kernel (meta function) [TA214]
  why:
    custom_operators::text_no_meta was reached with fake tensors, and nothing tells the shapes and dtypes of its results
  fix:
    @torch.library.register_fake("custom_operators::text_no_meta")
    def _(x):
        return torch.empty_like(x)  # the shapes and dtypes of the results""",
    )


def test_a_scope_that_is_not_closed() -> None:
    import torchair.scope  # noqa: F401  # defines the operators

    graph = fx.Graph()
    graph.call_function(torch.ops.air.scope_enter.default, (["_super_kernel_scope"], ["a"]))
    graph.output(())
    assert_expected_inline(
        raised(lambda: check_scopes(graph), ScopeError),
        """\
Scopes are not paired in the graph [TA215]
  why:
    scope_enter_default(['_super_kernel_scope'], ['a']): the scope is never closed
  fix:
    Either a custom pass inserts scope_enter without scope_exit, or there is a graph break inside a
    `with torchair.scope...` block: move the block so that it lies whole in one graph
    (fullgraph=True shows where).""",
    )
