"""Errors and warnings of capture mode: their whole texts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import sympy
import torch
from expecttest import assert_expected_inline
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph_ex
import torchair
from tests.errors.texts import raised, text_of
from torchair.capture.record import Recorder
from torchair.capture.values import key_sources
from torchair.errors import ArgumentError, ArgumentTypeError, CaptureError, GraphInputError, VerificationError


def compiled(function: Callable[..., Any], *args: torch.Tensor, **options: Any) -> Callable[..., Any]:
    return npugraph_ex.compile_fx(make_fx(function, tracing_mode="fake")(*args), list(args), options)


def warned(call: Callable[[], Any]) -> str:
    """The text of the one warning that a call gives, with ``graph_N``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    (text,) = (str(w.message) for w in caught if w.category is UserWarning)
    return text.replace(text[text.index("graph_") :].partition(" ")[0], "graph_N") if "graph_" in text else text


def test_inputs_that_a_graph_was_not_captured_for() -> None:
    run = compiled(lambda x, y: x @ y, torch.ones(2, 3), torch.ones(3, 4))
    assert_expected_inline(
        raised(lambda: run(torch.ones(2, 4), torch.ones(4, 3).T), GraphInputError),
        """\
A compiled graph was called with inputs that it was not compiled for [TA404]
  why:
    input 0 (%arg0_1) is float32[2, 4] with strides [4, 1], compiled for float32[2, 3] with strides [3, 1]
    input 1 (%arg1_1) is float32[3, 4] with strides [1, 3], compiled for float32[3, 4] with strides [4, 1]
  fix:
    Call it with tensors like the example inputs; compile with symbolic sizes (dynamic=True) for others.""",
    )
    assert_expected_inline(
        raised(lambda: run(torch.ones(2, 3)), GraphInputError),
        """\
A compiled graph was called with inputs that it was not compiled for [TA404]
  why:
    it takes 2 inputs, not 1
  fix:
    Call it with tensors like the example inputs; compile with symbolic sizes (dynamic=True) for others.""",
    )
    assert run(torch.ones(2, 3), torch.ones(3, 4))[0].shape == (2, 4)


def test_a_graph_without_example_inputs() -> None:
    assert_expected_inline(
        raised(lambda: npugraph_ex.compile_fx(fx.symbolic_trace(lambda x, y: x + y)), ArgumentError),
        """\
The inputs of a graph are not known [TA210]
  why:
    example_inputs is omitted, and no meta["val"] says what x, y are
  fix:
    npugraph_ex.compile_fx(gm, example_inputs)""",
    )


def test_the_limit_of_captures() -> None:
    run = torch.compile(lambda x: x + 1, backend="npugraph_ex", dynamic=True, options={"capture_limit": 1})
    run(torch.ones(3))
    assert_expected_inline(
        warned(lambda: run(torch.ones(4))),
        "capture_limit reached: 1 shapes were captured, and a call needs another one. graph_N runs eagerly from now "
        "on. Raise capture_limit, or compile with fewer shapes.",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(torch.ones(5)).tolist() == [2.0] * 5


def test_a_graph_that_cannot_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Recorder, symbols: Any) -> Any:
        raise CaptureError("A graph cannot be captured", why="it waits for the moon", where="m.py:5, in f: wait()")

    monkeypatch.setattr(Recorder, "record", refuse)
    run = torch.compile(lambda x: x + 1, backend="npugraph_ex")
    assert_expected_inline(
        warned(lambda: run(torch.ones(3))),
        "graph_N cannot be captured and runs eagerly: A graph cannot be captured; it waits for the moon",
    )
    assert run(torch.ones(3)).tolist() == [2.0] * 3
    (fallback,) = torchair.explain(run).fallbacks
    assert str(fallback).endswith("it waits for the moon (m.py:5, in f: wait())")


def test_a_size_that_no_input_has() -> None:
    gm = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2))
    assert_expected_inline(
        raised(lambda: key_sources(gm.graph, [sympy.Symbol("q", integer=True)]), CaptureError),
        """\
A size of the graph cannot be found in its inputs [TA411]
  why:
    q: no input is this number, and none has it as a size or a stride
  fix:
    Pass the number as an input of the graph.""",
    )


def test_a_graph_that_differs_from_eager_mode() -> None:
    def careless(gm: fx.GraphModule, inputs: Any, config: Any) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
            node.target = torch.ops.aten.sigmoid.default

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) + 1

    options: dict[str, Any] = {"verify_every": 1, "post_grad_custom_post_pass": careless}
    run = torch.compile(program, backend="npugraph_ex", options=options)
    assert_expected_inline(
        raised(lambda: run(torch.zeros(2)), VerificationError),
        """\
A compiled graph differs from eager mode [TA412]
  why:
    aten.sigmoid.default (node tanh): result 0 differs: by up to 0.5, at [0]: 0.5 where eager mode gives 0
  fix:
    If this operator is yours, torchair.check_operator compares its kernels.
    Otherwise this is a defect of TorchAir: options that leave passes out show which one causes it.
  where:
    test_capture_errors.py:LINE, in program: CODE""",
    )


def test_explaining_what_is_not_compiled() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x

    assert_expected_inline(
        raised(lambda: torchair.explain(program), ArgumentTypeError),
        """\
torchair.explain takes what torch.compile returned [TA217]
  why:
    it was given a function (program), which is not compiled
  fix:
    f = torch.compile(model, backend="npugraph_ex"); f(x); print(torchair.explain(f))""",
    )


def test_options_through_torch_compile() -> None:
    run = torch.compile(lambda x: x + 1, backend="npugraph_ex", options={"clone_outputs": True, "capture_limit": 3})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        run(torch.ones(2))
    text = text_of(caught.value.inner_exception)
    assert "'clone_outputs'" in text
    assert "did you mean" in text
    assert "clone_output" in text
    assert "use_graph_pool" in text
    run = torch.compile(lambda x: x + 1, backend="npugraph_ex", options={"capture_limit": 0})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="capture_limit") as caught:
        run(torch.ones(2))
    assert isinstance(caught.value.inner_exception, ValueError)
