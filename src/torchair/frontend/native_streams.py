"""Calls of streams and events in a Dynamo graph become operators of ours (specification, F-40).

Dynamo leaves them in two forms. Older versions have nodes that make streams and events, and calls of their methods;
``with stream:`` is a pair of ``set_stream``. Newer ones number streams and events, note the number of the stream in
``meta["custom"]`` of each node, and have operators ``torch.ops.streams``. Either way the graph goes through AOTAutograd
only as scopes and tagged events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

import torchair.torchops.streams  # noqa: F401  # defines the operators
from torchair import _torch_compat
from torchair.errors import CaptureError, ScopeError
from torchair.frontend.stream_scopes import DEFAULT_STREAM
from torchair.logs import npugraph_ex_logger as logger
from torchair.source_lines import source_line

__all__ = ["rewrite_native_streams"]

_ops: Any = torch.ops.npugraph_ex
_numbers = itertools.count(1)

#: Number, device index and device type of a stream, as the operators take them.
_Stream = tuple[str, str, str]

_MAIN: _Stream = (DEFAULT_STREAM, "DEFAULT_DEVICE_INDEX_MARKER", "DEFAULT_DEVICE_TYPE_MARKER")
_KEYS = ["_user_stream_label", "_user_stream_priority"]
_ID_KEYS = ["_user_stream_id", "_user_stream_device_index", "_user_stream_device_type"]

_WITH = 'with torchair.scope.npu_stream_switch("name"):\n    ...'


def rewrite_native_streams(gm: fx.GraphModule) -> int:
    """Rewrite the calls of streams and events in a Dynamo graph, in place; returns how many there were.

    Raises:
        ScopeError: The stream at the end is another one than at the start, or ``set_stream`` is given something that is
            no stream. A ``RuntimeError``.
        CaptureError: The program waits for a stream on the host.
    """
    rewriting = _Rewriting(gm.graph, next(_numbers), _torch_compat.current_stream_number())
    if not any(rewriting.kind(node) or _numbered_stream(node) is not None for node in gm.graph.nodes):
        return 0
    logger.debug("before streams and events are rewritten, graph is %s", gm.graph)
    count = rewriting.run()
    gm.graph.lint()
    gm.recompile()
    logger.debug("after streams and events are rewritten, graph is %s", gm.graph)
    return count


@dataclass(slots=True)
class _Rewriting:
    """The work on one graph.

    Attributes:
        number: Which graph it is, for labels and tags.
        main: The number that Dynamo has given the stream that is current at the start; None where it gives it none.
    """

    graph: fx.Graph
    number: int
    main: int | None
    _current: _Stream = _MAIN
    _streams: dict[fx.Node, _Stream] = field(default_factory=dict)
    _events: dict[fx.Node, str] = field(default_factory=dict)
    _labels: dict[_Stream, str] = field(default_factory=dict)
    _known: dict[Any, _Stream] = field(default_factory=dict)
    _dead: list[fx.Node] = field(default_factory=list)
    _last_set: fx.Node | None = None

    def run(self) -> int:
        placed: list[tuple[fx.Node, _Stream]] = []
        for node in list(self.graph.nodes):
            kind = self.kind(node)
            if kind:
                handler: Callable[[fx.Node], None] = getattr(self, f"_{kind}")
                handler(node)
                self._dead.append(node)
            elif node.op not in ("placeholder", "output", "get_attr"):
                given = _numbered_stream(node)
                placed.append((node, self._current if given is None else self._numbered(given)))
            if "stream" in node.meta.get("custom", {}):
                # AOTAutograd would add events and streams of its own.
                node.meta["custom"] = {k: v for k, v in node.meta["custom"].items() if k != "stream"}
        if self._current != _MAIN:
            raise ScopeError(
                "The stream at the end of a function is another one than at its start",
                why="set_stream was called, and the stream that was current before was not set again",
                fix=f"Use the form that sets it again:\nwith torch.cuda.stream(s):\n    ...\nor: {_WITH}",
                where=source_line(self._last_set) if self._last_set is not None else "",
            )
        for node in reversed(self._dead):
            if not node.users:
                self.graph.erase_node(node)
        self._enclose(placed)
        return len(self._dead)

    def kind(self, node: fx.Node) -> str:
        """Which handler a node is for; empty for other nodes."""
        target: Any = node.target
        if node.op == "call_function":
            text = str(target).removesuffix(".default")
            if text.startswith("streams."):
                return f"op_{text.removeprefix('streams.')}"
            name, module = getattr(target, "__name__", ""), str(getattr(target, "__module__", ""))
            if name == "get_external_object_by_index":
                return "external"
            if not module.startswith("torch"):
                return ""
            if isinstance(target, type):
                kinds = {"Stream": "stream", "ExternalStream": "stream", "Event": "event", "ExternalEvent": "event"}
                return kinds.get(name, "")
            return name if name in ("set_stream", "current_stream", "default_stream") else ""
        if node.op == "call_method":
            owner = node.args[0]
            if owner in self._events or owner in self._streams:
                return f"method_{target}" if hasattr(self, f"_method_{target}") else "unknown_method"
            return "method_record_stream" if target == "record_stream" else ""
        return ""

    # --- nodes that make or name streams and events ---

    def _stream(self, node: fx.Node) -> None:
        key = tuple(node.kwargs.get(name) for name in ("stream_id", "device_index", "device_type"))
        self._streams[node] = self._stream_of(key if key[0] is not None else node, node.name)

    def _event(self, node: fx.Node) -> None:
        self._events[node] = self._tag(node.name)

    def _external(self, node: fx.Node) -> None:
        self._events[node] = self._tag(node.args[0])

    def _current_stream(self, node: fx.Node) -> None:
        self._streams[node] = self._current

    def _default_stream(self, node: fx.Node) -> None:
        self._streams[node] = _MAIN

    def _set_stream(self, node: fx.Node) -> None:
        stream: Any = node.args[0] if node.args else node.kwargs.get("stream")
        if stream not in self._streams:
            raise ScopeError(
                "set_stream was given something that is no stream of the function",
                why=f"{node.format_node()}",
                fix=f"Give a stream that the function makes or takes, or use: {_WITH}",
                where=source_line(node),
            )
        self._current, self._last_set = self._streams[stream], node

    # --- methods ---

    def _method_record(self, node: fx.Node) -> None:
        self._record(node, self._events[_owner(node)], self._argument(node))

    def _method_wait(self, node: fx.Node) -> None:
        self._wait(node, self._events[_owner(node)], self._argument(node))

    def _method_wait_event(self, node: fx.Node) -> None:
        event: Any = node.args[1]
        self._wait(node, self._events[event], self._streams[_owner(node)])

    def _method_record_event(self, node: fx.Node) -> None:
        event: Any = node.args[1] if len(node.args) > 1 else None
        tag = self._events.get(event) or self._tag(node.name)
        self._events[node] = tag
        self._record(node, tag, self._streams[_owner(node)])

    def _method_wait_stream(self, node: fx.Node) -> None:
        other: Any = node.args[1]
        self._insert(node, _ops.tagged_stream_wait_stream, *self._streams[_owner(node)], *self._streams[other])

    def _method_record_stream(self, node: fx.Node) -> None:
        stream: Any = node.args[1]
        self._insert(node, _ops.record_tagged_on_stream, node.args[0], *self._streams.get(stream, _MAIN))

    def _method_synchronize(self, node: fx.Node) -> None:
        self._refuse(node)

    def _method_query(self, node: fx.Node) -> None:
        self._refuse(node)

    def _unknown_method(self, node: fx.Node) -> None:
        self._refuse(node)

    # --- operators of newer versions ---

    def _op_record_event(self, node: fx.Node) -> None:
        self._record(node, self._tag(node.args[0]), self._numbered(node.args[1]))

    def _op_wait_event(self, node: fx.Node) -> None:
        self._wait(node, self._tag(node.args[0]), self._numbered(node.args[1]))

    def _op_wait_stream(self, node: fx.Node) -> None:
        waiting, awaited = map(self._numbered, node.args[:2])
        self._insert(node, _ops.tagged_stream_wait_stream, *waiting, *awaited)

    def _op_record_stream(self, node: fx.Node) -> None:
        self._insert(node, _ops.record_tagged_on_stream, node.args[0], *self._numbered(node.args[1]))

    def _op_fork(self, node: fx.Node) -> None:
        self._current, self._last_set = self._numbered(node.args[1]), node

    _op_join = _op_fork

    def _op_sync_dealloc(self, node: fx.Node) -> None:
        self._op_wait_event(node)

    def _op_synchronize_event(self, node: fx.Node) -> None:
        self._refuse(node)

    _op_synchronize_stream = _op_synchronize_device = _op_synchronize_event

    # --- services ---

    def _refuse(self, node: fx.Node) -> None:
        raise CaptureError(
            "A captured graph cannot wait for a stream on the host",
            why=node.format_node() or node.name,
            fix="Let another stream wait (event.wait(), stream.wait_stream(...)), or wait outside of the function.",
            where=source_line(node),
        )

    def _tag(self, name: Any) -> str:
        return f"graph_{self.number}_event_{name}" if isinstance(name, int) else f"graph_{self.number}_{name}"

    def _numbered(self, number: Any) -> _Stream:
        """The stream of a number that Dynamo has given."""
        return _MAIN if number == self.main else self._stream_of(number, f"stream_{number}")

    def _stream_of(self, key: Any, name: str) -> _Stream:
        if key not in self._known:
            given = tuple(map(str, key)) if isinstance(key, tuple) else (name, "0", "stream")
            self._known[key] = stream = (given[0], given[1], given[2])
            self._labels[stream] = f"graph_{self.number}_{name}"
        return self._known[key]

    def _argument(self, node: fx.Node) -> _Stream:
        given: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("stream")
        return self._current if given is None else self._streams[given]

    def _record(self, node: fx.Node, tag: str, stream: _Stream) -> None:
        self._insert(node, _ops.tagged_event_record_on_stream, tag, *stream, True)

    def _wait(self, node: fx.Node, tag: str, stream: _Stream) -> None:
        self._insert(node, _ops.tagged_event_wait_on_stream, tag, *stream, True)

    def _insert(self, before: fx.Node, packet: Any, *args: Any) -> None:
        with self.graph.inserting_before(before):
            made = self.graph.call_function(packet.default, args)
        made.meta = _place(before.meta)

    def _enclose(self, placed: list[tuple[fx.Node, _Stream]]) -> None:
        """Put scopes around nodes that are not on the main stream."""
        for stream, group in itertools.groupby(placed, key=lambda pair: pair[1]):
            nodes = [node for node, _ in group]
            if stream == _MAIN:
                continue
            label = self._labels[stream]
            with self.graph.inserting_before(nodes[0]):
                enter = self.graph.call_function(_ops.scope_enter.default, ([*_KEYS, *_ID_KEYS], [label, "0", *stream]))
            with self.graph.inserting_after(nodes[-1]):
                leave = self.graph.call_function(_ops.scope_exit.default)
            enter.meta, leave.meta = _place(nodes[0].meta), _place(nodes[-1].meta)


def _owner(node: fx.Node) -> Any:
    return node.args[0]


def _numbered_stream(node: fx.Node) -> int | None:
    number = node.meta.get("custom", {}).get("stream")
    return number if isinstance(number, int) and node.op not in ("placeholder", "output") else None


def _place(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: meta[key] for key in ("stack_trace", "nn_module_stack", "source_fn_stack") if key in meta}
