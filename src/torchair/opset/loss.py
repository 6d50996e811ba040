"""Losses and their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import ascend_op

__all__ = ["REDUCTIONS", "MseLoss", "MseLossGrad", "NLLLoss", "NLLLossGrad"]

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
