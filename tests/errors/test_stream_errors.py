"""Errors about streams and events: their whole texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from expecttest import assert_expected_inline
from torch import Tensor, fx

import torchair
from tests.errors.texts import raised
from tests.frontend.fx_graphs import aot_graph
from torchair.errors import ArgumentError, ArgumentTypeError, ScopeError
from torchair.frontend.native_streams import rewrite_native_streams
from torchair.frontend.scope_pairs import check_scopes
from torchair.frontend.stream_scopes import resolve_streams

#: Tests pass what annotations forbid.
ops: Any = torchair.ops
scope: Any = torchair.scope


def refused(program: Callable[[Tensor], Tensor], kind: Any) -> str:
    gm, _ = aot_graph(program, torch.ones(2))

    def compiled() -> None:
        check_scopes(gm.graph)
        resolve_streams(gm)

    return raised(compiled, kind)


def test_nothing_to_wait_for() -> None:
    assert_expected_inline(
        raised(lambda: ops.wait([]), ArgumentError),
        """\
wait needs something to wait for [TA210]
  why:
    it was given []
  fix:
    token = torchair.ops.record()
    torchair.ops.wait([token])""",
    )


def test_something_else_than_a_tensor_to_wait_for() -> None:
    assert_expected_inline(
        raised(lambda: ops.wait([torch.ones(1), 3]), ArgumentError),
        """\
wait takes a list of tensors [TA210]
  why:
    number 1 of the list is 3, a int
  fix:
    Give tokens of torchair.ops.record(), and tensors.""",
    )


def test_a_tag_that_is_taken() -> None:
    ops.npu_create_tagged_event("taken")
    assert_expected_inline(
        raised(lambda: ops.npu_create_tagged_event("taken"), ArgumentError),
        """\
There is an event of that tag [TA210]
  why:
    npu_create_tagged_event was given 'taken', which an earlier call has created
  fix:
    Give another tag, or use the event that the earlier call returned.""",
    )


def test_a_tag_that_is_no_text() -> None:
    assert_expected_inline(
        raised(lambda: ops.npu_create_tagged_event(3), ArgumentTypeError),
        """\
The tag of an event is a text [TA217]
  why:
    npu_create_tagged_event was given 3, a int
  fix:
    torchair.ops.npu_create_tagged_event("name")""",
    )


def test_an_event_without_a_tag() -> None:
    assert_expected_inline(
        raised(lambda: ops.npu_tagged_event_wait("e"), ArgumentError),
        """\
An event has no tag [TA210]
  why:
    npu_tagged_event_wait was given 'e', a str
  fix:
    event = torchair.ops.npu_create_tagged_event("name")""",
    )


def test_a_tag_without_an_event(monkeypatch) -> None:
    from torchair.torchops import streams

    monkeypatch.setattr(streams, "_tags", {"other": None})
    call = lambda: torch.ops.npugraph_ex.tagged_event_wait("unknown")  # noqa: E731
    assert_expected_inline(
        raised(call, ArgumentError),
        """\
There is no event of that tag [TA210]
  why:
    an event with the tag 'unknown' is recorded or waited for
    tags of events: 'other'
  fix:
    torchair.ops.npu_create_tagged_event('unknown')""",
    )


def test_a_stream_that_is_not_there() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a"):
            y = x.sin()
        ops.npu_record_tagged_stream(y, "b")
        return y.cos()

    assert_expected_inline(
        refused(program, ArgumentError),
        """\
There is no stream of that tag [TA210]
  why:
    npu_record_tagged_stream was given 'b'
    streams of the graph: 'default', 'a'
  fix:
    with torchair.scope.npu_stream_switch('b'): ...
  where:
    test_stream_errors.py:LINE, in program: CODE""",
    )


def test_scopes_that_contradict_each_other() -> None:
    def program(x: Tensor) -> Tensor:
        with scope.npu_stream_switch("a", 0), scope.npu_stream_switch("a", 1):
            return x.sin()

    assert_expected_inline(
        refused(program, ScopeError),
        """\
A scope contradicts the one around it [TA215]
  why:
    both have _user_stream_label='a'
    _user_stream_priority: '0' outside, '1' inside
  fix:
    Give both the same options, or the inner one another name.
  where:
    test_stream_errors.py:LINE, in program: CODE""",
    )


def test_more_cores_than_there_are(monkeypatch, tmp_path) -> None:
    path = tmp_path / "platform.ini"
    path.write_text("[SoCInfo]\ncube_core_cnt=24\nvector_core_cnt=48\n")
    monkeypatch.setenv("TORCHAIR_PLATFORM_CONFIG", str(path))

    def program(x: Tensor) -> Tensor:
        with scope.limit_core_num(25, 48):
            return x.sin()

    assert_expected_inline(
        refused(program, ArgumentError),
        """\
A number of cores is out of range [TA210]
  why:
    limit_core_num was given op_aicore_num=25; here it is from 1 to 24
  fix:
    Give no more than there are; TORCHAIR_PLATFORM_CONFIG=/path/to/platform.ini describes another machine.
  where:
    test_stream_errors.py:LINE, in program: CODE""",
    )


def test_a_stream_that_is_not_restored() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.cuda.set_stream, (graph.call_function(torch.cuda.Stream),))
    graph.output(graph.call_function(torch.sin, (x,)))
    gm = fx.GraphModule(torch.nn.Module(), graph)
    assert_expected_inline(
        raised(lambda: rewrite_native_streams(gm), ScopeError),
        """\
The stream at the end of a function is another one than at its start [TA215]
  why:
    set_stream was called, and the stream that was current before was not set again
  fix:
    Use the form that sets it again:
    with torch.cuda.stream(s):
        ...
    or: with torchair.scope.npu_stream_switch("name"):
        ...""",
    )


def test_a_stream_that_nobody_knows() -> None:
    graph = fx.Graph()
    graph.call_function(torch.cuda.set_stream, (None,))
    graph.output(graph.placeholder("x"))
    gm = fx.GraphModule(torch.nn.Module(), graph)
    assert_expected_inline(
        raised(lambda: rewrite_native_streams(gm), ScopeError),
        """\
set_stream was given something that is no stream of the function [TA215]
  why:
    %set_stream : [num_users=0] = call_function[target=torch.cuda.set_stream](args = (None,), kwargs = {})
  fix:
    Give a stream that the function makes or takes, or use: with torchair.scope.npu_stream_switch("name"):
        ...""",
    )
