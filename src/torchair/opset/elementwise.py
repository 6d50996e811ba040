"""Arithmetic on elements: sums, products, quotients, powers, and the functions of mathematics."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset import pointwise
from torchair.opset.operator import ascend_op
from torchair.opset.pointwise import binary, unary

__all__ = [
    "Abs", "Acos", "Acosh", "Add", "Addcdiv", "Addcmul", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Axpy", "AxpyV2",
    "Ceil", "ClipByValueV2", "Cos", "Cosh", "Digamma", "Div", "Erf", "Erfc", "Erfinv", "Exp", "Expm1", "Floor",
    "FloorDiv", "FloorMod", "Lerp", "Lgamma", "Log", "Log1p", "Maximum", "Minimum", "Mod", "Mul", "Muls", "NanToNum",
    "Neg", "Pow", "RealDiv", "Reciprocal", "Round", "Rsqrt", "Sign", "Sin", "Sinh", "Sqrt", "Sub", "Sxpy", "Tan",
    "TruncateDiv", "Trunc", "Xlogy",
]  # fmt: skip

_FLOATS = "floats and complex, the result's is the same"
_REALS = "floats, the result's is the same"

# --- sums, products, quotients ---

Add = binary("Add", torch.add, "``x1 + x2``; on bool, whether either is true.", content=lambda a, b: a + b)
Sub = binary("Sub", torch.sub, "``x1 - x2``.", content=lambda a, b: a - b)
Mul = binary("Mul", torch.mul, "``x1 * x2``; on bool, whether both are true.", content=lambda a, b: a * b)
RealDiv = binary("RealDiv", torch.div, "``x1 / x2`` as real numbers.", dtypes=f"equal; {_FLOATS}")
FloorDiv = binary(
    "FloorDiv",
    lambda x1, x2: torch.div(x1, x2, rounding_mode="floor"),
    "``x1 / x2``, rounded down.",
    content=pointwise.floor_division,
)
TruncateDiv = binary(
    "TruncateDiv", lambda x1, x2: torch.div(x1, x2, rounding_mode="trunc"), "``x1 / x2``, rounded toward zero."
)
FloorMod = binary("FloorMod", torch.remainder, "``x1 - x2 * floor(x1 / x2)``: the remainder with the sign of ``x2``.")
Mod = binary("Mod", torch.fmod, "``x1 - x2 * trunc(x1 / x2)``: the remainder with the sign of ``x1``.")
Maximum = binary("Maximum", torch.maximum, "The larger of both; NaN if one of them is.", content=pointwise.larger)
Minimum = binary("Minimum", torch.minimum, "The smaller of both; NaN if one of them is.", content=pointwise.smaller)
Pow = binary("Pow", torch.pow, "``x1`` to the power of ``x2``.")
Xlogy = binary(
    "Xlogy", torch.xlogy, "``x1 * log(x2)``; 0 where ``x1`` is 0, NaN where ``x2`` is NaN.",
    dtypes=f"equal; {_REALS}", source="public knowledge of CANN's operator list (elewise_calculation_ops.h)",
)  # fmt: skip
Atan2 = binary("Atan2", torch.atan2, "The angle of the point (``x2``, ``x1``), in radians.", dtypes=f"equal; {_REALS}")


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Div(x1: Value, x2: Value) -> Value:
    """``x1 / x2``; rounded toward zero for integers.

    Shapes: broadcast. dtypes: any number, equal; the result's is the same.
    """
    raise NotImplementedError


@Div.lower
def _(x1: Tensor, x2: Tensor) -> Tensor:
    exact = x1.dtype.is_floating_point or x1.dtype.is_complex
    return torch.div(x1, x2, rounding_mode=None if exact else "trunc")


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Muls(x: Value, *, value: float) -> Value:
    """``x * value``.

    Shapes: ``x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@Muls.lower
def _(x: Tensor, *, value: float) -> Tensor:
    return torch.mul(x, value)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Axpy(x1: Value, x2: Value, *, alpha: float) -> Value:
    """``x1 + alpha * x2``, rounded once.

    Shapes: broadcast. dtypes: floats, equal; the result's is the same.
    """
    raise NotImplementedError


@Axpy.lower
def _(x1: Tensor, x2: Tensor, *, alpha: float) -> Tensor:
    return torch.add(x1, x2, alpha=alpha)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def AxpyV2(x1: Value, x2: Value, alpha: Value) -> Value:
    """``x1 + alpha * x2``.

    Shapes: ``x1`` and ``x2`` broadcast, ``alpha`` is 0-d or ``[1]``.
    dtypes: any number, equal; the result's is the same.
    """
    raise NotImplementedError


@AxpyV2.lower
def _(x1: Tensor, x2: Tensor, alpha: Tensor) -> Tensor:
    return torch.add(x1, torch.mul(x2, alpha))


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Sxpy(x1: Value, x2: Value, alpha: Value | None) -> Value:
    """``x1 - alpha * x2``; ``alpha`` is 1 if absent.

    Shapes: ``x1`` and ``x2`` broadcast, ``alpha`` is 0-d or ``[1]``.
    dtypes: any number, equal; the result's is the same.
    """
    raise NotImplementedError


@Sxpy.lower
def _(x1: Tensor, x2: Tensor, alpha: Tensor | None) -> Tensor:
    return torch.sub(x1, x2 if alpha is None else torch.mul(x2, alpha))


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Addcmul(input_data: Value, x1: Value, x2: Value, value: Value) -> Value:
    """``input_data + value * x1 * x2``.

    Shapes: broadcast, ``value`` is 0-d or ``[1]``. dtypes: any number, equal; the result's is the same.
    """
    raise NotImplementedError


@Addcmul.lower
def _(input_data: Tensor, x1: Tensor, x2: Tensor, value: Tensor) -> Tensor:
    # torch takes a Python number; it multiplies x1 by it first, too.
    return torch.addcmul(input_data, torch.mul(x1, value), x2)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Addcdiv(input_data: Value, x1: Value, x2: Value, value: Value) -> Value:
    """``input_data + value * x1 / x2``.

    Shapes: broadcast, ``value`` is 0-d or ``[1]``. dtypes: floats and complex, equal; the result's is the same.
    """
    raise NotImplementedError


@Addcdiv.lower
def _(input_data: Tensor, x1: Tensor, x2: Tensor, value: Tensor) -> Tensor:
    return torch.addcdiv(input_data, torch.mul(x1, value), x2)


@ascend_op(source="CANN op_proto: math_ops.h")
def Lerp(start: Value, end: Value, weight: Value) -> Value:
    """``start + weight * (end - start)``.

    Shapes: broadcast. dtypes: floats and complex, equal; the result's is the same.
    """
    raise NotImplementedError


@Lerp.lower
def _(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return torch.lerp(start, end, weight)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def ClipByValueV2(x: Value, clip_value_min: Value, clip_value_max: Value) -> Value:
    """``x``, but at least ``clip_value_min``, and then at most ``clip_value_max``; NaN stays.

    Shapes: broadcast. dtypes: real numbers, equal; the result's is the same.
    """
    raise NotImplementedError


@ClipByValueV2.lower
def _(x: Tensor, clip_value_min: Tensor, clip_value_max: Tensor) -> Tensor:
    return torch.clamp(x, clip_value_min, clip_value_max)


# --- signs and rounding ---

Abs = unary("Abs", torch.abs, "The absolute value.", dtypes="real numbers, the result's is the same")
Neg = unary("Neg", torch.neg, "``-x``.")
Sign = unary("Sign", torch.sgn, "-1, 0 or 1 by the sign of ``x``; ``x / |x|`` (or 0) for complex numbers.")
Ceil = unary("Ceil", torch.ceil, "``x`` rounded up.", dtypes=_REALS)
Floor = unary("Floor", torch.floor, "``x`` rounded down.", dtypes=_REALS)
Round = unary("Round", torch.round, "``x`` rounded to the nearest integer, ties to the even one.", dtypes=_REALS)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h", outputs=("output_y",))
def Trunc(input_x: Value) -> Value:
    """``input_x`` rounded toward zero.

    Shapes: ``input_x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@Trunc.lower
def _(input_x: Tensor) -> Tensor:
    return torch.trunc(input_x)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def NanToNum(x: Value, *, nan: float, posinf: float, neginf: float) -> Value:
    """``x`` with NaN and the infinities replaced.

    Shapes: ``x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@NanToNum.lower
def _(x: Tensor, *, nan: float, posinf: float, neginf: float) -> Tensor:
    return torch.nan_to_num(x, nan, posinf, neginf)


# --- roots, exponentials, logarithms ---

Sqrt = unary("Sqrt", torch.sqrt, "The square root.", dtypes=_FLOATS)
Rsqrt = unary("Rsqrt", torch.rsqrt, "``1 / sqrt(x)``.", dtypes=_FLOATS)
Reciprocal = unary("Reciprocal", torch.reciprocal, "``1 / x``.", dtypes=_FLOATS)
Expm1 = unary("Expm1", torch.expm1, "``exp(x) - 1``, exact for small ``x``.", dtypes=_FLOATS)
Log1p = unary("Log1p", torch.log1p, "``log(1 + x)``, exact for small ``x``.", dtypes=_FLOATS)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Exp(x: Value, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Value:
    """``base ** (scale * x + shift)``; ``base`` -1 stands for e.

    Shapes: ``x`` and the result are any, equal. dtypes: floats and complex, the result's is the same.
    """
    raise NotImplementedError


@Exp.lower
def _(x: Tensor, *, base: float, scale: float, shift: float) -> Tensor:
    power = _scaled(x, scale, shift)
    if base == -1.0:
        return torch.exp(power)
    return torch.exp2(power) if base == 2.0 else torch.pow(base, power)


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h")
def Log(x: Value, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Value:
    """The logarithm of ``scale * x + shift`` to ``base``; ``base`` -1 stands for e.

    Shapes: ``x`` and the result are any, equal. dtypes: floats and complex, the result's is the same.
    """
    raise NotImplementedError


@Log.lower
def _(x: Tensor, *, base: float, scale: float, shift: float) -> Tensor:
    number = _scaled(x, scale, shift)
    if base == -1.0:
        return torch.log(number)
    if base == 2.0:
        return torch.log2(number)
    if base == 10.0:
        return torch.log10(number)
    return torch.div(torch.log(number), torch.log(torch.tensor(base, dtype=torch.float64)))


def _scaled(x: Tensor, scale: float, shift: float) -> Tensor:
    if scale != 1.0:
        x = torch.mul(x, scale)
    return torch.add(x, shift) if shift != 0.0 else x


# --- angles and special functions ---

Sin = unary("Sin", torch.sin, "The sine.", dtypes=_FLOATS)
Cos = unary("Cos", torch.cos, "The cosine.", dtypes=_FLOATS)
Tan = unary("Tan", torch.tan, "The tangent.", dtypes=_FLOATS)
Asin = unary("Asin", torch.asin, "The inverse sine.", dtypes=_FLOATS)
Acos = unary("Acos", torch.acos, "The inverse cosine.", dtypes=_FLOATS)
Atan = unary("Atan", torch.atan, "The inverse tangent.", dtypes=_FLOATS)
Sinh = unary("Sinh", torch.sinh, "The hyperbolic sine.", dtypes=_FLOATS)
Cosh = unary("Cosh", torch.cosh, "The hyperbolic cosine.", dtypes=_FLOATS)
Asinh = unary("Asinh", torch.asinh, "The inverse hyperbolic sine.", dtypes=_FLOATS)
Acosh = unary("Acosh", torch.acosh, "The inverse hyperbolic cosine.", dtypes=_FLOATS)
Atanh = unary("Atanh", torch.atanh, "The inverse hyperbolic tangent.", dtypes=_FLOATS)
Erf = unary("Erf", torch.erf, "The error function.", dtypes=_REALS)
Erfc = unary("Erfc", torch.erfc, "``1 - erf(x)``.", dtypes=_REALS)
Lgamma = unary(
    "Lgamma", torch.lgamma, "The logarithm of the absolute value of the gamma function.",
    dtypes=_REALS, source="CANN op_proto: math_ops.h",
)  # fmt: skip
Digamma = unary(
    "Digamma", torch.digamma, "The derivative of the logarithm of the gamma function.",
    dtypes=_REALS, source="CANN op_proto: math_ops.h",
)  # fmt: skip


@ascend_op(source="CANN op_proto: elewise_calculation_ops.h", outputs=("output_y",))
def Erfinv(input_x: Value) -> Value:
    """The inverse of the error function.

    Shapes: ``input_x`` and the result are any, equal. dtypes: floats, the result's is the same.
    """
    raise NotImplementedError


@Erfinv.lower
def _(input_x: Tensor) -> Tensor:
    return torch.erfinv(input_x)
