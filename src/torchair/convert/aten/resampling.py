"""Converters of resizing and sampling of images.

Kept whole only where the Ascend operator's scale, old size by new size, is the scale that eager uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.shaping import squeeze, unsqueeze
from torchair.convert.torch_calls import schema_arguments
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.builder import current_builder
from torchair.opset.resampling import (
    GridSampler2D,
    GridSampler2DGrad,
    GridSampler3D,
    ResizeBilinearV2,
    ResizeBilinearV2Grad,
    ResizeNearestNeighborV2,
    ResizeNearestNeighborV2Grad,
)
from torchair.opset.shape import BroadcastTo

aten = torch.ops.aten


_INTERPOLATION = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def _plain_scales(node: fx.Node) -> Rejection | None:
    """A scale that was given counts in eager, also where it is not the ratio of the sizes."""
    given = {a.name: v for a, v in schema_arguments(node.target, node.args, node.kwargs)}  # type: ignore[arg-type]
    scales = [v for name, v in given.items() if name.startswith("scales")]
    if given.get("align_corners"):
        return None
    small, large = (
        (given["self"].meta["val"].shape[2:], given["output_size"])
        if "self" in given
        else (given["input_size"][2:], given["output_size"])
    )
    for scale, old, new in zip(scales, small, large, strict=True):
        whole = isinstance(scale, int | float) and scale == int(scale)
        if scale is not None and not (whole and _expression(new) == int(scale) * _expression(old)):
            return Rejection(f"a scale of {scale} was given, and Ascend IR takes the ratio of the sizes for it")
    return None


def _expression(size: Any) -> Any:
    value = size.meta["val"] if isinstance(size, fx.Node) else size
    return value.node.expr if isinstance(value, torch.SymInt) else value


@register_fx_node_ge_converter(aten.upsample_nearest1d.default, supports=_plain_scales)
def upsample_nearest1d(self: Value, output_size: Sequence[Any], scales: float | None = None) -> Value:
    """aten::upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor"""
    return squeeze(ResizeNearestNeighborV2(unsqueeze(self, 2), [1, *output_size]), 2)


@register_fx_node_ge_converter(aten.upsample_nearest1d_backward.default, supports=_plain_scales)
def upsample_nearest1d_backward(
    grad_output: Value, output_size: Sequence[Any], input_size: Sequence[Any], scales: float | None = None
) -> Value:
    """aten::upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size,
    float? scales=None) -> Tensor
    """
    return squeeze(ResizeNearestNeighborV2Grad(unsqueeze(grad_output, 2), [1, input_size[2]]), 2)


@register_fx_node_ge_converter(aten.upsample_nearest2d.default, supports=_plain_scales)
def upsample_nearest2d(
    self: Value, output_size: Sequence[Any], scales_h: float | None = None, scales_w: float | None = None
) -> Value:
    """aten::upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)
    -> Tensor
    """
    return ResizeNearestNeighborV2(self, list(output_size))


@register_fx_node_ge_converter(aten.upsample_nearest2d_backward.default, supports=_plain_scales)
def upsample_nearest2d_backward(
    grad_output: Value,
    output_size: Sequence[Any],
    input_size: Sequence[Any],
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    """aten::upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
    float? scales_h=None, float? scales_w=None) -> Tensor
    """
    return ResizeNearestNeighborV2Grad(grad_output, list(input_size[2:]))


def _plain_linear(node: fx.Node) -> Rejection | None:
    if node.meta["val"].dtype in (torch.bfloat16, torch.float16):
        return Rejection("in half precision eager rounds a line otherwise than an image of height 1")
    return _plain_scales(node)


@register_fx_node_ge_converter(aten.upsample_linear1d.default, supports=_plain_linear)
def upsample_linear1d(
    self: Value, output_size: Sequence[Any], align_corners: bool, scales: float | None = None
) -> Value:
    """aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor"""
    y = ResizeBilinearV2(
        unsqueeze(self, 2), [1, *output_size], align_corners=align_corners, half_pixel_centers=not align_corners
    )
    return squeeze(y, 2)


@register_fx_node_ge_converter(aten.upsample_bilinear2d.default, supports=_plain_scales)
def upsample_bilinear2d(
    self: Value,
    output_size: Sequence[Any],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    """aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None,
    float? scales_w=None) -> Tensor
    """
    return ResizeBilinearV2(self, list(output_size), align_corners=align_corners, half_pixel_centers=not align_corners)


@register_fx_node_ge_converter(aten.upsample_bilinear2d_backward.default, supports=_plain_scales)
def upsample_bilinear2d_backward(
    grad_output: Value,
    output_size: Sequence[Any],
    input_size: Sequence[Any],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    """aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
    bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
    """
    # Of the image only the size counts.
    image = BroadcastTo(current_builder().const(0, grad_output.dtype), list(input_size))
    return ResizeBilinearV2Grad(grad_output, image, align_corners=align_corners, half_pixel_centers=not align_corners)


@register_fx_node_ge_converter(aten.grid_sampler_2d.default)
def grid_sampler_2d(
    input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """aten::grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
    -> Tensor
    """
    return GridSampler2D(input, grid, **_modes(interpolation_mode, padding_mode, align_corners))


@register_fx_node_ge_converter(aten.grid_sampler_2d_backward.default)
def grid_sampler_2d_backward(
    grad_output: Value,
    input: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Value | None, Value | None]:
    """aten::grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode,
    int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
    """
    modes = _modes(interpolation_mode, padding_mode, align_corners)
    dx, dgrid = GridSampler2DGrad(grad_output, input, grid, **modes)
    return dx if output_mask[0] else None, dgrid


@register_fx_node_ge_converter(aten.grid_sampler_3d.default)
def grid_sampler_3d(
    input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """aten::grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)
    -> Tensor
    """
    return GridSampler3D(input, grid, **_modes(interpolation_mode, padding_mode, align_corners))


def _modes(interpolation_mode: int, padding_mode: int, align_corners: bool) -> dict[str, Any]:
    return {
        "interpolation_mode": _INTERPOLATION[interpolation_mode],
        "padding_mode": _PADDING[padding_mode],
        "align_corners": align_corners,
    }
