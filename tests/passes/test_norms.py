"""RMS normalizations that are written out."""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline
from tests.passes.checking import after, unchanged

from torchair.ir.text import from_text
from torchair.passes import EliminateDeadNodes, FuseAddRmsNorm, FuseRmsNorm

PASSES = (FuseRmsNorm(), FuseAddRmsNorm(), EliminateDeadNodes())

#: As ``torch.nn.RMSNorm`` and the models of ``transformers`` compute it in float32.
PLAIN = """
graph g(%x: float32[2, s0, 8], %gamma: float32[8]):
  %square: float32[2, s0, 8] = Mul(%x, %x)
  %axes: int64[1]{2} = Const(value=(2,))
  %mean: float32[2, s0, 1] = ReduceMean(%square, %axes, keep_dims=True, noop_with_empty_axes=True)
  %eps: float32[] = Const<Const_1>(value=(1e-05,))
  %shifted: float32[2, s0, 1] = Add(%mean, %eps)
  %rstd: float32[2, s0, 1] = Rsqrt(%shifted)
  %scaled: float32[2, s0, 8] = Mul<Mul_1>(%x, %rstd)
  %y: float32[2, s0, 8] = Mul<Mul_2>(%scaled, %gamma)
  return %y
"""

#: As ``torch.nn.RMSNorm`` computes it in half precision.
HALF = """
graph g(%x: bfloat16[2, 8], %gamma: bfloat16[8]):
  %wide: float32[2, 8] = Cast(%x, dst_type=float32)
  %square: float32[2, 8] = Mul(%wide, %wide)
  %axes: int64[1]{-1} = Const(value=(-1,))
  %mean: float32[2, 1] = ReduceMean(%square, %axes, keep_dims=True, noop_with_empty_axes=True)
  %eps: float32[] = Const<Const_1>(value=(1e-05,))
  %shifted: float32[2, 1] = Add(%mean, %eps)
  %rstd: float32[2, 1] = Rsqrt(%shifted)
  %scaled: float32[2, 8] = Mul<Mul_1>(%wide, %rstd)
  %weight: float32[8] = Cast<Cast_1>(%gamma, dst_type=float32)
  %product: float32[2, 8] = Mul<Mul_2>(%scaled, %weight)
  %y: bfloat16[2, 8] = Cast<Cast_2>(%product, dst_type=bfloat16)
  return %y
"""


def test_float32() -> None:
    assert_expected_inline(
        after(PLAIN, *PASSES),
        """\
graph g(%x: float32[2, s0, 8], %gamma: float32[8]):
  %y_1: float32[2, s0, 8], %rstd_1: float32[2, s0, 1] = RmsNorm(%x, %gamma, epsilon=1e-05) -> y, rstd
  return %y_1
""",
    )


def test_the_order_of_factors_does_not_matter() -> None:
    text = PLAIN.replace("(%x, %rstd)", "(%rstd, %x)").replace("(%scaled, %gamma)", "(%gamma, %scaled)")
    assert after(text, *PASSES) == after(PLAIN, *PASSES)


def test_half_precision() -> None:
    assert_expected_inline(
        after(HALF, *PASSES),
        """\
graph g(%x: bfloat16[2, 8], %gamma: bfloat16[8]):
  %y_1: bfloat16[2, 8], %rstd_1: float32[2, 1] = RmsNorm(%x, %gamma, epsilon=1e-05) -> y, rstd
  return %y_1
""",
    )


def test_a_sum_before_it() -> None:
    text = """
    graph g(%a: float32[2, 8], %b: float32[2, 8], %gamma: float32[8]):
      %x: float32[2, 8] = Add(%a, %b)
      %square: float32[2, 8] = Mul(%x, %x)
      %axes: int64[1]{1} = Const(value=(1,))
      %mean: float32[2, 1] = ReduceMean(%square, %axes, keep_dims=True, noop_with_empty_axes=True)
      %eps: float32[] = Const<Const_1>(value=(1e-05,))
      %shifted: float32[2, 1] = Add<Add_1>(%mean, %eps)
      %rstd: float32[2, 1] = Rsqrt(%shifted)
      %scaled: float32[2, 8] = Mul<Mul_1>(%x, %rstd)
      %y: float32[2, 8] = Mul<Mul_2>(%scaled, %gamma)
      %z: float32[2, 8] = Add<Add_2>(%x, %y)
      return %z, %rstd
    """
    assert_expected_inline(
        after(text, *PASSES),
        """\
graph g(%a: float32[2, 8], %b: float32[2, 8], %gamma: float32[8]):
  %y_1_1: float32[2, 8], %rstd_1_1: float32[2, 1], %x_1: float32[2, 8] = AddRmsNorm(%a, %b, %gamma, epsilon=1e-05) -> y, rstd, x
  %z: float32[2, 8] = Add<Add_2>(%x_1, %y_1_1)
  return %z, %rstd_1_1
""",  # noqa: E501
    )


def test_two_roundings_are_not_one() -> None:
    """The models of ``transformers`` round before they multiply with the weight."""
    unchanged(
        """
        graph g(%x: bfloat16[2, 8], %gamma: bfloat16[8]):
          %wide: float32[2, 8] = Cast(%x, dst_type=float32)
          %square: float32[2, 8] = Mul(%wide, %wide)
          %axes: int64[1]{1} = Const(value=(1,))
          %mean: float32[2, 1] = ReduceMean(%square, %axes, keep_dims=True, noop_with_empty_axes=True)
          %eps: float32[] = Const<Const_1>(value=(1e-05,))
          %shifted: float32[2, 1] = Add(%mean, %eps)
          %rstd: float32[2, 1] = Rsqrt(%shifted)
          %scaled: float32[2, 8] = Mul<Mul_1>(%wide, %rstd)
          %rounded: bfloat16[2, 8] = Cast<Cast_1>(%scaled, dst_type=bfloat16)
          %y: bfloat16[2, 8] = Mul<Mul_2>(%gamma, %rounded)
          return %y
        """,
        *PASSES,
    )


_CHANGED = {
    "another axis": ("{2} = Const(value=(2,))", "{0} = Const(value=(0,))", "float32[2, s0, 1]", "float32[1, s0, 8]"),
    "a part is returned": ("return %y", "return %y, %scaled", "", ""),
    "a part is read": (
        "return %y",
        "%other: float32[2, s0, 8] = Neg(%square)\n  return %y, %other",
        "",
        "",
    ),
    "a sum of different tensors": ("Mul(%x, %x)", "Mul(%x, %gamma)", "", ""),
    "another scope": ("Rsqrt(%shifted)", 'Rsqrt(%shifted) scope(_user_stream_label="s")', "", ""),
}


@pytest.mark.parametrize("old, new, type, other", _CHANGED.values(), ids=_CHANGED)
def test_what_is_left_alone(old: str, new: str, type: str, other: str) -> None:
    text = PLAIN.replace(old, new)
    assert text != PLAIN
    unchanged(text.replace(type, other) if type else text, *PASSES)


def test_a_sum_that_is_read_before_stays() -> None:
    text = """
    graph g(%a: float32[2, 8], %b: float32[2, 8], %gamma: float32[8]):
      %x: float32[2, 8] = Add(%a, %b)
      %z: float32[2, 8] = Neg(%x)
      %y: float32[2, 8], %rstd: float32[2, 1] = RmsNorm(%x, %gamma, epsilon=1e-05)
      return %y, %z
    """
    unchanged(text, *PASSES)


def test_a_sum_that_broadcasts_stays() -> None:
    text = """
    graph g(%a: float32[2, 8], %b: float32[8], %gamma: float32[8]):
      %x: float32[2, 8] = Add(%a, %b)
      %y: float32[2, 8], %rstd: float32[2, 1] = RmsNorm(%x, %gamma, epsilon=1e-05)
      return %y
    """
    unchanged(text, *PASSES)


def test_an_input_that_is_written_between_stays() -> None:
    text = """
    graph g(%a: float32[2, 8], %b: float32[2, 8], %gamma: float32[8]):
      %x: float32[2, 8] = Add(%a, %b)
      %a1: float32[2, 8] = Assign(%a, %b, validate_shape=True, use_locking=False) writes %a1=$0
      %y: float32[2, 8], %rstd: float32[2, 1] = RmsNorm(%x, %gamma, epsilon=1e-05)
      update %a <- %a1
      return %y
    """
    unchanged(text, *PASSES)


def test_control_edges_keep_the_parts() -> None:
    graph = from_text(PLAIN)
    graph.wait_for(graph.nodes[-1], [graph.nodes[0]])
    FuseRmsNorm().run(graph)
    assert graph.count("RmsNorm") == 0
