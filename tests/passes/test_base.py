"""The pass runner: records, switches, fuel, dumps, and errors that name the pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import logged

from torchair.errors import IRError, PassError, Rejection
from torchair.ir.graph import Graph, Node
from torchair.ir.memory import Memory
from torchair.ir.text import from_text, to_text
from torchair.passes import (
    VIEW_PASSES,
    EliminateDeadNodes,
    GraphPass,
    PassRecord,
    PassRunner,
    RewritePass,
    default_passes,
)

TEXT = "graph g(%x: float32[2]): %a: float32[2] = Neg(%x) %b: float32[2] = Abs(%x) return %a"


@dataclass(slots=True)
class Rename(GraphPass):
    """``Neg`` becomes ``Abs``.

    And so on.
    """

    name: ClassVar[str] = "rename"
    to: str = "Abs"

    def run(self, graph: Graph) -> None:
        for node in graph:
            if node.op == "Neg":
                node.op = self.to
                graph.revision += 1


class Fail(GraphPass):
    """Nothing becomes nothing."""

    name: ClassVar[str] = "fail"

    def run(self, graph: Graph) -> None:
        raise KeyError("x1")


class Break(GraphPass):
    """A graph becomes another that is not well formed."""

    name: ClassVar[str] = "break"

    def run(self, graph: Graph) -> None:
        graph.nodes[0].output_names = ()
        graph.nodes[1].name = graph.nodes[0].name
        graph.revision += 1


def _facts(records: tuple[PassRecord, ...]) -> list[tuple[str, int, int, bool, str]]:
    assert all(record.seconds >= 0 for record in records)
    return [(r.name, r.nodes_before, r.nodes_after, r.changed, r.skipped) for r in records]


def test_records() -> None:
    runner = PassRunner([Rename(), EliminateDeadNodes(), EliminateDeadNodes()])
    assert _facts(runner.run(from_text(TEXT))) == [
        ("rename", 2, 2, True, ""),
        ("eliminate-dead-nodes", 2, 1, True, ""),
        ("eliminate-dead-nodes", 1, 1, False, ""),
    ]


def test_disabled_passes_are_skipped() -> None:
    graph = from_text(TEXT)
    runner = PassRunner([Rename(), EliminateDeadNodes()], disabled_passes=["eliminate-dead-nodes"])
    assert _facts(runner.run(graph)) == [
        ("rename", 2, 2, True, ""),
        ("eliminate-dead-nodes", 2, 2, False, "disabled"),
    ]
    assert len(graph) == 2


def test_disabling_an_unknown_pass() -> None:
    with pytest.raises(PassError) as raised:
        PassRunner([Rename(), EliminateDeadNodes()], disabled_passes=["eliminate-dead-code", "rename", "x"])
    assert_expected_inline(
        str(raised.value),
        """\
There is no graph pass of that name [TA305]
  why:
    'eliminate-dead-code' was to be disabled
    'x' was to be disabled
  fix:
    Did you mean eliminate-dead-nodes?""",
    )
    with pytest.raises(PassError) as raised:
        PassRunner([Rename(), EliminateDeadNodes()], disabled_passes=["x"])
    assert raised.value.fix == "Passes: rename, eliminate-dead-nodes."


@pytest.mark.parametrize(
    "fuel, skipped", [(0, ["no fuel"] * 3), (1, ["", "no fuel", "no fuel"]), (2, ["", "", ""]), (None, ["", "", ""])]
)
def test_fuel_counts_passes_that_change_the_graph(fuel: int | None, skipped: list[str]) -> None:
    runner = PassRunner([Rename("Neg"), EliminateDeadNodes(), EliminateDeadNodes()], pass_fuel=fuel)
    for _ in range(2):  # each graph has its own
        records = runner.run(from_text(TEXT))
        assert [r.skipped for r in records] == (skipped if fuel != 2 else ["", "", "no fuel"])


def test_the_observer_sees_changes() -> None:
    seen: list[tuple[str, str, str]] = []
    graph = from_text(TEXT)
    first = to_text(graph)
    PassRunner(
        [Rename(), Rename(), EliminateDeadNodes()],
        observer=lambda record, before, after: seen.append((record.name, before, after)),
    ).run(graph)
    second = first.replace("Neg", "Abs<Neg>")
    assert seen == [("rename", first, second), ("eliminate-dead-nodes", second, to_text(graph))]


def test_changes_are_logged() -> None:
    with logged("torchair.passes.base") as messages:
        PassRunner([EliminateDeadNodes(), EliminateDeadNodes()]).run(from_text(TEXT))
    assert_expected_inline(
        "\n".join(messages),
        """\
eliminate-dead-nodes, before:
graph g(%x: float32[2]):
  %a: float32[2] = Neg(%x)
  %b: float32[2] = Abs(%x)
  return %a

eliminate-dead-nodes, after:
graph g(%x: float32[2]):
  %a: float32[2] = Neg(%x)
  return %a
""",
    )


def test_an_exception_names_the_pass() -> None:
    with pytest.raises(PassError) as raised:
        PassRunner([Rename(), Fail()]).run(from_text(TEXT))
    assert isinstance(raised.value.__cause__, KeyError)
    assert_expected_inline(
        str(raised.value),
        """\
A graph pass failed [TA305]
  why:
    fail: KeyError: 'x1'
  fix:
    This is a defect of the pass. Leave it out with config.debug.disabled_passes = ['fail'].""",
    )


def test_verification_names_the_pass() -> None:
    PassRunner([Break()]).run(from_text(TEXT))
    with pytest.raises(PassError) as raised:
        PassRunner([Rename(), Break()], verify=True).run(from_text(TEXT))
    assert isinstance(raised.value.__cause__, IRError)
    assert_expected_inline(
        str(raised.value),
        """\
A graph pass left a graph behind that is not well formed [TA305]
  why:
    break:
    An IR graph is not well formed [TA301]
      why:
        names: 2 nodes are called 'Neg'
        node-fields: Neg has 1 outputs and 0 names for them
  fix:
    This is a defect of the pass. Leave it out with config.debug.disabled_passes = ['break'].""",
    )
    PassRunner([Rename(), Break()], verify=True, waive=["names", "node-fields"]).run(from_text(TEXT))


def test_a_graph_that_is_wrong_before_names_no_pass() -> None:
    graph = from_text(TEXT)
    Break().run(graph)
    with pytest.raises(IRError) as raised:
        PassRunner([Rename()], verify=True).run(graph)
    assert not isinstance(raised.value, PassError)


class Tag(RewritePass):
    """``Foo`` gets an attribute."""

    name: ClassVar[str] = "tag"

    def matches(self, node: Node) -> bool:
        return node.op == "Foo"

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        return Rejection("it has one") if "tag" in node.attrs else None

    def rewrite(self, memory: Memory, node: Node) -> None:
        node.set_attr("tag", 1)


def test_a_rewrite_pass_says_why_it_leaves_a_node() -> None:
    graph = from_text("graph g(): Foo() Bar() Foo<other>(tag=0) return")
    with logged("torchair.passes.base") as messages:
        Tag().run(graph)
    assert [n.attrs for n in graph] == [{"tag": 1}, {}, {"tag": 0}]
    assert messages == ["tag leaves other (Foo): it has one"]


def test_default_passes_have_names_and_summaries() -> None:
    passes = default_passes()
    names = [p.name for p in passes]
    assert len(set(names)) == len(names)
    assert set(VIEW_PASSES) < set(names)
    assert all(p.summary().endswith(".") for p in passes)
    assert Rename.summary() == "``Neg`` becomes ``Abs``."


def test_records_are_readable() -> None:
    graph = from_text(TEXT)
    records = PassRunner([Rename(), EliminateDeadNodes(), Rename()], disabled_passes=["rename"]).run(graph)
    assert str(records[0]) == "rename: left out (disabled)"
    (record,) = PassRunner([EliminateDeadNodes()]).run(from_text(TEXT))
    assert re.fullmatch(r"eliminate-dead-nodes: 2 -> 1 nodes, \d+\.\d\d ms", str(record))
    (record,) = PassRunner([EliminateDeadNodes()]).run(graph)
    assert re.fullmatch(r"eliminate-dead-nodes: no change, \d+\.\d\d ms", str(record))
