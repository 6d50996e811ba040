"""Casts that change nothing."""

from __future__ import annotations

import itertools

import pytest
import torch
from expecttest import assert_expected_inline
from tests.passes.checking import after, unchanged

from torchair.ir.text import from_text
from torchair.opset.torch_types import torch_dtype
from torchair.passes import EliminateDeadNodes, RemoveCasts
from torchair.passes.casts import _HELD_BY

PASSES = (RemoveCasts(), EliminateDeadNodes())


def test_up_and_down() -> None:
    text = """
    graph g(%x: bfloat16[2, s0]):
      %up: float32[2, s0] = Cast(%x, dst_type=float32)
      %down: bfloat16[2, s0] = Cast(%up, dst_type=bfloat16)
      %y: bfloat16[2, s0] = Neg(%down)
      return %y
    """
    assert_expected_inline(
        after(text, *PASSES),
        """\
graph g(%x: bfloat16[2, s0]):
  %y: bfloat16[2, s0] = Neg(%x)
  return %y
""",
    )


def test_two_steps_up_are_one() -> None:
    text = """
    graph g(%x: float16[3]):
      %wide: float32[3] = Cast(%x, dst_type=float32)
      %wider: float64[3] = Cast(%wide, dst_type=float64)
      %y: float64[3] = Neg(%wider)
      return %y, %wide
    """
    assert_expected_inline(
        after(text, *PASSES),
        """\
graph g(%x: float16[3]):
  %wide: float32[3] = Cast(%x, dst_type=float32)
  %wider: float64[3] = Cast<Cast_1>(%x, dst_type=float64)
  %y: float64[3] = Neg(%wider)
  return %y, %wide
""",
    )


@pytest.mark.parametrize(
    "first, between, last",
    [
        ("float32", "bfloat16", "float32"),  # rounds
        ("float32", "float16", "float64"),
        ("float16", "bfloat16", "float16"),  # neither holds the other
        ("float16", "float32", "int32"),  # what is out of range
        ("int64", "float64", "int64"),
        ("int32", "float32", "int32"),
    ],
)
def test_what_changes_numbers_stays(first: str, between: str, last: str) -> None:
    unchanged(
        f"""
        graph g(%x: {first}[3]):
          %a: {between}[3] = Cast(%x, dst_type={between})
          %b: {last}[3] = Cast(%a, dst_type={last})
          %y: {last}[3] = Neg(%b)
          return %y
        """,
        *PASSES,
    )


def test_an_output_stays_apart_from_the_input() -> None:
    unchanged(
        """
        graph g(%x: float16[3]):
          %a: float32[3] = Cast(%x, dst_type=float32)
          %y: float16[3] = Cast(%a, dst_type=float16)
          return %y
        """,
        *PASSES,
    )


def test_a_write_between_keeps_the_copy() -> None:
    unchanged(
        """
        graph g(%x: float16[2], %z: float16[2]):
          %a: float32[2] = Cast(%x, dst_type=float32)
          %x1: float16[2] = Assign(%x, %z, validate_shape=True, use_locking=False) writes %x1=$0
          %b: float16[2] = Cast<Cast_1>(%a, dst_type=float16)
          %y: float16[2] = Neg(%b)
          update %x <- %x1
          return %y
        """,
        *PASSES,
    )


def test_the_table_is_true() -> None:
    checked = 0
    for first, held_by in _HELD_BY.items():
        dtype = torch_dtype(first)
        if dtype is torch.bool:
            numbers = torch.tensor([False, True])
        elif dtype.is_floating_point:
            bits = torch.arange(-(2**15), 2**15).to(torch.int16)
            halves = bits.view(dtype) if dtype.itemsize == 2 else torch.randn(2**16)
            numbers = halves[~halves.isnan()].to(dtype)
        else:
            info = torch.iinfo(dtype)
            edges = [info.min, info.min + 1, -1 if info.min else 1, 0, 1, info.max - 1, info.max]
            numbers = torch.tensor(edges, dtype=dtype)
            if dtype.itemsize == 1:
                numbers = torch.arange(info.min, info.max + 1).to(dtype)
        for wide in held_by:
            torch.testing.assert_close(numbers.to(torch_dtype(wide)).to(dtype), numbers, rtol=0, atol=0)
            checked += 1
    assert checked == len(list(itertools.chain.from_iterable(_HELD_BY.values())))


def test_other_layouts_are_left_alone() -> None:
    text = """
    graph g(%x: float16[2, 3] in FRACTAL_NZ):
      %a: float32[2, 3] = Cast(%x, dst_type=float32)
      %b: float16[2, 3] = Cast<Cast_1>(%a, dst_type=float16)
      %y: float16[2, 3] = Neg(%b)
      return %y
    """
    graph = from_text(text)
    RemoveCasts().run(graph)
    assert graph.count("Cast") == 2
