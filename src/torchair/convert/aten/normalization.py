"""Converters of layer, group, RMS and batch normalization and of their gradients.

Where ATen takes no weight or bias and the Ascend operator wants one, it gets ones or zeros. That changes no bit, except
in a group normalization with neither, where eager takes a formula that rounds differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from torchair.convert.arguments import argument, numbers_known
from torchair.convert.promotion import cast
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import filled
from torchair.errors import Rejection
from torchair.ir import DType, Value
from torchair.opset.builder import current_builder
from torchair.opset.memory import TensorMove
from torchair.opset.normalization import (
    BatchNormGradV3,
    BatchNormV3,
    BNInfer,
    GroupNormGrad,
    GroupNormV2,
    LayerNormGradV3,
    LayerNormV4,
    RmsNorm,
)
from torchair.opset.torch_types import dim_of, torch_dtype

aten = torch.ops.aten

#: Since torch 2.8; a CPU takes it apart, other devices keep it whole.
_FUSED_RMS_NORM = getattr(getattr(aten, "_fused_rms_norm", None), "default", None)

#: Gradients, of which a mask asks for some.
_Gradients = Sequence["TensorSpec | None"]


def _asked_for(gradients: Sequence[Value], meta_outputs: _Gradients) -> tuple[Value | None, ...]:
    return tuple(g if m is not None else None for g, m in zip(gradients, meta_outputs, strict=True))


# --- layer and RMS normalization ---


@register_fx_node_ge_converter(aten.native_layer_norm.default, supports=numbers_known("eps"))
def layer_norm(
    input: Value, normalized_shape: Sequence[int | Value], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) ->
    (Tensor, Tensor, Tensor)
    """
    return LayerNormV4(input, list(normalized_shape), weight, bias, epsilon=eps)


@register_fx_node_ge_converter(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int | Value],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
    *,
    meta_outputs: _Gradients,
) -> tuple[Value | None, ...]:
    """aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor
    rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
    """
    if weight is None:
        weight = filled(1, input.shape[input.rank - len(normalized_shape) :], (bias or input).dtype)
    return _asked_for(LayerNormGradV3(grad_out, input, rstd, mean, weight), meta_outputs)


def _rms_norm(
    x: Value, normalized_shape: Sequence[int | Value], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    if weight is None:
        weight = filled(1, x.shape[x.rank - len(normalized_shape) :], x.dtype)
    if eps is None:
        eps = torch.finfo(torch.float64 if x.dtype is DType.DT_DOUBLE else torch.float32).eps
    return RmsNorm(x, weight, epsilon=eps)


@register_fx_node_ge_converter(aten.rms_norm.default, supports=numbers_known("eps"))
def rms_norm(
    input: Value, normalized_shape: Sequence[int | Value], weight: Value | None = None, eps: float | None = None
) -> Value:
    """aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"""
    return _rms_norm(input, normalized_shape, weight, eps)[0]


@register_fx_node_ge_converter(_FUSED_RMS_NORM, supports=numbers_known("eps"))
def fused_rms_norm(
    input: Value, normalized_shape: Sequence[int | Value], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    """aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)"""
    return _rms_norm(input, normalized_shape, weight, eps)


# --- group normalization ---


def _batch_and_channels_first(node: fx.Node) -> Rejection | None:
    """ATen takes any shape of ``N * C * HxW`` elements, the Ascend operator reads the sizes off the tensor."""
    sizes: list[Any] = [
        value.meta["val"] if isinstance(value, fx.Node) else value for value in (argument(node, n) for n in ("N", "C"))
    ]
    shape = argument(node, "input").meta["val"].shape
    if [dim_of(s) for s in shape[:2]] == [dim_of(s) for s in sizes]:
        return None
    return Rejection(
        f"the input of shape {list(shape)} does not start with the sizes N and C, {sizes}",
        fix="Reshape it to [N, C, ...].",
    )


@register_fx_node_ge_converter(aten.native_group_norm.default, supports=_batch_and_channels_first)
def group_norm(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: int | Value,
    C: int | Value,
    HxW: int | Value,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    """aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,
    float eps) -> (Tensor, Tensor, Tensor)
    """
    gamma, beta = _scale_and_offset(input, weight, bias)
    return GroupNormV2(input, gamma, beta, num_groups=group, data_format="NCHW", eps=eps, is_training=True)


@register_fx_node_ge_converter(aten.native_group_norm_backward.default, supports=_batch_and_channels_first)
def group_norm_backward(
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    N: int | Value,
    C: int | Value,
    HxW: int | Value,
    group: int,
    output_mask: Sequence[bool],
    *,
    meta_outputs: _Gradients,
) -> tuple[Value | None, ...]:
    """aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt
    N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
    """
    gamma, _ = _scale_and_offset(input, weight, None)
    gradients = GroupNormGrad(
        grad_out,
        mean,
        rstd,
        input,
        gamma,
        num_groups=group,
        data_format="NCHW",
        dx_is_require=output_mask[0],
        dgamma_is_require=output_mask[1],
        dbeta_is_require=output_mask[2],
    )
    return _asked_for(gradients, meta_outputs)


def _scale_and_offset(x: Value, weight: Value | None, bias: Value | None, *others: Value | None) -> tuple[Value, Value]:
    """Weight and bias of the channels; missing ones in the dtype of the other parameters, else in that of ``x``."""
    dtype = next(v for v in (weight, bias, *others, x) if v is not None).dtype
    return (
        weight if weight is not None else filled(1, x.shape[1:2], dtype),
        bias if bias is not None else filled(0, x.shape[1:2], dtype),
    )


# --- batch normalization ---


@register_fx_node_ge_converter(aten._native_batch_norm_legit_functional.default)
def batch_norm_functional(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
    *,
    meta_outputs: Sequence[TensorSpec],
) -> tuple[Value, ...]:
    """aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor
    running_mean_out, Tensor running_var_out)
    """
    scale, offset = _scale_and_offset(input, weight, bias, running_mean)
    y, mean_out, var_out, save_mean, save_rstd = BatchNormV3(
        input,
        scale,
        offset,
        TensorMove(running_mean),
        TensorMove(running_var),
        epsilon=eps,
        momentum=momentum,
        is_training=training,
    )
    # PyTorch promises float32 statistics for a half precision input, and casts them to what they were.
    results = (y, save_mean, save_rstd, mean_out, var_out)
    return tuple(cast(r, m.dtype) for r, m in zip(results, meta_outputs, strict=True))


def _in_training(node: fx.Node) -> Rejection | None:
    return None if argument(node, "training") else Rejection("it has no statistics to normalize by")


@register_fx_node_ge_converter(aten._native_batch_norm_legit.no_stats, supports=_in_training)
def batch_norm_no_stats(
    input: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, Value, Value]:
    """aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float
    momentum, float eps) -> (Tensor, Tensor, Tensor)
    """
    scale, offset = _scale_and_offset(input, weight, bias)
    unread = [filled(number, input.shape[1:2], scale.dtype) for number in (0, 1)]
    y, _, _, save_mean, save_rstd = BatchNormV3(
        input, scale, offset, *unread, epsilon=eps, momentum=momentum, is_training=True
    )
    return y, save_mean, save_rstd


@register_fx_node_ge_converter(aten._native_batch_norm_legit_no_training.default)
def batch_norm_no_training(
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
    *,
    meta_outputs: Sequence[TensorSpec],
) -> tuple[Value, Value, Value]:
    """aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)
    """
    scale, offset = _scale_and_offset(input, weight, bias, running_mean)
    y = BNInfer(input, scale, offset, running_mean, running_var, epsilon=eps)
    return y, _nothing(meta_outputs[1].dtype), _nothing(meta_outputs[2].dtype)


def _nothing(dtype: DType) -> Value:
    """The empty statistics that are saved without training."""
    return current_builder().const(torch.empty(0, dtype=torch_dtype(dtype)))


@register_fx_node_ge_converter(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
    *,
    meta_outputs: _Gradients,
) -> tuple[Value | None, ...]:
    """aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor?
    running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor,
    Tensor, Tensor)
    """
    scale, _ = _scale_and_offset(input, weight, running_mean)
    channels = input.shape[1:2]
    gradients = BatchNormGradV3(
        grad_out,
        input,
        scale,
        filled(0, channels, scale.dtype) if running_mean is None else running_mean,
        filled(1, channels, scale.dtype) if running_var is None else running_var,
        save_mean if train and save_mean is not None else _nothing(scale.dtype),
        save_invstd if train and save_invstd is not None else _nothing(scale.dtype),
        is_training=train,
        epsilon=eps,
    )
    return _asked_for(gradients, meta_outputs)
