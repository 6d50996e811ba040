"""Converters of arithmetic on elements."""

from __future__ import annotations

from typing import Any

import torch

from torchair.convert.promotion import pointwise
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.ir import Value
from torchair.opset.elementwise import Mul

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.mul.Tensor)
def mul(self: Value, other: Any, *, meta_outputs: TensorSpec) -> Value:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    return pointwise(Mul, self, other, meta_outputs=meta_outputs)
