"""Converters of complex numbers: made of two real tensors, conjugated."""

from __future__ import annotations

import torch

from torchair.convert.promotion import from_real
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.ir import Value
from torchair.opset.complex_number import Complex, Conj
from torchair.opset.elementwise import Neg
from torchair.opset.memory import TensorMove

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.complex.default)
def complex(real: Value, imag: Value) -> Value:
    """aten::complex(Tensor real, Tensor imag) -> Tensor"""
    return Complex(real, imag, Tout=from_real(real.dtype))


@register_fx_node_ge_converter(aten._conj.default)
@register_fx_node_ge_converter(aten._conj_physical.default)
def conj(self: Value) -> Value:
    """aten::_conj(Tensor(a) self) -> Tensor(a)"""
    return Conj(self) if self.dtype.is_complex else TensorMove(self)


@register_fx_node_ge_converter(aten._neg_view.default)
def neg_view(self: Value) -> Value:
    """aten::_neg_view(Tensor(a) self) -> Tensor(a)"""
    return Neg(self)
