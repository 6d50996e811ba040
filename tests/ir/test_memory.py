"""Memory groups, and what is known about values in them."""

from __future__ import annotations

import pytest
from tests.ir.test_verify import INPLACE

from torchair.ir.graph import Graph, Value
from torchair.ir.memory import (
    Memory,
    depends_on,
    is_constant,
    may_become_constant,
    may_overlap_itself,
    whole_memory,
    write_back_of,
)
from torchair.ir.text import from_text


def _value(graph: Graph, name: str) -> Value:
    return next(v for v in [*graph.inputs, *(o for n in graph for o in n.outputs)] if v.name == name)


def test_groups_follow_views_and_writes() -> None:
    graph = from_text(INPLACE)
    memory = Memory(graph)
    assert [v.name for v in memory.group(_value(graph, "view"))] == ["cache", "view", "view_1", "cache_1"]
    assert not memory.share(_value(graph, "sum"), _value(graph, "cache"))
    assert [n.name for n in memory.writers(memory.group(_value(graph, "cache")))] == ["MyInplace"]
    assert sum(len(group) for group in memory.groups()) == 9


def test_joining_and_forgetting() -> None:
    graph = from_text(
        "graph g(%x: float32[2]): %a: float32[2] = TensorMove(%x) %b: float32[2] = View(%a) aliases %b=$0 return %b"
    )
    memory = Memory(graph)
    x, a, b = graph.inputs[0], graph.nodes[0].output, graph.nodes[1].output
    memory.join(x, b)
    assert set(memory.group(a)) == {x, a, b}
    graph.replace_all_uses_with(a, x)
    memory.forget(graph.nodes[0])
    assert set(memory.group(x)) == {x, b}


def test_write_backs_name_the_writes_that_they_put_back() -> None:
    graph = from_text(INPLACE)
    my_inplace, view_copy = graph.nodes[4:6]
    assert write_back_of(view_copy) == {my_inplace: my_inplace.output}
    assert write_back_of(my_inplace) is None
    assert whole_memory(view_copy.output) is graph.inputs[0]
    assert write_back_of(from_text("graph g(%x: float32[2]): %a: float32[2] = ViewCopy(%x) return %a").nodes[0]) is None


def test_constants() -> None:
    graph = from_text(
        """
        graph g(%x: float32[2], %n: int64[]{s0}):
          %c: int64[1]{2} = Const(value=(2,))
          %h: int64[1]{s0} = HostInts()
          %fill: float32[2] = Fill(%c)
          %fill_n: float32[s0] = Fill(%h)
          %empty: float32[2] = Empty()
          %random: float32[2] = Random() side_effects
          %shuffled: float32[2] = Add(%fill, %random)
          return %x
        """
    )
    assert [n.output.name for n in graph if is_constant(n.output)] == ["c", "h"]
    assert [n.output.name for n in graph if may_become_constant(n.output)] == ["c", "fill", "empty"]
    assert not is_constant(graph.inputs[0])
    assert not may_become_constant(graph.inputs[0])


def test_dependence() -> None:
    graph = from_text(
        "graph g(%x: float32[2]): %a: float32[2] = A(%x) %b: float32[2] = B(%x) %c: float32[2] = C([%a]) return"
    )
    a, b, c = graph.nodes
    assert depends_on(c.output, a)
    assert depends_on(c.output, c)
    assert not depends_on(c.output, b)
    assert not depends_on(graph.inputs[0], a)


@pytest.mark.parametrize(
    "node, overlaps",
    [
        ("%y: float32[4, s0] = Add(%x, %x)", False),
        ("%y: float32[s0, 4] = Transpose(%x, %two) aliases %y=$0", False),
        ("%y: float32[2, 4, s0] = BroadcastTo(%x, %two) aliases %y=$0", True),
        ("%y: float32[4, s0] = Foo(%e) writes %y=$0", False),
        ("%y: float32[2, 3] = Slice(%k) aliases %y=$0", False),
        ("%y: float32[4, s0 - 1] = Slice(%x) aliases %y=$0", True),  # nobody knows
        ("%y: float32[2, 3] = AsStrided(%k, %s23, %s31, %two) aliases %y=$0", False),
        ("%y: float32[2, 3] = AsStrided(%k, %s23, %s13, %two) aliases %y=$0", True),
        ("%y: float32[2, 3] = AsStrided(%k, %s23, %s10, %two) aliases %y=$0", True),
        ("%y: float32[4, s0] = AsStrided(%x, %s4n, %sn1, %two) aliases %y=$0", False),
        ("%y: float32[4, s0] = AsStrided(%x, %s4n, %s14, %two) aliases %y=$0", False),
        ("%y: float32[4, s0] = AsStrided(%x, %s4n, %s13, %two) aliases %y=$0", True),
        ("%y: float32[4, s0] = AsStrided(%x, %k, %k, %two) aliases %y=$0", True),
        ("%y: float32[3, 2] = Transpose(%e, %two) aliases %y=$0", True),
        ("%z: float32[6], %y: float32[6] = Two(%k) aliases %z=$0", False),
    ],
)
def test_overlap(node: str, overlaps: bool) -> None:
    graph = from_text(
        f"""
        graph g(%x: float32[4, s0], %k: float32[6], %one: float32[1]):
          %two: int64[2]{{1, 0}} = Const(value=(1, 0))
          %s23: int64[2]{{2, 3}} = Const(value=(2, 3))
          %s31: int64[2]{{3, 1}} = Const(value=(3, 1))
          %s13: int64[2]{{1, 1}} = Const(value=(1, 1))
          %s10: int64[2]{{1, 0}} = Const(value=(1, 0))
          %s14: int64[2]{{1, 4}} = Const(value=(1, 4))
          %s4n: int64[2]{{4, s0}} = HostInts()
          %sn1: int64[2]{{s0, 1}} = HostInts()
          %e: float32[2, 3] = BroadcastTo(%one, %s23) aliases %e=$0
          {node.replace("Foo(%e)", "Foo(%x)")}
          return
        """
    )
    assert may_overlap_itself(graph.nodes[-1].outputs[-1]) is overlaps
