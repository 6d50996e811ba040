"""Operators that return what they were given."""

# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import ADD, after, unchanged

from torchair.ir.text import from_text
from torchair.passes import Caller, EliminateDeadNodes, RemoveIdentities


def test_each_kind() -> None:
    text = """
    graph g(%x: float32[2, s0]):
      %shape: int64[2]{2, s0} = HostInts()
      %perm: int64[2]{0, 1} = Const(value=(0, 1))
      %a: float32[2, s0] = Identity(%x) aliases %a=$0
      %b: float32[2, s0] = Cast(%a, dst_type=float32) aliases %b=$0
      %c: float32[2, s0] = Reshape(%b, %shape, axis=0, num_axes=-1) aliases %c=$0
      %d: float32[2, s0] = BroadcastTo(%c, %shape) aliases %d=$0
      %e: float32[2, s0] = Transpose(%d, %perm) aliases %e=$0
      %f: float32[2, s0] = Neg(%e)
      return %f
    """
    assert_expected_inline(
        after(text, RemoveIdentities(), EliminateDeadNodes()),
        """\
graph g(%x: float32[2, s0]):
  %f: float32[2, s0] = Neg(%x)
  return %f
""",
    )


@pytest.mark.parametrize(
    "line",
    [
        "%a: float64[2, 2] = Cast(%x, dst_type=float64)",
        "%a: float32[4] = Reshape(%x, %four, axis=0, num_axes=-1) aliases %a=$0",
        "%a: float32[2, 2] = Transpose(%x, %perm) aliases %a=$0",
        "%a: float32[3, 2, 2] = BroadcastTo(%x, %three) aliases %a=$0",
        "%a: float32[2, 2] = Identity(%x) side_effects aliases %a=$0",
        "%a: float32[2, 2] = Identity(%x) aliases %a=$0 after Const",
        "%a: float32[2, 2] = Neg(%x)",
    ],
)
def test_near_misses(line: str) -> None:
    dtype, _, shape = line.partition("=")[0].strip().removeprefix("%a: ").partition("[")
    unchanged(
        f"""
        graph g(%x: float32[2, 2]):
          %perm: int64[2]{{1, 0}} = Const<Const>(value=(1, 0))
          %four: int64[1]{{4}} = Const(value=(4,))
          %three: int64[3]{{3, 2, 2}} = Const(value=(3, 2, 2))
          {line}
          %b: {dtype}[{shape} = Neg(%a)
          return %b
        """,
        RemoveIdentities(),
    )


@pytest.mark.parametrize(
    "nodes, result",
    [
        ("%a: float32[2] = Identity(%x) aliases %a=$0", "return %a"),  # it would be the input
        ("%a: float32[2] = Identity(%x) aliases %a=$0", "return %x, %a"),
        (
            "%n: float32[2] = Neg(%x) %a: float32[2] = Identity(%n) aliases %a=$0",
            "return %n, %a",
        ),  # the same output twice
        ("%a: float32[2] = Cast(%x, dst_type=float32)", "return %a"),  # it says that it copies
        ("%n: float32[2] = Neg(%x) %a: float32[2] = Cast(%n, dst_type=float32)", "return %n, %a"),
        (
            "%a: float32[2] = Cast(%x, dst_type=float32) %s: int64[1]{2} = Const(value=(2,)) %v: float32[2] = BroadcastTo(%a, %s) aliases %v=$0 %w: float32[2] = Neg(%x)",
            "return %v, %w",
        ),
    ],
)
def test_outputs_stay_what_they_are(nodes: str, result: str) -> None:
    graph = from_text(f"graph g(%x: float32[2]): {nodes} {result}")
    identities = [n for n in graph if n.op in ("Identity", "Cast")]
    RemoveIdentities().run(graph)
    assert [n for n in graph if n.op in ("Identity", "Cast")] == identities


def test_an_output_that_the_caller_makes_again() -> None:
    text = "graph g(%x: float32[2], %y: float32[2]): %a: float32[2] = Cast(%x, dst_type=float32) %b: float32[2] = View(%a) aliases %b=$0 return %b"
    graph = from_text(text)
    RemoveIdentities().run(graph)
    assert graph.count("Cast") == 1
    RemoveIdentities(Caller(remade_outputs=(0,))).run(graph)
    assert graph.count("Cast") == 0


def test_a_copy_that_protects_from_a_write_stays() -> None:
    text = f"""
    graph g(%x: float32[2], %y: float32[2]):
      %a: float32[2] = Cast(%x, dst_type=float32)
      %x1: float32[2] = MyInplace(%x, %y) writes %x1=$0 {ADD}
      %b: float32[2] = Neg(%a)
      update %x <- %x1
      return %b
    """
    graph = from_text(text)
    RemoveIdentities().run(graph)
    assert graph.count("Cast") == 1


def test_an_update_of_a_swapped_pair() -> None:
    text = """
    graph g(%x: float32[2], %y: float32[2]):
      %a: float32[2] = Cast(%x, dst_type=float32)
      update %x <- %y
      update %y <- %a
      return
    """
    graph = from_text(text)
    RemoveIdentities().run(graph)
    assert graph.count("Cast") == 1


def test_an_identity_that_others_wait_for_stays() -> None:
    text = "graph g(%x: float32[2]): %a: float32[2] = Identity(%x) aliases %a=$0 %b: float32[2] = Neg(%a) after Identity return %b"
    unchanged(text, RemoveIdentities())
