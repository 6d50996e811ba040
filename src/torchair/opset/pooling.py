"""Pooling over windows, and its gradients.

Windows, strides and pads of 2-D average pooling have one number for each dimension of the data format (``NCHW``); those
of 3-D pooling have one for each spatial dimension of ``NCDHW``, its pads a begin and an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.ir import DType, Value
from torchair.opset.operator import HostInts, ascend_op
from torchair.opset.torch_types import torch_dtype

__all__ = [
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool2dGrad",
    "AvgPool3D",
    "AvgPool3DGrad",
    "AvgPoolV2",
    "AvgPoolV2Grad",
    "MaxPool3DGradWithArgmax",
    "MaxPool3DWithArgmaxV2",
]

_SOURCE = "CANN op_proto: nn_pooling_ops.h"
aten = torch.ops.aten


def _spatial(numbers: Sequence[int], data_format: str, accepted: str, what: str) -> list[int]:
    """The numbers of the spatial dimensions.

    Raises:
        ValueError: Another data format, or batch or channels take part.
    """
    if data_format != accepted:
        raise ValueError(f"data_format {data_format} is not supported, {accepted} is")
    if len(numbers) == len(accepted) - 2:
        return list(numbers)
    if len(numbers) != len(accepted) or tuple(numbers[:2]) != (1, 1):
        raise ValueError(f"{what} has one number for each dimension of {accepted}, 1 for N and C, not {tuple(numbers)}")
    return list(numbers[2:])


def _padding(pads: Sequence[int]) -> list[int]:
    """Pads of two ends as one number.

    Raises:
        ValueError: The ends differ.
    """
    begins, ends = list(pads[::2]), list(pads[1::2])
    if begins != ends:
        raise ValueError(f"pads differ at the two ends: {tuple(pads)}")
    return begins


def _average(
    x: Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding_mode: str,
    pads: Sequence[int],
    data_format: str,
    global_pooling: bool,
    ceil_mode: bool,
    exclusive: bool,
    divisor_override: int,
) -> tuple[Any, ...]:
    """The arguments of torch's 2-D average pooling.

    Raises:
        ValueError: Attributes that it has no counterpart for.
    """
    kernel = _spatial(ksize, data_format, "NCHW", "ksize")
    stride = _spatial(strides, data_format, "NCHW", "strides")
    if global_pooling:
        return list(x.shape[-2:]), [1, 1], [0, 0], False, True, None
    if padding_mode == "VALID":
        padding = [0, 0]
    elif padding_mode == "CALCULATED":
        padding = _padding(pads)
    else:
        raise ValueError(f"padding_mode {padding_mode} is not supported, CALCULATED and VALID are")
    return kernel, stride, padding, ceil_mode, not exclusive, divisor_override or None


@ascend_op(source=_SOURCE)
def AvgPoolV2(
    x: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding_mode: str = "CALCULATED",
    pads: Sequence[int] = (0, 0, 0, 0),
    data_format: str = "NCHW",
    global_pooling: bool = False,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int = 0,
) -> Value:
    """Mean over windows of two dimensions.

    ``exclusive`` leaves padding out of the count; ``divisor_override`` (unless 0) is the count instead.

    Shapes: ``x`` is ``[n, c, h, w]``; the result ``[n, c, oh, ow]``, with ``pads`` top, bottom, left, right. dtypes:
    any that torch pools.
    """
    raise NotImplementedError


@AvgPoolV2.lower
def _(x: Tensor, **attrs: Any) -> Tensor:
    return aten.avg_pool2d.default(x, *_average(x, **attrs))  # type: ignore[no-any-return]


@ascend_op(orig_input_shape=HostInts, outputs=("out_grad",), source=_SOURCE)
def AvgPoolV2Grad(
    orig_input_shape: Value,
    input_grad: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding_mode: str = "CALCULATED",
    pads: Sequence[int] = (0, 0, 0, 0),
    data_format: str = "NCHW",
    global_pooling: bool = False,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int = 0,
) -> Value:
    """Gradient of ``AvgPoolV2``.

    Shapes: ``orig_input_shape`` is ``[4]`` (the size of ``x``), ``input_grad`` has the size of the result of
    ``AvgPoolV2``; the result has the size ``orig_input_shape``. dtypes: as ``AvgPoolV2``.
    """
    raise NotImplementedError


@AvgPoolV2Grad.lower
def _(orig_input_shape: Sequence[int], input_grad: Tensor, **attrs: Any) -> Tensor:
    # Of x only the size is used.
    x = input_grad.new_empty(list(orig_input_shape))
    return aten.avg_pool2d_backward.default(input_grad, x, *_average(x, **attrs))  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE)
def AvgPool3D(
    x: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    data_format: str = "NDHWC",
) -> Value:
    """Mean over windows of three dimensions.

    Shapes (``NCDHW``): ``x`` is ``[n, c, d, h, w]``; the result ``[n, c, od, oh, ow]``, with ``pads`` front, back, top,
    bottom, left, right. dtypes: any that torch pools.
    """
    raise NotImplementedError


def _average3d(
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int,
    data_format: str,
) -> tuple[Any, ...]:
    kernel = _spatial(ksize, data_format, "NCDHW", "ksize")
    stride = _spatial(strides, data_format, "NCDHW", "strides")
    return kernel, stride, _padding(pads), ceil_mode, count_include_pad, divisor_override or None


@AvgPool3D.lower
def _(x: Tensor, **attrs: Any) -> Tensor:
    return aten.avg_pool3d.default(x, *_average3d(**attrs))  # type: ignore[no-any-return]


@ascend_op(orig_input_shape=HostInts, outputs=("output",), source=_SOURCE)
def AvgPool3DGrad(
    orig_input_shape: Value,
    grads: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    data_format: str = "NDHWC",
) -> Value:
    """Gradient of ``AvgPool3D``.

    Shapes: ``orig_input_shape`` is ``[5]`` (the size of ``x``), ``grads`` has the size of the result of ``AvgPool3D``;
    the result has the size ``orig_input_shape``. dtypes: as ``AvgPool3D``.
    """
    raise NotImplementedError


@AvgPool3DGrad.lower
def _(orig_input_shape: Sequence[int], grads: Tensor, **attrs: Any) -> Tensor:
    x = grads.new_empty(list(orig_input_shape))
    return aten.avg_pool3d_backward.default(grads, x, *_average3d(**attrs))  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE)
def AdaptiveAvgPool2d(x: Value, *, output_size: Sequence[int]) -> Value:
    """Mean over windows so chosen that the result has a given size.

    Shapes: ``x`` is ``[c, h, w]`` or ``[n, c, h, w]``, ``output_size`` two numbers; the result ends in them. dtypes:
    floating point.
    """
    raise NotImplementedError


@AdaptiveAvgPool2d.lower
def _(x: Tensor, *, output_size: Sequence[int]) -> Tensor:
    return aten._adaptive_avg_pool2d.default(x, list(output_size))  # type: ignore[no-any-return]


@ascend_op(outputs=("output_grad",), source=_SOURCE)
def AdaptiveAvgPool2dGrad(input_grad: Value, *, orig_input_shape: Sequence[int]) -> Value:
    """Gradient of ``AdaptiveAvgPool2d``.

    Shapes: ``input_grad`` has the size of the result of ``AdaptiveAvgPool2d``; the result has the size
    ``orig_input_shape``.
    dtypes: floating point.
    """
    raise NotImplementedError


@AdaptiveAvgPool2dGrad.lower
def _(input_grad: Tensor, *, orig_input_shape: Sequence[int]) -> Tensor:
    x = input_grad.new_empty(list(orig_input_shape))
    return aten._adaptive_avg_pool2d_backward.default(input_grad, x)  # type: ignore[no-any-return]


@ascend_op(outputs=("y", "argmax"), source=_SOURCE)
def MaxPool3DWithArgmaxV2(
    x: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1),
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    dtype: DType = DType.DT_INT32,
) -> tuple[Value, Value]:
    """Maximum over windows of three dimensions, and where it was.

    ``argmax`` is the index in ``d * h * w`` of the first maximum, or of the last NaN.

    Shapes: ``x`` is ``[n, c, d, h, w]``, ``ksize``, ``strides``, ``pads`` (of both ends) and ``dilation`` have three
    numbers; the results are ``[n, c, od, oh, ow]``. dtypes: any that torch pools; ``argmax`` is int32 or int64 by
    ``dtype``.
    """
    raise NotImplementedError


@MaxPool3DWithArgmaxV2.lower
def _(
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    data_format: str,
    dtype: DType,
) -> tuple[Tensor, Tensor]:
    _spatial(ksize, data_format, "NCDHW", "ksize")
    if _is_flat(x, ksize, strides, pads, dilation):
        y, argmax = aten.max_pool2d_with_indices.default(
            x.squeeze(2), list(ksize[1:]), list(strides[1:]), list(pads[1:]), list(dilation[1:]), ceil_mode
        )
        return y.unsqueeze(2), argmax.unsqueeze(2).to(torch_dtype(dtype))
    y, argmax = aten.max_pool3d_with_indices.default(
        x, list(ksize), list(strides), list(pads), list(dilation), ceil_mode
    )
    return y, argmax.to(torch_dtype(dtype))


def _is_flat(
    x: Tensor, ksize: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilation: Sequence[int]
) -> bool:
    """Whether it is 2-D pooling over depth 1, which torch has a faster kernel for."""
    # A depth that is a symbol is not asked for its value.
    depth: Any = x.shape[2]
    return (ksize[0], strides[0], pads[0], dilation[0]) == (1, 1, 0, 1) and type(depth) is int and depth == 1


@ascend_op(source="CANN op_proto: nn_pooling_ops.h, ops-nn max_pool3d_grad_with_argmax")
def MaxPool3DGradWithArgmax(
    x: Value,
    grad: Value,
    argmax: Value,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1),
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
) -> Value:
    """Gradient of ``MaxPool3DWithArgmaxV2``: each element of ``grad`` is added where its maximum was.

    Shapes: ``x`` is ``[n, c, d, h, w]``, ``grad`` and ``argmax`` have the size of its results; the result has the size
    of ``x``. dtypes: ``x`` and ``grad`` floating point, equal; ``argmax`` int32 or int64.
    """
    raise NotImplementedError


@MaxPool3DGradWithArgmax.lower
def _(
    x: Tensor,
    grad: Tensor,
    argmax: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    data_format: str,
) -> Tensor:
    _spatial(ksize, data_format, "NCDHW", "ksize")
    argmax = argmax.to(torch.int64)
    if _is_flat(x, ksize, strides, pads, dilation):
        flat = aten.max_pool2d_with_indices_backward.default(
            grad.squeeze(2),
            x.squeeze(2),
            list(ksize[1:]),
            list(strides[1:]),
            list(pads[1:]),
            list(dilation[1:]),
            ceil_mode,
            argmax.squeeze(2),
        )
        return flat.unsqueeze(2)  # type: ignore[no-any-return]
    return aten.max_pool3d_with_indices_backward.default(  # type: ignore[no-any-return]
        grad, x, list(ksize), list(strides), list(pads), list(dilation), ceil_mode, argmax
    )
