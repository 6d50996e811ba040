"""Which nodes of super kernels run in one launch."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given
from torch import fx

from torchair.native.units import ordered_units

_Graph = tuple[list[fx.Node], dict[fx.Node, set[fx.Node]]]


def _graph(edges: dict[str, str]) -> _Graph:
    """Nodes by name, in order, with those before each."""
    graph = fx.Graph()
    nodes = {name: graph.create_node("placeholder", name, name=name) for name in edges}
    return list(nodes.values()), {nodes[n]: {nodes[u] for u in used} for n, used in edges.items()}


def test_nodes_outside_are_units_of_their_own() -> None:
    nodes, before = _graph({"a": "", "b": "a", "c": "a"})
    assert [u.nodes for u in ordered_units(nodes, before, {})] == [[n] for n in nodes]


def test_what_stands_between_is_named() -> None:
    graph = {"a": "", "b": "a", "c": "b", "d": "c"}
    nodes, before = _graph(graph)
    a, b, c, d = nodes
    units = ordered_units(nodes, before, {a: "k", c: "k", d: "k"})
    assert [u.nodes for u in units] == [[a], [b], [c, d]]
    assert [u.after for u in units] == [None, None, b]


def test_what_only_stands_beside_does_not_split() -> None:
    nodes, before = _graph({"a": "", "b": "", "c": "a", "d": "bc"})
    a, b, c, d = nodes
    units = ordered_units(nodes, before, {a: "k", c: "k", d: "k"})
    assert [u.nodes for u in units] == [[b], [a, c, d]]


def test_a_chain_outside_is_named_by_its_first_node() -> None:
    nodes, before = _graph({"a": "", "b": "a", "c": "b", "d": "c"})
    a, b, _, d = nodes
    (*_, last) = ordered_units(nodes, before, {a: "k", d: "k"})
    assert last.nodes == [d]
    assert last.after is b


def test_super_kernels_that_wait_for_each_other_are_cut() -> None:
    nodes, before = _graph({"a": "", "b": "", "c": "a", "d": "b"})
    a, b, c, d = nodes
    units = ordered_units(nodes, before, {a: "k", d: "k", b: "l", c: "l"})
    assert [u.nodes for u in units] == [[a], [b, c], [d]]


@st.composite
def _graphs(draw: st.DrawFn) -> tuple[_Graph, dict[fx.Node, str]]:
    count = draw(st.integers(1, 14))
    graph = fx.Graph()
    nodes = [graph.create_node("placeholder", f"n{i}", name=f"n{i}") for i in range(count)]
    before = {
        n: set(draw(st.lists(st.sampled_from(nodes[:i]), max_size=3))) if i else set() for i, n in enumerate(nodes)
    }
    kernels = {n: k for n in nodes if (k := draw(st.sampled_from(["", "a", "b", "c"])))}
    return (nodes, before), kernels


@given(_graphs())
def test_units_can_run_one_after_another(drawn: tuple[_Graph, dict[fx.Node, str]]) -> None:
    (nodes, before), kernels = drawn
    units = ordered_units(nodes, before, kernels)
    number = {n: i for i, u in enumerate(units) for n in u.nodes}
    assert sorted(n.name for u in units for n in u.nodes) == sorted(n.name for n in nodes)
    for node in nodes:
        assert all(number[used] <= number[node] for used in before[node])
    for unit in units:
        assert {kernels.get(n, "") for n in unit.nodes} == {unit.kernel}
        assert len(unit.nodes) == 1 or unit.kernel
