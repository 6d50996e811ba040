"""Converters of losses and their gradients. Those that are a few operations on elements decompose."""

from __future__ import annotations

import torch

from torchair.convert.arguments import numbers_known
from torchair.convert.promotion import cast
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import filled
from torchair.ir import Value
from torchair.opset.loss import REDUCTIONS, MseLoss, MseLossGrad, NLLLoss, NLLLossGrad

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.nll_loss_forward.default, supports=numbers_known("ignore_index"))
def nll_loss(
    self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    """aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) ->
    (Tensor output, Tensor total_weight)
    """
    y: tuple[Value, Value] = NLLLoss(self, target, weight, reduction=REDUCTIONS[reduction], ignore_index=ignore_index)
    return y


@register_fx_node_ge_converter(aten.nll_loss_backward.default, supports=numbers_known("ignore_index"))
def nll_loss_backward(
    grad_output: Value,
    self: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    total_weight: Value,
) -> Value:
    """aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt
    ignore_index, Tensor total_weight) -> Tensor
    """
    if weight is None:
        weight = filled(1, self.shape[-1:], self.dtype)
    y: Value = NLLLossGrad(
        self,
        grad_output,
        target,
        weight,
        total_weight,
        reduction=REDUCTIONS[reduction],
        ignore_index=ignore_index,
    )
    return y


@register_fx_node_ge_converter(aten.mse_loss.default)
def mse_loss(self: Value, target: Value, reduction: int = 1, *, meta_outputs: TensorSpec) -> Value:
    """aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    x, y = cast(self, meta_outputs.dtype), cast(target, meta_outputs.dtype)
    return MseLoss(x, y, reduction=REDUCTIONS[reduction])  # type: ignore[no-any-return]


@register_fx_node_ge_converter(aten.mse_loss_backward.default)
def mse_loss_backward(
    grad_output: Value, self: Value, target: Value, reduction: int, *, meta_outputs: TensorSpec
) -> Value:
    """aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor"""
    x, y, g = (cast(v, meta_outputs.dtype) for v in (self, target, grad_output))
    return MseLossGrad(x, y, g, reduction=REDUCTIONS[reduction])  # type: ignore[no-any-return]
