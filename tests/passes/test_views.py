"""Merging chains of Transpose and of Reshape."""

# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import after, unchanged

from torchair.ir.text import from_text
from torchair.passes import EliminateDeadNodes, MergeReshapes, MergeTransposes, RemoveIdentities
from torchair.passes.views import permutation

CLEAN = (MergeTransposes(), EliminateDeadNodes())


def test_two_transposes_that_undo_each_other_disappear() -> None:
    text = """
    graph g(%x: float32[2, 3], %y: float32[2, 3]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[3, 2] = Transpose(%x, %perm) aliases %t=$0
      %u: float32[2, 3] = Transpose(%t, %perm) aliases %u=$0
      %z: float32[2, 3] = Add(%u, %y)
      return %z
    """
    assert_expected_inline(
        after(text, *CLEAN),
        """\
graph g(%x: float32[2, 3], %y: float32[2, 3]):
  %z: float32[2, 3] = Add(%x, %y)
  return %z
""",
    )


def test_two_transposes_become_one() -> None:
    text = """
    graph g(%x: float32[2, 3, s0]):
      %p: int64[3]{1, 2, 0} = Const(value=(1, 2, 0))
      %q: int64[3]{0, 2, -2} = Const(value=(0, 2, -2))
      %t: float32[3, s0, 2] = Transpose(%x, %p) aliases %t=$0
      %u: float32[3, 2, s0] = Transpose(%t, %q) aliases %u=$0  # from u aten.permute.default at model.py:1, in f: g
      %z: float32[3, 2, s0] = Neg(%u)
      return %z
    """
    assert_expected_inline(
        after(text, *CLEAN),
        """\
graph g(%x: float32[2, 3, s0]):
  %Const_2: int64[3]{1, 0, 2} = Const(value=(1, 0, 2))  # from u aten.permute.default at model.py:1, in f: g
  %u: float32[3, 2, s0] = Transpose<Transpose_1>(%x, %Const_2) aliases %u=$0  # from u aten.permute.default at model.py:1, in f: g
  %z: float32[3, 2, s0] = Neg(%u)
  return %z
""",
    )


def test_three_transposes() -> None:
    text = """
    graph g(%x: float32[2, 3, 4]):
      %p: int64[3]{1, 2, 0} = Const(value=(1, 2, 0))
      %t: float32[3, 4, 2] = Transpose(%x, %p) aliases %t=$0
      %u: float32[4, 2, 3] = Transpose(%t, %p) aliases %u=$0
      %v: float32[2, 3, 4] = Transpose(%u, %p) aliases %v=$0
      %z: float32[2, 3, 4] = Neg(%v)
      return %z
    """
    assert_expected_inline(
        after(text, *CLEAN),
        """\
graph g(%x: float32[2, 3, 4]):
  %z: float32[2, 3, 4] = Neg(%x)
  return %z
""",
    )


def test_an_inner_transpose_stays_for_its_other_readers() -> None:
    text = """
    graph g(%x: float32[2, 3], %y: float32[2, 3]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[3, 2] = Transpose(%x, %perm) aliases %t=$0
      %u: float32[2, 3] = Transpose(%t, %perm) aliases %u=$0
      %z: float32[2, 3] = Add(%u, %y)
      %n: float32[3, 2] = Neg(%t)
      return %z, %n
    """
    assert_expected_inline(
        after(text, *CLEAN),
        """\
graph g(%x: float32[2, 3], %y: float32[2, 3]):
  %perm: int64[2]{1, 0} = Const(value=(1, 0))
  %t: float32[3, 2] = Transpose(%x, %perm) aliases %t=$0
  %z: float32[2, 3] = Add(%x, %y)
  %n: float32[3, 2] = Neg(%t)
  return %z, %n
""",
    )


def test_a_graph_output_does_not_become_an_input() -> None:
    text = """
    graph g(%x: float32[2, 3]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[3, 2] = Transpose(%x, %perm) aliases %t=$0
      %u: float32[2, 3] = Transpose(%t, %perm) aliases %u=$0
      return %u
    """
    assert_expected_inline(
        after(text, *CLEAN, RemoveIdentities()),
        """\
graph g(%x: float32[2, 3]):
  %Const_1: int64[2]{0, 1} = Const(value=(0, 1))
  %u: float32[2, 3] = Transpose<Transpose_1>(%x, %Const_1) aliases %u=$0
  return %u
""",
    )


NEAR_MISS = """
graph g(%x: float32[2, 3], %y: float32[2, 3], %p: int64[2]):
  %perm: int64[2]{1, 0} = Const(value=(1, 0))
  %t: float32[3, 2] = Transpose(%x, %perm) aliases %t=$0
  %u: float32[2, 3] = Transpose(%t, %perm) aliases %u=$0
  %z: float32[2, 3] = Add(%u, %y)
  return %z
"""


@pytest.mark.parametrize(
    "old, new",
    [
        ("%t: float32[3, 2] =", "%t: float32[3, 2] in NCHW ="),  # another layout
        ("%u: float32[2, 3] = Transpose(%t, %perm) aliases %u=$0", "%u: float32[2, 3] = Transpose(%t, %perm) aliases %u=$0 after Transpose"),
        ("Transpose(%x, %perm) aliases %t=$0", "Transpose(%x, %perm)"),  # it says that it copies
    ],
)  # fmt: skip
def test_what_is_left_alone(old: str, new: str) -> None:
    assert old in NEAR_MISS
    unchanged(NEAR_MISS.replace(old, new).replace("%t: float32[3, 2] =", "%t: float32[3, 2] ="), MergeTransposes())


def test_a_copying_transpose_protects_from_a_write() -> None:
    text = """
    graph g(%x: float32[2, 3], %y: float32[2, 3]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[3, 2] = Transpose(%x, %perm)
      %x1: float32[2, 3] = Assign(%x, %y) writes %x1=$0
      %u: float32[2, 3] = Transpose(%t, %perm)
      %z: float32[2, 3] = Add(%u, %y)
      update %x <- %x1
      return %z
    """
    graph = from_text(text)
    MergeTransposes().run(graph)
    assert graph.nodes[3].operands[0] is graph.nodes[1].output


def test_permutations() -> None:
    def order(content: str) -> tuple[int, ...] | None:
        text = (
            f"graph g(%x: float32[2, 3, 4], %p: int64[3]{content}): %t: float32[2, 3, 4] = Transpose(%x, %p) return %t"
        )
        return permutation(from_text(text).nodes[0])

    assert order("{2, 0, -2}") == (2, 0, 1)
    assert order("") is None
    assert order("{0, 0, 1}") is None
    assert order("{0, 1, s0}") is None
    assert permutation(from_text("graph g(%x: float32[2]): %a: float32[2] = Neg(%x) return %a").nodes[0]) is None


def test_reshapes_become_one() -> None:
    text = """
    graph g(%x: float32[2, 3, s0]):
      %a: int64[2]{6, -1} = Const(value=(6, -1))
      %b: int64[3]{3, 2, s0} = HostInts()
      %r: float32[6, s0] = Reshape(%x, %a, axis=0, num_axes=-1) aliases %r=$0
      %u: float32[6, 1, s0] = Unsqueeze(%r, axes=(1,)) aliases %u=$0
      %v: float32[3, 2, s0] = Reshape(%u, %b, axis=0, num_axes=-1) aliases %v=$0
      %z: float32[3, 2, s0] = Neg(%v)
      %w: float32[6, s0] = Neg(%r)
      return %z, %w
    """
    assert_expected_inline(
        after(text, MergeReshapes(), EliminateDeadNodes()),
        """\
graph g(%x: float32[2, 3, s0]):
  %a: int64[2]{6, -1} = Const(value=(6, -1))
  %b: int64[3]{3, 2, s0} = HostInts()
  %r: float32[6, s0] = Reshape(%x, %a, axis=0, num_axes=-1) aliases %r=$0
  %v: float32[3, 2, s0] = Reshape<Reshape_1>(%x, %b, axis=0, num_axes=-1) aliases %v=$0
  %z: float32[3, 2, s0] = Neg(%v)
  %w: float32[6, s0] = Neg<Neg_1>(%r)
  return %z, %w
""",
    )


def test_a_reshape_back_disappears_with_the_identities() -> None:
    text = """
    graph g(%x: float32[2, 3]):
      %a: int64[1]{6} = Const(value=(6,))
      %b: int64[2]{2, 3} = Const(value=(2, 3))
      %r: float32[6] = Reshape(%x, %a) aliases %r=$0
      %v: float32[2, 3] = Reshape(%r, %b) aliases %v=$0
      %z: float32[2, 3] = Neg(%v)
      return %z
    """
    text = text.replace("(%x, %a)", "(%x, %a, axis=0, num_axes=-1)").replace(
        "(%r, %b)", "(%r, %b, axis=0, num_axes=-1)"
    )
    assert_expected_inline(
        after(text, MergeReshapes(), RemoveIdentities(), EliminateDeadNodes()),
        """\
graph g(%x: float32[2, 3]):
  %z: float32[2, 3] = Neg(%x)
  return %z
""",
    )


@pytest.mark.parametrize(
    "attrs, inner",
    [
        (
            "axis=1, num_axes=-1",
            "Reshape(%x, %a, axis=0, num_axes=-1)",
        ),  # the outer one keeps dimensions of the inner one
        ("axis=0, num_axes=1", "Reshape(%x, %a, axis=0, num_axes=-1)"),
        ("axis=0, num_axes=-1", "Roll(%x, shifts=(1,), dims=(1,))"),  # other elements
    ],
)
def test_reshapes_that_are_left_alone(attrs: str, inner: str) -> None:
    text = f"""
    graph g(%x: float32[2, 3]):
      %a: int64[2]{{2, 3}} = Const(value=(2, 3))
      %b: int64[1]{{-1}} = Const(value=(-1,))
      %r: float32[2, 3] = {inner} aliases %r=$0
      %v: float32[6] = Reshape(%r, %b, {attrs}) aliases %v=$0
      %z: float32[6] = Neg(%v)
      return %z
    """
    graph = from_text(text)
    MergeReshapes().run(graph)
    assert graph.nodes[3].operands[0] is graph.nodes[2].output
