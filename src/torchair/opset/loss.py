"""Losses and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import ascend_op

__all__ = [
    "REDUCTIONS",
    "BinaryCrossEntropy",
    "BinaryCrossEntropyGrad",
    "MseLoss",
    "MseLossGrad",
    "NLLLoss",
    "NLLLossGrad",
    "SigmoidCrossEntropyWithLogitsV2",
    "SmoothL1LossGradV2",
    "SmoothL1LossV2",
]

aten = torch.ops.aten

#: Names of ATen's reduction codes 0, 1, 2.
REDUCTIONS = ("none", "mean", "sum")


@ascend_op(outputs=("y", "total_weight"), source="CANN op_proto: nn_norm_ops.h")
def NLLLoss(
    x: Value, target: Value, weight: Value | None = None, *, reduction: str = "mean", ignore_index: int = -100
) -> tuple[Value, Value]:
    """Negative log likelihood of ``target``: ``-weight[target] * x[..., target]``.

    Targets that are ``ignore_index`` count as 0. Shapes: ``x`` is ``[n, classes]`` or ``[classes]``, ``target``
    ``[n]`` or 0-d, ``weight`` ``[classes]``; ``y`` is like ``target`` for the reduction ``none``, else 0-d,
    ``total_weight`` 0-d. dtypes: ``x`` and ``weight`` are floating point, equal; ``target`` is int64.
    """
    raise NotImplementedError


@NLLLoss.lower
def _(x: Tensor, target: Tensor, weight: Tensor | None, *, reduction: str, ignore_index: int) -> Any:
    return aten.nll_loss_forward.default(x, target, weight, REDUCTIONS.index(reduction), ignore_index)


@ascend_op(outputs=("x_grad",), source="CANN op_proto: nn_norm_ops.h")
def NLLLossGrad(
    x: Value,
    y_grad: Value,
    target: Value,
    weight: Value,
    total_weight: Value,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Value:
    """Gradient of :data:`NLLLoss` for ``x``.

    Shapes and dtypes: as there; the result is like ``x``.
    """
    raise NotImplementedError


@NLLLossGrad.lower
def _(
    x: Tensor,
    y_grad: Tensor,
    target: Tensor,
    weight: Tensor,
    total_weight: Tensor,
    *,
    reduction: str,
    ignore_index: int,
) -> Any:
    return aten.nll_loss_backward.default(
        y_grad, x, target, weight, REDUCTIONS.index(reduction), ignore_index, total_weight
    )


@ascend_op(source="CANN op_proto: nn_norm_ops.h")
def MseLoss(predict: Value, label: Value, *, reduction: str = "mean") -> Value:
    """``(predict - label)^2``, its mean or its sum.

    Shapes: broadcast; 0-d unless the reduction is ``none``. dtypes: floating point or complex, equal.
    """
    raise NotImplementedError


@MseLoss.lower
def _(predict: Tensor, label: Tensor, *, reduction: str) -> Any:
    return aten.mse_loss.default(predict, label, REDUCTIONS.index(reduction))


@ascend_op(source="CANN op_proto: nn_norm_ops.h")
def MseLossGrad(predict: Value, label: Value, dout: Value, *, reduction: str = "mean") -> Value:
    """Gradient of :data:`MseLoss` for ``predict``.

    Shapes: broadcast. dtypes: floating point, equal.
    """
    raise NotImplementedError


@MseLossGrad.lower
def _(predict: Tensor, label: Tensor, dout: Tensor, *, reduction: str) -> Any:
    return aten.mse_loss_backward.default(dout, predict, label, REDUCTIONS.index(reduction))


@ascend_op(outputs=("loss",), source="CANN op_proto: nn_norm_ops.h")
def SmoothL1LossV2(predict: Value, label: Value, *, sigma: float = 1.0, reduction: str = "mean") -> Value:
    """``0.5 * d^2 / sigma`` where ``d = abs(predict - label)`` is below ``sigma``, else ``d - 0.5 * sigma``.

    Shapes: broadcast; 0-d unless the reduction is ``none``. dtypes: floating point, equal.
    """
    raise NotImplementedError


@SmoothL1LossV2.lower
def _(predict: Tensor, label: Tensor, *, sigma: float, reduction: str) -> Any:
    return aten.smooth_l1_loss.default(predict, label, REDUCTIONS.index(reduction), sigma)


@ascend_op(outputs=("gradient",), source="CANN op_proto: nn_norm_ops.h")
def SmoothL1LossGradV2(
    predict: Value, label: Value, dout: Value, *, sigma: float = 1.0, reduction: str = "mean"
) -> Value:
    """Gradient of :data:`SmoothL1LossV2` for ``predict``.

    Shapes: broadcast. dtypes: floating point, equal.
    """
    raise NotImplementedError


@SmoothL1LossGradV2.lower
def _(predict: Tensor, label: Tensor, dout: Tensor, *, sigma: float, reduction: str) -> Any:
    return aten.smooth_l1_loss_backward.default(dout, predict, label, REDUCTIONS.index(reduction), sigma)


@ascend_op(outputs=("output",), source="CANN op_proto: nn_norm_ops.h")
def BinaryCrossEntropy(x: Value, y: Value, weight: Value | None = None, *, reduction: str = "mean") -> Value:
    """``-weight * (y * log(x) + (1 - y) * log(1 - x))`` with logarithms of at least -100.

    Shapes: ``x`` and ``y`` are equal, ``weight`` broadcasts to them; 0-d unless the reduction is ``none``. dtypes:
    floating point, equal. ``x`` must lie in [0, 1].
    """
    raise NotImplementedError


@BinaryCrossEntropy.lower
def _(x: Tensor, y: Tensor, weight: Tensor | None, *, reduction: str) -> Any:
    return aten.binary_cross_entropy.default(x, y, weight, REDUCTIONS.index(reduction))


@ascend_op(outputs=("output",), source="CANN op_proto: nn_norm_ops.h")
def BinaryCrossEntropyGrad(
    x: Value, y: Value, grad_output: Value, weight: Value | None = None, *, reduction: str = "mean"
) -> Value:
    """Gradient of :data:`BinaryCrossEntropy` for ``x``.

    Shapes and dtypes: as there; ``grad_output`` is like its result.
    """
    raise NotImplementedError


@BinaryCrossEntropyGrad.lower
def _(x: Tensor, y: Tensor, grad_output: Tensor, weight: Tensor | None, *, reduction: str) -> Any:
    return aten.binary_cross_entropy_backward.default(grad_output, x, y, weight, REDUCTIONS.index(reduction))


@ascend_op(outputs=("loss",), source="CANN op_proto: nn_norm_ops.h")
def SigmoidCrossEntropyWithLogitsV2(
    predict: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    *,
    reduction: str = "mean",
) -> Value:
    """:data:`BinaryCrossEntropy` of ``sigmoid(predict)`` and ``target`` without overflow, positives by ``pos_weight``.

    Shapes: ``predict`` and ``target`` are equal, the weights broadcast to them; 0-d unless the reduction is ``none``.
    dtypes: floating point, equal.
    """
    raise NotImplementedError


@SigmoidCrossEntropyWithLogitsV2.lower
def _(predict: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, *, reduction: str) -> Any:
    return aten.binary_cross_entropy_with_logits.default(
        predict, target, weight, pos_weight, REDUCTIONS.index(reduction)
    )
