"""``record``, ``wait`` and tagged events outside of compiled functions, and how graphs keep them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, fx

import torchair
from torchair import _torch_compat
from torchair.errors import ArgumentError, ArgumentTypeError
from torchair.streams import STREAM, is_record, is_wait, set_stream, stream_of

#: Tests pass what annotations forbid.
ops: Any = torchair.ops
graph_ops: Any = torch.ops.npugraph_ex


def traced(program: Any, *args: Tensor) -> list[str]:
    """The operators of the AOT graph of a program."""
    found: list[str] = []

    def compiler(gm: fx.GraphModule, inputs: Any) -> Any:
        gm.graph.eliminate_dead_code()
        found.extend(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
        return gm

    def backend(gm: fx.GraphModule, inputs: Any) -> Any:
        return _torch_compat.aot_module_simplified(gm, inputs, fw_compiler=compiler)

    torch.compile(program, backend=backend, fullgraph=True)(*args)
    return found


def test_a_token_is_an_empty_tensor() -> None:
    token = ops.record()
    assert token.shape == (0,)
    ops.wait([token, torch.ones(2)])
    assert graph_ops.record(device=torch.device("meta")).device.type == "meta"


def test_events_in_eager_mode() -> None:
    event = ops.npu_create_tagged_event("test_events_in_eager_mode")
    ops.npu_tagged_event_record(event)
    ops.npu_tagged_event_wait(event)
    x = torch.ones(2)
    ops.npu_record_tagged_stream(x, "default")
    assert torch.equal(x, torch.ones(2))


def test_graphs_keep_order() -> None:
    event = ops.npu_create_tagged_event("test_graphs_keep_order")

    def program(x: Tensor) -> Tensor:
        y = x.sin()
        ops.record()
        ops.wait([ops.record(), y])
        inside = ops.npu_create_tagged_event("inside")
        ops.npu_tagged_event_record(inside)
        ops.npu_tagged_event_wait(event)
        ops.npu_record_tagged_stream(y, "a")
        return y.cos()

    assert traced(program, torch.ones(3)) == [
        "aten.sin.default",
        "air.record.default",
        "air.record.default",
        "air.wait.default",
        "npugraph_ex.tagged_event_create.default",
        "npugraph_ex.tagged_event_record.default",
        "npugraph_ex.tagged_event_wait.default",
        "npugraph_ex.record_tagged_stream.default",
        "aten.cos.default",
    ]


@pytest.mark.parametrize("tensors", [None, [], [3], torch.ones(2)])
def test_nothing_to_wait_for(tensors) -> None:
    with pytest.raises(ValueError, match="wait") as caught:
        ops.wait(tensors)
    assert isinstance(caught.value, ArgumentError)


def test_wrong_events() -> None:
    ops.npu_create_tagged_event("test_wrong_events")
    with pytest.raises(ValueError, match="There is an event of that tag"):
        ops.npu_create_tagged_event("test_wrong_events")
    with pytest.raises(ValueError, match="empty"):
        ops.npu_create_tagged_event("")
    with pytest.raises(ArgumentTypeError):
        ops.npu_create_tagged_event(3)
    for call in (ops.npu_tagged_event_record, ops.npu_tagged_event_wait):
        with pytest.raises(ValueError, match="An event has no tag"):
            call(torch.Event())
    with pytest.raises(ArgumentTypeError):
        ops.npu_record_tagged_stream(3, "a")
    with pytest.raises(ArgumentTypeError):
        ops.npu_record_tagged_stream(torch.ones(1), None)


@pytest.mark.parametrize("name", ["tagged_event_record", "tagged_event_wait"])
def test_a_tag_without_an_event(name) -> None:
    with pytest.raises(AssertionError, match="no event of that tag"):
        getattr(graph_ops, name)("nobody created this")
    with pytest.raises(AssertionError, match="no event of that tag"):
        getattr(graph_ops, f"{name}_on_stream")("nobody created this", "0", "0", "cpu")
    getattr(graph_ops, name)("nobody created this", True)


def test_labels_of_nodes() -> None:
    graph = fx.Graph()
    node = graph.call_function(torch.ops.air.record.default)
    other = graph.call_function(graph_ops.wait.default, ([node],))
    assert (is_record(node), is_wait(node)) == (True, False)
    assert (is_record(other), is_wait(other)) == (False, True)
    assert stream_of(node) == ""
    set_stream(node, "a")
    assert stream_of(node) == "a"
    set_stream(node, "")
    assert STREAM not in node.meta
