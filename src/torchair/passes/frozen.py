"""Computations of parameters alone leave the graph, where the user promises that parameters stay (F-66)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torchair.ir.graph import Blob, Graph, Node, OutputSpec, Value
from torchair.ir.memory import Memory
from torchair.ir.types import DType
from torchair.passes.base import GraphPass
from torchair.passes.sharing import is_awaited, is_free

__all__ = ["HoistFrozenComputations", "Prologue"]


@dataclass(frozen=True, slots=True)
class Prologue:
    """What is computed before the graph runs, once for each state of the parameters.

    Attributes:
        graph: Its outputs are the last inputs of the graph that it was taken out of, in order.
        reads: For each of its inputs, the number of that graph's input.
    """

    graph: Graph
    reads: tuple[int, ...]


@dataclass(slots=True)
class HoistFrozenComputations(GraphPass):
    """``MatMul(x, Cast(w))`` becomes ``MatMul(x, w2)`` with a new graph input ``w2``, if ``w`` is a frozen parameter.

    What is to be computed for the new inputs is :attr:`prologue`. Left alone: views, which cost nothing; what is larger
    than the parameters that it is made of; what the graph returns, or writes in place; sizes that are symbols; and what
    has effects, random numbers and operators of the user among them.

    Attributes:
        frozen: Numbers of the graph inputs that are frozen parameters.
        prologue: What was taken out; None where nothing was.
    """

    name: ClassVar[str] = "hoist-frozen-computations"
    frozen: Collection[int] = ()
    prologue: Prologue | None = field(default=None, init=False)

    def run(self, graph: Graph) -> None:
        found = _Computations(graph, self.frozen)
        wanted = list(dict.fromkeys(found.wanted()))
        if not wanted:
            return
        assert self.prologue is None, "one run knows one graph"
        self.prologue = _copied(graph, wanted)
        for value in wanted:
            given = graph.add_input(value.type.with_content(None), f"{value.name}_frozen")
            graph.replace_all_uses_with(value, given)
        _remove_unread(graph, [value.producer for value in wanted if value.producer is not None])


class _Computations:
    """What of a graph depends on frozen inputs and constants alone."""

    def __init__(self, graph: Graph, frozen: Collection[int]) -> None:
        self._graph = graph
        memory = Memory(graph)
        # Value -> elements of the frozen inputs that it is made of; 0 for constants.
        self._sizes: dict[Value, int] = {}
        updated = {target for target, _ in graph.updates}
        for value in graph.inputs:
            fixed = value.index in frozen and value.type.content is None and _is_static(value)
            if fixed and value not in updated and not memory.writers(memory.group(value)):
                self._sizes[value] = math.prod(value.shape)
        for node in graph:
            if self._is_fixed(memory, node):
                size = sum(self._sizes[v] for v in dict.fromkeys(node.values))
                if not size or not _is_work(node) or sum(math.prod(v.shape) for v in node.outputs) <= size:
                    self._sizes.update(dict.fromkeys(node.outputs, size))

    def _is_fixed(self, memory: Memory, node: Node) -> bool:
        if not is_free(node) or is_awaited(node) or any(v not in self._sizes for v in node.values):
            return False
        return all(
            _is_static(v) and not self._graph.is_read_outside(v) and not memory.writers(memory.group(v))
            for v in node.outputs
        )

    def wanted(self) -> Iterator[Value]:
        """The values that operators of the graph read, behind views."""
        for node in self._graph:
            # What is fixed itself, and work, moves out with what it reads; a view stays and is looked through.
            if node.outputs and all(v in self._sizes for v in node.outputs):
                continue
            for value in node.values:
                base = self._behind_views(value)
                if base is not None and base.producer is not None and self._sizes[base]:
                    yield base

    def _behind_views(self, value: Value) -> Value | None:
        if value not in self._sizes:
            return None
        while (node := value.producer) is not None and not _is_work(node):
            if not node.aliases:
                return None
            source = node.operands[node.aliases[0][1]]
            assert source is not None
            value = source
        return value


def _is_work(node: Node) -> bool:
    """True for a node that computes something: no view, no constant, no number of the host."""
    return not node.aliases and node.op not in ("Const", "HostInts") and bool(node.values)


def _is_static(value: Value) -> bool:
    return not value.type.symbols and value.dtype is not DType.DT_UNDEFINED


def _copied(graph: Graph, wanted: Collection[Value]) -> Prologue:
    """A graph that computes values, and the inputs that it takes."""
    needed: set[Node] = set()
    pending = [value.producer for value in wanted]
    while pending:
        node = pending.pop()
        if node is not None and node not in needed:
            needed.add(node)
            pending += [value.producer for value in node.values]
    copy = Graph(f"{graph.name}_frozen")
    copies: dict[Value, Value] = {}
    reads = [v for v in graph.inputs if any(user in needed for user in v.users)]
    for value in reads:
        copies[value] = copy.add_input(value.type, value.name)
    for node in graph:
        if node not in needed:
            continue
        made = copy.add_node(
            node.op,
            [_mapped(operand, copies) for operand in node.inputs],
            [value.type for value in node.outputs],
            attrs=node.attrs,
            output_names=node.output_names,
            name=node.name,
            value_names=[value.name for value in node.outputs],
            aliases=node.aliases,
            call=node.call,
            scope=node.scope,
            origin=node.origin,
        )
        made.operand_strides = node.operand_strides
        copies.update(zip(node.outputs, made.outputs, strict=True))
        for blob in _blobs(tuple(node.attrs.values())):
            copy.blobs[blob.name] = graph.blobs[blob.name]
    copy.set_outputs([copies[value] for value in wanted], [OutputSpec("tensor")] * len(wanted))
    return Prologue(copy, tuple(value.index for value in reads))


def _mapped(operand: Any, copies: dict[Value, Value]) -> Any:
    if isinstance(operand, tuple):
        return tuple(copies[value] for value in operand)
    return None if operand is None else copies[operand]


def _remove_unread(graph: Graph, nodes: list[Node]) -> None:
    """Take out nodes that nothing reads any more, and then what only they read."""
    while nodes:
        node = nodes.pop()
        if node not in graph or not is_free(node) or is_awaited(node):
            continue
        if any(v.uses or graph.is_read_outside(v) for v in node.outputs):
            continue
        sources = [value.producer for value in node.values if value.producer is not None]
        graph.remove(node)
        nodes += sources


def _blobs(values: Any) -> Iterator[Blob]:
    for value in values:
        if isinstance(value, Blob):
            yield value
        elif isinstance(value, tuple):
            yield from _blobs(value)
