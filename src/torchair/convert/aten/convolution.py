"""Converters of convolutions.

torch has one operator for all of them, Ascend IR one for each number of dimensions and direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.convert.shaping import pairs, repeated, squeeze, unsqueeze
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.convolution import (
    Conv2D,
    Conv2DBackpropFilter,
    Conv2DBackpropInput,
    Conv2DTranspose,
    Conv3D,
    Conv3DBackpropFilter,
    Conv3DBackpropInput,
    Conv3DTranspose,
)
from torchair.opset.reduction import ReduceSum

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class _Family:
    """The operators for two or for three spatial dimensions."""

    forward: Callable[..., Any]
    transpose: Callable[..., Any]
    backprop_input: Callable[..., Any]
    backprop_filter: Callable[..., Any]
    data_format: str


_FAMILIES = {
    2: _Family(Conv2D, Conv2DTranspose, Conv2DBackpropInput, Conv2DBackpropFilter, "NCHW"),
    3: _Family(Conv3D, Conv3DTranspose, Conv3DBackpropInput, Conv3DBackpropFilter, "NCDHW"),
}


class _Convolution:
    """The numbers of one convolution as the Ascend operators take them.

    A 1-D convolution is a 2-D one over height 1, as in eager.
    """

    def __init__(
        self,
        rank: int,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        output_padding: Sequence[int],
        groups: int,
    ) -> None:
        spatial = rank - 2
        self.flat = spatial == 1
        lead = [1] if self.flat else []
        none = [0] if self.flat else []
        self.family = _FAMILIES[max(spatial, 2)]
        self.output_padding = [0, 0, *none, *repeated(output_padding, spatial)]
        self.attrs: dict[str, Any] = {
            "strides": [1, 1, *lead, *repeated(stride, spatial)],
            "pads": pairs([*none, *repeated(padding, spatial)]),
            "dilations": [1, 1, *lead, *repeated(dilation, spatial)],
            "groups": groups,
            "data_format": self.family.data_format,
        }

    def lift(self, x: Value) -> Value:
        """An operand with the height that a 1-D convolution lacks."""
        return unsqueeze(x, 2) if self.flat else x

    def lift_size(self, size: Sequence[Any]) -> list[Any]:
        """The size of an operand, with that height."""
        return [*size[:2], 1, *size[2:]] if self.flat else list(size)

    def drop(self, y: Value | None) -> Value | None:
        """A result without it."""
        return squeeze(y, 2) if self.flat and y is not None else y


def _numbers(*args: Any) -> bool:
    return all(isinstance(n, int) for arg in args for n in (arg if isinstance(arg, list | tuple) else [arg]))


def _convolution(node: fx.Node) -> Rejection | None:
    x, _, _, stride, padding, dilation, _, output_padding, groups = node.args
    if not 3 <= x.meta["val"].dim() <= 5:  # type: ignore[union-attr]
        return Rejection("Ascend IR convolves one, two or three dimensions")
    if not _numbers(stride, padding, dilation, output_padding, groups):
        return Rejection("a stride, padding or dilation is symbolic, and Ascend IR has them as attributes")
    return None


@register_fx_node_ge_converter(aten.convolution.default, supports=_convolution)
def convolution(
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *,
    meta_outputs: TensorSpec,
) -> Value | None:
    """aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[]
    dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
    """
    conv = _Convolution(input.rank, stride, padding, dilation, output_padding, groups)
    if not transposed:
        return conv.drop(conv.family.forward(conv.lift(input), conv.lift(weight), bias, **conv.attrs))
    y = conv.family.transpose(
        conv.lift_size(meta_outputs.type.shape),
        conv.lift(input),
        conv.lift(weight),
        bias,
        output_padding=conv.output_padding,
        **conv.attrs,
    )
    return conv.drop(y)


def _convolution_backward(node: fx.Node) -> Rejection | None:
    _, x, _, _, stride, padding, dilation, transposed, output_padding, groups, _ = node.args
    if not 3 <= x.meta["val"].dim() <= 5:  # type: ignore[union-attr]
        return Rejection("Ascend IR convolves one, two or three dimensions")
    if not _numbers(stride, padding, dilation, output_padding, groups):
        return Rejection("a stride, padding or dilation is symbolic, and Ascend IR has them as attributes")
    if transposed and any(
        extra >= step
        for extra, step in zip(
            repeated(output_padding, x.meta["val"].dim() - 2),  # type: ignore[union-attr, arg-type]
            repeated(stride, x.meta["val"].dim() - 2),  # type: ignore[union-attr, arg-type]
            strict=True,
        )
    ):
        return Rejection("an output padding of a stride or more makes the gradient of a transposed convolution longer")
    return None


@register_fx_node_ge_converter(aten.convolution_backward.default, supports=_convolution_backward)
def convolution_backward(
    grad_output: Value,
    input: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[]
    stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3]
    output_mask) -> (Tensor, Tensor, Tensor)
    """
    conv = _Convolution(input.rank, stride, padding, dilation, output_padding, groups)
    gradient, x, filter = (conv.lift(v) for v in (grad_output, input, weight))
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        # A transposed convolution is the gradient of a convolution, whose own gradient is that convolution.
        of_input = (
            conv.family.forward(gradient, filter, **conv.attrs)
            if transposed
            else conv.family.backprop_input(conv.lift_size(input.shape), filter, gradient, **conv.attrs)
        )
    if output_mask[1]:
        first, second = (gradient, x) if transposed else (x, gradient)
        of_weight = conv.family.backprop_filter(first, conv.lift_size(weight.shape), second, **conv.attrs)
    if output_mask[2]:
        of_bias = ReduceSum(grad_output, [0, *range(2, grad_output.rank)])
    return conv.drop(of_input), conv.drop(of_weight), of_bias
