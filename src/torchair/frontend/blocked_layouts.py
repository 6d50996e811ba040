"""Blocked layouts of the vendor's hardware as tensors (specification, F-87): conversion and exact inverse.

Source of the layouts: the format descriptions in the vendor's public operator documentation. A block has 16 rows of
``C0`` columns, which are 32 bytes; what a block has beyond the tensor is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchair.errors import ArgumentError, ArgumentTypeError
from torchair.ir.types import Format

__all__ = ["npu_format_cast_via_cpu"]

_ROWS = 16
_BYTES = 32
#: On a blocked tensor: its format, the shape that it had, and its ``C0``.
_LOGICAL = "_torchair_blocked_from"


def npu_format_cast_via_cpu(
    self: Tensor, acl_format: int, customize_dtype: torch.dtype | None = None, input_dtype: torch.dtype | None = None
) -> Tensor:
    """Lay a tensor out in blocks, or take it back out of them.

    Shapes, with ``C0`` columns of 32 bytes (16 of float16, 8 of float32, 32 of int8): ``FRACTAL_NZ`` (29) of
    ``[*, m, n]`` is ``[*, n / C0, m / 16, 16, C0]``; ``NC1HWC0`` (3) of ``[n, c, h, w]`` is ``[n, c / C0, h, w, C0]``;
    ``FRACTAL_Z`` (4) of it is ``[c / C0 * h * w, n / 16, 16, C0]``; divisions round up. ``ND`` (2) and ``NCHW`` (0)
    give back what a tensor that this function made was made of, bit for bit.

    Args:
        self: On any device; the result is on the same.
        acl_format: Number of the format.
        customize_dtype: The dtype whose size decides ``C0``; the tensor's own by default.
        input_dtype: The tensor's dtype, if it is given.

    Raises:
        ArgumentTypeError: An argument is of another type.
        ArgumentError: The format is not one of these, the tensor has too few dimensions, or was not made here.
    """
    given: list[tuple[str, Any, tuple[type, ...]]] = [
        ("self", self, (Tensor,)),
        ("acl_format", acl_format, (int,)),
        ("customize_dtype", customize_dtype, (torch.dtype, type(None))),
        ("input_dtype", input_dtype, (torch.dtype, type(None))),
    ]
    wrong = [f"{name} is {value!r}" for name, value, kinds in given if not isinstance(value, kinds)]
    if wrong:
        raise ArgumentTypeError(
            "npu_format_cast_via_cpu was given an argument of the wrong type", why=wrong, fix=_EXAMPLE
        )
    if input_dtype is not None and input_dtype != self.dtype:
        raise _refused(f"input_dtype is {input_dtype}, the tensor is {self.dtype}")
    if acl_format in (Format.FORMAT_ND.value, Format.FORMAT_NCHW.value):
        return _unblocked(self)
    found = _LAYOUTS.get(acl_format)
    if found is None:
        raise _refused(f"acl_format is {acl_format}; known: 0, 2, {', '.join(map(str, _LAYOUTS))}")
    rank, block, _ = found
    if self.dim() < rank or (rank == 4 and self.dim() != 4):
        raise _refused(f"format {acl_format} needs {rank} dimensions, the tensor has {self.dim()}")
    columns = max(_BYTES // (customize_dtype or self.dtype).itemsize, 1)
    result = block(self, columns)
    setattr(result, _LOGICAL, (acl_format, tuple(self.shape), columns))
    return result


def _unblocked(tensor: Tensor) -> Tensor:
    made = getattr(tensor, _LOGICAL, None)
    if made is None:
        raise _refused(
            "the tensor was not made by npu_format_cast_via_cpu, or is a copy, so its own shape is not known"
        )
    acl_format, shape, columns = made
    return _LAYOUTS[acl_format][2](tensor, shape, columns)


def _padded(x: Tensor, *multiples: tuple[int, int]) -> Tensor:
    """With zeros at the end of dimensions, so that sizes are multiples: pairs ``(dimension, multiple)``."""
    sizes = list(x.shape)
    for dim, multiple in multiples:
        sizes[dim] = math.ceil(sizes[dim] / multiple) * multiple
    result = x.new_zeros(sizes)
    result[tuple(slice(size) for size in x.shape)] = x
    return result


def _split(x: Tensor, dim: int, size: int) -> Tensor:
    """A dimension as two, the second of a given size."""
    return x.reshape(*x.shape[:dim], x.shape[dim] // size, size, *x.shape[dim + 1 :])


def _nz(x: Tensor, columns: int) -> Tensor:
    x = _padded(x, (-2, _ROWS), (-1, columns))
    x = _split(_split(x, x.dim() - 1, columns), x.dim() - 2, _ROWS)  # [*, m1, 16, n1, C0]
    return x.movedim(-2, -4).contiguous()


def _from_nz(x: Tensor, shape: Sequence[int], columns: int) -> Tensor:
    x = x.movedim(-4, -2).flatten(-2).flatten(-3, -2)
    return x[..., : shape[-2], : shape[-1]].contiguous()


def _nc1hwc0(x: Tensor, columns: int) -> Tensor:
    return _split(_padded(x, (1, columns)), 1, columns).movedim(2, -1).contiguous()


def _from_nc1hwc0(x: Tensor, shape: Sequence[int], columns: int) -> Tensor:
    return x.movedim(-1, 2).flatten(1, 2)[:, : shape[1]].contiguous()


def _z(x: Tensor, columns: int) -> Tensor:
    x = _split(_split(_padded(x, (0, _ROWS), (1, columns)), 1, columns), 0, _ROWS)
    return x.permute(2, 4, 5, 0, 1, 3).flatten(0, 2).contiguous()  # from [n1, 16, c1, C0, h, w]


def _from_z(x: Tensor, shape: Sequence[int], columns: int) -> Tensor:
    n, c, h, w = shape
    x = x.reshape(-1, h, w, *x.shape[1:]).permute(3, 4, 0, 5, 1, 2)
    return x.flatten(2, 3).flatten(0, 1)[:n, :c].contiguous()


#: Format -> least number of dimensions, conversion, inverse.
_LAYOUTS: Mapping[int, tuple[int, Callable[[Tensor, int], Tensor], Callable[[Tensor, Any, int], Tensor]]] = {
    Format.FORMAT_NC1HWC0.value: (4, _nc1hwc0, _from_nc1hwc0),
    Format.FORMAT_FRACTAL_Z.value: (4, _z, _from_z),
    Format.FORMAT_FRACTAL_NZ.value: (2, _nz, _from_nz),
}

_EXAMPLE = "torchair.npu_format_cast_via_cpu(weight, 29)"


def _refused(why: str) -> ArgumentError:
    return ArgumentError("npu_format_cast_via_cpu cannot lay a tensor out", why=why, fix=_EXAMPLE)
