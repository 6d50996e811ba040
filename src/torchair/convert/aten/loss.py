"""Converters of losses and their gradients. Those that are a few operations on elements decompose."""

from __future__ import annotations

import torch

from torchair.convert.arguments import numbers_known
from torchair.convert.promotion import cast
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import filled
from torchair.ir import Value
from torchair.opset.loss import (
    REDUCTIONS,
    BinaryCrossEntropy,
    BinaryCrossEntropyGrad,
    MseLoss,
    MseLossGrad,
    NLLLoss,
    NLLLossGrad,
    SigmoidCrossEntropyWithLogitsV2,
    SmoothL1LossGradV2,
    SmoothL1LossV2,
)

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.nll_loss_forward.default, supports=numbers_known("ignore_index"))
def nll_loss(
    self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    """aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) ->
    (Tensor output, Tensor total_weight)
    """
    return NLLLoss(self, target, weight, reduction=REDUCTIONS[reduction], ignore_index=ignore_index)


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
    return NLLLossGrad(
        self,
        grad_output,
        target,
        weight,
        total_weight,
        reduction=REDUCTIONS[reduction],
        ignore_index=ignore_index,
    )


@register_fx_node_ge_converter(aten.mse_loss.default)
def mse_loss(self: Value, target: Value, reduction: int = 1, *, meta_outputs: TensorSpec) -> Value:
    """aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor"""
    x, y = cast(self, meta_outputs.dtype), cast(target, meta_outputs.dtype)
    return MseLoss(x, y, reduction=REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.mse_loss_backward.default)
def mse_loss_backward(
    grad_output: Value, self: Value, target: Value, reduction: int, *, meta_outputs: TensorSpec
) -> Value:
    """aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor"""
    x, y, g = (cast(v, meta_outputs.dtype) for v in (self, target, grad_output))
    return MseLossGrad(x, y, g, reduction=REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.smooth_l1_loss.default, supports=numbers_known("beta"))
def smooth_l1_loss(
    self: Value, target: Value, reduction: int = 1, beta: float = 1.0, *, meta_outputs: TensorSpec
) -> Value:
    """aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor"""
    x, y = cast(self, meta_outputs.dtype), cast(target, meta_outputs.dtype)
    return SmoothL1LossV2(x, y, sigma=beta, reduction=REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.smooth_l1_loss_backward.default, supports=numbers_known("beta"))
def smooth_l1_loss_backward(
    grad_output: Value, self: Value, target: Value, reduction: int, beta: float, *, meta_outputs: TensorSpec
) -> Value:
    """aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) ->
    Tensor
    """
    x, y, g = (cast(v, meta_outputs.dtype) for v in (self, target, grad_output))
    return SmoothL1LossGradV2(x, y, g, sigma=beta, reduction=REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.binary_cross_entropy.default)
def binary_cross_entropy(self: Value, target: Value, weight: Value | None = None, reduction: int = 1) -> Value:
    """aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor"""
    return BinaryCrossEntropy(self, target, weight, reduction=REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.binary_cross_entropy_backward.default)
def binary_cross_entropy_backward(
    grad_output: Value, self: Value, target: Value, weight: Value | None = None, reduction: int = 1
) -> Value:
    """aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int
    reduction=1) -> Tensor
    """
    return BinaryCrossEntropyGrad(self, target, grad_output, weight, reduction=REDUCTIONS[reduction])


@register_fx_node_ge_converter(aten.binary_cross_entropy_with_logits.default)
def binary_cross_entropy_with_logits(
    self: Value, target: Value, weight: Value | None = None, pos_weight: Value | None = None, reduction: int = 1
) -> Value:
    """aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None,
    int reduction=1) -> Tensor
    """
    return SigmoidCrossEntropyWithLogitsV2(self, target, weight, pos_weight, reduction=REDUCTIONS[reduction])
