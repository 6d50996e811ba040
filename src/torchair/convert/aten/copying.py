"""Converters of copies, conversions and fills."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torchair.convert.arguments import argument
from torchair.convert.promotion import cast, promote
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import broadcast
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.creation import Fill
from torchair.opset.memory import Identity, TensorMove
from torchair.opset.torch_types import dtype_of

aten = torch.ops.aten

# --- the same elements ---


@register_fx_node_ge_converter(aten.alias.default)
@register_fx_node_ge_converter(aten.detach.default)
@register_fx_node_ge_converter(aten.lift_fresh.default)
def alias(self: Value) -> Value:
    """aten::alias(Tensor(a) self) -> Tensor(a)"""
    return Identity(self)


@register_fx_node_ge_converter(aten.lift_fresh_copy.default)
def lift_fresh_copy(self: Value) -> Value:
    """aten::lift_fresh_copy(Tensor self) -> Tensor"""
    return TensorMove(self)


@register_fx_node_ge_converter(aten.clone.default)
def clone(self: Value, *, memory_format: torch.memory_format | None = None) -> Value:
    """aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"""
    # Values have no strides of their own; where strides are seen, at outputs and at opaque operators, FX says them.
    return TensorMove(self)


def _same_place(node: fx.Node) -> Rejection | None:
    """A copy within one device, to strided memory that is not pinned."""
    source, result = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    if result.device != source.device:
        return Rejection(f"it copies from {source.device} to {result.device}, and a graph is on one device")
    if result.layout is not torch.strided or source.layout is not torch.strided:
        return Rejection("sparse tensors have no Ascend IR form")
    return Rejection("pinned memory has no Ascend IR form") if argument(node, "pin_memory") else None


@register_fx_node_ge_converter(aten._to_copy.default, supports=_same_place)
def to_copy(
    self: Value,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> Value:
    """aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor
    """
    return TensorMove(self) if dtype is None or dtype_of(dtype) == self.dtype else cast(self, dtype_of(dtype))


@register_fx_node_ge_converter(torch.ops.prims.convert_element_type.default)
def convert_element_type(a: Value, dtype: torch.dtype) -> Value:
    """prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor"""
    return TensorMove(a) if dtype_of(dtype) == a.dtype else cast(a, dtype_of(dtype))


# --- other elements ---


def _one_device(node: fx.Node) -> Rejection | None:
    target, source = (node.args[i].meta["val"].device for i in (0, 1))  # type: ignore[union-attr]
    return Rejection(f"it copies from {source} to {target}, and a graph is on one device") if target != source else None


@register_fx_node_ge_converter(aten.copy.default, supports=_one_device)
def copy(self: Value, src: Value, non_blocking: bool = False) -> Value:
    """aten::copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"""
    converted = cast(src, self.dtype)
    result = broadcast(converted, self.shape)
    return result if converted is not src and result is converted else TensorMove(result)


@register_fx_node_ge_converter(aten.fill.Scalar)
@register_fx_node_ge_converter(aten.fill.Tensor)
def fill(self: Value, value: Any) -> Value:
    """aten::fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return Fill(list(self.shape), promote(value, self.dtype, checked=True))


def _inference(node: fx.Node) -> Rejection | None:
    # Even with p=0 training draws from the generator, which later draws would notice.
    return (
        None
        if argument(node, "train") is False
        else Rejection("it draws random numbers, which torch's generator must give")
    )


@register_fx_node_ge_converter(aten.native_dropout.default, supports=_inference)
def native_dropout(
    input: Value, p: float, train: bool | None, *, meta_outputs: list[TensorSpec]
) -> tuple[Value, Value]:
    """aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    return TensorMove(input), Fill(list(input.shape), promote(True, meta_outputs[1].dtype))
