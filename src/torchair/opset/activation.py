"""Activation functions and their gradients."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from torchair.ir import Value
from torchair.opset.operator import ascend_op
from torchair.opset.pointwise import unary

__all__ = [
    "Elu", "EluGradV2", "FastGelu", "FastGeluGrad", "GLU", "GLUGrad", "Gelu", "GeluGrad", "GeluGradV2", "GeluV2",
    "HardSigmoid", "HardSigmoidGrad", "HardSwish", "HardSwishGrad", "HardtanhGrad", "LeakyRelu", "LeakyReluGrad",
    "LogSigmoid", "LogSigmoidGrad", "Mish", "PRelu", "Relu", "ReluGrad", "Sigmoid", "SigmoidGrad", "SoftplusV2",
    "Swish", "Tanh", "TanhGrad", "ThresholdGradV2D", "ThresholdV2",
]  # fmt: skip

aten = torch.ops.aten

_SOURCE = "CANN op_proto: nonlinear_fuc_ops.h"
_REALS = "floats, the result's is the same"

Relu = unary("Relu", torch.relu, "``x``, 0 where it is negative.", source=_SOURCE)
Sigmoid = unary("Sigmoid", torch.sigmoid, "``1 / (1 + exp(-x))``.", dtypes=f"complex and {_REALS}", source=_SOURCE)
Tanh = unary("Tanh", torch.tanh, "The hyperbolic tangent.", dtypes=f"complex and {_REALS}", source=_SOURCE)
Mish = unary("Mish", functional.mish, "``x * tanh(softplus(x))``.", dtypes=_REALS, source=_SOURCE)
HardSwish = unary("HardSwish", functional.hardswish, "``x * clamp(x + 3, 0, 6) / 6``.", dtypes=_REALS, source=_SOURCE)
LogSigmoid = unary("LogSigmoid", functional.logsigmoid, "``log(sigmoid(x))``.", dtypes=_REALS, source=_SOURCE)
Gelu = unary(
    "Gelu", lambda x: functional.gelu(x, approximate="tanh"),
    "``x`` times the normal distribution function of ``x``, in its approximation by tanh.",
    dtypes=_REALS, source=_SOURCE,
)  # fmt: skip
FastGelu = unary(
    "FastGelu", lambda x: torch.mul(x, torch.sigmoid(torch.mul(x, 1.702))), "``x * sigmoid(1.702 * x)``.",
    dtypes=_REALS, source=_SOURCE,
)  # fmt: skip


@ascend_op(source=_SOURCE)
def GeluV2(x: Value, *, approximate: str = "none") -> Value:
    """``x`` times the normal distribution function of ``x``: exact, or (``approximate="tanh"``) approximated by tanh.

    Shapes: ``x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@GeluV2.lower
def _(x: Tensor, *, approximate: str) -> Tensor:
    return functional.gelu(x, approximate=approximate)


@ascend_op(source=_SOURCE)
def Swish(x: Value, *, scale: float = 1.0) -> Value:
    """``x * sigmoid(scale * x)``.

    Shapes: ``x`` and the result are any, equal. dtypes: floats and complex, the result's is the same.
    """
    raise NotImplementedError


@Swish.lower
def _(x: Tensor, *, scale: float) -> Tensor:
    return functional.silu(x) if scale == 1.0 else torch.mul(x, torch.sigmoid(torch.mul(x, scale)))


@ascend_op(source=_SOURCE)
def Elu(x: Value, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    """``scale * x`` where ``x`` is positive, ``scale * alpha * (exp(input_scale * x) - 1)`` elsewhere.

    Shapes: ``x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@Elu.lower
def _(x: Tensor, *, alpha: float, scale: float, input_scale: float) -> Tensor:
    return aten.elu.default(x, alpha, scale, input_scale)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE)
def LeakyRelu(x: Value, *, negative_slope: float = 0.0) -> Value:
    """``x``, times ``negative_slope`` where it is negative.

    Shapes: ``x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@LeakyRelu.lower
def _(x: Tensor, *, negative_slope: float) -> Tensor:
    return functional.leaky_relu(x, negative_slope)


@ascend_op(source=_SOURCE)
def PRelu(x: Value, weight: Value) -> Value:
    """``x``, times ``weight`` where it is negative.

    Shapes: ``weight`` is ``[c]`` for the second dimension of ``x`` (or ``[1]``), or it broadcasts to ``x``.
    dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@PRelu.lower
def _(x: Tensor, weight: Tensor) -> Tensor:
    if weight.ndim == 1 and x.ndim > 1:
        return torch.prelu(x, weight)
    return aten._prelu_kernel.default(x, weight)  # type: ignore[no-any-return]


#: Slope of the hard sigmoid as Ascend IR writes 1/6.
_SIXTH = 0.16666666


@ascend_op(source=_SOURCE, outputs=("output_y",))
def HardSigmoid(input_x: Value, *, alpha: float = _SIXTH, beta: float = 0.5) -> Value:
    """``clamp(alpha * input_x + beta, 0, 1)``; the default ``alpha`` stands for 1/6.

    Shapes: ``input_x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@HardSigmoid.lower
def _(input_x: Tensor, *, alpha: float, beta: float) -> Tensor:
    if (alpha, beta) == (_SIXTH, 0.5):
        return functional.hardsigmoid(input_x)
    return torch.clamp(torch.add(torch.mul(input_x, alpha), beta), 0, 1)


@ascend_op(source=_SOURCE)
def SoftplusV2(x: Value, *, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x`` is above ``threshold``.

    Shapes: ``x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@SoftplusV2.lower
def _(x: Tensor, *, beta: float, threshold: float) -> Tensor:
    return functional.softplus(x, beta, threshold)


@ascend_op(source=_SOURCE)
def ThresholdV2(x: Value, threshold: Value, value: Value | None) -> Value:
    """``value`` (0 if absent) where ``x`` is not above ``threshold``, ``x`` elsewhere (also where it is NaN).

    Shapes: ``threshold`` and ``value`` are 0-d or ``[1]``. dtypes: real numbers, equal; the result's is the same.
    """
    raise NotImplementedError


@ThresholdV2.lower
def _(x: Tensor, threshold: Tensor, value: Tensor | None) -> Tensor:
    replacement = torch.zeros_like(threshold) if value is None else value
    return torch.where(torch.le(x, threshold), replacement, x)


@ascend_op(source="CANN op_proto: nn_ops.h")
def GLU(x: Value, *, dim: int = -1) -> Value:
    """The first half of ``x`` along ``dim`` times the sigmoid of the second.

    Shapes: the result has half the size along ``dim``. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@GLU.lower
def _(x: Tensor, *, dim: int) -> Tensor:
    return functional.glu(x, dim)


# --- gradients ---


@ascend_op(source=_SOURCE, outputs=("backprops",))
def ReluGrad(gradients: Value, features: Value) -> Value:
    """``gradients`` where ``features`` is positive, 0 elsewhere.

    Shapes: equal. dtypes: real numbers, equal; the result's is the same.
    """
    raise NotImplementedError


@ReluGrad.lower
def _(gradients: Tensor, features: Tensor) -> Tensor:
    return aten.threshold_backward.default(gradients, features, 0)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("backprops",))
def ThresholdGradV2D(gradients: Value, features: Value, *, threshold: float) -> Value:
    """``gradients`` where ``features`` is above ``threshold``, 0 elsewhere.

    Shapes: equal. dtypes: real numbers, equal; the result's is the same.
    """
    raise NotImplementedError


@ThresholdGradV2D.lower
def _(gradients: Tensor, features: Tensor, *, threshold: float) -> Tensor:
    return aten.threshold_backward.default(gradients, features, threshold)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("z",))
def SigmoidGrad(y: Value, dy: Value, *, complex_conj: bool = False) -> Value:
    """``dy * y * (1 - y)``, the gradient of :data:`Sigmoid` by its result ``y``.

    ``complex_conj`` takes the conjugate of ``y * (1 - y)``. Shapes: equal.
    dtypes: floats and complex, equal; the result's is the same.
    """
    raise NotImplementedError


@SigmoidGrad.lower
def _(y: Tensor, dy: Tensor, *, complex_conj: bool) -> Tensor:
    if y.dtype.is_complex and not complex_conj:
        return torch.mul(dy, torch.mul(torch.sub(1, y), y))
    return aten.sigmoid_backward.default(dy, y)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("z",))
def TanhGrad(y: Value, dy: Value, *, complex_conj: bool = False) -> Value:
    """``dy * (1 - y * y)``, the gradient of :data:`Tanh` by its result ``y``.

    ``complex_conj`` takes the conjugate of ``1 - y * y``. Shapes: equal.
    dtypes: floats and complex, equal; the result's is the same.
    """
    raise NotImplementedError


@TanhGrad.lower
def _(y: Tensor, dy: Tensor, *, complex_conj: bool) -> Tensor:
    if y.dtype.is_complex and not complex_conj:
        return torch.mul(dy, torch.sub(1, torch.mul(y, y)))
    return aten.tanh_backward.default(dy, y)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("z",))
def GeluGradV2(dy: Value, x: Value, *, approximate: str = "none") -> Value:
    """The gradient of :data:`GeluV2`.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@GeluGradV2.lower
def _(dy: Tensor, x: Tensor, *, approximate: str) -> Tensor:
    return aten.gelu_backward.default(dy, x, approximate=approximate)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("z",))
def GeluGrad(dy: Value, x: Value, y: Value) -> Value:
    """The gradient of :data:`Gelu`; ``y`` is its result, which the formula does not need.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@GeluGrad.lower
def _(dy: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return aten.gelu_backward.default(dy, x, approximate="tanh")  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("z",))
def FastGeluGrad(dy: Value, x: Value) -> Value:
    """The gradient of :data:`FastGelu`.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@FastGeluGrad.lower
def _(dy: Tensor, x: Tensor) -> Tensor:
    s = torch.sigmoid(torch.mul(x, 1.702))
    slope = torch.mul(torch.mul(s, torch.sub(1, s)), torch.mul(x, 1.702))
    return torch.mul(dy, torch.add(s, slope))


@ascend_op(source=_SOURCE)
def HardSwishGrad(grad: Value, x: Value) -> Value:
    """The gradient of :data:`HardSwish`.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@HardSwishGrad.lower
def _(grad: Tensor, x: Tensor) -> Tensor:
    return aten.hardswish_backward.default(grad, x)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE)
def HardSigmoidGrad(grads: Value, input_x: Value, *, alpha: float = _SIXTH, beta: float = 0.5) -> Value:
    """The gradient of :data:`HardSigmoid`: ``alpha * grads`` where the function is neither 0 nor 1.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@HardSigmoidGrad.lower
def _(grads: Tensor, input_x: Tensor, *, alpha: float, beta: float) -> Tensor:
    if (alpha, beta) == (_SIXTH, 0.5):
        return aten.hardsigmoid_backward.default(grads, input_x)  # type: ignore[no-any-return]
    line = torch.add(torch.mul(input_x, alpha), beta)
    inside = torch.logical_and(torch.gt(line, 0), torch.lt(line, 1))
    return torch.where(inside, torch.mul(grads, alpha), torch.zeros_like(grads))


@ascend_op(source=_SOURCE)
def HardtanhGrad(result: Value, grad: Value, *, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    """``grad`` where ``result`` (of clamping to ``min_val`` and ``max_val``) is neither bound, 0 elsewhere.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@HardtanhGrad.lower
def _(result: Tensor, grad: Tensor, *, min_val: float, max_val: float) -> Tensor:
    return aten.hardtanh_backward.default(grad, result, min_val, max_val)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("backprops",))
def LeakyReluGrad(gradients: Value, features: Value, *, negative_slope: float = 0.0) -> Value:
    """``gradients``, times ``negative_slope`` where ``features`` is not positive.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@LeakyReluGrad.lower
def _(gradients: Tensor, features: Tensor, *, negative_slope: float) -> Tensor:
    return aten.leaky_relu_backward.default(gradients, features, negative_slope, False)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE)
def EluGradV2(
    grads: Value,
    activations: Value,
    *,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
    is_result: bool = False,
) -> Value:
    """The gradient of :data:`Elu` by its input, or (``is_result``) by its result.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@EluGradV2.lower
def _(grads: Tensor, activations: Tensor, *, alpha: float, scale: float, input_scale: float, is_result: bool) -> Tensor:
    return aten.elu_backward.default(grads, alpha, scale, input_scale, is_result, activations)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE, outputs=("backprops",))
def LogSigmoidGrad(grads: Value, features: Value) -> Value:
    """The gradient of :data:`LogSigmoid`.

    Shapes: equal. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@LogSigmoidGrad.lower
def _(grads: Tensor, features: Tensor) -> Tensor:
    # The forward operator keeps exp(-|x|) for this on CPU; elsewhere the kernel ignores it.
    buffer = torch.exp(torch.neg(torch.abs(features)))
    return aten.log_sigmoid_backward.default(grads, features, buffer)  # type: ignore[no-any-return]


@ascend_op(source="CANN op_proto: nn_ops.h", outputs=("x_grad",))
def GLUGrad(y_grad: Value, x: Value, *, dim: int = -1) -> Value:
    """The gradient of :data:`GLU`.

    Shapes: ``y_grad`` has half the size of ``x`` along ``dim``, the result is as ``x``.
    dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@GLUGrad.lower
def _(y_grad: Tensor, x: Tensor, *, dim: int) -> Tensor:
    return aten.glu_backward.default(y_grad, x, dim)  # type: ignore[no-any-return]
