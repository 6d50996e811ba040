"""Making nodes in passes over FX graphs."""

from __future__ import annotations

from typing import Any

from torch import fx

from torchair.streams import SCOPE, STREAM

__all__ = ["call", "inherit"]

#: What a node says about the user's program, rather than about its own value.
_ORIGIN = (
    "custom",
    "from_node",
    "nn_module_stack",
    "original_aten",
    "source_fn_stack",
    "stack_trace",
    "torch_fn",
    STREAM,
    SCOPE,
)


def inherit(node: fx.Node, source: fx.Node) -> None:
    """Let a new node come from the same line of the user's program, and run on the same stream, as what it replaces."""
    for key in _ORIGIN:
        if key in source.meta:
            node.meta[key] = source.meta[key]


def call(graph: fx.Graph, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], source: fx.Node) -> fx.Node:
    """Insert a call, at the graph's insertion point, that stands for a node or a part of it."""
    node = graph.call_function(target, args, kwargs)
    inherit(node, source)
    return node
