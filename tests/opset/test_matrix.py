"""Forms of the operators that no converter makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as nnf

from torchair.opset.matrix import GEMM, BatchMatMul, FusedMatMul, MatMul, MatMulV2

A, B, BIAS, FULL = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5), torch.randn(3, 5)


def lowered(op: Any, *args: Any, **attrs: Any) -> Any:
    """The lowering, with the defaults of the prototype."""
    inputs = [*args, *[None] * (len(op.prototype.inputs) - len(args))]
    return op.lowering(*inputs, **{a.name: attrs.get(a.name, a.default) for a in op.prototype.attrs})


@pytest.mark.parametrize("op", [MatMul, MatMulV2])
def test_transposed_operands(op):
    expected = torch.addmm(BIAS, A, B)
    y = lowered(op, A.t().contiguous(), B.t().contiguous(), BIAS, transpose_x1=True, transpose_x2=True)
    torch.testing.assert_close(y, expected)


def test_batches_broadcast():
    a, b = torch.randn(2, 1, 3, 4), torch.randn(7, 5, 4)
    torch.testing.assert_close(lowered(BatchMatMul, a, b, adj_x2=True), a @ b.mT)


def test_fused_operators():
    y = A @ B
    for name, expected in {
        "": y + BIAS,
        "relu": torch.relu(y + BIAS),
        "gelu_erf": nnf.gelu(y + BIAS),
        "gelu_tanh": nnf.gelu(y + BIAS, approximate="tanh"),
    }.items():
        torch.testing.assert_close(lowered(FusedMatMul, A, B, BIAS, fused_op_type=name), expected)
    torch.testing.assert_close(lowered(FusedMatMul, A, B, BIAS, FULL, fused_op_type="mul"), (y + BIAS) * FULL)
    torch.testing.assert_close(lowered(FusedMatMul, A, B, BIAS, FULL, fused_op_type="add"), (y + BIAS) + FULL)
    torch.testing.assert_close(lowered(FusedMatMul, A, B, None, FULL, fused_op_type="add"), y + FULL)


def test_gemm_takes_numbers_or_vectors_of_one():
    y = lowered(GEMM, A.t(), B.t(), FULL, [2.0], 0.5, transpose_a=True, transpose_b=True)
    torch.testing.assert_close(y, torch.addmm(FULL, A, B, alpha=2.0, beta=0.5))


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="QuantBatchMatmulV3"):
        lowered(MatMulV2, A, B, offset_x=1)
    with pytest.raises(ValueError, match="x3 is for fused_op_type"):
        lowered(FusedMatMul, A, B, None, FULL, fused_op_type="relu")
    with pytest.raises(ValueError, match="not 'tanh'"):
        lowered(FusedMatMul, A, B, fused_op_type="tanh")
