"""Softmax and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import ascend_op

__all__ = ["LogSoftmaxGrad", "LogSoftmaxV2", "SoftmaxGrad", "SoftmaxV2"]

aten = torch.ops.aten


def _along(axes: Sequence[int], function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply a function of ``(*tensors, dim)`` along one axis, or along several as if they were one."""
    if len(axes) == 1:
        return function(*tensors, axes[0])
    last = range(-len(axes), 0)
    moved = [t.movedim(list(axes), list(last)) for t in tensors]
    shape = moved[0].shape
    y = function(*(t.flatten(-len(axes)) for t in moved), -1)
    return y.reshape(shape).movedim(list(last), list(axes))


@ascend_op(source="CANN op_proto: nn_norm_ops.h")
def SoftmaxV2(x: Value, *, axes: Sequence[int] = (-1,), half_to_float: bool = False) -> Value:
    """``exp(x) / sum(exp(x))`` over ``axes``, without overflow.

    Shapes: ``x`` and the result are any, equal. dtypes: floating point, equal; ``half_to_float`` makes float32 of
    float16.
    """
    raise NotImplementedError


@SoftmaxV2.lower
def _(x: Tensor, *, axes: Sequence[int], half_to_float: bool) -> Tensor:
    x = x.float() if half_to_float else x
    return _along(axes, lambda t, dim: aten._softmax.default(t, dim, False), x)


@ascend_op(outputs=("logsoftmax",), source="CANN op_proto: nn_norm_ops.h")
def LogSoftmaxV2(logits: Value, *, axes: Sequence[int] = (-1,)) -> Value:
    """``logits - log(sum(exp(logits)))`` over ``axes``, without overflow.

    Shapes: ``logits`` and the result are any, equal. dtypes: floating point, equal.
    """
    raise NotImplementedError


@LogSoftmaxV2.lower
def _(logits: Tensor, *, axes: Sequence[int]) -> Tensor:
    return _along(axes, lambda t, dim: aten._log_softmax.default(t, dim, False), logits)


@ascend_op(outputs=("grad_x",), source="CANN op_proto: nn_norm_ops.h")
def SoftmaxGrad(softmax: Value, grad_softmax: Value, *, axes: Sequence[int] = (-1,)) -> Value:
    """Gradient of :data:`SoftmaxV2` from its result and the result's gradient.

    Shapes: all equal. dtypes: floating point, equal.
    """
    raise NotImplementedError


@SoftmaxGrad.lower
def _(softmax: Tensor, grad_softmax: Tensor, *, axes: Sequence[int]) -> Tensor:
    return _along(
        axes, lambda y, g, dim: aten._softmax_backward_data.default(g, y, dim, y.dtype), softmax, grad_softmax
    )


@ascend_op(source="CANN op_proto: nn_norm_ops.h")
def LogSoftmaxGrad(grad: Value, x: Value, *, axis: Sequence[int] = (-1,)) -> Value:
    """Gradient of :data:`LogSoftmaxV2` from the result's gradient and ``x``, its result.

    Shapes: all equal. dtypes: floating point, equal.
    """
    raise NotImplementedError


@LogSoftmaxGrad.lower
def _(grad: Tensor, x: Tensor, *, axis: Sequence[int]) -> Tensor:
    return _along(axis, lambda g, y, dim: aten._log_softmax_backward_data.default(g, y, dim, y.dtype), grad, x)
