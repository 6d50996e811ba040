"""Calls of PyTorch's streams and events in Dynamo graphs become scopes and tagged events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

import npugraph_ex
from torchair import _torch_compat
from torchair.errors import CaptureError, ScopeError
from torchair.frontend.native_streams import rewrite_native_streams
from torchair.frontend.scope_pairs import check_scopes
from torchair.frontend.stream_scopes import resolve_streams
from torchair.streams import stream_of


def graph_of(build: Callable[[fx.Graph, fx.Node], Any]) -> fx.GraphModule:
    """A graph as Dynamo makes it where there is a device: calls of streams and events are nodes."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(build(graph, x))
    return fx.GraphModule(torch.nn.Module(), graph)


def lines(gm: fx.GraphModule) -> list[str]:
    """The operators with their streams, after both passes; which graph it is left out."""
    assert rewrite_native_streams(gm)
    check_scopes(gm.graph)
    resolve_streams(gm)
    found = []
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output"):
            name = getattr(node.target, "__name__", str(node.target)).removesuffix(".default")
            awaited = f" {node.all_input_nodes}" if name == "wait" else ""
            found.append(f"{stream_of(node).partition('_')[2].partition('_')[2]}: {name}{awaited}")
    return found


def test_a_context_is_a_pair_of_set_stream() -> None:
    def build(graph: fx.Graph, x: fx.Node) -> fx.Node:
        stream = graph.call_function(torch.cuda.Stream)
        before = graph.call_function(torch.cuda.current_stream)
        graph.call_function(torch.cuda.set_stream, (stream,))
        y = graph.call_function(torch.sin, (x,))
        graph.call_function(torch.cuda.set_stream, (before,))
        graph.call_method("wait_stream", (before, stream))
        return graph.call_function(torch.cos, (y,))

    assert lines(graph_of(build)) == ["stream: sin", "stream: record", ": wait [record_default]", ": cos"]


def test_events_of_all_forms() -> None:
    def build(graph: fx.Graph, x: fx.Node) -> fx.Node:
        stream = graph.call_function(torch.cuda.Stream)
        event = graph.call_function(torch.cuda.Event)
        main = graph.call_function(torch.cuda.current_stream)
        graph.call_method("record", (event,))
        graph.call_method("wait", (event, stream))
        graph.call_function(torch.cuda.set_stream, (stream,))
        y = graph.call_function(torch.sin, (x,))
        graph.call_function(torch.cuda.set_stream, (main,))
        other = graph.call_method("record_event", (stream,))
        graph.call_method("wait_event", (main, other))
        graph.call_method("record_stream", (y, main))
        return graph.call_function(torch.cos, (y,))

    assert lines(graph_of(build)) == [
        ": record",
        "stream: wait [record_default]",
        "stream: sin",
        "stream: record",
        ": wait [record_default_1]",
        ": record_tagged_stream",
        ": cos",
    ]


def test_streams_of_one_number_are_one() -> None:
    def build(graph: fx.Graph, x: fx.Node) -> fx.Node:
        main = graph.call_function(torch.cuda.current_stream)
        for _ in range(2):
            numbers: dict[str, Any] = {"stream_id": 7, "device_index": 0, "device_type": 1}
            stream = graph.call_function(torch.cuda.Stream, (), numbers)
            graph.call_function(torch.cuda.set_stream, (stream,))
            x = graph.call_function(torch.sin, (x,))
        graph.call_function(torch.cuda.set_stream, (main,))
        return x

    gm = graph_of(build)
    lines(gm)
    assert len({stream_of(node) for node in gm.graph.nodes if node.op == "call_function"}) == 1


def test_a_stream_that_is_not_restored() -> None:
    def build(graph: fx.Graph, x: fx.Node) -> fx.Node:
        stream = graph.call_function(torch.cuda.Stream)
        graph.call_function(torch.cuda.set_stream, (stream,))
        return graph.call_function(torch.sin, (x,))

    with pytest.raises(RuntimeError, match=r"The stream at the end(.|\n)*with torch.cuda.stream") as caught:
        rewrite_native_streams(graph_of(build))
    assert isinstance(caught.value, ScopeError)


def test_a_stream_that_nobody_knows() -> None:
    def build(graph: fx.Graph, x: fx.Node) -> fx.Node:
        graph.call_function(torch.cuda.set_stream, (None,))
        return graph.call_function(torch.sin, (x,))

    with pytest.raises(RuntimeError, match="no stream of the function"):
        rewrite_native_streams(graph_of(build))


@pytest.mark.parametrize("method", ["synchronize", "query"])
def test_waiting_on_the_host(method) -> None:
    def build(graph: fx.Graph, x: fx.Node) -> fx.Node:
        graph.call_method(method, (graph.call_function(torch.cuda.Stream),))
        return graph.call_function(torch.sin, (x,))

    with pytest.raises(CaptureError, match="wait for a stream on the host"):
        rewrite_native_streams(graph_of(build))


def test_other_graphs_stay_as_they_are() -> None:
    gm = graph_of(lambda graph, x: graph.call_method("sin", (x,)))
    assert rewrite_native_streams(gm) == 0


@pytest.mark.skipif(not _torch_compat.numbers_streams(), reason="this Dynamo breaks graphs at streams of the CPU")
def test_streams_that_dynamo_numbers() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        stream, other = torch.Stream(device="cpu"), torch.Stream(device="cpu")
        event = torch.Event("cpu")
        with stream:
            y = x.sin()
            event.record(stream)
            z = y.cos()
        with other:
            event.wait(other)
            other.wait_stream(stream)
            w = x.exp()
        return y + w, z

    backend = npugraph_ex.get_npu_backend()
    x = torch.rand(3)
    results = torch.compile(program, backend=backend, fullgraph=True)(x)
    torch.testing.assert_close(results, (x.sin() + x.exp(), x.sin().cos()))
    calls = [n for n in backend.graphs[-1].gm.graph.nodes if n.op == "call_function"]
    found = {str(n.target).split(".")[1]: stream_of(n)[-1:] for n in calls}
    assert {key: found[key] for key in ("sin", "cos", "exp", "add")} == {"sin": "0", "cos": "0", "exp": "1", "add": ""}
