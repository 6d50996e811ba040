"""Products of one matrix with several frozen weights."""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import after, unchanged

from torchair.passes import MergeProducts

MERGE = MergeProducts((1, 2, 3))

PROJECTIONS = """
graph g(%x: float32[16, 8], %q: float32[6, 8], %k: float32[4, 8], %v: float32[4, 8]):
  %a: float32[16, 6] = MatMulV2(%x, %q, None, None, transpose_x1=False, transpose_x2=True, offset_x=0)
  %b: float32[16, 4] = MatMulV2<MatMulV2_1>(%x, %k, None, None, transpose_x1=False, transpose_x2=True, offset_x=0)
  %c: float32[16, 4] = MatMulV2<MatMulV2_2>(%x, %v, None, None, transpose_x1=False, transpose_x2=True, offset_x=0)
  %y: float32[16, 6] = Neg(%a)
  %z: float32[16, 4] = Mul(%b, %c)
  return %y, %z
"""


def test_three_projections() -> None:
    assert_expected_inline(
        after(PROJECTIONS, MERGE),
        """\
graph g(%x: float32[16, 8], %q: float32[6, 8], %k: float32[4, 8], %v: float32[4, 8]):
  %Const: int64[]{0} = Const(value=(0,))
  %ConcatV2: float32[14, 8] = ConcatV2([%q, %k, %v], %Const, N=3)
  %MatMulV2_3: float32[16, 14] = MatMulV2(%x, %ConcatV2, None, None, transpose_x1=False, transpose_x2=True, offset_x=0)
  %Const_1: int64[3]{6, 4, 4} = Const(value=(6, 4, 4))
  %Const_2: int64[]{1} = Const(value=(1,))
  %a_1: float32[16, 6], %b_1: float32[16, 4], %c_1: float32[16, 4] = SplitV(%MatMulV2_3, %Const_1, %Const_2, num_split=3) aliases %a_1=$0, %b_1=$0, %c_1=$0
  %y: float32[16, 6] = Neg(%a_1)
  %z: float32[16, 4] = Mul(%b_1, %c_1)
  return %y, %z
""",  # noqa: E501
    )


def test_weights_in_the_other_order() -> None:
    text = """
    graph g(%x: float32[s0, 8], %a: float32[8, 6], %b: float32[8, 4]):
      %p: float32[s0, 6] = MatMul(%x, %a, None, transpose_x1=False, transpose_x2=False)
      %q: float32[s0, 4] = MatMul<MatMul_1>(%x, %b, None, transpose_x1=False, transpose_x2=False)
      %y: float32[s0, 6] = Neg(%p)
      %z: float32[s0, 4] = Neg<Neg_1>(%q)
      return %y, %z
    """
    assert_expected_inline(
        after(text, MergeProducts((1, 2))),
        """\
graph g(%x: float32[s0, 8], %a: float32[8, 6], %b: float32[8, 4]):
  %Const: int64[]{1} = Const(value=(1,))
  %ConcatV2: float32[8, 10] = ConcatV2([%a, %b], %Const, N=2)
  %MatMul_2: float32[s0, 10] = MatMul(%x, %ConcatV2, None, transpose_x1=False, transpose_x2=False)
  %Const_1: int64[2]{6, 4} = Const(value=(6, 4))
  %Const_2: int64[]{1} = Const(value=(1,))
  %p_1: float32[s0, 6], %q_1: float32[s0, 4] = SplitV(%MatMul_2, %Const_1, %Const_2, num_split=2) aliases %p_1=$0, %q_1=$0
  %y: float32[s0, 6] = Neg(%p_1)
  %z: float32[s0, 4] = Neg<Neg_1>(%q_1)
  return %y, %z
""",  # noqa: E501
    )


def test_few_rows() -> None:
    unchanged(PROJECTIONS.replace("[16, ", "[8, "), MERGE)


def test_what_the_graph_returns() -> None:
    unchanged(PROJECTIONS.replace("return %y, %z", "return %a, %b, %y, %z"), MERGE)


def test_another_scope() -> None:
    text = PROJECTIONS
    for name in ("a", "b"):
        line = next(line for line in text.splitlines() if line.startswith(f"  %{name}:"))
        text = text.replace(line, f'{line} scope(_user_stream_label="{name}")')
    unchanged(text, MERGE)


@pytest.mark.parametrize("frozen", [(), (1,), (0, 2)])
def test_weights_that_are_not_frozen(frozen: tuple[int, ...]) -> None:
    unchanged(PROJECTIONS, MergeProducts(frozen))


def test_weights_that_are_updated() -> None:
    text = PROJECTIONS.replace(
        "%y: float32[16, 6] = Neg(%a)", "%k1: float32[4, 8] = Neg(%k)\n  %y: float32[16, 6] = Neg<N>(%a)"
    )
    text = text.replace("  return", "  update %k <- %k1\n  return")
    unchanged(text, MergeProducts((1, 2)))


def test_an_input_that_is_written_between() -> None:
    unchanged(
        """
        graph g(%x: float32[16, 8], %q: float32[6, 8], %k: float32[4, 8], %n: float32[16, 8]):
          %a: float32[16, 6] = MatMul(%x, %q, None, transpose_x1=False, transpose_x2=True)
          %x1: float32[16, 8] = Assign(%x, %n, validate_shape=True, use_locking=False) writes %x1=$0
          %b: float32[16, 4] = MatMul<MatMul_1>(%x1, %k, None, transpose_x1=False, transpose_x2=True)
          %y: float32[16, 6] = Neg(%a)
          %z: float32[16, 4] = Neg<Neg_1>(%b)
          update %x <- %x1
          return %y, %z
        """,
        MergeProducts((1, 2)),
    )
