"""Operators of the device plug-in that the built-in replacements are about, computed by PyTorch's operators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

__all__ = ["npu_operators"]


def _norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    x = x1 + x2
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + epsilon)
    return (x.float() * rstd).to(x.dtype) * gamma, rstd, x


def _norm_cast(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    y, rstd, x = _norm(x1, x2, gamma, epsilon)
    return y.float(), y, rstd, x


def _dynamic_quant(x: Tensor, smooth_scales: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scaled = x.float() if smooth_scales is None else x.float() * smooth_scales
    scale = scaled.abs().amax(-1) / 127
    return torch.round(scaled / scale[..., None]).to(torch.int8), scale


def _norm_dynamic_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    smooth_scale1: Tensor | None = None,
    epsilon: float = 1e-6,
    output_mask: Any = (),
) -> tuple[Tensor, ...]:
    y, _, x = _norm(x1, x2, gamma, epsilon)
    q, scale = _dynamic_quant(y, smooth_scale1)
    return q, x1.new_empty(0, dtype=torch.int8), x, scale, x1.new_empty(0, dtype=torch.float32)


def _quantize(
    x: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: torch.dtype, axis: int = 1, div_mode: bool = True
) -> Tensor:
    scaled = x.float() / scales.float() if div_mode else x.float() * scales.float()
    return torch.round(scaled + (0 if zero_points is None else zero_points.float())).clamp(-128, 127).to(torch.int8)


def _norm_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    axis: int = -1,
    epsilon: float = 1e-6,
    div_mode: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    y, _, x = _norm(x1, x2, gamma, epsilon)
    return _quantize(y, scales1, zero_points1, torch.int8, axis, div_mode), x1.new_empty(0, dtype=torch.int8), x


def _transposed_product(x1: Tensor, x2: Tensor, perm_x1: list[int], perm_x2: list[int], perm_y: list[int]) -> Tensor:
    return torch.bmm(x1.permute(perm_x1), x2.permute(perm_x2)).permute(perm_y).contiguous()


_OPERATORS = {
    "npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)": _norm,
    "npu_add_rms_norm_cast(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) "
    "-> (Tensor, Tensor, Tensor, Tensor)": (_norm_cast),
    "npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None) -> (Tensor, Tensor)": _dynamic_quant,
    "npu_add_rms_norm_dynamic_quant(Tensor x1, Tensor x2, Tensor gamma, *, Tensor? smooth_scale1=None, "
    "float epsilon=1e-06, bool[2] output_mask=[True, True]) -> (Tensor, Tensor, Tensor, Tensor, Tensor)": (
        _norm_dynamic_quant
    ),
    "npu_quantize(Tensor self, Tensor scales, Tensor? zero_points, ScalarType dtype, int axis=1, bool div_mode=True) "
    "-> Tensor": _quantize,
    "npu_add_rms_norm_quant(Tensor x1, Tensor x2, Tensor gamma, Tensor scales1, Tensor? zero_points1, *, int axis=-1, "
    "float epsilon=1e-06, bool div_mode=True) -> (Tensor, Tensor, Tensor)": _norm_quant,
    "_npu_dtype_cast(Tensor self, ScalarType dtype) -> Tensor": lambda x, dtype: x.to(dtype, copy=True),
    "npu_transpose_batchmatmul(Tensor input, Tensor weight, *, int[] perm_x1, int[] perm_x2, int[] perm_y) -> Tensor": (
        _transposed_product
    ),
}


@contextlib.contextmanager
def npu_operators() -> Iterator[None]:
    """``torch.ops.npu`` has these operators meanwhile."""
    with torch.library._scoped_library("npu", "FRAGMENT") as library:
        for schema, kernel in _OPERATORS.items():
            library.define(schema)
            library.impl(schema.partition("(")[0], kernel, "CompositeExplicitAutograd")
        yield
