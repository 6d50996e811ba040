"""Images in another size, and images sampled at given places."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import HostInts, ascend_op

__all__ = [
    "GridSampler2D",
    "GridSampler2DGrad",
    "GridSampler3D",
    "ResizeBilinearV2",
    "ResizeBilinearV2Grad",
    "ResizeNearestNeighborV2",
    "ResizeNearestNeighborV2Grad",
]

_SOURCE = "CANN op_proto: image_ops.h"
aten = torch.ops.aten

_INTERPOLATION = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}


def _plain_nearest(align_corners: bool, half_pixel_centers: bool) -> None:
    if align_corners or half_pixel_centers:
        raise ValueError("nearest neighbors with align_corners or half_pixel_centers are not supported")


@ascend_op(size=HostInts, source=_SOURCE)
def ResizeNearestNeighborV2(
    x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """``x`` in another size; pixel ``i`` of the result is pixel ``floor(i * old / new)`` of ``x``.

    Shapes: ``x`` is ``[n, c, h, w]``, ``size`` is ``[2]``; the result is ``[n, c, *size]``. dtypes: any that torch
    resizes.
    """
    raise NotImplementedError


@ResizeNearestNeighborV2.lower
def _(x: Tensor, size: Sequence[int], *, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    _plain_nearest(align_corners, half_pixel_centers)
    if all(isinstance(n, int) for n in (*x.shape, *size)):
        return aten.upsample_nearest2d.default(x, list(size))  # type: ignore[no-any-return]
    # Inductor's own code for it does not take symbolic sizes (torch 2.13).
    rows, columns = (_nearest(old, new, x.device) for old, new in zip(x.shape[2:], size, strict=True))
    return x[:, :, rows.unsqueeze(1), columns]


def _nearest(old: int, new: int, device: torch.device) -> Tensor:
    """For each position of the result, the position that it is taken from."""
    return (torch.arange(new, dtype=torch.float32, device=device) * (old / new)).to(torch.int64)


@ascend_op(size=HostInts, source=_SOURCE)
def ResizeNearestNeighborV2Grad(
    grads: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Gradient of ``ResizeNearestNeighborV2``.

    Shapes: ``grads`` is ``[n, c, oh, ow]``, ``size`` is ``[2]``, the height and width of ``x``; the result is ``[n, c,
    *size]``.
    dtypes: floating point.
    """
    raise NotImplementedError


@ResizeNearestNeighborV2Grad.lower
def _(grads: Tensor, size: Sequence[int], *, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    _plain_nearest(align_corners, half_pixel_centers)
    return aten.upsample_nearest2d_backward.default(grads, list(grads.shape[2:]), [*grads.shape[:2], *size])  # type: ignore[no-any-return]


def _corners(align_corners: bool, half_pixel_centers: bool) -> bool:
    """torch's ``align_corners``; without it, its pixels have centers at a half."""
    if align_corners == half_pixel_centers:
        raise ValueError("one of align_corners and half_pixel_centers must be set, not both")
    return align_corners


@ascend_op(size=HostInts, source=_SOURCE)
def ResizeBilinearV2(x: Value, size: Value, *, align_corners: bool = False, half_pixel_centers: bool = False) -> Value:
    """``x`` in another size, interpolated linearly in both directions.

    Shapes: ``x`` is ``[n, c, h, w]``, ``size`` is ``[2]``; the result is ``[n, c, *size]``. dtypes: any that torch
    resizes.
    """
    raise NotImplementedError


@ResizeBilinearV2.lower
def _(x: Tensor, size: Sequence[int], *, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    corners = _corners(align_corners, half_pixel_centers)
    return aten.upsample_bilinear2d.default(x, list(size), corners)  # type: ignore[no-any-return]


@ascend_op(source=_SOURCE)
def ResizeBilinearV2Grad(
    grads: Value, original_image: Value, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Value:
    """Gradient of ``ResizeBilinearV2``.

    Shapes: ``grads`` is ``[n, c, oh, ow]``, ``original_image`` and the result are ``[n, c, h, w]``. dtypes: floating
    point.
    """
    raise NotImplementedError


@ResizeBilinearV2Grad.lower
def _(grads: Tensor, original_image: Tensor, *, align_corners: bool, half_pixel_centers: bool) -> Tensor:
    return aten.upsample_bilinear2d_backward.default(  # type: ignore[no-any-return]
        grads,
        list(grads.shape[2:]),
        list(original_image.shape),
        _corners(align_corners, half_pixel_centers),
    )


@ascend_op(source=_SOURCE)
def GridSampler2D(
    x: Value,
    grid: Value,
    *,
    interpolation_mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Value:
    """``x`` at the places of a grid, whose coordinates (x, y) are -1 at one border of the image and 1 at the other.

    ``interpolation_mode`` is bilinear, nearest or bicubic, ``padding_mode`` zeros, border or reflection.

    Shapes: ``x`` is ``[n, c, h, w]``, ``grid`` is ``[n, oh, ow, 2]``; the result ``[n, c, oh, ow]``. dtypes: floating
    point, equal.
    """
    raise NotImplementedError


@GridSampler2D.lower
def _(x: Tensor, grid: Tensor, *, interpolation_mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    return aten.grid_sampler_2d.default(  # type: ignore[no-any-return]
        x, grid, _INTERPOLATION[interpolation_mode], _PADDING[padding_mode], align_corners
    )


@ascend_op(outputs=("dx", "dgrid"), source=_SOURCE)
def GridSampler2DGrad(
    grad: Value,
    x: Value,
    grid: Value,
    *,
    interpolation_mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> tuple[Value, Value]:
    """Gradients of ``GridSampler2D`` with respect to ``x`` and ``grid``.

    Shapes: ``grad`` is ``[n, c, oh, ow]``, ``x`` ``[n, c, h, w]``, ``grid`` ``[n, oh, ow, 2]``. dtypes: floating point,
    equal.
    """
    raise NotImplementedError


@GridSampler2DGrad.lower
def _(
    grad: Tensor, x: Tensor, grid: Tensor, *, interpolation_mode: str, padding_mode: str, align_corners: bool
) -> tuple[Tensor, Tensor]:
    return aten.grid_sampler_2d_backward.default(  # type: ignore[no-any-return]
        grad, x, grid, _INTERPOLATION[interpolation_mode], _PADDING[padding_mode], align_corners, [True, True]
    )


@ascend_op(source=_SOURCE)
def GridSampler3D(
    x: Value,
    grid: Value,
    *,
    interpolation_mode: str = "bilinear",
    padding_mode: str = "zeros",
    data_format: str = "NCDHW",
    align_corners: bool = False,
) -> Value:
    """``GridSampler2D`` for volumes.

    Shapes: ``x`` is ``[n, c, d, h, w]``, ``grid`` is ``[n, od, oh, ow, 3]``; the result ``[n, c, od, oh, ow]``. dtypes:
    floating point, equal.
    """
    raise NotImplementedError


@GridSampler3D.lower
def _(
    x: Tensor, grid: Tensor, *, interpolation_mode: str, padding_mode: str, data_format: str, align_corners: bool
) -> Tensor:
    if data_format != "NCDHW":
        raise ValueError(f"data_format {data_format} is not supported, NCDHW is")
    return aten.grid_sampler_3d.default(  # type: ignore[no-any-return]
        x, grid, _INTERPOLATION[interpolation_mode], _PADDING[padding_mode], align_corners
    )
