"""Converters of matrix products.

``mv`` and ``dot`` stay matrix products, where PyTorch's decompositions make them products of elements and a sum.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torchair.convert.promotion import promote
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import broadcast, squeeze, unsqueeze
from torchair.errors import Rejection
from torchair.ir import DType, Value
from torchair.opset.builder import current_builder
from torchair.opset.elementwise import Add, Mul, Sub
from torchair.opset.matrix import GEMM, BatchMatMul, FusedMatMul, MatMulV2
from torchair.opset.shape import Roll

aten = torch.ops.aten

_HALF = (DType.DT_BF16, DType.DT_FLOAT16)


@register_fx_node_ge_converter(aten.mm.default)
def mm(self: Value, mat2: Value) -> Value:
    """aten::mm(Tensor self, Tensor mat2) -> Tensor"""
    return MatMulV2(self, mat2)


@register_fx_node_ge_converter(aten.bmm.default)
def bmm(self: Value, mat2: Value) -> Value:
    """aten::bmm(Tensor self, Tensor mat2) -> Tensor"""
    return BatchMatMul(self, mat2)


@register_fx_node_ge_converter(aten.mv.default)
def mv(self: Value, vec: Value) -> Value:
    """aten::mv(Tensor self, Tensor vec) -> Tensor"""
    return squeeze(MatMulV2(self, unsqueeze(vec, 1)), 1)


def _not_complex(node: fx.Node) -> Rejection | None:
    if node.meta["val"].dtype.is_complex:
        return Rejection("the first operand is conjugated, and no Ascend IR operator does that")
    return None


def dot(self: Value, tensor: Value) -> Value:
    """aten::dot(Tensor self, Tensor tensor) -> Tensor"""
    return squeeze(MatMulV2(unsqueeze(self, 0), unsqueeze(tensor, 1)), 0, 1)


register_fx_node_ge_converter(aten.dot.default)(dot)
register_fx_node_ge_converter(aten.vdot.default, supports=_not_complex)(dot)


# --- with an addend ---


def _real_factors(node: fx.Node) -> Rejection | None:
    for name in ("beta", "alpha"):
        if not isinstance(node.kwargs.get(name, 1), int | float):
            return Rejection(f"{name} is {node.kwargs[name]}, and Ascend IR multiplies by a known real number")
    return None


def _addmm(c: Value, a: Value, b: Value, beta: Any, alpha: Any) -> Value:
    """``beta * c + alpha * (a @ b)`` for matrices; ``c`` has the shape of the result, or is a bias ``[n]``."""
    if (beta, alpha) == (1, 1):
        plain = a.dtype.is_floating_point and c.rank == 2
        if c.rank == 1:
            return MatMulV2(a, b, c)
        if plain:
            return FusedMatMul(a, b, None, c, fused_op_type="add")
    builder = current_builder()
    dtype = DType.DT_INT64 if a.dtype.is_integer else _scalar_dtype(a.dtype)
    return GEMM(a, b, c, builder.host(alpha, dtype), builder.host(beta, dtype))


def _scalar_dtype(dtype: DType) -> DType:
    """The dtype in which eager keeps a factor of a product."""
    return DType.DT_FLOAT if dtype in (*_HALF, DType.DT_FLOAT, DType.DT_COMPLEX64) else DType.DT_DOUBLE


@register_fx_node_ge_converter(aten.addmm.default, supports=_real_factors)
def addmm(
    self: Value, mat1: Value, mat2: Value, *, beta: float = 1, alpha: float = 1, meta_outputs: TensorSpec
) -> Value:
    """aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    shape = meta_outputs.type.shape
    bias = self.shape == shape[1:] and (beta, alpha) == (1, 1)
    return _addmm(self if bias else broadcast(self, shape), mat1, mat2, beta, alpha)


def _vector_factors(node: fx.Node) -> Rejection | None:
    factors = (node.kwargs.get("beta", 1), node.kwargs.get("alpha", 1))
    if node.meta["val"].dtype in (torch.bfloat16, torch.float16) and factors != (1, 1):
        return Rejection("eager rounds beta * self to half precision before it adds, which no Ascend IR operator does")
    return _real_factors(node)


@register_fx_node_ge_converter(aten.addmv.default, supports=_vector_factors)
def addmv(self: Value, mat: Value, vec: Value, *, beta: float = 1, alpha: float = 1, meta_outputs: TensorSpec) -> Value:
    """aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    c = unsqueeze(broadcast(self, meta_outputs.type.shape), 1)
    return squeeze(_addmm(c, mat, unsqueeze(vec, 1), beta, alpha), 1)


# --- products of vectors: each step rounded as in eager, where PyTorch's decompositions round less often ---


def _number_factors(node: fx.Node) -> Rejection | None:
    if node.meta["val"].dtype is torch.bool:
        return Rejection("of booleans it takes conjunctions and disjunctions for products and sums")
    return None


@register_fx_node_ge_converter(aten.addr.default, supports=_number_factors)
def addr(
    self: Value, vec1: Value, vec2: Value, *, beta: complex = 1, alpha: complex = 1, meta_outputs: TensorSpec
) -> Value:
    """aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    dtype = meta_outputs.dtype
    rows, columns = unsqueeze(promote(vec1, dtype), 1), unsqueeze(promote(vec2, dtype), 0)
    product = Mul(rows if alpha == 1 else Mul(rows, promote(alpha, dtype)), columns)
    if beta == 0:
        return product
    c = promote(self, dtype)
    return Add(c if beta == 1 else Mul(c, promote(beta, dtype)), product)


@register_fx_node_ge_converter(aten.linalg_cross.default)
def linalg_cross(self: Value, other: Value, *, dim: int = -1, meta_outputs: TensorSpec) -> Value:
    """aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"""
    axis = dim % meta_outputs.rank

    def next_but(x: Value, steps: int) -> Value:
        return Roll(promote(x, meta_outputs.dtype), shifts=[-steps], dims=[axis - meta_outputs.rank + x.rank])

    return Sub(Mul(next_but(self, 1), next_but(other, 2)), Mul(next_but(self, 2), next_but(other, 1)))
