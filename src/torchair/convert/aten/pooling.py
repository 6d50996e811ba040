"""Converters of pooling.

Max pooling uses the 3-D operator also for two dimensions, over depth 1: its indices count as torch's do, while those of
the 2-D operators are in a layout of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from torchair.convert.registry import Supports, register_fx_node_ge_converter
from torchair.convert.shaping import pairs, repeated, squeeze, unsqueeze
from torchair.errors import Rejection
from torchair.ir import DType, Value
from torchair.opset.pooling import (
    AdaptiveAvgPool2d,
    AdaptiveAvgPool2dGrad,
    AvgPool3D,
    AvgPool3DGrad,
    AvgPoolV2,
    AvgPoolV2Grad,
    MaxPool3DGradWithArgmax,
    MaxPool3DWithArgmaxV2,
)

aten = torch.ops.aten


def _symbolic(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_symbolic(v) for v in value)
    return isinstance(value, fx.Node | torch.SymInt)


def _numbers(node: fx.Node) -> Rejection | None:
    """Windows, strides and pads are attributes: they must be known."""
    if _symbolic([a for a in node.args if not isinstance(a, fx.Node)]):
        return Rejection("a window, stride or padding is symbolic, and Ascend IR has them as attributes")
    return None


class _Windows:
    """Arguments of average pooling of ``spatial`` dimensions, and the batch that an operand may lack."""

    def __init__(
        self,
        spatial: int,
        rank: int,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> None:
        kernel = repeated(kernel_size, spatial)
        self.unbatched = rank == spatial + 1
        self.attrs: dict[str, Any] = {
            "ksize": kernel,
            "strides": repeated(stride, spatial) if stride else kernel,
            "pads": pairs(repeated(padding, spatial)),
            "ceil_mode": ceil_mode,
            "divisor_override": divisor_override or 0,
        }
        if spatial == 2:
            self.attrs["ksize"] = [1, 1, *self.attrs["ksize"]]
            self.attrs["strides"] = [1, 1, *self.attrs["strides"]]
            self.attrs |= {"exclusive": not count_include_pad, "data_format": "NCHW"}
        else:
            self.attrs |= {"count_include_pad": count_include_pad, "data_format": "NCDHW"}

    def batched(self, x: Value) -> Value:
        """``x`` with a batch dimension."""
        return unsqueeze(x, 0) if self.unbatched else x

    def size(self, shape: Sequence[Any]) -> list[Any]:
        """A size with a batch dimension."""
        return [1, *shape] if self.unbatched else list(shape)

    def unbatch(self, y: Value) -> Value:
        """The opposite of :meth:`batched`."""
        return squeeze(y, 0) if self.unbatched else y


def _avg_pool(spatial: int, op: Callable[..., Any]) -> Callable[..., Value]:
    """A converter of ``avg_pool*d`` to an operator of ``(x)``."""

    def convert(
        self: Value,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        windows = _Windows(
            spatial, self.rank, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
        return windows.unbatch(op(windows.batched(self), **windows.attrs))

    return convert


def _avg_pool_backward(spatial: int, op: Callable[..., Any]) -> Callable[..., Value]:
    """A converter of ``avg_pool*d_backward`` to an operator of ``(size of x, gradient)``."""

    def convert(
        grad_output: Value,
        self: Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        windows = _Windows(
            spatial, self.rank, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
        return windows.unbatch(op(windows.size(self.shape), windows.batched(grad_output), **windows.attrs))

    return convert


for _overload, _converter in (
    (aten.avg_pool2d.default, _avg_pool(2, AvgPoolV2)),
    (aten.avg_pool3d.default, _avg_pool(3, AvgPool3D)),
    (aten.avg_pool2d_backward.default, _avg_pool_backward(2, AvgPoolV2Grad)),
    (aten.avg_pool3d_backward.default, _avg_pool_backward(3, AvgPool3DGrad)),
):
    register_fx_node_ge_converter(_overload, supports=_numbers)(_converter)


# --- adaptive ---


@register_fx_node_ge_converter(aten._adaptive_avg_pool2d.default, supports=_numbers)
def adaptive_avg_pool2d(self: Value, output_size: Sequence[int]) -> Value:
    """aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"""
    return AdaptiveAvgPool2d(self, output_size=output_size)


def _static(node: fx.Node) -> Rejection | None:
    shape = node.meta["val"].shape
    if not all(isinstance(s, int) for s in shape):
        return Rejection(f"AdaptiveAvgPool2dGrad has the size of the input as an attribute, and it is {tuple(shape)}")
    return None


@register_fx_node_ge_converter(aten._adaptive_avg_pool2d_backward.default, supports=_static)
def adaptive_avg_pool2d_backward(grad_output: Value, self: Value) -> Value:
    """aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor"""
    return AdaptiveAvgPool2dGrad(grad_output, orig_input_shape=list(self.shape))


def _even_sizes(sizes: Sequence[Any], results: Sequence[Any]) -> Rejection | None:
    """Adaptive windows that are all alike are ordinary ones."""
    for have, want in zip(sizes, results, strict=True):
        if not (isinstance(have, int) and isinstance(want, int) and have and want and have % want == 0):
            return Rejection(
                f"Ascend IR pools over windows of one size, and {have} is not known to be a multiple of {want}"
            )
    return None


def _even(node: fx.Node) -> Rejection | None:
    source, output_size = node.args
    assert isinstance(source, fx.Node) and isinstance(output_size, list | tuple)
    return _even_sizes(source.meta["val"].shape[-len(output_size) :], output_size)


def _even_backward(spatial: int) -> Supports:
    def supports(node: fx.Node) -> Rejection | None:
        gradient, source = node.args[:2]
        assert isinstance(gradient, fx.Node) and isinstance(source, fx.Node)
        return _even_sizes(source.meta["val"].shape[-spatial:], gradient.meta["val"].shape[-spatial:])

    return supports


def _mean(even: Supports) -> Supports:
    """torch averages windows of half precision only where they are adaptive."""

    def supports(node: fx.Node) -> Rejection | None:
        if node.meta["val"].dtype not in (torch.float32, torch.float64):
            return Rejection(f"AvgPool3D is not computed in {node.meta['val'].dtype} here")
        return even(node)

    return supports


def _even_windows(x: Value, output_size: Sequence[int]) -> list[int]:
    return [have // want for have, want in zip(x.shape[-len(output_size) :], output_size, strict=True)]


@register_fx_node_ge_converter(aten._adaptive_avg_pool3d.default, supports=_mean(_even))
def adaptive_avg_pool3d(self: Value, output_size: Sequence[int]) -> Value:
    """aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"""
    kernel = _even_windows(self, output_size)
    windows = _Windows(3, self.rank, kernel, kernel, [0], False, True, None)
    return windows.unbatch(AvgPool3D(windows.batched(self), **windows.attrs))


@register_fx_node_ge_converter(aten._adaptive_avg_pool3d_backward.default, supports=_mean(_even_backward(3)))
def adaptive_avg_pool3d_backward(grad_output: Value, self: Value) -> Value:
    """aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor"""
    kernel = _even_windows(self, grad_output.shape[-3:])
    windows = _Windows(3, self.rank, kernel, kernel, [0], False, True, None)
    return windows.unbatch(AvgPool3DGrad(windows.size(self.shape), windows.batched(grad_output), **windows.attrs))


# --- maximum ---


class _MaxWindows:
    """Arguments of max pooling as the 3-D operator takes them, and the dimensions that an operand lacks for it."""

    def __init__(
        self,
        spatial: int,
        rank: int,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> None:
        kernel = repeated(kernel_size, spatial)
        one, none = ([1], [0]) if spatial == 2 else ([], [])
        self.missing = [0] * (rank == spatial + 1) + [2] * (spatial == 2)
        self.attrs: dict[str, Any] = {
            "ksize": [*one, *kernel],
            "strides": [*one, *(repeated(stride, spatial) if stride else kernel)],
            "pads": [*none, *repeated(padding, spatial)],
            "dilation": [*one, *repeated(dilation, spatial)],
            "ceil_mode": ceil_mode,
            "data_format": "NCDHW",
        }

    def lift(self, x: Value) -> Value:
        """``x`` as ``[n, c, d, h, w]``."""
        return unsqueeze(x, *self.missing) if self.missing else x

    def drop(self, y: Value) -> Value:
        """The opposite of :meth:`lift`."""
        return squeeze(y, *self.missing) if self.missing else y


def _max_pool(spatial: int) -> Callable[..., Any]:
    def convert(
        self: Value,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Value, Value]:
        windows = _MaxWindows(spatial, self.rank, kernel_size, stride, padding, dilation, ceil_mode)
        y, argmax = MaxPool3DWithArgmaxV2(windows.lift(self), dtype=DType.DT_INT64, **windows.attrs)
        return windows.drop(y), windows.drop(argmax)

    return convert


def _max_pool_backward(spatial: int) -> Callable[..., Value]:
    def convert(
        grad_output: Value,
        self: Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
        indices: Value,
    ) -> Value:
        windows = _MaxWindows(spatial, self.rank, kernel_size, stride, padding, dilation, ceil_mode)
        x, gradient, argmax = (windows.lift(v) for v in (self, grad_output, indices))
        return windows.drop(MaxPool3DGradWithArgmax(x, gradient, argmax, **windows.attrs))

    return convert


for _spatial, _forward, _backward in (
    (2, aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default),
    (3, aten.max_pool3d_with_indices.default, aten.max_pool3d_with_indices_backward.default),
):
    register_fx_node_ge_converter(_forward, supports=_numbers)(_max_pool(_spatial))
    register_fx_node_ge_converter(_backward, supports=_numbers)(_max_pool_backward(_spatial))


def _adaptive_max_pool(spatial: int) -> Callable[..., Any]:
    def convert(self: Value, output_size: Sequence[int]) -> tuple[Value, Value]:
        kernel = _even_windows(self, output_size)
        windows = _MaxWindows(spatial, self.rank, kernel, kernel, [0], [1], False)
        y, argmax = MaxPool3DWithArgmaxV2(windows.lift(self), dtype=DType.DT_INT64, **windows.attrs)
        return windows.drop(y), windows.drop(argmax)

    return convert


def _adaptive_max_pool_backward(spatial: int) -> Callable[..., Value]:
    def convert(grad_output: Value, self: Value, indices: Value) -> Value:
        kernel = _even_windows(self, grad_output.shape[-spatial:])
        windows = _MaxWindows(spatial, self.rank, kernel, kernel, [0], [1], False)
        x, gradient, argmax = (windows.lift(v) for v in (self, grad_output, indices))
        return windows.drop(MaxPool3DGradWithArgmax(x, gradient, argmax, **windows.attrs))

    return convert


for _spatial, _forward, _backward in (
    (2, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool2d_backward.default),
    (3, aten.adaptive_max_pool3d.default, aten.adaptive_max_pool3d_backward.default),
):
    register_fx_node_ge_converter(_forward, supports=_even)(_adaptive_max_pool(_spatial))
    register_fx_node_ge_converter(_backward, supports=_even_backward(_spatial))(_adaptive_max_pool_backward(_spatial))
