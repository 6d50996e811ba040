"""Complex numbers: made of two real tensors, taken apart, conjugated."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair.ir import DType, Value
from torchair.opset.operator import ascend_op

__all__ = ["Complex", "ComplexAbs", "Conj", "Imag", "Real"]

_SOURCE = "CANN op_proto: math_ops.h"


@ascend_op(source=_SOURCE, outputs=("out",))
def Complex(real: Value, imag: Value, *, Tout: DType = DType.DT_COMPLEX64) -> Value:
    """``real + i * imag``.

    Shapes: broadcast. dtypes: floats, equal; ``Tout`` is the complex dtype of that size.
    """
    raise NotImplementedError


@Complex.lower
def _(real: Tensor, imag: Tensor, *, Tout: DType) -> Tensor:
    return torch.complex(real, imag)


@ascend_op(source=_SOURCE, outputs=("output",))
def Real(input: Value, *, Tout: DType = DType.DT_FLOAT) -> Value:
    """The real part.

    Shapes: ``input`` and the result are any, equal. dtypes: complex; ``Tout`` is the float dtype of that size.
    """
    raise NotImplementedError


@Real.lower
def _(input: Tensor, *, Tout: DType) -> Tensor:
    return torch.real(input)


@ascend_op(source=_SOURCE, outputs=("output",))
def Imag(input: Value, *, Tout: DType = DType.DT_FLOAT) -> Value:
    """The imaginary part.

    Shapes: ``input`` and the result are any, equal. dtypes: complex; ``Tout`` is the float dtype of that size.
    """
    raise NotImplementedError


@Imag.lower
def _(input: Tensor, *, Tout: DType) -> Tensor:
    return torch.imag(input)


@ascend_op(source=_SOURCE)
def ComplexAbs(x: Value, *, Tout: DType = DType.DT_FLOAT) -> Value:
    """The absolute value of complex numbers.

    Shapes: ``x`` and the result are any, equal. dtypes: complex; ``Tout`` is the float dtype of that size.
    """
    raise NotImplementedError


@ComplexAbs.lower
def _(x: Tensor, *, Tout: DType) -> Tensor:
    return torch.abs(x)


@ascend_op(source=_SOURCE, outputs=("output",))
def Conj(input: Value) -> Value:
    """The complex conjugate.

    Shapes: ``input`` and the result are any, equal. dtypes: complex, the result's is the same.
    """
    raise NotImplementedError


@Conj.lower
def _(input: Tensor) -> Tensor:
    return torch.conj_physical(input)
