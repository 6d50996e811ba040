"""Scopes and events of an FX graph become labels, tokens and waits, and passes keep what they order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

import torchair
from tests.frontend.fx_graphs import aot_graph
from torchair.errors import ArgumentError, ScopeError
from torchair.frontend.cat_slices import RemoveCatOps
from torchair.frontend.reinplace import reinplace
from torchair.frontend.scope_pairs import check_scopes
from torchair.frontend.stream_order import StreamOrder
from torchair.frontend.stream_scopes import DEFAULT_STREAM, ResolvedStreams, resolve_streams
from torchair.streams import stream_of

#: Tests pass what annotations forbid.
ops: Any = torchair.ops
scope: Any = torchair.scope
graph_ops: Any = torch.ops.npugraph_ex

X = torch.arange(6.0).reshape(2, 3)


def resolved(program: Callable[..., Any], *args: Tensor) -> tuple[fx.Graph, ResolvedStreams]:
    gm, _ = aot_graph(program, *(args or (X,)))
    check_scopes(gm.graph)
    return gm.graph, resolve_streams(gm)


def lines(graph: fx.Graph) -> list[str]:
    """Each call as ``stream: operator``, with the tokens that are waited for."""
    found = []
    for node in graph.nodes:
        if node.op == "call_function":
            packet = str(node.target).removesuffix(".default")
            awaited = f" {node.all_input_nodes}" if packet.endswith(".wait") else ""
            found.append(f"{stream_of(node)}: {packet.partition('.')[2]}{awaited}")
    return found


def test_labels() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a"):
            y = x.sin()
            with scope.npu_stream_switch("b"):
                y = y.cos()
            with scope.limit_core_num(1, 1):
                y = y.exp()
        return y + 1

    graph, streams = resolved(program)
    assert lines(graph) == ["a: sin", "b: cos", "a: exp", ": add.Tensor"]
    assert streams.labels == ("a", "b")
    assert {n.name: dict(limit) for n, limit in streams.scopes.items()} == {
        "exp": {"_op_aicore_num": "1", "_op_vectorcore_num": "1"}
    }


def test_tokens_stay_where_they_are() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a"):
            y = x.sin()
            token = ops.record()
            ops.record()  # nobody waits for it
        ops.wait([token, y])
        return y + 1

    assert lines(resolved(program)[0]) == ["a: sin", "a: record", ": wait [record, sin]", ": add.Tensor"]


def test_events_become_tokens() -> None:
    event = ops.npu_create_tagged_event("test_events_become_tokens")
    other = ops.npu_create_tagged_event("test_events_become_tokens, not recorded")

    def program(x: Tensor) -> Tensor:
        ops.npu_tagged_event_wait(event)  # not recorded yet
        inside = ops.npu_create_tagged_event("inside")
        with scope.npu_stream_switch("a"):
            y = x.sin()
            ops.npu_tagged_event_record(event)
            y = y.cos()
            ops.npu_tagged_event_record(event)  # the last one counts
            ops.npu_tagged_event_record(inside)
        ops.npu_tagged_event_wait(event)
        ops.npu_tagged_event_wait(inside)
        ops.npu_tagged_event_wait(other)
        return y + 1

    assert lines(resolved(program)[0]) == [
        "a: sin",
        "a: cos",
        "a: record",
        "a: record",
        ": wait [record_default_1]",
        ": wait [record_default_2]",
        ": add.Tensor",
    ]


def test_streams_by_their_number() -> None:
    keys = ["_user_stream_label", "_user_stream_id", "_user_stream_device_index", "_user_stream_device_type"]

    def program(x: Tensor) -> Tensor:
        graph_ops.scope_enter(keys, ["a", "7", "0", "cuda"])
        y = x.sin()
        graph_ops.scope_exit()
        graph_ops.scope_enter(keys, ["main", DEFAULT_STREAM, "0", "cuda"])
        y = y.cos()
        graph_ops.scope_exit()
        graph_ops.tagged_event_record_on_stream("e", "7", "0", "cuda", True)
        graph_ops.tagged_event_wait_on_stream("e", DEFAULT_STREAM, "0", "cuda", True)
        graph_ops.tagged_stream_wait_stream("8", "0", "cuda", "7", "0", "cuda")
        graph_ops.record_tagged_on_stream(y, "8", "0", "cuda")
        return y + 1

    graph, streams = resolved(program)
    assert lines(graph) == [
        "a: sin",
        ": cos",
        "a: record",
        ": wait [record_default]",
        "a: record",
        "stream_cuda_0_8: wait [record_default_1]",
        "stream_cuda_0_8: record_tagged_stream",
        ": add.Tensor",
    ]
    assert streams.labels == ("a", "stream_cuda_0_8")


@pytest.mark.parametrize("in_place", [False, True])
def test_memory_is_kept_by_a_last_reader(in_place) -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a"):
            y = x.sin()
        if in_place:
            graph_ops.record_tagged_stream_(y, "a")
        else:
            ops.npu_record_tagged_stream(y, "a")
        ops.npu_record_tagged_stream(y, "default")
        return y + 1

    graph, _ = resolved(program)
    assert lines(graph) == ["a: sin", "a: record_tagged_stream", ": record_tagged_stream", ": add.Tensor"]
    sin, *readers, add = [n for n in graph.nodes if n.op == "call_function"]
    assert all(reader.args[0] is sin for reader in (*readers, add))


def test_the_new_value_of_an_input_is_put_there_on_its_stream() -> None:
    def program(x: Tensor) -> None:
        with scope.npu_stream_switch("a"):
            x.add_(1)

    assert lines(resolved(program)[0]) == ["a: add.Tensor", "a: copy_"]


# --- mistakes ---


def test_tags_without_events() -> None:
    gm, _ = aot_graph(lambda x: x + 1, X)
    with gm.graph.inserting_before(next(iter(gm.graph.find_nodes(op="output")))):
        gm.graph.call_function(graph_ops.tagged_event_wait.default, ("no such event",))
    with pytest.raises(AssertionError, match="There is no event of that tag") as caught:
        resolve_streams(gm)
    assert isinstance(caught.value, ArgumentError)


def test_an_event_is_created_twice() -> None:
    def program(x: Tensor) -> Tensor:
        ops.npu_create_tagged_event("twice")
        ops.npu_create_tagged_event("twice")
        return x + 1

    with pytest.raises(ValueError, match="There is an event of that tag"):
        resolved(program)


def test_memory_is_kept_for_a_stream_that_is_not_there() -> None:
    def program(x: Tensor) -> Tensor:
        ops.npu_record_tagged_stream(x, "b")
        return x + 1

    with pytest.raises(AssertionError, match="There is no stream of that tag"):
        resolved(program)


def test_more_cores_than_there_are() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.limit_core_num(100000, 1):
            return x + 1

    with pytest.raises(ValueError, match="out of range") as caught:
        resolved(program)
    assert isinstance(caught.value, ArgumentError)
    assert "limit_core_num(100000, 1)" in caught.value.where[0]


@pytest.mark.parametrize(
    ("outer", "inner", "words"),
    [
        (lambda: scope.npu_stream_switch("a", 0), lambda: scope.npu_stream_switch("a", 1), "_user_stream_priority"),
        (
            lambda: scope.npu_stream_switch("a", 0, True),
            lambda: scope.npu_stream_switch("a", 0, False),
            "_enable_inner_parallel",
        ),
        (lambda: scope.super_kernel("k"), lambda: scope.super_kernel("k", "feed-sync-all=1"), "_super_kernel_options"),
    ],
)
def test_nested_scopes_that_contradict_each_other(outer, inner, words) -> None:
    def program(x: Tensor) -> Tensor:
        with outer(), inner():
            return x + 1

    with pytest.raises(ScopeError, match=words):
        resolved(program)


def test_nested_scopes_that_do_not() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a", 0), scope.npu_stream_switch("b", 1), scope.npu_stream_switch("a", 0):
            return x + 1

    assert lines(resolved(program)[0]) == ["a: add.Tensor"]


# --- passes ---


def test_order() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a"):
            y = x.sin()
            token = ops.record()
            z = x.cos()
        w = x.exp()
        ops.wait([token])
        v = x.tan()
        return y + z + w + v

    graph, _ = resolved(program)
    order = StreamOrder.of(graph)
    assert order is not None
    nodes = {n.name: n for n in graph.nodes}
    expected = {
        ("sin", "cos"): True,
        ("exp", "tan"): True,
        ("sin", "tan"): True,
        ("cos", "tan"): False,
        ("sin", "exp"): False,
        ("tan", "sin"): False,
        ("cos", "add"): True,  # it reads the result
    }
    assert {pair: order.before(nodes[pair[0]], nodes[pair[1]]) for pair in expected} == expected
    assert StreamOrder.of(resolved(lambda x: x + 1)[0]) is None


@pytest.mark.parametrize("ordered", [True, False])
def test_memory_is_written_in_place_only_after_its_readers(ordered) -> None:
    def program(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        with scope.npu_stream_switch("a"):
            ops.wait([y])
            z = y.sin()
            token = ops.record()
        if ordered:
            ops.wait([token])
        return y.index_put((i,), x[0]), z

    gm, _ = aot_graph(program, X, torch.tensor([0]))
    resolve_streams(gm)
    record = reinplace(gm, intermediates=True, inputs=True)
    assert bool(record.in_place) is ordered
    if not ordered:
        assert [kept.reason for kept in record.kept] == ["%sin uses it on the stream 'a', and nothing orders the two"]


@pytest.mark.parametrize("streams", ["aa", "ab", "a ", " a"])
def test_a_concatenation_of_what_several_streams_compute_stays(streams) -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch(streams[0].strip() or "c"):
            y = x.sin()
        with scope.npu_stream_switch(streams[1].strip() or "c"):
            z = x.cos()
        with scope.npu_stream_switch("a"):
            return torch.cat([y, z]) * 2

    graph, _ = resolved(program)
    module = graph.owning_module
    assert module is not None
    assert RemoveCatOps().run(module) == (streams == "aa")
    expected = ["sin", "cos", "cat", "mul.Tensor"]
    if streams == "aa":
        expected = ["empty.memory_format", "slice.Tensor", "sin.out", "slice.Tensor", "cos.out", "mul.Tensor"]
    assert [line.partition(": ")[2] for line in lines(graph)] == expected
