"""Taking out what nothing needs."""

# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

from expecttest import assert_expected_inline
from tests.passes.checking import ADD, after, unchanged

from torchair.ir.text import from_text, to_text
from torchair.ir.verify import verify
from torchair.passes import EliminateDeadNodes


def test_what_nothing_reads_goes() -> None:
    text = """
    graph g(%x: float32[2], %unused: float32[2]):
      %a: float32[2] = Neg(%x)
      %b: float32[2] = Abs(%a)
      %c: float32[2] = Add(%b, %a)
      %w: float32[2] = Const(value=blob("w"))
      return %a
    """
    assert_expected_inline(
        after(text, EliminateDeadNodes(), blobs={"w": None}),
        """\
graph g(%x: float32[2], %unused: float32[2]):
  %a: float32[2] = Neg(%x)
  return %a
""",
    )


def test_constant_tensors_go_with_their_node() -> None:
    text = 'graph g(): %v: float32[1] = Const(value=blob("v")) %w: float32[1] = Const(value=(blob("w"),)) return %v'
    graph = from_text(text, {"v": 1, "w": 2, "unnamed": 3})
    EliminateDeadNodes().run(graph)
    assert graph.blobs == {"v": 1}


def test_updates_with_themselves_go() -> None:
    text = "graph g(%x: float32[2], %y: float32[2]): update %x <- %x update %y <- %x return"
    assert_expected_inline(
        after(text, EliminateDeadNodes()),
        """\
graph g(%x: float32[2], %y: float32[2]):
  update %y <- %x
  return
""",
    )


def test_effects_stay() -> None:
    unchanged(
        f"""
        graph g(%x: float32[2], %y: float32[2]):
          %one: float32[] = Const(value=(1.0,))
          %r: float32[2] = Mul(%y, %one) side_effects
          %x1: float32[2] = MyInplace(%x, %y) writes %x1=$0 {ADD}
          %out: float32[2] = Neg(%y)
          update %x <- %x1
          return %out
        """,
        EliminateDeadNodes(),
    )


def test_a_write_to_an_input_stays_even_if_something_else_goes_into_the_input() -> None:
    graph = from_text(
        """
        graph g(%x: float32[2]):
          %v: float32[2] = View(%x) aliases %v=$0
          %w: float32[2] = MyInplace(%v) writes %w=$0
          %m: float32[2] = Copy(%x)
          %n: float32[2] = MyInplace(%m) writes %n=$0
          return
        """
    )
    EliminateDeadNodes().run(graph)
    assert [node.op for node in graph] == ["View", "MyInplace"]


def test_what_a_needed_node_waits_for_stays() -> None:
    graph = from_text(
        "graph g(%x: float32[2]): %a: float32[2] = A(%x) %b: float32[2] = B(%x) after A %c: float32[2] = C(%x) after A return %b"
    )
    EliminateDeadNodes().run(graph)
    assert_expected_inline(
        to_text(graph),
        """\
graph g(%x: float32[2]):
  %a: float32[2] = A(%x)
  %b: float32[2] = B(%x) after A
  return %b
""",
    )


def test_what_tells_a_symbol_stays() -> None:
    text = """
    graph g(%x: int64[4]):
      %n: int64[u0, 1] = NonZero(%x) binds u0=%n[0]
      %i: int64[]{u1} = Item(%x) binds u1=%i
      %k: int64[]{u2} = Item(%x) binds u2=%k
      %s: int64[1]{u0} = HostInts()
      %z: float32[u0] = Zeros(%s)
      %w: float32[u0] = Opaque(%z) strides $0=(u1,)
      return %w strides (1,)
    """
    graph = from_text(text)
    EliminateDeadNodes().run(graph)
    verify(graph)
    assert [node.output.name for node in graph] == ["n", "i", "s", "z", "w"]


def test_a_symbol_of_an_output_stays() -> None:
    text = "graph g(%x: int64[4]): %n: int64[u0] = NonZero(%x) binds u0=%n[0] return %x strides (u0,)"
    graph = from_text(text)
    EliminateDeadNodes().run(graph)
    assert len(graph) == 1
