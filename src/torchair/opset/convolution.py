"""Convolutions and their gradients.

Strides and dilations have one element for each dimension of the data format; pads have a begin and an end for each
spatial dimension. The data format says where the channels are: ``NCHW``/``NHWC``, ``NCDHW``/``NDHWC``. Filters are
``[out, in / groups, *kernel]`` in every one of the ``NC...`` formats, ``[*kernel, in / groups, out]`` in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import HostInts, ascend_op

__all__ = [
    "Conv2D",
    "Conv2DBackpropFilter",
    "Conv2DBackpropInput",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DBackpropFilter",
    "Conv3DBackpropInput",
    "Conv3DTranspose",
]

_SOURCE = "CANN op_proto: nn_calculation_ops.h"


@dataclass(frozen=True, slots=True)
class _Geometry:
    """The attributes of a convolution in torch's terms: one number for each spatial dimension.

    Attributes:
        pads: ``(begin, end)`` for each spatial dimension.
        channels_last: The data format has the channels at the end.
    """

    strides: list[int]
    pads: list[tuple[int, int]]
    dilations: list[int]
    groups: int
    channels_last: bool

    @classmethod
    def of(
        cls, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], groups: int, data_format: str
    ) -> _Geometry:
        """Read the attributes.

        Raises:
            ValueError: Wrong lengths, an unknown data format, or a stride or dilation of batch or channels.
        """
        spatial = len(strides) - 2
        first, last = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}.get(spatial, ("", ""))
        if data_format not in (first, last) or len(dilations) != spatial + 2 or len(pads) != 2 * spatial:
            raise ValueError(
                f"strides {tuple(strides)}, pads {tuple(pads)}, dilations {tuple(dilations)} do not fit {data_format}"
            )
        where = slice(2, None) if data_format == first else slice(1, -1)
        for name, numbers in (("strides", strides), ("dilations", dilations)):
            if numbers[0] != 1 or numbers[1 if data_format == first else -1] != 1:
                raise ValueError(f"{name} of batch and channels are 1, not {tuple(numbers)}")
        pairs = [(pads[2 * i], pads[2 * i + 1]) for i in range(spatial)]
        return cls(list(strides[where]), pairs, list(dilations[where]), groups, data_format == last)

    @property
    def symmetric(self) -> bool:
        return all(begin == end for begin, end in self.pads)

    def data(self, x: Tensor) -> Tensor:
        """``x`` with its channels at 1."""
        return x.movedim(-1, 1) if self.channels_last else x

    def filter(self, w: Tensor) -> Tensor:
        """A filter as ``[out, in / groups, *kernel]``."""
        return w.movedim(-1, 0).movedim(-1, 1) if self.channels_last else w

    def result(self, y: Tensor) -> Tensor:
        """The opposite of :meth:`data`."""
        return y.movedim(1, -1) if self.channels_last else y

    def filter_result(self, w: Tensor) -> Tensor:
        """The opposite of :meth:`filter`."""
        return w.movedim(1, -1).movedim(0, -1) if self.channels_last else w

    def padded(self, x: Tensor) -> tuple[Tensor, list[int]]:
        """``x`` and the padding that is left to the convolution: torch's have one number for both ends."""
        if self.symmetric:
            return x, [begin for begin, _ in self.pads]
        flat = [n for pair in reversed(self.pads) for n in pair]
        return torch.nn.functional.pad(x, flat), [0] * len(self.pads)

    def unpadded(self, x: Tensor) -> Tensor:
        """The gradient of :meth:`padded`."""
        if self.symmetric:
            return x
        for dim, (begin, end) in enumerate(self.pads, 2):
            x = x.narrow(dim, begin, x.shape[dim] - begin - end)
        return x


def _forward(
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    offset_w: Tensor | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    data_format: str,
    offset_x: int,
    output_padding: Sequence[int] | None = None,
) -> Tensor:
    if offset_w is not None or offset_x != 0:
        raise ValueError("offset_w and offset_x are for quantized operands, use QuantConv2D")
    geometry = _Geometry.of(strides, pads, dilations, groups, data_format)
    transposed = output_padding is not None
    x, padding = (geometry.data(x), []) if transposed else geometry.padded(geometry.data(x))
    extra = [0] * len(geometry.strides)
    if output_padding is not None:
        if not geometry.symmetric:
            raise ValueError(f"a transposed convolution has equal pads at both ends, not {tuple(pads)}")
        padding = [begin for begin, _ in geometry.pads]
        extra = list(output_padding[1:-1] if geometry.channels_last else output_padding[2:])
    y = torch.convolution(
        x, geometry.filter(filter), bias, geometry.strides, padding, geometry.dilations, transposed, extra, groups
    )
    return geometry.result(y)


def _backward(
    gradient: Tensor, x: Tensor, filter: Tensor, geometry: _Geometry, padding: Sequence[int], mask: list[bool]
) -> Tensor:
    """The gradient of ``x`` or of ``filter``."""
    results = torch.ops.aten.convolution_backward.default(
        gradient,
        x,
        filter,
        None,
        geometry.strides,
        padding,
        geometry.dilations,
        False,
        [0] * len(geometry.strides),
        geometry.groups,
        mask,
    )
    result: Tensor = results[mask.index(True)]
    return result


def _input_gradient(input_size: Sequence[int], filter: Tensor, out_backprop: Tensor, geometry: _Geometry) -> Tensor:
    # Of x only the size is used.
    x, padding = geometry.padded(geometry.data(out_backprop.new_empty(list(input_size))))
    gradient = _backward(
        geometry.data(out_backprop), x, geometry.filter(filter), geometry, padding, [True, False, False]
    )
    return geometry.result(geometry.unpadded(gradient))


def _filter_gradient(x: Tensor, filter_size: Sequence[int], out_backprop: Tensor, geometry: _Geometry) -> Tensor:
    x, padding = geometry.padded(geometry.data(x))
    filter = geometry.filter(out_backprop.new_empty(list(filter_size)))
    gradient = _backward(geometry.data(out_backprop), x, filter, geometry, padding, [False, True, False])
    return geometry.filter_result(gradient)


@ascend_op(source=_SOURCE)
def Conv2D(
    x: Value,
    filter: Value,
    bias: Value | None = None,
    offset_w: Value | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
    offset_x: int = 0,
) -> Value:
    """2-D convolution (cross-correlation) with bias.

    Shapes (``NCHW``): ``x`` is ``[n, in, h, w]``, ``filter`` ``[out, in / groups, kh, kw]``, ``bias`` ``[out]``, the
    result ``[n, out, oh, ow]``; ``strides`` and ``dilations`` have four numbers, ``pads`` are top, bottom, left, right.
    dtypes: any that torch convolves, equal. ``offset_w`` and ``offset_x`` (quantized operands) must be absent and 0.
    """
    raise NotImplementedError


@Conv2D.lower
def _(
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    offset_w: Tensor | None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    data_format: str,
    offset_x: int,
) -> Tensor:
    return _forward(x, filter, bias, offset_w, strides, pads, dilations, groups, data_format, offset_x)


@ascend_op(source=_SOURCE)
def Conv3D(
    x: Value,
    filter: Value,
    bias: Value | None = None,
    offset_w: Value | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NDHWC",
    offset_x: int = 0,
) -> Value:
    """3-D convolution (cross-correlation) with bias.

    Shapes (``NCDHW``): ``x`` is ``[n, in, d, h, w]``, ``filter`` ``[out, in / groups, kd, kh, kw]``, ``bias``
    ``[out]``, the result ``[n, out, od, oh, ow]``; ``strides`` and ``dilations`` have five numbers, ``pads`` are front,
    back, top, bottom, left, right. dtypes: any that torch convolves, equal. ``offset_w`` and ``offset_x`` must be
    absent and 0.
    """
    raise NotImplementedError


@Conv3D.lower
def _(
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    offset_w: Tensor | None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    data_format: str,
    offset_x: int,
) -> Tensor:
    return _forward(x, filter, bias, offset_w, strides, pads, dilations, groups, data_format, offset_x)


@ascend_op(input_size=HostInts, source=_SOURCE)
def Conv2DTranspose(
    input_size: Value,
    x: Value,
    filter: Value,
    bias: Value | None = None,
    offset_w: Value | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
    output_padding: Sequence[int] = (0, 0, 0, 0),
    offset_x: int = 0,
) -> Value:
    """Transposed 2-D convolution (the gradient of a convolution with respect to its input) with bias.

    Shapes (``NCHW``): ``x`` is ``[n, in, h, w]``, ``filter`` ``[in, out / groups, kh, kw]``, ``bias`` ``[out]``, the
    result ``[n, out, oh, ow]``, which is also what ``input_size`` says; ``output_padding`` has four numbers, of which
    the last two (``NCHW``) lengthen the result. Otherwise as ``Conv2D``.
    """
    raise NotImplementedError


@ascend_op(input_size=HostInts, source=_SOURCE)
def Conv3DTranspose(
    input_size: Value,
    x: Value,
    filter: Value,
    bias: Value | None = None,
    offset_w: Value | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NDHWC",
    output_padding: Sequence[int] = (0, 0, 0, 0, 0),
    offset_x: int = 0,
) -> Value:
    """Transposed 3-D convolution with bias.

    Shapes (``NCDHW``): ``x`` is ``[n, in, d, h, w]``, ``filter`` ``[in, out / groups, kd, kh, kw]``, ``bias``
    ``[out]``, the result ``[n, out, od, oh, ow]``, which is also what ``input_size`` says; ``output_padding`` has five
    numbers, of which the last three (``NCDHW``) lengthen the result. Otherwise as ``Conv3D``.
    """
    raise NotImplementedError


def _transpose(
    input_size: Sequence[int],
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    offset_w: Tensor | None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    data_format: str,
    output_padding: Sequence[int],
    offset_x: int,
) -> Tensor:
    return _forward(x, filter, bias, offset_w, strides, pads, dilations, groups, data_format, offset_x, output_padding)


Conv2DTranspose.lower(_transpose)
Conv3DTranspose.lower(_transpose)


@ascend_op(input_size=HostInts, source=_SOURCE)
def Conv2DBackpropInput(
    input_size: Value,
    filter: Value,
    out_backprop: Value,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
) -> Value:
    """Gradient of ``Conv2D`` with respect to ``x``.

    Shapes: ``input_size`` is ``[4]`` (the size of ``x``), ``filter`` as in ``Conv2D``, ``out_backprop`` has the size of
    the result of ``Conv2D``; the result has the size ``input_size``. dtypes: as ``Conv2D``.
    """
    raise NotImplementedError


@ascend_op(input_size=HostInts, source=_SOURCE)
def Conv3DBackpropInput(
    input_size: Value,
    filter: Value,
    out_backprop: Value,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NDHWC",
) -> Value:
    """Gradient of ``Conv3D`` with respect to ``x``.

    Shapes: ``input_size`` is ``[5]`` (the size of ``x``), ``filter`` as in ``Conv3D``, ``out_backprop`` has the size of
    the result of ``Conv3D``; the result has the size ``input_size``. dtypes: as ``Conv3D``.
    """
    raise NotImplementedError


def _backprop_input(input_size: Sequence[int], filter: Tensor, out_backprop: Tensor, **attrs: Any) -> Tensor:
    return _input_gradient(input_size, filter, out_backprop, _Geometry.of(**attrs))


Conv2DBackpropInput.lower(_backprop_input)
Conv3DBackpropInput.lower(_backprop_input)


@ascend_op(filter_size=HostInts, source=_SOURCE)
def Conv2DBackpropFilter(
    x: Value,
    filter_size: Value,
    out_backprop: Value,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
) -> Value:
    """Gradient of ``Conv2D`` with respect to ``filter``.

    Shapes: ``x`` as in ``Conv2D``, ``filter_size`` is ``[4]`` (the size of ``filter``), ``out_backprop`` has the size
    of the result of ``Conv2D``; the result has the size ``filter_size``. dtypes: as ``Conv2D``.
    """
    raise NotImplementedError


@ascend_op(filter_size=HostInts, source=_SOURCE)
def Conv3DBackpropFilter(
    x: Value,
    filter_size: Value,
    out_backprop: Value,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NDHWC",
) -> Value:
    """Gradient of ``Conv3D`` with respect to ``filter``.

    Shapes: ``x`` as in ``Conv3D``, ``filter_size`` is ``[5]`` (the size of ``filter``), ``out_backprop`` has the size
    of the result of ``Conv3D``; the result has the size ``filter_size``. dtypes: as ``Conv3D``.
    """
    raise NotImplementedError


def _backprop_filter(x: Tensor, filter_size: Sequence[int], out_backprop: Tensor, **attrs: Any) -> Tensor:
    return _filter_gradient(x, filter_size, out_backprop, _Geometry.of(**attrs))


Conv2DBackpropFilter.lower(_backprop_filter)
Conv3DBackpropFilter.lower(_backprop_filter)
