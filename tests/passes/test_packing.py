"""Products with packed weights."""

from __future__ import annotations

import pytest
from expecttest import assert_expected_inline

from torchair.ir.graph import Graph
from torchair.ir.text import from_text, to_text
from torchair.ir.verify import verify
from torchair.passes import HoistFrozenComputations, PackWeights, packing
from torchair.pipeline.builtin import load_operators

load_operators()

LINEAR = """
graph g(%x: bfloat16[16, 8], %w: bfloat16[4, 8], %b: bfloat16[4]):
  %y: bfloat16[16, 4] = MatMulV2(%x, %w, %b, None, transpose_x1=False, transpose_x2=True, offset_x=0)
  return %y
"""


@pytest.fixture(autouse=True)
def _every_machine_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "can_pack", lambda dtype, rows: rows is not None or dtype.itemsize == 2)


def _packed(text: str, *marked: int) -> Graph:
    graph = from_text(text)
    PackWeights(marked).run(graph)
    verify(graph)
    once, revision = to_text(graph), graph.revision
    PackWeights(marked).run(graph)
    assert (to_text(graph), graph.revision) == (once, revision)
    return graph


def _unchanged(text: str, *marked: int) -> None:
    assert to_text(_packed(text, *marked)) == to_text(from_text(text))


def test_half_precision() -> None:
    assert_expected_inline(
        to_text(_packed(LINEAR, 1)),
        """\
graph g(%x: bfloat16[16, 8], %w: bfloat16[4, 8] in FRACTAL_NZ, %b: bfloat16[4]):
  %w_packed: int64[1] = torch_call(%w) -> y0 call air::pack_linear_weight.default($0, 0)
  %y_1: bfloat16[16, 4] = torch_call<torch_call_1>(%x, %w, %b, %w_packed) -> y0 call air::packed_linear.default($0, $1, $2, $3)
  return %y_1
""",  # noqa: E501
    )


def test_the_copy_is_made_before_the_graph_runs() -> None:
    graph = _packed(LINEAR, 1)
    hoist = HoistFrozenComputations((1,))
    hoist.run(graph)
    verify(graph)
    assert hoist.prologue is not None
    assert_expected_inline(
        to_text(hoist.prologue.graph),
        """\
graph g_frozen(%w: bfloat16[4, 8] in FRACTAL_NZ):
  %w_packed: int64[1] = torch_call(%w) -> y0 call air::pack_linear_weight.default($0, 0)
  return %w_packed
""",
    )
    assert [node.op for node in graph] == ["torch_call"]


def test_two_products_share_a_copy_and_float32_knows_its_rows() -> None:
    text = """
    graph g(%x: float32[16, 8], %z: float32[16, 8], %w: float32[4, 8]):
      %y: float32[16, 4] = MatMul(%x, %w, None, transpose_x1=False, transpose_x2=True)
      %u: float32[16, 4] = MatMul<MatMul_1>(%z, %w, None, transpose_x1=False, transpose_x2=True)
      return %y, %u
    """
    assert_expected_inline(
        to_text(_packed(text, 2)),
        """\
graph g(%x: float32[16, 8], %z: float32[16, 8], %w: float32[4, 8] in FRACTAL_NZ):
  %w_packed: int64[1] = torch_call(%w) -> y0 call air::pack_linear_weight.default($0, 16)
  %y_1: float32[16, 4] = torch_call<torch_call_1>(%x, %w, %w_packed) -> y0 call air::packed_linear.default($0, $1, None, $2)
  %u_1: float32[16, 4] = torch_call<torch_call_2>(%z, %w, %w_packed) -> y0 call air::packed_linear.default($0, $1, None, $2)
  return %y_1, %u_1
""",  # noqa: E501
    )


def test_joined_weights() -> None:
    text = """
    graph g(%x: bfloat16[s0, 8], %v: bfloat16[4, 8], %w: bfloat16[4, 8]):
      %axis: int64[]{0} = Const(value=(0,))
      %vw: bfloat16[8, 8] = ConcatV2([%v, %w], %axis, N=2)
      %y: bfloat16[s0, 8] = MatMul(%x, %vw, None, transpose_x1=False, transpose_x2=True)
      return %y
    """
    assert _packed(text, 1, 2).count("torch_call") == 2
    _unchanged(text, 1)


def test_few_rows() -> None:
    _unchanged(LINEAR.replace("16, ", "8, "), 1)


def test_a_weight_that_nobody_marked() -> None:
    _unchanged(LINEAR)
    _unchanged(LINEAR, 0, 2)


def test_float32_with_a_symbolic_number_of_rows() -> None:
    _unchanged(LINEAR.replace("bfloat16", "float32").replace("[16, ", "[s0, "), 1)


def test_weights_that_are_columns() -> None:
    text = LINEAR.replace("%w: bfloat16[4, 8]", "%w: bfloat16[8, 4]").replace("transpose_x2=True", "transpose_x2=False")
    _unchanged(text, 1)


def test_a_weight_that_is_updated() -> None:
    _unchanged(LINEAR.replace("  return", "  %n: bfloat16[4, 8] = Neg(%w)\n  update %w <- %n\n  return"), 1)


def test_several_dtypes() -> None:
    _unchanged(LINEAR.replace("%b: bfloat16", "%b: float32"), 1)


def test_what_the_machine_cannot_pack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "can_pack", lambda dtype, rows: False)
    _unchanged(LINEAR, 1)


def test_control_edges() -> None:
    graph = from_text(LINEAR.replace("  return %y", "  %z: bfloat16[16, 4] = Neg(%y)\n  return %z"))
    product, other = graph.nodes
    graph.wait_for(other, [product])
    PackWeights((1,)).run(graph)
    assert graph.count("torch_call") == 0
