"""Converters of comparisons, logic, bits, and of choosing elements by a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchair.convert.promotion import cast, pointwise, promote, promoted_dtype
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.ir import DType, Value
from torchair.opset.comparison import (
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Equal,
    Greater,
    GreaterEqual,
    Invert,
    IsInf,
    IsNan,
    LeftShift,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    MaskedFill,
    NotEqual,
    RightShift,
    SelectV2,
)
from torchair.opset.elementwise import Maximum, Minimum
from torchair.opset.operator import AscendOp

aten = torch.ops.aten

# --- comparisons ---

_COMPARISONS = {"eq": Equal, "ne": NotEqual, "lt": Less, "le": LessEqual, "gt": Greater, "ge": GreaterEqual}


def _comparison(op: AscendOp[Value]) -> Callable[..., Value]:
    def convert(self: Any, other: Any, *, meta_outputs: TensorSpec) -> Value:
        """aten::f(Tensor self, Tensor other) -> Tensor"""
        common = promoted_dtype(self, other)
        return pointwise(op, self, other, meta_outputs=meta_outputs, dtype=common)

    return convert


for _name, _op in _COMPARISONS.items():
    register_fx_node_ge_converter(getattr(aten, _name).Tensor)(_comparison(_op))
    register_fx_node_ge_converter(getattr(aten, _name).Scalar)(_comparison(_op))


@register_fx_node_ge_converter(aten.isnan.default)
def isnan(self: Value) -> Value:
    """aten::isnan(Tensor self) -> Tensor"""
    return IsNan(self)


@register_fx_node_ge_converter(aten.isinf.default)
def isinf(self: Value) -> Value:
    """aten::isinf(Tensor self) -> Tensor"""
    return IsInf(self)


# --- logic ---


def _logical(op: AscendOp[Value]) -> Callable[..., Value]:
    def convert(self: Value, other: Value) -> Value:
        """aten::f(Tensor self, Tensor other) -> Tensor"""
        return op(cast(self, DType.DT_BOOL), cast(other, DType.DT_BOOL))

    return convert


for _name, _op in {"logical_and": LogicalAnd, "logical_or": LogicalOr, "logical_xor": NotEqual}.items():
    register_fx_node_ge_converter(getattr(aten, _name).default)(_logical(_op))


@register_fx_node_ge_converter(aten.logical_not.default)
def logical_not(self: Value) -> Value:
    """aten::logical_not(Tensor self) -> Tensor"""
    return LogicalNot(cast(self, DType.DT_BOOL))


# --- bits ---

#: Operator on integers, and on bool.
_BITWISE = {
    "bitwise_and": (BitwiseAnd, LogicalAnd),
    "bitwise_or": (BitwiseOr, LogicalOr),
    "bitwise_xor": (BitwiseXor, NotEqual),
}
_SHIFTS = {"left": LeftShift, "right": RightShift}


def _bitwise(op: AscendOp[Value], on_bool: AscendOp[Value]) -> Callable[..., Value]:
    def convert(self: Any, other: Any, *, meta_outputs: TensorSpec) -> Value:
        """aten::f(Tensor self, Tensor other) -> Tensor"""
        return pointwise(on_bool if meta_outputs.dtype is DType.DT_BOOL else op, self, other, meta_outputs=meta_outputs)

    return convert


for _name, (_op, _on_bool) in _BITWISE.items():
    for _overload in ("Tensor", "Scalar", "Scalar_Tensor"):
        register_fx_node_ge_converter(getattr(getattr(aten, _name), _overload))(_bitwise(_op, _on_bool))
for _name, _op in _SHIFTS.items():
    _packet = getattr(aten, f"bitwise_{_name}_shift")
    for _overload in (_packet.Tensor, _packet.Tensor_Scalar, _packet.Scalar_Tensor):
        register_fx_node_ge_converter(_overload)(_bitwise(_op, _op))
    _packet = getattr(aten, f"__{_name[0]}shift__")
    for _overload in (_packet.Tensor, _packet.Scalar):
        register_fx_node_ge_converter(_overload)(_bitwise(_op, _op))


@register_fx_node_ge_converter(aten.bitwise_not.default)
def bitwise_not(self: Value) -> Value:
    """aten::bitwise_not(Tensor self) -> Tensor"""
    return LogicalNot(self) if self.dtype is DType.DT_BOOL else Invert(self)


# --- choices ---


@register_fx_node_ge_converter(aten.where.self)
def where(condition: Value, self: Any, other: Any, *, meta_outputs: TensorSpec) -> Value:
    """aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    common = meta_outputs.dtype
    return SelectV2(cast(condition, DType.DT_BOOL), promote(self, common), promote(other, common))


@register_fx_node_ge_converter(aten.masked_fill.Scalar)
@register_fx_node_ge_converter(aten.masked_fill.Tensor)
def masked_fill(self: Value, mask: Value, value: Any) -> Value:
    """aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    return MaskedFill(self, cast(mask, DType.DT_BOOL), promote(value, self.dtype, checked=True))


def _number_if_present(op: AscendOp[Value]) -> Callable[..., Value]:
    def convert(self: Value, other: Value, *, meta_outputs: TensorSpec) -> Value:
        """aten::f(Tensor self, Tensor other) -> Tensor"""
        x, y = promote(self, meta_outputs.dtype), promote(other, meta_outputs.dtype)
        extremum: Value = op(x, y)
        if not extremum.dtype.is_floating_point:
            return extremum
        return SelectV2(IsNan(x), y, SelectV2(IsNan(y), x, extremum))

    return convert


register_fx_node_ge_converter(aten.fmax.default)(_number_if_present(Maximum))
register_fx_node_ge_converter(aten.fmin.default)(_number_if_present(Minimum))
