"""Discrete Fourier transforms."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import ascend_op

__all__ = ["FFT", "FFT2D"]


@ascend_op(source="CANN op_proto: spectral_ops.h")
def FFT(x: Value) -> Value:
    """Fourier transform over the last dimension, without a factor.

    Shapes: ``x`` and the result are ``[..., n]``. dtypes: complex.
    """
    raise NotImplementedError


@FFT.lower
def _(x: Tensor) -> Tensor:
    return torch.ops.aten._fft_c2c.default(x, [x.dim() - 1], 0, True)  # type: ignore[no-any-return]


@ascend_op(source="CANN op_proto: spectral_ops.h")
def FFT2D(x: Value) -> Value:
    """Fourier transform over the last two dimensions, without a factor.

    Shapes: ``x`` and the result are ``[..., m, n]``. dtypes: complex.
    """
    raise NotImplementedError


@FFT2D.lower
def _(x: Tensor) -> Tensor:
    return torch.ops.aten._fft_c2c.default(x, [x.dim() - 2, x.dim() - 1], 0, True)  # type: ignore[no-any-return]
