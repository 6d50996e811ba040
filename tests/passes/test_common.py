"""Computing the same only once."""

# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import ADD, after, unchanged

from torchair.ir.text import from_text
from torchair.ir.verify import verify
from torchair.passes import EliminateCommonSubexpressions

CSE = EliminateCommonSubexpressions()


def test_the_first_one_stays() -> None:
    text = """
    graph g(%x: float32[2, 3], %y: float32[2, 3]):
      %p: int64[2]{1, 0} = Const(value=(1, 0))
      %q: int64[2]{1, 0} = Const(value=(1, 0))
      %a: float32[3, 2] = Transpose(%x, %p) aliases %a=$0
      %b: float32[3, 2] = Transpose(%x, %q) aliases %b=$0
      %c: float32[3, 2] = Neg(%a)
      %d: float32[3, 2] = Neg(%b)
      %e: float32[3, 2] = Mul(%c, %d)
      return %e
    """
    assert_expected_inline(
        after(text, CSE),
        """\
graph g(%x: float32[2, 3], %y: float32[2, 3]):
  %p: int64[2]{1, 0} = Const(value=(1, 0))
  %a: float32[3, 2] = Transpose(%x, %p) aliases %a=$0
  %c: float32[3, 2] = Neg(%a)
  %e: float32[3, 2] = Mul(%c, %c)
  return %e
""",
    )


def test_several_outputs() -> None:
    text = """
    graph g(%x: float32[4], %k: int64[]{s0}):
      %v: float32[s0], %i: int32[s0] = Two(%x, %k) -> values, indices
      %w: float32[s0], %j: int32[s0] = Two(%x, %k) -> values, indices
      %z: float32[s0] = Gather(%v, %j)
      return %z, %w
    """
    graph = from_text(text)
    CSE.run(graph)
    verify(graph)
    assert len(graph) == 2
    assert graph.nodes[1].inputs == graph.nodes[0].outputs
    assert graph.outputs[1] is graph.nodes[0].outputs[0]


SAME = """
graph g(%x: float32[2], %y: float32[2]):
  %a: float32[2] = Foo(%x, axis=0)
  %b: float32[2] = Foo(%x, axis=0)
  %c: float32[2] = Bar(%a)
  %d: float32[2] = Baz(%b)
  return %c, %d
"""


def _changes(text: str) -> bool:
    graph = from_text(text)
    verify(graph)
    nodes = len(graph)
    CSE.run(graph)
    verify(graph)
    return len(graph) != nodes


def test_the_pattern_of_the_near_misses_is_merged() -> None:
    assert _changes(SAME)


@pytest.mark.parametrize(
    "old, new",
    [
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Foo(%y, axis=0)"),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Foo(%x, axis=0.0)"),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Foo(%x, axis=False)"),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Fox(%x, axis=0)"),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] on cuda:0 = Foo(%x, axis=0)"),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Foo([%x], axis=0)"),
        ("%b: float32[2] = Foo(%x, axis=0)", '%b: float32[2] = Foo(%x, axis=0) scope(_user_stream_label="s")'),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Foo(%x, axis=0) call f($0)"),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Foo(%x, axis=0) strides $0=(1,)"),
        ("Foo(%x, axis=0)", "Foo(%x, axis=0) side_effects"),
        ("%b: float32[2] = Foo(%x, axis=0)", "%b: float32[2] = Foo(%x, axis=0) after Foo"),
        ("%d: float32[2] = Baz(%b)", "%d: float32[2] = Baz(%b) after Foo_1"),
        # a result that is overwritten before the other one is read
        (
            "%c: float32[2] = Bar(%a)\n  %d: float32[2] = Baz(%b)",
            "%d: float32[2] = Baz(%b) writes %d=$0\n  %c: float32[2] = Bar(%a)",
        ),
        # tensors of the caller
        ("return %c, %d", "return %a, %b"),
    ],
)
def test_near_misses(old: str, new: str) -> None:
    assert old in SAME
    assert not _changes(SAME.replace(old, new))


def test_minus_zero_and_nan() -> None:
    constant = "graph g(): %a: float32[] = Const(value=({0},)) %b: float32[] = Const(value=({1},)) %c: float32[] = Mul(%a, %b) return %c"
    assert not _changes(constant.replace("{0}", "0.0").replace("{1}", "-0.0"))
    assert _changes(constant.replace("{0}", "nan").replace("{1}", "nan"))
    assert _changes(constant.replace("{0}", "-0.0").replace("{1}", "-0.0"))


def test_constant_tensors_are_the_same_only_by_name() -> None:
    text = 'graph g(): %a: float32[1] = Const(value=blob("{0}")) %b: float32[1] = Const(value=blob("{1}")) %c: float32[1] = Mul(%a, %b) return %c'
    for names, merged in ((("u", "u"), True), (("u", "v"), False)):
        graph = from_text(text.replace("{0}", names[0]).replace("{1}", names[1]), {"u": 1, "v": 1})
        CSE.run(graph)
        assert (len(graph) == 2) is merged


def test_symbols_that_are_made_twice() -> None:
    text = "graph g(%x: float32[2]): %a: int64[u0] = NonZero(%x) binds u0=%a[0] %b: int64[u1] = NonZero(%x) binds u1=%b[0] return %a"
    assert not _changes(text)


def test_one_copy_does_not_serve_for_two_writers() -> None:
    unchanged(
        f"""
        graph g(%x: float32[2], %y: float32[2]):
          %a: float32[2] = TensorMove(%x)
          %b: float32[2] = TensorMove(%x)
          %a1: float32[2] = MyInplace(%a, %y) writes %a1=$0 {ADD}
          %b1: float32[2] = MyInplace(%b, %y) writes %b1=$0 {ADD}
          return %a1, %b1
        """,
        CSE,
    )


def test_one_copy_does_not_serve_for_a_writer_and_a_later_reader() -> None:
    unchanged(
        f"""
        graph g(%x: float32[2], %y: float32[2]):
          %a: float32[2] = TensorMove(%x)
          %a1: float32[2] = MyInplace(%a, %y) writes %a1=$0 {ADD}
          %b: float32[2] = TensorMove(%x)
          %b1: float32[2] = Neg(%b)
          return %a1, %b1
        """,
        CSE,
    )


def test_views_of_one_tensor_are_merged_even_if_it_is_overwritten_later() -> None:
    text = f"""
    graph g(%x: float32[2, 3], %y: float32[2, 3]):
      %p: int64[2]{{1, 0}} = Const(value=(1, 0))
      %a: float32[3, 2] = Transpose(%x, %p) aliases %a=$0
      %b: float32[3, 2] = Transpose(%x, %p) aliases %b=$0
      %c: float32[3, 2] = Mul(%a, %b)
      %x1: float32[2, 3] = MyInplace(%x, %y) writes %x1=$0 {ADD}
      update %x <- %x1
      return %c
    """
    assert_expected_inline(
        after(text, CSE),
        """\
graph g(%x: float32[2, 3], %y: float32[2, 3]):
  %p: int64[2]{1, 0} = Const(value=(1, 0))
  %a: float32[3, 2] = Transpose(%x, %p) aliases %a=$0
  %c: float32[3, 2] = Mul(%a, %a)
  %x1: float32[2, 3] = MyInplace(%x, %y) writes %x1=$0 call torchair_pass_tests::add_.default($0, $1) writing $0
  update %x <- %x1
  return %c
""",
    )


def test_an_output_and_an_equal_intermediate_are_merged() -> None:
    text = """
    graph g(%x: float32[2]):
      %a: float32[2] = Neg(%x)
      %b: float32[2] = Neg(%x)
      %c: float32[2] = Abs(%a)
      return %b, %c
    """
    assert_expected_inline(
        after(text, CSE),
        """\
graph g(%x: float32[2]):
  %a: float32[2] = Neg(%x)
  %c: float32[2] = Abs(%a)
  return %a, %c
""",
    )
