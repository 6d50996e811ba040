"""What is computed of frozen parameters alone leaves the graph."""

from __future__ import annotations

import pytest
import torch
from expecttest import assert_expected_inline
from tests.passes.checking import run

from torchair.engines.reference import ReferenceExecutable
from torchair.ir.graph import Graph
from torchair.ir.text import from_text, to_text
from torchair.ir.verify import verify
from torchair.passes import HoistFrozenComputations


def _hoisted(text: str, *frozen: int) -> tuple[Graph, Graph | None]:
    """The graph after the pass and what was taken out; both together compute what the graph computed before."""
    graph = from_text(text)
    before, inputs = run(from_text(text))
    graph_pass = HoistFrozenComputations(frozen)
    graph_pass.run(graph)
    verify(graph)
    prologue = graph_pass.prologue
    revision, text_after = graph.revision, to_text(graph)
    if prologue is None:
        assert text_after == to_text(from_text(text))
        return graph, None
    verify(prologue.graph)
    HoistFrozenComputations(frozen).run(graph)
    assert (graph.revision, to_text(graph)) == (revision, text_after)
    extra = ReferenceExecutable(prologue.graph)(*(inputs[i] for i in prologue.reads))
    after = ReferenceExecutable(graph)(*inputs, *extra)
    torch.testing.assert_close(list(after), before, rtol=0, atol=0)
    return graph, prologue.graph


def test_casts_joins_and_arithmetic() -> None:
    graph, prologue = _hoisted(
        """
        graph g(%x: float32[2, 3], %q: float16[4, 3], %k: float16[4, 3], %scale: float32[4, 3]):
          %wide_q: float32[4, 3] = Cast(%q, dst_type=float32)
          %wide_k: float32[4, 3] = Cast(%k, dst_type=float32)
          %scaled: float32[4, 3] = Mul(%wide_k, %scale)
          %axis: int64[]{0} = Const(value=(0,))
          %both: float32[8, 3] = ConcatV2([%wide_q, %scaled], %axis, N=2)
          %y: float32[2, 8] = MatMul(%x, %both, None, transpose_x1=False, transpose_x2=True)
          return %y
        """,
        1,
        2,
        3,
    )
    assert prologue is not None
    assert_expected_inline(
        to_text(graph),
        """\
graph g(%x: float32[2, 3], %q: float16[4, 3], %k: float16[4, 3], %scale: float32[4, 3], %both_frozen: float32[8, 3]):
  %y: float32[2, 8] = MatMul(%x, %both_frozen, None, transpose_x1=False, transpose_x2=True)
  return %y
""",
    )
    assert_expected_inline(
        to_text(prologue),
        """\
graph g_frozen(%q: float16[4, 3], %k: float16[4, 3], %scale: float32[4, 3]):
  %wide_q: float32[4, 3] = Cast(%q, dst_type=float32)
  %wide_k: float32[4, 3] = Cast<Cast_1>(%k, dst_type=float32)
  %scaled: float32[4, 3] = Mul(%wide_k, %scale)
  %axis: int64[]{0} = Const(value=(0,))
  %both: float32[8, 3] = ConcatV2([%wide_q, %scaled], %axis, N=2)
  return %both
""",
    )


def test_views_stay_and_what_they_are_views_of_goes() -> None:
    graph, prologue = _hoisted(
        """
        graph g(%x: float32[2, 4], %w: float16[4, 3]):
          %perm: int64[2]{1, 0} = Const(value=(1, 0))
          %t: float16[3, 4] = Transpose(%w, %perm) aliases %t=$0
          %wide: float32[3, 4] = Cast(%t, dst_type=float32)
          %back: float32[4, 3] = Transpose(%wide, %perm) aliases %back=$0
          %y: float32[2, 3] = MatMul(%x, %back, None, transpose_x1=False, transpose_x2=False)
          return %y
        """,
        1,
    )
    assert prologue is not None
    assert_expected_inline(
        to_text(graph),
        """\
graph g(%x: float32[2, 4], %w: float16[4, 3], %wide_frozen: float32[3, 4]):
  %perm: int64[2]{1, 0} = Const(value=(1, 0))
  %back: float32[4, 3] = Transpose<Transpose_1>(%wide_frozen, %perm) aliases %back=$0
  %y: float32[2, 3] = MatMul(%x, %back, None, transpose_x1=False, transpose_x2=False)
  return %y
""",
    )
    assert_expected_inline(
        to_text(prologue),
        """\
graph g_frozen(%w: float16[4, 3]):
  %perm: int64[2]{1, 0} = Const(value=(1, 0))
  %t: float16[3, 4] = Transpose(%w, %perm) aliases %t=$0
  %wide: float32[3, 4] = Cast(%t, dst_type=float32)
  return %wide
""",
    )


_LEFT_ALONE = {
    "not frozen": ("%x: float32[3], %w: float16[3]", "%z: float32[3] = Cast(%w, dst_type=float32)", (0,)),
    "reads another input": ("%x: float32[3], %w: float32[3]", "%z: float32[3] = Mul(%x, %w)", (1,)),
    "a view": (
        "%x: float32[3], %w: float32[1, 3]",
        "%z: float32[3] = Squeeze(%w, axis=(0,)) aliases %z=$0",
        (1,),
    ),
    "larger than the parameter": (
        "%x: float32[3], %w: float32[1]",
        "%n: int64[1]{3} = Const(value=(3,))\n%z: float32[3] = Tile(%w, %n)",
        (1,),
    ),
    "symbolic": ("%x: float32[s0], %w: float16[s0]", "%z: float32[s0] = Cast(%w, dst_type=float32)", (1,)),
    "constants alone": (
        "%x: float32[3], %w: float32[3]",
        "%c: float32[3] = Const(value=(1.0, 2.0, 3.0))\n%z: float32[3] = Neg(%c)",
        (1,),
    ),
}


@pytest.mark.parametrize("inputs, line, frozen", _LEFT_ALONE.values(), ids=_LEFT_ALONE)
def test_what_is_left_alone(inputs: str, line: str, frozen: tuple[int, ...]) -> None:
    size = "s0" if "s0" in inputs else "3"
    lines = "\n".join(f"  {part}" for part in line.splitlines())
    text = f"graph g({inputs}):\n{lines}\n  %y: float32[{size}] = Add(%x, %z)\n  return %y\n"
    _, prologue = _hoisted(text, *frozen)
    assert prologue is None


def test_what_the_graph_returns_is_its_own() -> None:
    _, prologue = _hoisted(
        """
        graph g(%x: float32[3], %w: float16[3]):
          %z: float32[3] = Cast(%w, dst_type=float32)
          %y: float32[3] = Add(%x, %z)
          return %y, %z
        """,
        1,
    )
    assert prologue is None


def test_a_parameter_that_the_graph_updates_is_not_frozen() -> None:
    _, prologue = _hoisted(
        """
        graph g(%x: float32[3], %w: float32[3]):
          %z: float32[3] = Neg(%w)
          %y: float32[3] = Add(%x, %z)
          update %w <- %y
          return %y
        """,
        1,
    )
    assert prologue is None


def test_what_is_written_in_place_is_made_in_each_run() -> None:
    _, prologue = _hoisted(
        """
        graph g(%x: float32[3], %w: float32[3]):
          %z: float32[3] = Neg(%w)
          %z1: float32[3] = Assign(%z, %x, validate_shape=True, use_locking=False) writes %z1=$0
          %y: float32[3] = Abs(%z1)
          return %y
        """,
        1,
    )
    assert prologue is None


def test_control_edges_hold_a_node() -> None:
    graph = from_text(
        """
        graph g(%x: float32[3], %w: float16[3]):
          %z: float32[3] = Cast(%w, dst_type=float32)
          %y: float32[3] = Add(%x, %z)
          return %y
        """
    )
    cast, add = graph.nodes
    graph.wait_for(add, [cast])
    graph_pass = HoistFrozenComputations((1,))
    graph_pass.run(graph)
    assert graph_pass.prologue is None
