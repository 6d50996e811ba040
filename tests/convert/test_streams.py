"""``record`` and ``wait`` in GE mode: control edges of the Ascend IR, and what passes make of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.convert.conversion import check, reference_backend
from torchair import _torch_compat
from torchair.errors import ConfigValueError, UnconvertedOperatorsError
from torchair.ir import Graph, TensorType
from torchair.ir.text import from_text, to_text
from torchair.ir.types import DType
from torchair.ir.verify import verify
from torchair.passes import EliminateDeadNodes
from torchair.streams import stream_of

#: Tests pass what annotations forbid.
ops: Any = torchair.ops
scope: Any = torchair.scope


def edges(graph: Graph) -> dict[str, list[str]]:
    return {node.name: [other.name for other in node.control] for node in graph if node.control}


def one(program: Callable[..., Any], *args: Tensor) -> Graph:
    (graph,) = check(program, *args)
    return graph


def two_streams(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    with scope.npu_stream_switch("a"):
        a = x.sin().cos()
        token = ops.record()
        b = a.exp()
    c = y.tan()
    ops.wait([token, c, x])
    return a, b, c, y.asin(), y.acos()


def test_the_next_operator_waits(caplog) -> None:
    torchair.logger.propagate = True
    try:
        with caplog.at_level(logging.INFO, logger="torchair"):
            graph = one(two_streams, torch.rand(3), torch.rand(3))
    finally:
        torchair.logger.propagate = False
    assert edges(graph) == {"Asin": ["Cos", "Tan"]}
    assert "Add record-wait generated control edges: ['Cos->Asin', 'Tan->Asin'] to op: Asin" in caplog.messages


def test_a_wait_stands_on_its_stream() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        a = x.sin()
        token = ops.record()
        with scope.npu_stream_switch("a"):
            ops.wait([token])
        b = x.cos()  # on another stream than the wait
        with scope.npu_stream_switch("a"):
            c = x.exp()
        return a, b, c

    assert edges(one(program, torch.rand(3))) == {"Exp": ["Sin"]}


def test_a_token_for_nothing() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        with scope.npu_stream_switch("a"):
            token = ops.record()
        ops.wait([token])
        return x.sin(), token

    compiled = torch.compile(program, backend=reference_backend(), fullgraph=True)
    result, token = compiled(torch.ones(2))
    assert torch.equal(result, torch.ones(2).sin())
    assert token.shape == (0,)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("engine", ["reference", "inductor", "native"])
def test_engines_agree(engine, dynamic) -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        results = two_streams(x, y)
        with scope.npu_stream_switch("a"):
            y.add_(results[0])
        return (*results, y * 2)

    config = torchair.CompilerConfig()
    config.engine = engine
    compiled = torch.compile(
        program, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, dynamic=dynamic
    )
    x, y = torch.rand(4), torch.rand(4)
    mine, theirs = y.clone(), y.clone()
    torch.testing.assert_close(compiled(x, mine), program(x, theirs))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("engine", ["reference", "inductor", "native"])
def test_an_input_that_is_waited_for_and_updated(engine) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        a = x.sin()
        if torch.compiler.is_compiling():
            scope.npu_wait_tensor(y, a)
        y.mul_(2)
        y[1:].add_(a[1:])
        return y + a

    config = torchair.CompilerConfig()
    config.engine = engine
    compiled = torch.compile(program, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
    x, y = torch.rand(4), torch.rand(4)
    mine, theirs = y.clone(), y.clone()
    torch.testing.assert_close(compiled(x, mine), program(x, theirs))
    torch.testing.assert_close(mine, theirs)


def test_both_names_of_the_operators() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        a = x.sin()
        torch.ops.npugraph_ex.wait([torch.ops.npugraph_ex.record()])
        return a, x.cos()

    assert edges(one(program, torch.rand(3))) == {"Cos": ["Sin"]}


def test_edges_in_the_text_of_a_graph() -> None:
    graph = one(two_streams, torch.rand(3), torch.rand(3))
    text = to_text(graph)
    assert "after Cos, Tan" in text
    again = from_text(text)
    assert edges(again) == edges(graph)


def test_edges_in_a_training_graph() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a"):
            y = x.sin()
            token = ops.record()
        ops.wait([token])
        return (x.cos() * y).sum()

    forward, _ = check(program, torch.rand(3, requires_grad=True), backward=True)
    assert edges(forward) == {"Cos": ["Sin"]}


def test_dead_nodes_hand_on_what_they_wait_for() -> None:
    graph = Graph()
    x = graph.add_input(TensorType.of(DType.DT_FLOAT, (2,)), "x")
    first = graph.add_node("Sin", [x], [x.type])
    dead = graph.add_node("Cos", [x], [x.type], control=[first])
    last = graph.add_node("Exp", [x], [x.type])
    elsewhere = graph.add_node("Tan", [x], [x.type], scope={"_user_stream_label": "a"})
    graph.set_outputs([last.output, elsewhere.output])
    EliminateDeadNodes().run(graph)
    verify(graph)
    assert dead not in graph
    assert edges(graph) == {"Exp": ["Sin"]}


def test_events_with_tags_are_for_capture_mode() -> None:
    event = ops.npu_create_tagged_event("test_events_with_tags_are_for_capture_mode")

    def program(x: Tensor) -> Tensor:
        ops.npu_tagged_event_record(event)
        return x.sin()

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(program, backend=reference_backend(), fullgraph=True)(torch.ones(3))
    error = caught.value.inner_exception
    assert isinstance(error, UnconvertedOperatorsError)
    assert "torchair.ops.record" in str(error)


@pytest.mark.skipif(not _torch_compat.numbers_streams(), reason="this Dynamo breaks graphs at streams of the CPU")
def test_events_of_pytorch_are_for_capture_mode() -> None:
    def program(x: Tensor) -> Tensor:
        stream, other = torch.Stream(device="cpu"), torch.Stream(device="cpu")
        with stream:
            y = x.sin()
        with other:
            other.wait_stream(stream)
            return y.cos()

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(program, backend=reference_backend(), fullgraph=True)(torch.ones(3))
    error = caught.value.inner_exception
    assert isinstance(error, UnconvertedOperatorsError)
    assert "PyTorch's own streams and events, are for capture mode" in str(error)
    assert "torchair.scope.npu_stream_switch" in str(error)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_single_stream(dynamic) -> None:
    config = torchair.CompilerConfig()
    config.engine = "reference"
    backend = torchair.get_npu_backend(compiler_config=config)
    # An option of the process, which other tests must not see.
    from tests.frontend.fx_graphs import aot_graph
    from torchair.config import Options
    from torchair.pipeline.ge_mode import compile_graph

    config.ge_config.enable_single_stream = True
    gm, inputs = aot_graph(two_streams, torch.rand(3), torch.rand(3), dynamic=dynamic)
    assert backend is not None
    if dynamic:
        compiled: Any = compile_graph(gm, inputs, Options.from_config(config))
        assert all(not node.stream for node in compiled.graph)
        return
    with pytest.raises(ConfigValueError, match="cannot run on one stream") as caught:
        compile_graph(gm, inputs, Options.from_config(config))
    assert "enable_single_stream = True" in str(caught.value)
    gm, inputs = aot_graph(lambda x: x.sin(), torch.rand(3))
    compile_graph(gm, inputs, Options.from_config(config))


def test_the_native_engine_is_told_of_streams() -> None:
    config = torchair.CompilerConfig()
    config.engine = "native"
    backend = torchair.get_npu_backend(compiler_config=config)

    def program(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with scope.npu_stream_switch("a"):
            a = torch.sort(x).values  # which no native program does
            token = ops.record()
        ops.wait([token])
        return a, torch.sort(y).values

    torch.compile(program, backend=backend, fullgraph=True)(torch.rand(5), torch.rand(5))
    gm = backend.graphs[-1].executable.captured.gm
    found = [
        (str(n.target).split(".")[1], stream_of(n))
        for n in gm.graph.nodes
        if "air" in str(n.target) or "sort" in str(n.target)
    ]
    assert found == [("sort", "a"), ("record", "a"), ("wait", ""), ("sort", "")]
