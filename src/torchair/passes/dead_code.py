"""Taking out what nothing needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import sympy

from torchair.ir.graph import Blob, Graph, Node
from torchair.ir.memory import Memory
from torchair.passes.base import GraphPass

__all__ = ["EliminateDeadNodes"]


@dataclass(slots=True)
class EliminateDeadNodes(GraphPass):
    """A node that nothing reads, waits for or needs the effects of is taken out.

    Side effects and writes to the memory of a graph input are needed. So are nodes that make known a symbol in the type
    of a needed value. Constant tensors that no node names any more are forgotten, and so are updates of an input with
    itself. What a node waits for that is taken out, the next one on its stream waits for.
    """

    name: ClassVar[str] = "eliminate-dead-nodes"

    def run(self, graph: Graph) -> None:
        if any(target is source for target, source in graph.updates):
            graph.updates = [(target, source) for target, source in graph.updates if target is not source]
            graph.revision += 1
        needed = _needed(graph)
        while _hand_on_waits(graph, needed):
            needed = _needed(graph)
        dead = [node for node in graph if node not in needed]
        for node in reversed(dead):
            graph.remove(node)
        if dead:
            named = {blob.name for node in graph for blob in _blobs(tuple(node.attrs.values()))}
            graph.blobs = {name: tensor for name, tensor in graph.blobs.items() if name in named}


def _hand_on_waits(graph: Graph, needed: Collection[Node]) -> bool:
    """Let the next node on a stream wait for what a node waits for that will be taken out; whether there was one."""
    following: dict[str, Node] = {}
    changed = False
    for node in reversed(graph.nodes):
        if node in needed:
            if node.op not in ("Const", "HostInts"):
                following[node.stream] = node
        elif node.control and node.op != "Identity":  # what npu_wait_tensor leaves orders uses of its tensor only
            heir = following.get(node.stream)
            missing = () if heir is None else [other for other in node.control if other not in heir.control]
            if heir is not None and missing:
                graph.wait_for(heir, missing)
                changed = True
    return changed


def _needed(graph: Graph) -> set[Node]:
    binders = {symbol: node for node in graph for symbol, _, _ in node.binds}
    memory = Memory(graph)
    given = {value for source in graph.inputs for value in memory.group(source)}
    pending: list[Node | None] = []
    for node in graph:
        operands = node.operands
        if node.side_effects or any(operands[operand] in given for _, operand in node.writes):
            pending.append(node)
    for value in [*graph.outputs, *(source for _, source in graph.updates)]:
        if value is not None:
            pending.append(value.producer)
            pending += [binders.get(symbol.name) for symbol in value.type.symbols]
    for spec in graph.output_specs:
        pending += [binders.get(name) for name in _symbols(spec.strides or ())]
    needed: set[Node] = set()
    while pending:
        node_or_none = pending.pop()
        if node_or_none is None or node_or_none in needed:
            continue
        node = node_or_none
        needed.add(node)
        pending += [value.producer for value in node.values]
        pending += node.control
        symbols = {symbol.name for value in (*node.values, *node.outputs) for symbol in value.type.symbols}
        symbols.update(name for strides in node.operand_strides for name in _symbols(strides or ()))
        pending += [binders.get(name) for name in symbols]
    return needed


def _symbols(dims: Any) -> Iterator[str]:
    for dim in dims:
        if isinstance(dim, sympy.Basic):
            yield from (symbol.name for symbol in dim.free_symbols if isinstance(symbol, sympy.Symbol))


def _blobs(value: Any) -> Iterator[Blob]:
    if isinstance(value, Blob):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _blobs(item)
