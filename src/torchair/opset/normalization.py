"""Layer, group, RMS and batch normalization, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.errors import ArgumentError
from torchair.ir import Value
from torchair.opset.operator import HostInts, ascend_op

__all__ = [
    "AddRmsNorm",
    "BNInfer",
    "BatchNormGradV3",
    "BatchNormV3",
    "GroupNormGrad",
    "GroupNormV2",
    "LayerNormGradV3",
    "LayerNormV4",
    "RmsNorm",
]

aten = torch.ops.aten


@ascend_op(
    outputs=("y", "mean", "rstd"), normalized_shape=HostInts, source="CANN op_proto: nn_norm_ops.h (LayerNormV4)"
)
def LayerNormV4(
    x: Value,
    normalized_shape: Value,
    gamma: Value | None = None,
    beta: Value | None = None,
    *,
    epsilon: float = 1e-05,
) -> tuple[Value, Value, Value]:
    """``(x - mean) * rstd * gamma + beta`` with the statistics of the last dimensions.

    Shapes: ``x`` is ``[*outer, *normalized_shape]``, ``gamma`` and ``beta`` are ``normalized_shape``, ``mean`` and
    ``rstd`` ``[*outer, 1, ...]``. dtypes: floating point; ``gamma`` and ``beta`` may be float32 where ``x`` is half
    precision.
    """
    raise NotImplementedError


@LayerNormV4.lower
def _(x: Tensor, normalized_shape: Sequence[int], gamma: Tensor | None, beta: Tensor | None, *, epsilon: float) -> Any:
    return aten.native_layer_norm.default(x, list(normalized_shape), gamma, beta, epsilon)


@ascend_op(outputs=("pd_x", "pd_gamma", "pd_beta"), source="CANN op_proto: nn_norm_ops.h (LayerNormGradV3)")
def LayerNormGradV3(dy: Value, x: Value, rstd: Value, mean: Value, gamma: Value) -> tuple[Value, Value, Value]:
    """Gradients of :data:`LayerNormV4` for ``x``, ``gamma`` and ``beta``.

    Shapes: ``dy`` and ``x`` are equal, ``rstd`` and ``mean`` as the forward operator returns them, ``gamma`` has the
    last dimensions of ``x``. dtypes: floating point, as there.
    """
    raise NotImplementedError


@LayerNormGradV3.lower
def _(dy: Tensor, x: Tensor, rstd: Tensor, mean: Tensor, gamma: Tensor) -> Any:
    return aten.native_layer_norm_backward.default(
        dy, x, list(gamma.shape), mean, rstd, gamma, gamma, [True, True, True]
    )


@ascend_op(outputs=("y", "rstd"), source="CANN op_proto: nn_norm_ops.h")
def RmsNorm(x: Value, gamma: Value, *, epsilon: float = 1e-06) -> tuple[Value, Value]:
    """``x * rstd * gamma`` with ``rstd = 1 / sqrt(mean(x^2) + epsilon)`` over the dimensions of ``gamma``.

    Shapes: ``x`` is ``[*outer, *gamma.shape]``, ``rstd`` is ``[*outer, 1, ...]``. dtypes: floating point; half
    precision is computed, and ``rstd`` returned, in float32.
    """
    raise NotImplementedError


@RmsNorm.lower
def _(x: Tensor, gamma: Tensor, *, epsilon: float) -> tuple[Tensor, Tensor]:
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    # What torch.nn.functional.rms_norm does on a CPU, which does not return rstd.
    rstd = torch.rsqrt(wide.pow(2).mean(list(range(-gamma.ndim, 0)), keepdim=True).add(epsilon))
    return wide.mul(rstd).mul(gamma).to(x.dtype), rstd


@ascend_op(outputs=("y", "rstd", "x"), source="CANN op_proto: nn_norm_ops.h")
def AddRmsNorm(x1: Value, x2: Value, gamma: Value, *, epsilon: float = 1e-06) -> tuple[Value, Value, Value]:
    """:data:`RmsNorm` of ``x = x1 + x2``, and that sum.

    Shapes: ``x1`` and ``x2`` are ``[*outer, *gamma.shape]``, ``rstd`` is ``[*outer, 1, ...]``. dtypes: floating point;
    the sum is rounded to the dtype of ``x1`` before it is normalized.
    """
    raise NotImplementedError


@AddRmsNorm.lower
def _(x1: Tensor, x2: Tensor, gamma: Tensor, *, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    x = x1 + x2
    assert RmsNorm.lowering is not None
    y, rstd = RmsNorm.lowering(x, gamma, epsilon=epsilon)
    return y, rstd, x


@ascend_op(outputs=("y", "mean", "rstd"), source="CANN op_proto: nn_norm_ops.h")
def GroupNormV2(
    x: Value,
    gamma: Value,
    beta: Value,
    *,
    num_groups: int,
    data_format: str = "NHWC",
    eps: float = 1e-05,
    is_training: bool = True,
) -> tuple[Value, Value, Value]:
    """Normalization with the statistics of groups of channels, then ``* gamma + beta``.

    Shapes: ``x`` is ``[n, channels, *]`` for ``data_format`` NCHW, else ``[n, *, channels]``; ``gamma`` and ``beta``
    are ``[channels]``, ``mean`` and ``rstd`` ``[n, num_groups]``. dtypes: floating point; ``gamma`` and ``beta`` may
    be float32 where ``x`` is half precision.
    """
    raise NotImplementedError


@GroupNormV2.lower
def _(
    x: Tensor, gamma: Tensor, beta: Tensor, *, num_groups: int, data_format: str, eps: float, is_training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    channels_last = _channels_last(data_format)
    x = x.movedim(-1, 1) if channels_last else x
    y, mean, rstd = aten.native_group_norm.default(x, gamma, beta, *_group_sizes(x), num_groups, eps)
    return (y.movedim(1, -1) if channels_last else y), mean, rstd


@ascend_op(outputs=("dx", "dgamma", "dbeta"), source="CANN op_proto: nn_norm_ops.h")
def GroupNormGrad(
    dy: Value,
    mean: Value,
    rstd: Value,
    x: Value,
    gamma: Value,
    *,
    num_groups: int,
    data_format: str = "NCHW",
    dx_is_require: bool = True,
    dgamma_is_require: bool = True,
    dbeta_is_require: bool = True,
) -> tuple[Value, Value, Value]:
    """Gradients of :data:`GroupNormV2` for ``x``, ``gamma`` and ``beta``; one that is not required is empty.

    Shapes and dtypes: as there; ``dy`` is like ``x``.
    """
    raise NotImplementedError


@GroupNormGrad.lower
def _(
    dy: Tensor,
    mean: Tensor,
    rstd: Tensor,
    x: Tensor,
    gamma: Tensor,
    *,
    num_groups: int,
    data_format: str,
    dx_is_require: bool,
    dgamma_is_require: bool,
    dbeta_is_require: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    channels_last = _channels_last(data_format)
    x, dy = (x.movedim(-1, 1), dy.movedim(-1, 1)) if channels_last else (x, dy)
    mask = [dx_is_require, dgamma_is_require, dbeta_is_require]
    dx, dgamma, dbeta = aten.native_group_norm_backward.default(
        dy, x, mean, rstd, gamma, *_group_sizes(x), num_groups, mask
    )
    if channels_last and dx is not None:
        dx = dx.movedim(1, -1)
    return _present(dx, x), _present(dgamma, gamma), _present(dbeta, gamma)


def _present(gradient: Tensor | None, like: Tensor) -> Tensor:
    return like.new_empty(0) if gradient is None else gradient


def _group_sizes(x: Tensor) -> tuple[int, int, int]:
    """``n``, ``channels``, and elements of one channel."""
    spatial = 1
    for size in x.shape[2:]:
        spatial *= size
    return x.shape[0], x.shape[1], spatial


def _channels_last(data_format: str) -> bool:
    if data_format not in ("NCHW", "NHWC"):
        raise ArgumentError(
            "A normalization has a data format that does not exist",
            why=f"data_format is {data_format!r}",
            fix='Use "NCHW" or "NHWC".',
        )
    return data_format == "NHWC"


@ascend_op(source="CANN op_proto: nn_batch_norm_ops.h")
def BNInfer(x: Value, scale: Value, offset: Value, mean: Value, variance: Value, *, epsilon: float) -> Value:
    """Batch normalization by given statistics: ``(x - mean) / sqrt(variance + epsilon) * scale + offset``.

    Shapes: ``x`` is ``[n, channels, *]``, the others are ``[channels]``. dtypes: floating point; all but ``x`` may be
    float32 where ``x`` is half precision.
    """
    raise NotImplementedError


@BNInfer.lower
def _(x: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float) -> Tensor:
    y: Tensor = aten._native_batch_norm_legit_no_training.default(x, scale, offset, mean, variance, 0.0, epsilon)[0]
    return y


@ascend_op(
    outputs=("y", "running_mean", "running_var", "save_mean", "save_rstd"),
    source="CANN op_proto: nn_batch_norm_ops.h (BatchNormV3)",
)
def BatchNormV3(
    x: Value,
    weight: Value,
    bias: Value,
    running_mean: Value,
    running_var: Value,
    *,
    epsilon: float = 1e-05,
    momentum: float = 0.1,
    is_training: bool = True,
) -> tuple[Value, Value, Value, Value, Value]:
    """Batch normalization by the statistics of the batch, which also enter the running ones with weight ``momentum``.

    Without ``is_training`` the running statistics are used, and stay. Shapes: ``x`` is ``[n, channels, *]``, the
    others are ``[channels]``, ``save_mean`` and ``save_rstd`` ``[0]`` without ``is_training``. dtypes: floating
    point; all but ``x`` may be float32 where ``x`` is half precision.
    """
    raise NotImplementedError


@BatchNormV3.lower
def _(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    epsilon: float,
    momentum: float,
    is_training: bool,
) -> tuple[Tensor, ...]:
    y, save_mean, save_rstd = aten._native_batch_norm_legit.default(
        x, weight, bias, running_mean, running_var, is_training, momentum, epsilon
    )
    return y, running_mean, running_var, save_mean, save_rstd


@ascend_op(outputs=("dx", "dweight", "dbias"), source="CANN op_proto: nn_batch_norm_ops.h (BatchNormGradV3)")
def BatchNormGradV3(
    dy: Value,
    x: Value,
    weight: Value,
    running_mean: Value,
    running_var: Value,
    save_mean: Value,
    save_rstd: Value,
    *,
    is_training: bool = True,
    epsilon: float = 1e-05,
) -> tuple[Value, Value, Value]:
    """Gradients of :data:`BatchNormV3` for ``x``, ``weight`` and ``bias``.

    With ``is_training`` the saved statistics are read, without it the running ones. Shapes and dtypes: as there;
    ``dy`` is like ``x``.
    """
    raise NotImplementedError


@BatchNormGradV3.lower
def _(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    save_mean: Tensor,
    save_rstd: Tensor,
    *,
    is_training: bool,
    epsilon: float,
) -> Any:
    return aten.native_batch_norm_backward.default(
        dy, x, weight, running_mean, running_var, save_mean, save_rstd, is_training, epsilon, [True, True, True]
    )
