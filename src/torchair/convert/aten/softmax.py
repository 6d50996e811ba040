"""Converters of softmax and its gradients."""

from __future__ import annotations

import torch

from torchair.convert.promotion import cast
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.ir import Value
from torchair.opset.softmax import LogSoftmaxGrad, LogSoftmaxV2, SoftmaxGrad, SoftmaxV2

aten = torch.ops.aten


@register_fx_node_ge_converter(aten._softmax.default)
def softmax(self: Value, dim: int, half_to_float: bool) -> Value:
    """aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return SoftmaxV2(self, axes=[dim], half_to_float=half_to_float)


@register_fx_node_ge_converter(aten.softmax.int)
def softmax_int(self: Value, dim: int, dtype: torch.dtype | None = None, *, meta_outputs: TensorSpec) -> Value:
    """aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return SoftmaxV2(cast(self, meta_outputs.dtype), axes=[dim])


@register_fx_node_ge_converter(aten._log_softmax.default)
def log_softmax(self: Value, dim: int, half_to_float: bool, *, meta_outputs: TensorSpec) -> Value:
    """aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return LogSoftmaxV2(cast(self, meta_outputs.dtype), axes=[dim])


@register_fx_node_ge_converter(aten.log_softmax.int)
def log_softmax_int(self: Value, dim: int, dtype: torch.dtype | None = None, *, meta_outputs: TensorSpec) -> Value:
    """aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return LogSoftmaxV2(cast(self, meta_outputs.dtype), axes=[dim])


@register_fx_node_ge_converter(aten._softmax_backward_data.default)
def softmax_backward(
    grad_output: Value, output: Value, dim: int, input_dtype: torch.dtype, *, meta_outputs: TensorSpec
) -> Value:
    """aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    return cast(SoftmaxGrad(output, grad_output, axes=[dim]), meta_outputs.dtype)


@register_fx_node_ge_converter(aten._log_softmax_backward_data.default)
def log_softmax_backward(
    grad_output: Value, output: Value, dim: int, input_dtype: torch.dtype, *, meta_outputs: TensorSpec
) -> Value:
    """aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor"""
    return cast(LogSoftmaxGrad(grad_output, output, axis=[dim]), meta_outputs.dtype)
