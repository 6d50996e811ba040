"""The order of nodes by ``topology_sorting_strategy``: what it is, and what it keeps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from torchair.ir import Graph, Node, TensorType
from torchair.ir.types import DType
from torchair.ir.verify import verify
from torchair.passes import SortNodes
from torchair.passes.order import predecessors

X = TensorType.of(DType.DT_FLOAT, (2,))


def chains() -> Graph:
    """Two chains, node by node in turn, and their sum."""
    graph = Graph()
    x = graph.add_input(X, "x")
    a = graph.add_node("Sin", [x], [X], name="a1")
    b = graph.add_node("Cos", [x], [X], name="b1")
    a = graph.add_node("Sin", [a.output], [X], name="a2")
    b = graph.add_node("Cos", [b.output], [X], name="b2")
    last = graph.add_node("Add", [b.output, a.output], [X], name="sum")
    graph.set_outputs([last.output])
    return graph


def names(graph: Graph) -> str:
    return " ".join(node.name for node in graph)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("DFS", "a1 a2 b1 b2 sum"),
        ("StableRDFS", "a1 b1 a2 b2 sum"),
        ("BFS", "a1 b1 a2 b2 sum"),
        ("RDFS", "a1 a2 b1 b2 sum"),
    ],
)
def test_strategies(strategy, expected) -> None:
    graph = chains()
    SortNodes(strategy).run(graph)
    verify(graph)
    assert names(graph) == expected


def test_breadth_first_goes_level_by_level() -> None:
    graph = Graph()
    x = graph.add_input(X, "x")
    a = graph.add_node("Sin", [x], [X], name="a1")
    b = graph.add_node("Sin", [a.output], [X], name="a2")
    c = graph.add_node("Sin", [b.output], [X], name="a3")
    d = graph.add_node("Cos", [x], [X], name="b1")
    graph.set_outputs([c.output, d.output])
    SortNodes("BFS").run(graph)
    assert names(graph) == "a1 b1 a2 a3"


def diamond() -> Graph:
    """From ``top`` over two chains to ``sum``, and a node that nobody needs; results in the other order."""
    graph = Graph()
    x = graph.add_input(X, "x")
    top = graph.add_node("Sin", [x], [X], name="top")
    left = graph.add_node("Cos", [top.output], [X], name="left")
    right = graph.add_node("Exp", [top.output], [X], name="right")
    free = graph.add_node("Tan", [x], [X], name="free")
    left2 = graph.add_node("Cos", [left.output], [X], name="left2")
    right2 = graph.add_node("Exp", [right.output], [X], name="right2")
    last = graph.add_node("Add", [right2.output, left2.output], [X], name="sum")
    graph.set_outputs([free.output, last.output])
    return graph


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("StableRDFS", "top left right free left2 right2 sum"),
        ("DFS", "top left left2 right right2 sum free"),
        ("BFS", "top free left right left2 right2 sum"),
        ("RDFS", "free top left left2 right right2 sum"),
    ],
)
def test_orders_of_a_diamond(strategy, expected) -> None:
    graph = diamond()
    SortNodes(strategy).run(graph)
    verify(graph)
    assert names(graph) == expected


def test_control_edges_effects_and_streams_are_kept() -> None:
    def made(**fields: Any) -> tuple[Graph, Node, Node]:
        graph = Graph()
        x = graph.add_input(X, "x")
        first = graph.add_node("Sin", [x], [X], name="first")
        then = graph.add_node("Cos", [first.output], [X], name="then")
        other = graph.add_node("Exp", [x], [X], name="other", **fields)
        graph.set_outputs([other.output, then.output])
        return graph, first, then

    graph, _, then = made()
    SortNodes("RDFS").run(graph)
    assert names(graph) == "other first then"

    graph, _, then = made()
    graph.wait_for(graph.nodes[-1], [then])
    SortNodes("RDFS").run(graph)
    assert names(graph) == "first then other"

    graph, _, then = made(side_effects=True)
    then.side_effects = True
    SortNodes("RDFS").run(graph)
    assert names(graph) == "first then other"

    graph, _, then = made()
    for node in graph:
        node.scope = {"_user_stream_label": "a"}
    SortNodes("RDFS").run(graph)
    assert names(graph) == "first then other"


def test_memory_that_is_written_is_read_before() -> None:
    graph = Graph()
    x = graph.add_input(X, "x")
    move = graph.add_node("TensorMove", [x], [X], name="move")
    read = graph.add_node("Sin", [move.output], [X], name="read")
    write = graph.add_node("MyInplace", [move.output], [X], name="write", writes=[(0, 0)])
    graph.set_outputs([write.output, read.output])
    SortNodes("RDFS").run(graph)
    verify(graph)
    assert names(graph) == "move read write"


def is_depth_first(order: list[Node], needed: dict[Node, list[Node]]) -> bool:
    """Whether no node runs while one waits that came into reach later.

    A node comes into reach when the last of those that it needs has run.
    """
    place = {node: i for i, node in enumerate(order)}
    reach = {node: max((place[before] for before in needed[node]), default=-1) for node in order}
    return all(
        reach[node] >= reach[other] for i, node in enumerate(order) for other in order[i:] if reach[other] < place[node]
    )


@given(st.data(), st.sampled_from(["BFS", "DFS", "RDFS", "StableRDFS"]))
@settings(max_examples=60, deadline=None)
def test_any_graph_stays_valid(data, strategy) -> None:
    graph = Graph()
    values = [graph.add_input(X, "x")]
    for _ in range(data.draw(st.integers(1, 8))):
        inputs = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
        node = graph.add_node(
            "Sin" if len(inputs) == 1 else "Add",
            inputs,
            [X],
            side_effects=data.draw(st.booleans()),
            scope=data.draw(st.sampled_from([{}, {}, {"_user_stream_label": "a"}])),
        )
        if len(graph) > 1 and data.draw(st.booleans()):
            graph.wait_for(node, [data.draw(st.sampled_from(graph.nodes[:-1]))])
        values.append(node.output)
    graph.set_outputs(data.draw(st.lists(st.sampled_from(values[1:]), unique=True)))
    needed = predecessors(graph)
    SortNodes(strategy).run(graph)
    verify(graph)
    place = {node: i for i, node in enumerate(graph)}
    assert all(place[before] < place[node] for node, earlier in needed.items() for before in earlier)
    if strategy == "DFS":
        assert is_depth_first(list(graph), needed)
    again = list(graph)
    SortNodes(strategy).run(graph)
    assert strategy == "RDFS" or list(graph) == again
