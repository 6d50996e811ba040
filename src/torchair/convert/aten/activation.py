"""Converters of activation functions and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from torchair.convert.arguments import argument, numbers_known
from torchair.convert.promotion import HALF, cast, fits, pointwise, promote
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.errors import Rejection
from torchair.ir import DType, Value
from torchair.opset.activation import (
    GLU,
    Elu,
    EluGradV2,
    GeluGradV2,
    GeluV2,
    GLUGrad,
    HardSigmoid,
    HardSigmoidGrad,
    HardSwish,
    HardSwishGrad,
    HardtanhGrad,
    LeakyRelu,
    LeakyReluGrad,
    LogSigmoid,
    LogSigmoidGrad,
    Mish,
    PRelu,
    Relu,
    ReluGrad,
    Sigmoid,
    SigmoidGrad,
    SoftplusV2,
    Swish,
    Tanh,
    TanhGrad,
    ThresholdGradV2D,
    ThresholdV2,
)
from torchair.opset.elementwise import Abs, Exp, Neg
from torchair.opset.operator import AscendOp

aten = torch.ops.aten

_UNARY = {
    "hardsigmoid": HardSigmoid,
    "hardswish": HardSwish,
    "mish": Mish,
    "relu": Relu,
    "sigmoid": Sigmoid,
    "silu": Swish,
    "tanh": Tanh,
}


def _unary(op: AscendOp[Value]) -> Callable[..., Value]:
    def convert(self: Value, *, meta_outputs: TensorSpec) -> Value:
        """aten::f(Tensor self) -> Tensor"""
        return pointwise(op, self, meta_outputs=meta_outputs)

    return convert


for _name, _op in _UNARY.items():
    register_fx_node_ge_converter(getattr(aten, _name).default)(_unary(_op))


@register_fx_node_ge_converter(aten.gelu.default)
def gelu(self: Value, *, approximate: str = "none") -> Value:
    """aten::gelu(Tensor self, *, str approximate='none') -> Tensor"""
    return GeluV2(self, approximate=approximate)


@register_fx_node_ge_converter(aten.elu.default, supports=numbers_known("alpha", "scale", "input_scale"))
def elu(self: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    """aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"""
    return Elu(self, alpha=alpha, scale=scale, input_scale=input_scale)


@register_fx_node_ge_converter(aten.celu.default, supports=numbers_known("alpha"))
def celu(self: Value, alpha: Any = 1.0) -> Value:
    """aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor"""
    return Elu(self, alpha=alpha, input_scale=1.0 / alpha)


@register_fx_node_ge_converter(aten.leaky_relu.default, supports=numbers_known("negative_slope"))
def leaky_relu(self: Value, negative_slope: Any = 0.01) -> Value:
    """aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"""
    return LeakyRelu(self, negative_slope=negative_slope)


@register_fx_node_ge_converter(aten._prelu_kernel.default)
def prelu(self: Value, weight: Value) -> Value:
    """aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor"""
    return PRelu(self, weight)


@register_fx_node_ge_converter(aten.softplus.default, supports=numbers_known("beta", "threshold"))
def softplus(self: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    """aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"""
    return SoftplusV2(self, beta=beta, threshold=threshold)


def _thresholds(node: fx.Node) -> Rejection | None:
    """``supports=``: eager has a kernel, and takes the numbers."""
    dtype = argument(node, "self").meta["val"].dtype
    numbers = [argument(node, name) for name in ("threshold", "value")]
    if dtype is torch.bool:
        return Rejection("eager has no kernel of it for bools")
    if not all(fits(number, dtype) for number in numbers if isinstance(number, int | float)):
        return Rejection(f"eager takes no number that {dtype} cannot hold")
    return None


@register_fx_node_ge_converter(aten.threshold.default, supports=_thresholds)
def threshold(self: Value, threshold: Any, value: Any) -> Value:
    """aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor"""
    # CPU kernels of half precision take the numbers unrounded.
    common = DType.DT_FLOAT if self.dtype in HALF else self.dtype
    y = ThresholdV2(cast(self, common), promote(threshold, common), promote(value, common))
    return cast(y, self.dtype)


@register_fx_node_ge_converter(aten.log_sigmoid_forward.default)
def log_sigmoid(self: Value) -> tuple[Value, Value]:
    """aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)"""
    return LogSigmoid(self), Exp(Neg(Abs(self)))


@register_fx_node_ge_converter(aten.glu.default)
def glu(self: Value, dim: int = -1) -> Value:
    """aten::glu(Tensor self, int dim=-1) -> Tensor"""
    return GLU(self, dim=dim)


# --- gradients ---


@register_fx_node_ge_converter(aten.threshold_backward.default, supports=numbers_known("threshold"))
def threshold_backward(grad_output: Value, self: Value, threshold: Any) -> Value:
    """aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor"""
    if threshold == 0:
        return ReluGrad(grad_output, self)
    return ThresholdGradV2D(grad_output, self, threshold=threshold)


@register_fx_node_ge_converter(aten.sigmoid_backward.default)
def sigmoid_backward(grad_output: Value, output: Value) -> Value:
    """aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor"""
    return SigmoidGrad(output, grad_output, complex_conj=output.dtype.is_complex)


@register_fx_node_ge_converter(aten.tanh_backward.default)
def tanh_backward(grad_output: Value, output: Value) -> Value:
    """aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor"""
    return TanhGrad(output, grad_output, complex_conj=output.dtype.is_complex)


@register_fx_node_ge_converter(aten.gelu_backward.default)
def gelu_backward(grad_output: Value, self: Value, *, approximate: str = "none") -> Value:
    """aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor"""
    return GeluGradV2(grad_output, self, approximate=approximate)


@register_fx_node_ge_converter(aten.hardswish_backward.default)
def hardswish_backward(grad_output: Value, self: Value) -> Value:
    """aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor"""
    return HardSwishGrad(grad_output, self)


@register_fx_node_ge_converter(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(grad_output: Value, self: Value) -> Value:
    """aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor"""
    return HardSigmoidGrad(grad_output, self)


@register_fx_node_ge_converter(aten.hardtanh_backward.default, supports=numbers_known("min_val", "max_val"))
def hardtanh_backward(grad_output: Value, self: Value, min_val: Any, max_val: Any) -> Value:
    """aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor"""
    return HardtanhGrad(self, grad_output, min_val=min_val, max_val=max_val)


@register_fx_node_ge_converter(aten.leaky_relu_backward.default, supports=numbers_known("negative_slope"))
def leaky_relu_backward(grad_output: Value, self: Value, negative_slope: Any, self_is_result: bool) -> Value:
    """aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result)
    -> Tensor
    """
    # The result has the sign of the input: torch refuses a negative slope where only the result is known.
    return LeakyReluGrad(grad_output, self, negative_slope=negative_slope)


@register_fx_node_ge_converter(aten.elu_backward.default, supports=numbers_known("alpha", "scale", "input_scale"))
def elu_backward(
    grad_output: Value, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: Value
) -> Value:
    """aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result,
    Tensor self_or_result) -> Tensor
    """
    return EluGradV2(
        grad_output, self_or_result, alpha=alpha, scale=scale, input_scale=input_scale, is_result=is_result
    )


@register_fx_node_ge_converter(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(grad_output: Value, self: Value, buffer: Value) -> Value:
    """aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor"""
    return LogSigmoidGrad(grad_output, self)


@register_fx_node_ge_converter(aten.glu_backward.default)
def glu_backward(grad_output: Value, self: Value, dim: int) -> Value:
    """aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor"""
    return GLUGrad(grad_output, self, dim=dim)
