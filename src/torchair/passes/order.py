"""In which order nodes run: ``experimental_config.topology_sorting_strategy`` (specification, F-92)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torchair.ir.graph import Graph, Node
from torchair.ir.memory import Memory
from torchair.passes.base import GraphPass

__all__ = ["SortNodes", "execution_order", "predecessors"]


@dataclass(slots=True)
class SortNodes(GraphPass):
    """The order of nodes becomes breadth-first, depth-first, or depth-first from what the graph returns.

    Kept is what the program says about order: data, control edges, who touches memory that is written, side effects,
    and in a graph of several streams the order on each stream.

    The default is depth-first, as in the engine that the option comes from: what was made is used soon, and values live
    as short as in the program's order. On the models of ``benchmarks`` both need the same memory, and equal time.

    Attributes:
        strategy: ``"BFS"``, ``"DFS"``, or ``"RDFS"``. ``"StableRDFS"`` is the program's order, with what passes made
            shortly before its readers; so passes leave it.
    """

    name: ClassVar[str] = "sort-nodes"
    strategy: str = "DFS"

    def run(self, graph: Graph) -> None:
        before = graph.nodes
        after = execution_order(graph, self.strategy)
        if list(before) != after:
            graph.reorder(after)


def execution_order(graph: Graph, strategy: str) -> list[Node]:
    """The nodes of a graph in the order of a strategy; ties fall as the program's order does."""
    nodes = list(graph)
    if strategy == "StableRDFS":
        return nodes
    needed = predecessors(graph)
    if strategy == "RDFS":
        return _reverse_depth_first(graph, nodes, needed)
    return _breadth_first(nodes, needed) if strategy == "BFS" else _depth_first(nodes, needed)


def _users(nodes: list[Node], needed: dict[Node, list[Node]]) -> tuple[dict[Node, list[Node]], dict[Node, int]]:
    """The other way round: what each node has to run before; and how many nodes each one waits for."""
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node, before in needed.items():  # in the program's order, so lists of users are, too
        for other in before:
            users[other].append(node)
    return users, {node: len(before) for node, before in needed.items()}


def _depth_first(nodes: list[Node], needed: dict[Node, list[Node]]) -> list[Node]:
    """After each node the first one that it was the last to be waited for by; else back to the last choice.

    A constant stands before its first reader and leads to nothing: its other readers need not come soon.
    """
    constants = {node for node in nodes if node.op == "Const" and not needed[node]}
    others = [node for node in nodes if node not in constants]
    users, open_ = _users(others, {node: [n for n in needed[node] if n not in constants] for node in others})
    order: dict[Node, None] = {}
    ready = [node for node in reversed(others) if not open_[node]]
    while ready:
        node = ready.pop()
        order.update(dict.fromkeys(n for n in needed[node] if n in constants))
        order[node] = None
        for user in reversed(users[node]):
            open_[user] -= 1
            if not open_[user]:
                ready.append(user)
    return [*order, *(node for node in nodes if node in constants and node not in order)]


def _breadth_first(nodes: list[Node], needed: dict[Node, list[Node]]) -> list[Node]:
    """Level by level: a node's level is the length of the longest way to it."""
    place = {node: i for i, node in enumerate(nodes)}
    users, open_ = _users(nodes, needed)
    level = dict.fromkeys(nodes, 0)
    ready = [(0, place[node]) for node in nodes if not open_[node]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, at = heapq.heappop(ready)
        node = nodes[at]
        order.append(node)
        for user in users[node]:
            level[user] = max(level[user], level[node] + 1)
            open_[user] -= 1
            if not open_[user]:
                heapq.heappush(ready, (level[user], place[user]))
    return order


def _reverse_depth_first(graph: Graph, nodes: list[Node], needed: dict[Node, list[Node]]) -> list[Node]:
    """From the results backward: each node after what it needs, and that shortly before."""
    results = [v.producer for v in (*graph.outputs, *(source for _, source in graph.updates)) if v is not None]
    order: dict[Node, None] = {}
    for root in (*results, *nodes):
        stack = [] if root is None else [(root, iter(needed[root]))]
        while stack:
            node, rest = stack[-1]
            ahead = next((other for other in rest if other not in order), None)
            if ahead is not None:
                stack.append((ahead, iter(needed[ahead])))
                continue
            stack.pop()
            order[node] = None
    return list(order)


def predecessors(graph: Graph) -> dict[Node, list[Node]]:
    """What has to run before each node, whatever the order of nodes is; each list is in the program's order."""
    nodes = list(graph)
    place = {node: i for i, node in enumerate(nodes)}
    found: dict[Node, set[Node]] = {node: set() for node in nodes}
    for before, after in _edges(graph, nodes):
        found[after].add(before)
    return {node: sorted(before - {node}, key=place.__getitem__) for node, before in found.items()}


def _edges(graph: Graph, nodes: list[Node]) -> Iterator[tuple[Node, Node]]:
    binders: dict[str, Node] = {}
    last: dict[str, Node] = {}
    effect: Node | None = None
    streams = any(node.control or node.stream for node in nodes)
    for node in nodes:
        for value in node.values:
            if value.producer is not None:
                yield value.producer, node
        for other in node.control:
            yield other, node
        for value in (*node.values, *node.outputs):
            for symbol in value.type.symbols:
                if symbol.name in binders:
                    yield binders[symbol.name], node
        for name, _, _ in node.binds:
            binders[name] = node
        if node.side_effects:
            if effect is not None:
                yield effect, node
            effect = node
        if streams and node.op not in ("Const", "HostInts"):
            if node.stream in last:
                yield last[node.stream], node
            last[node.stream] = node
    memory = Memory(graph)
    for group in memory.groups():
        if memory.writers(group):
            touching = {node for v in group for node in (v.producer, *v.users) if node is not None}
            yield from itertools.pairwise(sorted(touching, key=memory.place))
