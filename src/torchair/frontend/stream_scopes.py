"""From scope markers and events in an FX graph to labels, tokens and waits (specification, F-40, F-41 and F-80).

Before, the graph has ``scope_enter`` and ``scope_exit``, events with tags, and calls about streams by their number.
Afterwards each node has its label (:mod:`torchair.streams`), and order beyond data is ``record`` and ``wait``.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.errors import ArgumentError
from torchair.frontend.scope_pairs import ENTER, EXIT, check_limit
from torchair.logs import get_logger
from torchair.source_lines import source_line
from torchair.streams import DEFAULT, is_record, set_stream, stream_of
from torchair.torchops.streams import (
    check_tag,
    known_tags,
    record_tagged_on_stream_,
    record_tagged_stream,
    record_tagged_stream_,
)

__all__ = ["DEFAULT_STREAM", "LABEL", "ResolvedStreams", "resolve_streams"]

_log = get_logger(__name__)

#: Stands for the stream that is current when a graph is called.
DEFAULT_STREAM = "DEFAULT_STREAM_ID_MARKER"

#: Keys of scopes.
LABEL = "_user_stream_label"
_ID = ("_user_stream_id", "_user_stream_device_index", "_user_stream_device_type")
_CORES = ("_op_aicore_num", "_op_vectorcore_num")
_SUPER_KERNEL = ("_super_kernel_scope", "_super_kernel_options")

#: Keys of scopes that mean nothing in capture mode, what wrote them, and what would change that.
_WITHOUT_EFFECT = {
    "_super_kernel_scope": ("super_kernel", " without static_kernel_compile"),
    "_op_exec_never_timeout": ("op_never_timeout", ""),
    "torchair_enable_data_dump": ("data_dump", ""),
}

#: What ``npu_record_tagged_stream`` calls the stream that a graph begins on.
_MAIN = "default"

_ops: Any = torch.ops.npugraph_ex


@dataclass(frozen=True, slots=True)
class ResolvedStreams:
    """What scopes and events of a graph said.

    Attributes:
        labels: The streams other than the default one, in order of appearance.
        scopes: What launches and native code act on, for each node that has some of it: core limits, super kernels;
            attributes as ``torchair.scope`` writes them.
    """

    labels: tuple[str, ...]
    scopes: Mapping[fx.Node, Mapping[str, str | bool]]


def resolve_streams(gm: fx.GraphModule, *, super_kernels: bool = False) -> ResolvedStreams:
    """Turn markers and events into labels, tokens and waits, in place.

    Args:
        gm: An AOT-level graph whose scopes are paired (:func:`~torchair.frontend.scope_pairs.check_scopes`).
        super_kernels: Parts of the graph become native code, which acts on ``torchair.scope.super_kernel``.

    Raises:
        ArgumentError: A tag has no event or two, a stream is not used in the graph, or a core limit is out of range.
    """
    resolving = _Resolving(gm.graph, (*_CORES, *_SUPER_KERNEL) if super_kernels else _CORES)
    resolving.run()
    gm.recompile()
    return ResolvedStreams(tuple(resolving.labels), resolving.scopes)


@dataclass(slots=True)
class _Resolving:
    graph: fx.Graph
    keys: tuple[str, ...]
    labels: dict[str, None] = field(default_factory=dict)
    scopes: dict[fx.Node, Mapping[str, str | bool]] = field(default_factory=dict)
    _stack: list[dict[str, str]] = field(default_factory=list)
    _streams: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _events: dict[tuple[str, bool], fx.Node] = field(default_factory=dict)
    _created: set[str] = field(default_factory=set)
    _token: Any = None

    def run(self) -> None:
        nodes = list(self.graph.nodes)
        for node in nodes:
            if (name := _name(node)) in ENTER:
                self._learn(dict(zip(*node.args[:2], strict=False)))
        for node in nodes:
            name = _name(node)
            if name in ENTER:
                self._enter(node)
            elif name in EXIT:
                self._stack.pop()
                self.graph.erase_node(node)
            elif node.op == "call_function":
                self._mark(node)
                self._handle(node, name.removeprefix("npugraph_ex::") if name.startswith("npugraph_ex::") else "")
        for node in list(self.graph.nodes):
            if is_record(node) and not node.users:
                self.graph.erase_node(node)
        for node in self.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
            target, source = node.args[:2]
            if isinstance(target, fx.Node) and target.op == "placeholder" and isinstance(source, fx.Node):
                # AOTAutograd puts the new value of an input there at the end, on no stream in particular.
                set_stream(node, stream_of(source))

    # --- scopes ---

    def _learn(self, attributes: Mapping[str, str]) -> None:
        """Note a stream that some scope of the graph opens."""
        label = attributes.get(LABEL)
        if label is None:
            return
        if attributes.get(_ID[0]) == DEFAULT_STREAM:
            label = DEFAULT
        elif label != DEFAULT:
            self.labels[label] = None
        if all(key in attributes for key in _ID):
            self._streams[attributes[_ID[0]], attributes[_ID[1]], attributes[_ID[2]]] = label

    def _enter(self, node: fx.Node) -> None:
        keys, values = node.args[:2]
        opened = {str(k): str(v) for k, v in zip(keys, values, strict=False)}  # type: ignore[arg-type]
        if opened.get(_ID[0]) == DEFAULT_STREAM:
            opened[LABEL] = DEFAULT
        check_limit(node, opened)
        for key in (_WITHOUT_EFFECT.keys() & opened.keys()).difference(self.keys):
            _log.info_once("torchair.scope.%s: no effect in capture mode%s", *_WITHOUT_EFFECT[key])
        self._stack.append({**(self._stack[-1] if self._stack else {}), **opened})
        self.graph.erase_node(node)

    def _mark(self, node: fx.Node) -> None:
        attributes = self._stack[-1] if self._stack else {}
        set_stream(node, attributes.get(LABEL, DEFAULT))
        scope = {key: attributes[key] for key in self.keys if key in attributes}
        if scope:
            self.scopes[node] = scope

    # --- events ---

    def _handle(self, node: fx.Node, name: str) -> None:
        arguments = _arguments(node) if name else {}
        tag = str(arguments.get("tag", arguments.get("event_tag", "")))
        inside = bool(arguments.get("created_inside"))
        if name == "tagged_event_create":
            self._create(node, tag)
        elif name.startswith("tagged_event_record"):
            self._check(node, tag, inside)
            self._events[tag, inside] = self._record(node, self._label(arguments, node))
        elif name.startswith("tagged_event_wait"):
            self._check(node, tag, inside)
            if (tag, inside) in self._events:
                self._wait(node, self._events[tag, inside], self._label(arguments, node))
            else:
                _log.debug("%s: the event %r was not recorded before in the graph, nothing to wait for", node, tag)
        elif name == "tagged_stream_wait_stream":
            other = {key.removeprefix("other_"): value for key, value in arguments.items() if key.startswith("other_")}
            token = self._record(node, self._label(other, node))
            self._wait(node, token, self._label(arguments, node))
        elif name.startswith(("record_tagged_stream", "record_tagged_on_stream")):
            self._keep(node, arguments["input"], arguments)
            return
        elif _torch_compat.is_auto_functionalized_v2(node.target):
            self._keep_functionalized(node)
            return
        else:
            return
        self.graph.erase_node(node)

    def _create(self, node: fx.Node, tag: str) -> None:
        if tag in self._created or tag in known_tags():
            where = "the compiled function has created" if tag in self._created else "was created outside"
            raise ArgumentError(
                "There is an event of that tag",
                why=f"npu_create_tagged_event was given {tag!r}, which {where}",
                fix="Give another tag, or use the event that the earlier call returned.",
                where=source_line(node),
            )
        self._created.add(tag)

    def _check(self, node: fx.Node, tag: str, inside: bool) -> None:
        if not inside:
            check_tag(tag, source_line(node))

    def _record(self, node: fx.Node, label: str) -> fx.Node:
        with self.graph.inserting_before(node):
            token = self.graph.call_function(_ops.record.default)
        self._come_from(token, node, label)
        if self._token is None:
            self._token = _token(self.graph)
        token.meta["val"] = self._token
        return token

    def _wait(self, node: fx.Node, token: fx.Node, label: str) -> None:
        with self.graph.inserting_before(node):
            waiting = self.graph.call_function(_ops.wait.default, ([token],))
        self._come_from(waiting, node, label)
        waiting.meta["val"] = None

    def _keep(self, node: fx.Node, kept: fx.Node, arguments: Mapping[str, Any]) -> None:
        """One last reader of the memory on the stream that is named."""
        label = self._label(arguments, node)
        if "stream_id" not in arguments:
            label = str(arguments["tag"])
            if label == _MAIN:
                label = DEFAULT
            elif label not in self.labels:
                raise ArgumentError(
                    "There is no stream of that tag",
                    why=[
                        f"npu_record_tagged_stream was given {label!r}",
                        f"streams of the graph: {', '.join(map(repr, (_MAIN, *self.labels)))}",
                    ],
                    fix=f"with torchair.scope.npu_stream_switch({label!r}): ...",
                    where=source_line(node),
                )
        with self.graph.inserting_before(node):
            reader = self.graph.call_function(record_tagged_stream, (kept, label or _MAIN))
        self._come_from(reader, node, label)
        reader.meta["val"] = None
        self.graph.erase_node(node)

    def _keep_functionalized(self, node: fx.Node) -> None:
        if node.args[0] not in (record_tagged_stream_, record_tagged_on_stream_):
            return
        arguments = dict(node.kwargs)
        kept: Any = arguments["_all_bases"][0]  # type: ignore[index]
        for result in list(node.users):
            if result.target is operator.getitem and result.args[1]:
                result.replace_all_uses_with(kept)
            self.graph.erase_node(result)
        self._keep(node, kept, arguments)

    # --- streams ---

    def _label(self, arguments: Mapping[str, Any], node: fx.Node) -> str:
        """The label of the stream that arguments name by its number, or of the one that a node stands on."""
        if "stream_id" not in arguments:
            return stream_of(node)
        number, index, kind = (str(arguments[key]) for key in ("stream_id", "device_index", "device_type"))
        if number == DEFAULT_STREAM:
            return DEFAULT
        label = self._streams.setdefault((number, index, kind), f"stream_{kind}_{index}_{number}")
        if label != DEFAULT:
            self.labels[label] = None
        return label

    @staticmethod
    def _come_from(made: fx.Node, node: fx.Node, label: str) -> None:
        made.meta = {key: value for key, value in node.meta.items() if key != "val"}
        set_stream(made, label)


def _name(node: fx.Node) -> str:
    return str(node.target._schema.name) if isinstance(node.target, OpOverload) else ""


def _arguments(node: fx.Node) -> dict[str, Any]:
    assert isinstance(node.target, OpOverload)
    schema = node.target._schema.arguments
    return {**dict(zip((a.name for a in schema), node.args, strict=False)), **node.kwargs}


def _token(graph: fx.Graph) -> Any:
    """The fake value of a token."""
    values = [node.meta.get("val") for node in graph.nodes]
    mode = _torch_compat.detect_fake_mode([v for v in values if isinstance(v, torch.Tensor)])
    if mode is None:
        return torch.empty(0)
    with mode:
        return torch.empty(0)
