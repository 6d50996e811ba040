"""Products of matrices.

The lowerings call the torch operator that eager calls for the whole expression, so that a bias or an addend enters the
accumulation where eager lets it (bfloat16 and float16 round once).
"""

from __future__ import annotations

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import HostInts, ascend_op

__all__ = ["GEMM", "BatchMatMul", "FusedMatMul", "MatMul", "MatMulV2"]

_SOURCE = "CANN op_proto: matrix_calculation_ops.h"


def _transposed(x: Tensor, transpose: bool) -> Tensor:
    return x.mT if transpose else x


def _product(x1: Tensor, x2: Tensor, bias: Tensor | None, transpose_x1: bool, transpose_x2: bool) -> Tensor:
    a, b = _transposed(x1, transpose_x1), _transposed(x2, transpose_x2)
    return torch.mm(a, b) if bias is None else torch.addmm(bias, a, b)


@ascend_op(source=_SOURCE)
def MatMul(
    x1: Value, x2: Value, bias: Value | None = None, *, transpose_x1: bool = False, transpose_x2: bool = False
) -> Value:
    """``x1 @ x2 + bias``.

    Shapes: ``x1`` is ``[m, k]`` (``[k, m]`` with ``transpose_x1``), ``x2`` is ``[k, n]`` (``[n, k]`` with
    ``transpose_x2``), ``bias`` is ``[n]``; the result is ``[m, n]``. dtypes: any number, equal.
    """
    raise NotImplementedError


@MatMul.lower
def _(x1: Tensor, x2: Tensor, bias: Tensor | None, *, transpose_x1: bool, transpose_x2: bool) -> Tensor:
    return _product(x1, x2, bias, transpose_x1, transpose_x2)


@ascend_op(source=_SOURCE)
def MatMulV2(
    x1: Value,
    x2: Value,
    bias: Value | None = None,
    offset_w: Value | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    offset_x: int = 0,
) -> Value:
    """``x1 @ x2 + bias``.

    Shapes: ``x1`` is ``[m, k]`` (``[k, m]`` with ``transpose_x1``), ``x2`` is ``[k, n]`` (``[n, k]`` with
    ``transpose_x2``), ``bias`` is ``[n]``; the result is ``[m, n]``. dtypes: any number, equal. ``offset_w`` and
    ``offset_x`` belong to quantized products, which have operators of their own here: they must be absent and 0.
    """
    raise NotImplementedError


@MatMulV2.lower
def _(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    offset_w: Tensor | None,
    *,
    transpose_x1: bool,
    transpose_x2: bool,
    offset_x: int,
) -> Tensor:
    if offset_w is not None or offset_x != 0:
        raise ValueError("offset_w and offset_x are for quantized operands, use QuantBatchMatmulV3")
    return _product(x1, x2, bias, transpose_x1, transpose_x2)


@ascend_op(source=_SOURCE)
def BatchMatMul(x1: Value, x2: Value, *, adj_x1: bool = False, adj_x2: bool = False) -> Value:
    """``x1 @ x2`` for each element of a batch.

    Shapes: ``x1`` is ``[..., m, k]`` (``[..., k, m]`` with ``adj_x1``), ``x2`` is ``[..., k, n]`` (``[..., n, k]`` with
    ``adj_x2``), their batch dimensions broadcast; the result is ``[..., m, n]``. dtypes: any number, equal.
    """
    raise NotImplementedError


@BatchMatMul.lower
def _(x1: Tensor, x2: Tensor, *, adj_x1: bool, adj_x2: bool) -> Tensor:
    a, b = _transposed(x1, adj_x1), _transposed(x2, adj_x2)
    return torch.bmm(a, b) if a.dim() == 3 and b.dim() == 3 and a.shape[0] == b.shape[0] else torch.matmul(a, b)


@ascend_op(source="CANN op_proto: fusion_ops.h")
def FusedMatMul(
    x1: Value,
    x2: Value,
    bias: Value | None = None,
    x3: Value | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    enable_hf32: bool = False,
    fused_op_type: str = "",
) -> Value:
    """``op(x1 @ x2 + bias, x3)`` in one operator.

    ``fused_op_type`` is the ``op``: ``"add"`` and ``"mul"`` take ``x3``, ``"relu"``, ``"gelu_erf"`` and ``"gelu_tanh"``
    do not; ``""`` is none. ``enable_hf32`` allows a device to round float32 operands; the results here are of full
    precision.

    Shapes: ``x1`` is ``[m, k]`` (``[k, m]`` with ``transpose_x1``), ``x2`` is ``[k, n]`` (``[n, k]`` with
    ``transpose_x2``), ``bias`` is ``[n]``, ``x3`` and the result are ``[m, n]``. dtypes: any floating point, equal.
    """
    raise NotImplementedError


@FusedMatMul.lower
def _(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    x3: Tensor | None,
    *,
    transpose_x1: bool,
    transpose_x2: bool,
    enable_hf32: bool,
    fused_op_type: str,
) -> Tensor:
    if (x3 is not None) != (fused_op_type in ("add", "mul")):
        raise ValueError(f"x3 is for fused_op_type 'add' and 'mul', which need it; it is {fused_op_type!r}")
    if fused_op_type == "add" and bias is None and x3 is not None:
        return torch.addmm(x3, _transposed(x1, transpose_x1), _transposed(x2, transpose_x2))
    y = _product(x1, x2, bias, transpose_x1, transpose_x2)
    match fused_op_type:
        case "":
            return y
        case "add" | "mul" if x3 is not None:
            return y + x3 if fused_op_type == "add" else y * x3
        case "relu":
            return torch.relu(y)
        case "gelu_erf" | "gelu_tanh":
            return torch.nn.functional.gelu(y, approximate="none" if fused_op_type == "gelu_erf" else "tanh")
    raise ValueError(f"fused_op_type is '', 'add', 'mul', 'relu', 'gelu_erf' or 'gelu_tanh', not {fused_op_type!r}")


@ascend_op(alpha=HostInts, beta=HostInts, source=_SOURCE)
def GEMM(
    a: Value,
    b: Value,
    c: Value,
    alpha: Value,
    beta: Value,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """``alpha * (a @ b) + beta * c``.

    Shapes: ``a`` is ``[m, k]`` (``[k, m]`` with ``transpose_a``), ``b`` is ``[k, n]`` (``[n, k]`` with
    ``transpose_b``), ``c`` and the result are ``[m, n]``, ``alpha`` and ``beta`` are one number each. dtypes: any
    number, equal. With ``beta`` 0, ``c`` is not read (its NaN do not spread).
    """
    raise NotImplementedError


@GEMM.lower
def _(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    alpha: float | list[float],
    beta: float | list[float],
    *,
    transpose_a: bool,
    transpose_b: bool,
) -> Tensor:
    return torch.addmm(
        c, _transposed(a, transpose_a), _transposed(b, transpose_b), alpha=_scalar(alpha), beta=_scalar(beta)
    )


def _scalar(number: float | list[float]) -> float:
    return number[0] if isinstance(number, list) else number
