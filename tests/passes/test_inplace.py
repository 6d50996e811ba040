"""Dropping copies of tensors that are written in place."""

# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import ADD, ADD_BOTH, after, apply, logged, unchanged

from torchair.ir.graph import Graph
from torchair.ir.text import from_text
from torchair.ir.verify import verify
from torchair.passes import Caller, EliminateDeadNodes, Reinplace

#: A cache of which one row is written through a view, as conversion makes it.
ROW = f"""
graph g(%cache: float32[4, 2], %x: float32[2]):
  %size: int64[1]{{2}} = Const(value=(2,))
  %stride: int64[1]{{1}} = Const(value=(1,))
  %at: int64[]{{4}} = Const(value=(4,))
  %copy: float32[4, 2] = TensorMove(%cache)
  %row: float32[2] = AsStrided(%copy, %size, %stride, %at) aliases %row=$0
  %row1: float32[2] = MyInplace(%row, %x) -> x writes %row1=$0 {ADD}
  %cache1: float32[4, 2] = ViewCopy(%copy, %size, %stride, %at, %row1, %size, %stride, %at) -> dst writes %cache1=$0
  %sum: float32[4, 2] = Neg(%cache1)
  update %cache <- %cache1
  return %sum
"""

#: An input that is written as a whole.
WHOLE = f"""
graph g(%cache: float32[2], %x: float32[2]):
  %copy: float32[2] = TensorMove(%cache)
  %cache1: float32[2] = MyInplace(%copy, %x) -> x writes %cache1=$0 {ADD}
  %y: float32[2] = Neg(%cache1)
  update %cache <- %cache1
  return %y
"""


def _moves(text: str, caller: Caller | None = None) -> int:
    """Number of copies that are left, in a graph that stays right."""
    return apply(text, Reinplace(caller or Caller())).count("TensorMove")


def test_an_input_is_written_in_place() -> None:
    assert_expected_inline(
        after(WHOLE, Reinplace()),
        """\
graph g(%cache: float32[2], %x: float32[2]):
  %cache1: float32[2] = MyInplace(%cache, %x) -> x writes %cache1=$0 call torchair_pass_tests::add_.default($0, $1) writing $0
  %y: float32[2] = Neg(%cache1)
  update %cache <- %cache1
  return %y
""",
    )


def test_a_row_of_a_cache_is_written_in_place() -> None:
    assert_expected_inline(
        after(ROW, Reinplace()),
        """\
graph g(%cache: float32[4, 2], %x: float32[2]):
  %size: int64[1]{2} = Const(value=(2,))
  %stride: int64[1]{1} = Const<Const_1>(value=(1,))
  %at: int64[]{4} = Const<Const_2>(value=(4,))
  %row: float32[2] = AsStrided(%cache, %size, %stride, %at) aliases %row=$0
  %row1: float32[2] = MyInplace(%row, %x) -> x writes %row1=$0 call torchair_pass_tests::add_.default($0, $1) writing $0
  %cache1: float32[4, 2] = ViewCopy(%cache, %size, %stride, %at, %row1, %size, %stride, %at) -> dst writes %cache1=$0
  %sum: float32[4, 2] = Neg(%cache1)
  update %cache <- %cache1
  return %sum
""",
    )


def test_an_intermediate_is_written_in_place() -> None:
    text = f"""
    graph g(%x: float32[2], %y: float32[2]):
      %a: float32[2] = Neg(%x)
      %copy: float32[2] = TensorMove(%a)
      %a1: float32[2] = MyInplace(%copy, %y) -> x writes %a1=$0 {ADD}
      return %a1
    """
    assert_expected_inline(
        after(text, Reinplace()),
        """\
graph g(%x: float32[2], %y: float32[2]):
  %a: float32[2] = Neg(%x)
  %a1: float32[2] = MyInplace(%a, %y) -> x writes %a1=$0 call torchair_pass_tests::add_.default($0, $1) writing $0
  return %a1
""",
    )


def test_steps_write_one_cache_one_after_the_other() -> None:
    text = f"""
    graph g(%cache: float32[4, 2], %x: float32[2]):
      %size: int64[1]{{2}} = Const(value=(2,))
      %one: int64[1]{{1}} = Const(value=(1,))
      %at0: int64[]{{0}} = Const(value=(0,))
      %at4: int64[]{{4}} = Const(value=(4,))
      %c: float32[4, 2] = TensorMove(%cache)
      %a: float32[2] = AsStrided(%c, %size, %one, %at0) aliases %a=$0
      %a1: float32[2] = MyInplace(%a, %x) writes %a1=$0 {ADD}
      %c1: float32[4, 2] = ViewCopy(%c, %size, %one, %at0, %a1, %size, %one, %at0) writes %c1=$0
      %d: float32[4, 2] = TensorMove(%c1)
      %b: float32[2] = AsStrided(%d, %size, %one, %at4) aliases %b=$0
      %b1: float32[2] = MyInplace(%b, %x) writes %b1=$0 {ADD}
      %c2: float32[4, 2] = ViewCopy(%d, %size, %one, %at4, %b1, %size, %one, %at4) writes %c2=$0
      update %cache <- %c2
      return
    """
    assert_expected_inline(
        after(text, Reinplace()),
        """\
graph g(%cache: float32[4, 2], %x: float32[2]):
  %size: int64[1]{2} = Const(value=(2,))
  %one: int64[1]{1} = Const<Const_1>(value=(1,))
  %at0: int64[]{0} = Const<Const_2>(value=(0,))
  %at4: int64[]{4} = Const<Const_3>(value=(4,))
  %a: float32[2] = AsStrided(%cache, %size, %one, %at0) aliases %a=$0
  %a1: float32[2] = MyInplace(%a, %x) writes %a1=$0 call torchair_pass_tests::add_.default($0, $1) writing $0
  %c1: float32[4, 2] = ViewCopy(%cache, %size, %one, %at0, %a1, %size, %one, %at0) writes %c1=$0
  %b: float32[2] = AsStrided<AsStrided_1>(%c1, %size, %one, %at4) aliases %b=$0
  %b1: float32[2] = MyInplace<MyInplace_1>(%b, %x) writes %b1=$0 call torchair_pass_tests::add_.default($0, $1) writing $0
  %c2: float32[4, 2] = ViewCopy<ViewCopy_1>(%c1, %size, %one, %at4, %b1, %size, %one, %at4) writes %c2=$0
  update %cache <- %c2
  return
""",
    )


def test_one_operator_writes_two_rows() -> None:
    text = f"""
    graph g(%cache: float32[4, 2], %x: float32[2]):
      %size: int64[1]{{2}} = Const(value=(2,))
      %one: int64[1]{{1}} = Const(value=(1,))
      %at0: int64[]{{0}} = Const(value=(0,))
      %at4: int64[]{{4}} = Const(value=(4,))
      %c: float32[4, 2] = TensorMove(%cache)
      %a: float32[2] = AsStrided(%c, %size, %one, %at0) aliases %a=$0
      %b: float32[2] = AsStrided(%c, %size, %one, %at4) aliases %b=$0
      %a1: float32[2], %b1: float32[2] = MyInplace(%a, %b, %x) writes %a1=$0, %b1=$1 {ADD_BOTH}
      %c1: float32[4, 2] = ViewCopy(%c, %size, %one, %at0, %a1, %size, %one, %at0) writes %c1=$0
      %c2: float32[4, 2] = ViewCopy(%c1, %size, %one, %at4, %b1, %size, %one, %at4) writes %c2=$0
      update %cache <- %c2
      return
    """
    assert _moves(text) == 0


def test_an_operator_that_writes_a_tensor_and_its_copy_keeps_two_memories() -> None:
    # ``add_both_(x, x.clone(), y)``
    text = f"""
    graph g(%x: float32[2], %y: float32[2]):
      %clone: float32[2] = TensorMove(%x)
      %a: float32[2] = TensorMove(%x)
      %b: float32[2] = TensorMove(%clone)
      %a1: float32[2], %b1: float32[2] = MyInplace(%a, %b, %y) writes %a1=$0, %b1=$1 {ADD_BOTH}
      update %x <- %a1
      return
    """
    assert _moves(text) == 1


def test_a_copy_of_a_copy() -> None:
    # ``z = cache.clone(); my_inplace(z, x); cache.copy_(z)``
    text = WHOLE.replace("TensorMove(%cache)", "TensorMove(%cache) %copy2: float32[2] = TensorMove(%copy)").replace(
        "MyInplace(%copy,", "MyInplace(%copy2,"
    )
    assert _moves(text) == 0


def test_a_copy_that_nothing_overwrites_goes() -> None:
    assert _moves("graph g(%x: float32[2]): %a: float32[2] = TensorMove(%x) %b: float32[2] = Neg(%a) return %b") == 0


@pytest.mark.parametrize(
    "text, old, new",
    [
        # the old value is read later
        (WHOLE, "Neg(%cache1)", "Neg(%cache)"),
        (WHOLE, "return %y", "return %cache"),
        (WHOLE, "%copy: float32[2] =", "%v: float32[2] = Identity(%cache) aliases %v=$0 %copy: float32[2] ="),
        # by the node that overwrites it
        (WHOLE, "MyInplace(%copy, %x)", "MyInplace(%copy, %cache)"),
        # the input keeps its value, or gets another one
        (WHOLE, "update %cache <- %cache1", ""),
        (WHOLE, "update %cache <- %cache1", "update %x <- %cache1"),
        (WHOLE, "update %cache <- %cache1", "update %cache <- %x"),
        # the caller gets tensors of its own
        (WHOLE, "return %y", "return %cache1"),
        (WHOLE, "return %y", "return %y, %cache1"),
        # a view, and a constant
        (ROW, "return %sum", "return %row"),
        (ROW, "Neg(%cache1)", "Neg(%cache)"),
    ],
)
def test_near_misses(text: str, old: str, new: str) -> None:
    assert old in text
    changed = text.replace(old, new).replace("Neg(%cache1)", "Neg(%v)" if "%v:" in new else "Neg(%cache1)")
    graph = from_text(changed)
    if "return %row" in new:  # it reads what was overwritten, before and after
        Reinplace().run(graph)
        assert graph.count("TensorMove") == 1
    else:
        unchanged(changed, Reinplace())


def test_a_constant_is_not_overwritten() -> None:
    constants = [
        "%c: float32[2] = Const(value=(1.0, 2.0))",
        "%n: int64[1]{2} = Const(value=(2,)) %k: float32[] = Const(value=(1.0,)) %c: float32[2] = Fill(%n, %k)",
    ]
    for constant in constants:
        unchanged(
            f"""
            graph g(%x: float32[2]):
              {constant}
              %m: float32[2] = TensorMove(%c)
              %a: float32[2] = MyInplace(%m, %x) writes %a=$0 {ADD}
              return %a
            """,
            Reinplace(),
        )


def test_an_expanded_tensor_is_not_written() -> None:
    text = f"""
    graph g(%x: float32[2], %y: float32[3, 2]):
      %n: int64[2]{{3, 2}} = Const(value=(3, 2))
      %z: float32[2] = Neg(%x)
      %e: float32[3, 2] = BroadcastTo(%z, %n) aliases %e=$0
      %m: float32[3, 2] = TensorMove(%e)
      %a: float32[3, 2] = MyInplace(%m, %y) writes %a=$0 {ADD}
      return %a
    """
    graph = from_text(text)
    with logged("torchair.passes.base") as messages:
        Reinplace().run(graph)
    assert messages == [
        "reinplace leaves TensorMove (TensorMove): MyInplace would write %e, of which several elements may lie at one place"
    ]
    assert graph.count("TensorMove") == 1


def test_a_view_of_an_intermediate_is_written() -> None:
    text = f"""
    graph g(%x: float32[2, 3], %y: float32[3, 2]):
      %p: int64[2]{{1, 0}} = Const(value=(1, 0))
      %z: float32[2, 3] = Neg(%x)
      %t: float32[3, 2] = Transpose(%z, %p) aliases %t=$0
      %m: float32[3, 2] = TensorMove(%t)
      %a: float32[3, 2] = MyInplace(%m, %y) writes %a=$0 {ADD}
      return %a
    """
    assert _moves(text) == 0
    assert _moves(text.replace("return %a", "return %a, %z")) == 1


def test_outputs_that_the_caller_makes_again_may_lie_in_an_input() -> None:
    text = WHOLE.replace("return %y", "return %y, %cache1")
    graph = from_text(text)
    Reinplace(Caller(remade_outputs=(0,))).run(graph)
    assert graph.count("TensorMove") == 1
    Reinplace(Caller(remade_outputs=(1,))).run(graph)
    assert graph.count("TensorMove") == 0
    verify(graph)


def test_inputs_that_must_not_be_written_before_the_end() -> None:
    assert _moves(WHOLE, Caller(fixed_inputs=(1,))) == 0
    assert _moves(WHOLE, Caller(fixed_inputs=(0,))) == 1


def test_swapped_inputs() -> None:
    # ``a, b = b, a``, in place: one copy has to stay.
    text = "graph g(%a: float32[2], %b: float32[2]): %m: float32[2] = TensorMove(%a) update %a <- %b update %b <- %m return"
    unchanged(text, Reinplace())


def test_an_input_that_is_updated_with_itself_in_another_order() -> None:
    unchanged(
        """
        graph g(%x: float32[2, 2]):
          %p: int64[2]{1, 0} = Const(value=(1, 0))
          %m: float32[2, 2] = TensorMove(%x)
          %t: float32[2, 2] = Transpose(%m, %p) aliases %t=$0
          update %x <- %t
          return
        """,
        Reinplace(),
    )


def test_memory_that_may_be_of_two_inputs() -> None:
    text = """
    graph g(%x: float32[2], %y: float32[2]):
      %e: float32[2] = Either(%x, %y) aliases %e=$0, %e=$1
      %m: float32[2] = TensorMove(%e)
      %a: float32[2] = MyInplace(%m) writes %a=$0
      update %x <- %a
      return
    """
    graph = from_text(text)
    Reinplace().run(graph)
    assert graph.count("TensorMove") == 1


def test_a_copy_that_orders_others_stays() -> None:
    unchanged(WHOLE.replace("Neg(%cache1)", "Neg(%cache1) after TensorMove"), Reinplace())
    unchanged(WHOLE.replace("TensorMove(%cache)", "TensorMove(%cache) side_effects"), Reinplace())


def test_a_copy_that_puts_elements_in_order_stays_unless_they_are() -> None:
    ordered = WHOLE.replace("TensorMove(%cache)", "TensorMove(%cache) strides $0=(1,)")
    assert _moves(ordered) == 0
    text = f"""
    graph g(%x: float32[2, 3], %y: float32[2, 3]):
      %a: float32[2, 3] = Neg(%x)
      %m: float32[2, 3] = TensorMove(%a) strides $0=(3, 1)
      %b: float32[2, 3] = MyInplace(%m, %y) writes %b=$0 {ADD}
      %n: float32[2, 3] = TensorMove(%b) strides $0={{0}}
      %c: float32[2, 3] = MyInplace(%n, %y) writes %c=$0 {ADD}
      return %c
    """
    assert _moves(text.replace("{0}", "(3, 1)")) == 1
    assert _moves(text.replace("{0}", "(1, 2)")) == 2


def test_the_reason_is_logged() -> None:
    with logged("torchair.passes.base") as messages:
        for old, new in (
            ("Neg(%cache1)", "Neg(%cache)"),
            ("update %cache <- %cache1", ""),
            ("return %y", "return %cache1"),
        ):
            Reinplace().run(from_text(WHOLE.replace(old, new)))
    assert_expected_inline(
        "\n".join(messages),
        """\
reinplace leaves TensorMove (TensorMove): Neg reads %cache after MyInplace has overwritten its memory
reinplace leaves TensorMove (TensorMove): MyInplace would overwrite the input %cache, which keeps its value
reinplace leaves TensorMove (TensorMove): the output %cache1 would lie in the memory of the input %cache""",
    )


def test_the_whole_order_of_passes_leaves_no_copy() -> None:
    graph: Graph = apply(ROW, Reinplace(), EliminateDeadNodes())
    assert [n.op for n in graph if n.op != "Const"] == ["AsStrided", "MyInplace", "ViewCopy", "Neg"]
