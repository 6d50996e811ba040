"""Folding Transpose into the flags of matrix products."""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import after, unchanged

from torchair.ir.text import from_text
from torchair.passes import EliminateDeadNodes, FoldTransposeIntoMatMul

FOLD = (FoldTransposeIntoMatMul(), EliminateDeadNodes())


def test_both_operands() -> None:
    text = """
    graph g(%a: float32[3, 2], %b: float32[4, 3]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %ta: float32[2, 3] = Transpose(%a, %perm) aliases %ta=$0
      %tb: float32[3, 4] = Transpose(%b, %perm) aliases %tb=$0
      %y: float32[2, 4] = MatMul(%ta, %tb, None, transpose_x1=False, transpose_x2=False)
      return %y
    """
    assert_expected_inline(
        after(text, *FOLD),
        """\
graph g(%a: float32[3, 2], %b: float32[4, 3]):
  %y: float32[2, 4] = MatMul(%a, %b, None, transpose_x1=True, transpose_x2=True)
  return %y
""",
    )


def test_a_flag_that_is_set_is_taken_back() -> None:
    text = """
    graph g(%a: float32[2, 3], %b: float32[s0, s1]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %ta: float32[3, 2] = Transpose(%a, %perm) aliases %ta=$0
      %tb: float32[s1, s0] = Transpose(%b, %perm) aliases %tb=$0
      %y: float32[2, s1] = MatMulV2(%ta, %b, None, None, transpose_x1=True, transpose_x2=False, offset_x=0)
      return %y
    """
    assert_expected_inline(
        after(text, *FOLD),
        """\
graph g(%a: float32[2, 3], %b: float32[s0, s1]):
  %y: float32[2, s1] = MatMulV2(%a, %b, None, None, transpose_x1=False, transpose_x2=False, offset_x=0)
  return %y
""",
    )


def test_transposed_twice() -> None:
    text = """
    graph g(%a: float32[2, 3], %b: float32[3, 4]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[3, 2] = Transpose(%a, %perm) aliases %t=$0
      %u: float32[2, 3] = Transpose(%t, %perm) aliases %u=$0
      %y: float32[2, 4] = MatMul(%u, %b, None, transpose_x1=False, transpose_x2=False)
      return %y
    """
    assert_expected_inline(
        after(text, *FOLD),
        """\
graph g(%a: float32[2, 3], %b: float32[3, 4]):
  %y: float32[2, 4] = MatMul(%a, %b, None, transpose_x1=False, transpose_x2=False)
  return %y
""",
    )


def test_batches() -> None:
    text = """
    graph g(%a: float32[s0, 2, 3], %b: float32[s0, 4, 3]):
      %perm: int64[3]{0, 2, 1} = Const(value=(0, 2, 1))
      %tb: float32[s0, 3, 4] = Transpose(%b, %perm) aliases %tb=$0
      %y: float32[s0, 2, 4] = BatchMatMul(%a, %tb, adj_x1=False, adj_x2=False)
      return %y
    """
    assert_expected_inline(
        after(text, *FOLD),
        """\
graph g(%a: float32[s0, 2, 3], %b: float32[s0, 4, 3]):
  %y: float32[s0, 2, 4] = BatchMatMul(%a, %b, adj_x1=False, adj_x2=True)
  return %y
""",
    )


def test_a_transpose_that_others_read_stays_for_them() -> None:
    text = """
    graph g(%a: float32[2, 3], %b: float32[4, 3]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %tb: float32[3, 4] = Transpose(%b, %perm) aliases %tb=$0
      %y: float32[2, 4] = MatMul(%a, %tb, None, transpose_x1=False, transpose_x2=False)
      %z: float32[3, 4] = Neg(%tb)
      return %y, %z
    """
    assert_expected_inline(
        after(text, *FOLD),
        """\
graph g(%a: float32[2, 3], %b: float32[4, 3]):
  %perm: int64[2]{1, 0} = Const(value=(1, 0))
  %tb: float32[3, 4] = Transpose(%b, %perm) aliases %tb=$0
  %y: float32[2, 4] = MatMul(%a, %b, None, transpose_x1=False, transpose_x2=True)
  %z: float32[3, 4] = Neg(%tb)
  return %y, %z
""",
    )


@pytest.mark.parametrize(
    "dtype, perm, op",
    [
        ("float32", "(2, 1, 0)", "BatchMatMul(%a, %t, adj_x1=False, adj_x2=False)"),  # the batch moves
        ("float32", "(0, 1, 2)", "BatchMatMul(%a, %t, adj_x1=False, adj_x2=False)"),
        ("complex64", "(0, 2, 1)", "BatchMatMul(%a, %t, adj_x1=False, adj_x2=False)"),  # adj would conjugate
        ("float32", "(0, 2, 1)", "Mul(%a, %t)"),
    ],
)
def test_what_is_left_alone(dtype: str, perm: str, op: str) -> None:
    content = perm.replace("(", "{").replace(")", "}")
    unchanged(
        f"""
        graph g(%a: {dtype}[2, 2, 2], %b: {dtype}[2, 2, 2]):
          %perm: int64[3]{content} = Const(value={perm})
          %t: {dtype}[2, 2, 2] = Transpose(%b, %perm) aliases %t=$0
          %y: {dtype}[2, 2, 2] = {op}
          return %y
        """,
        FoldTransposeIntoMatMul(),
    )


def test_other_layouts_are_left_alone() -> None:
    text = """
    graph g(%a: float32[2, 3], %b: float32[4, 3] in FRACTAL_NZ):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[3, 4] = Transpose(%b, %perm) aliases %t=$0
      %y: float32[2, 4] = MatMul(%a, %t, None, transpose_x1=False, transpose_x2=False)
      return %y
    """
    unchanged(text, FoldTransposeIntoMatMul())


def test_a_copy_that_protects_from_a_write_is_left_alone() -> None:
    text = """
    graph g(%a: float32[2, 2], %b: float32[2, 2]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[2, 2] = Transpose(%b, %perm)
      %b1: float32[2, 2] = Assign(%b, %a) writes %b1=$0
      %y: float32[2, 2] = MatMul(%a, %t, None, transpose_x1=False, transpose_x2=False)
      update %b <- %b1
      return %y
    """
    graph = from_text(text)
    FoldTransposeIntoMatMul().run(graph)
    assert graph.nodes[3].attrs["transpose_x2"] is False
