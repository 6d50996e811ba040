"""Converters of arithmetic on elements, and of the functions of mathematics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from torchair.convert.arguments import argument, numbers_known
from torchair.convert.promotion import (
    HALF,
    WideScalar,
    cast,
    compute_dtype,
    pointwise,
    promote,
    to_real,
)
from torchair.convert.registry import Supports, register_fx_node_ge_converter
from torchair.convert.results import TensorSpec
from torchair.errors import Rejection
from torchair.ir import DType, Value
from torchair.opset.comparison import Equal, Greater, IsInf, IsNan, Less, LogicalAnd, SelectV2
from torchair.opset.complex_number import ComplexAbs
from torchair.opset.creation import Fill
from torchair.opset.elementwise import (
    Abs,
    Acos,
    Acosh,
    Add,
    Addcdiv,
    Addcmul,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Axpy,
    AxpyV2,
    Ceil,
    ClipByValueV2,
    Cos,
    Cosh,
    Digamma,
    Erf,
    Erfc,
    Erfinv,
    Exp,
    Expm1,
    Floor,
    FloorDiv,
    FloorMod,
    Lerp,
    Lgamma,
    Log,
    Log1p,
    Maximum,
    Minimum,
    Mod,
    Mul,
    NanToNum,
    Neg,
    Pow,
    RealDiv,
    Reciprocal,
    Round,
    Rsqrt,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Sub,
    Tan,
    Trunc,
    TruncateDiv,
    Xlogy,
)
from torchair.opset.memory import TensorMove
from torchair.opset.operator import AscendOp
from torchair.opset.shape import Bitcast
from torchair.opset.torch_types import torch_dtype

aten = torch.ops.aten

# --- one operand ---

_UNARY: dict[str, tuple[AscendOp[Value], dict[str, Any]]] = {
    "acos": (Acos, {}),
    "acosh": (Acosh, {}),
    "asin": (Asin, {}),
    "asinh": (Asinh, {}),
    "atan": (Atan, {}),
    "atanh": (Atanh, {}),
    "cos": (Cos, {}),
    "cosh": (Cosh, {}),
    "digamma": (Digamma, {}),
    "erf": (Erf, {}),
    "erfc": (Erfc, {}),
    "erfinv": (Erfinv, {}),
    "exp": (Exp, {}),
    "exp2": (Exp, {"base": 2.0}),
    "expm1": (Expm1, {}),
    "lgamma": (Lgamma, {}),
    "log": (Log, {}),
    "log10": (Log, {"base": 10.0}),
    "log1p": (Log1p, {}),
    "log2": (Log, {"base": 2.0}),
    "neg": (Neg, {}),
    "reciprocal": (Reciprocal, {}),
    "rsqrt": (Rsqrt, {}),
    "sgn": (Sign, {}),
    "sin": (Sin, {}),
    "sinh": (Sinh, {}),
    "sqrt": (Sqrt, {}),
    "tan": (Tan, {}),
}
_ROUNDING = {"ceil": Ceil, "floor": Floor, "round": Round, "trunc": Trunc}


def _unary(op: AscendOp[Value], attrs: dict[str, Any]) -> Callable[..., Value]:
    def convert(self: Value, *, meta_outputs: TensorSpec) -> Value:
        """aten::f(Tensor self) -> Tensor"""
        return pointwise(op, self, meta_outputs=meta_outputs, **attrs)

    return convert


def _rounding(op: AscendOp[Value]) -> Callable[..., Value]:
    def convert(self: Value) -> Value:
        """aten::f(Tensor self) -> Tensor"""
        return op(self) if self.dtype.is_floating_point else TensorMove(self)

    return convert


for _name, (_op, _attrs) in _UNARY.items():
    register_fx_node_ge_converter(getattr(aten, _name).default)(_unary(_op, _attrs))


def _refusing(refused: Callable[[torch.dtype], bool]) -> Supports:
    """``supports=``: no Ascend IR form for what eager has no kernel for, so that it fails as it does in eager."""

    def supports(node: fx.Node) -> Rejection | None:
        dtype = argument(node, "self").meta["val"].dtype
        return Rejection(f"eager has no kernel of it for {dtype}") if refused(dtype) else None

    return supports


_of_floats = _refusing(lambda dtype: not dtype.is_floating_point)
_of_reals = _refusing(lambda dtype: dtype.is_complex)
_of_real_numbers = _refusing(lambda dtype: dtype.is_complex or dtype is torch.bool)

for _name, _op in _ROUNDING.items():
    register_fx_node_ge_converter(getattr(aten, _name).default, supports=_of_real_numbers)(_rounding(_op))
register_fx_node_ge_converter(aten.sign.default, supports=_of_reals)(_unary(Sign, {}))


@register_fx_node_ge_converter(aten.abs.default)
def abs(self: Value) -> Value:
    """aten::abs(Tensor self) -> Tensor"""
    return ComplexAbs(self, Tout=to_real(self.dtype)) if self.dtype.is_complex else Abs(self)


@register_fx_node_ge_converter(aten.round.decimals, supports=_of_floats)
def round_decimals(self: Value, *, decimals: int) -> Value:
    """aten::round.decimals(Tensor self, *, int decimals) -> Tensor"""
    common = DType.DT_FLOAT if self.dtype in HALF else self.dtype
    power = promote(10.0 ** (-decimals if decimals < 0 else decimals), common)
    into, back = (RealDiv, Mul) if decimals < 0 else (Mul, RealDiv)
    return cast(back(Round(into(cast(self, common), power)), power), self.dtype) if decimals else Round(self)


@register_fx_node_ge_converter(aten.frac.default, supports=_of_floats)
def frac(self: Value) -> Value:
    """aten::frac(Tensor self) -> Tensor"""
    return Sub(self, Trunc(self))


def _real(node: fx.Node) -> Rejection | None:
    dtype = node.meta["val"].dtype
    return Rejection(f"the Ascend operator takes real numbers, not {dtype}") if dtype.is_complex else None


@register_fx_node_ge_converter(aten.nan_to_num.default, supports=_real)
def nan_to_num(
    self: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    result: Value
    if not self.dtype.is_floating_point:
        result = TensorMove(self)
        return result
    limits = torch.finfo(torch_dtype(self.dtype))
    result = NanToNum(
        self,
        nan=0.0 if nan is None else nan,
        posinf=limits.max if posinf is None else posinf,
        neginf=limits.min if neginf is None else neginf,
    )
    return result


@register_fx_node_ge_converter(aten.logit.default, supports=numbers_known("eps"))
def logit(self: Value, eps: float | None = None, *, meta_outputs: TensorSpec) -> Value:
    """aten::logit(Tensor self, float? eps=None) -> Tensor"""
    x = cast(self, meta_outputs.dtype) if eps is None else _clamp(self, eps, 1.0 - eps, meta_outputs.dtype)
    return Log(RealDiv(x, Sub(1, x)))


# --- signs ---

_BITS = {2: DType.DT_INT16, 4: DType.DT_INT32, 8: DType.DT_INT64}


def _is_negative(x: Value) -> Value:
    """Whether the sign bit is set, which -0.0 and some NaN have, too."""
    return Less(Bitcast(x, type=_BITS[x.dtype.itemsize]) if x.dtype.is_floating_point else x, 0)


@register_fx_node_ge_converter(aten.signbit.default)
def signbit(self: Value) -> Value:
    """aten::signbit(Tensor self) -> Tensor"""
    return _is_negative(self)


@register_fx_node_ge_converter(aten.copysign.Tensor)
def copysign(self: Value, other: Value, *, meta_outputs: TensorSpec) -> Value:
    """aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor"""
    size = Abs(cast(self, meta_outputs.dtype))
    return SelectV2(_is_negative(cast(other, meta_outputs.dtype)), Neg(size), size)


@register_fx_node_ge_converter(aten.copysign.Scalar, supports=numbers_known("other"))
def copysign_scalar(self: Value, other: float, *, meta_outputs: TensorSpec) -> Value:
    """aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor"""
    size = Abs(cast(self, meta_outputs.dtype))
    return Neg(size) if math.copysign(1.0, other) < 0 else size


def _not_complex(node: fx.Node) -> Rejection | None:
    dtype = argument(node, "self").meta["val"].dtype
    return (
        Rejection("the angle of complex numbers has no Ascend IR form that rounds alike") if dtype.is_complex else None
    )


@register_fx_node_ge_converter(aten.angle.default, supports=_not_complex)
def angle(self: Value, *, meta_outputs: TensorSpec) -> Value:
    """aten::angle(Tensor self) -> Tensor"""
    x = cast(self, meta_outputs.dtype)
    direction = SelectV2(Less(x, 0.0), promote(math.pi, x.dtype), promote(0.0, x.dtype))
    return SelectV2(IsNan(x), x, direction)


# --- two operands ---

#: Overload -> operator, and whether half precision takes a number unrounded.
_BINARY: dict[str, tuple[AscendOp[Value], WideScalar]] = {
    "mul.Tensor": (Mul, "second"),
    "mul.Scalar": (Mul, "second"),
    "div.Tensor": (RealDiv, "second"),
    "div.Scalar": (RealDiv, "second"),
    "floor_divide.default": (FloorDiv, "second"),
    "floor_divide.Scalar": (FloorDiv, "second"),
    "remainder.Tensor": (FloorMod, "never"),
    "remainder.Scalar": (FloorMod, "never"),
    "remainder.Scalar_Tensor": (FloorMod, "never"),
    "fmod.Tensor": (Mod, "never"),
    "fmod.Scalar": (Mod, "never"),
    "maximum.default": (Maximum, "never"),
    "minimum.default": (Minimum, "never"),
    "atan2.default": (Atan2, "never"),
}


def _binary(op: AscendOp[Value], wide_scalar: WideScalar) -> Callable[..., Value]:
    def convert(self: Any, other: Any, *, meta_outputs: TensorSpec) -> Value:
        """aten::f(Tensor self, Tensor other) -> Tensor"""
        return pointwise(op, self, other, meta_outputs=meta_outputs, wide_scalar=wide_scalar)

    return convert


for _name, (_op, _wide) in _BINARY.items():
    _packet, _, _overload = _name.partition(".")
    register_fx_node_ge_converter(getattr(getattr(aten, _packet), _overload, None))(_binary(_op, _wide))


@register_fx_node_ge_converter(aten.div.Tensor_mode)
@register_fx_node_ge_converter(aten.div.Scalar_mode)
def div_mode(self: Value, other: Any, *, rounding_mode: str | None, meta_outputs: TensorSpec) -> Value:
    """aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    op = {None: RealDiv, "trunc": TruncateDiv, "floor": FloorDiv}[rounding_mode]
    return pointwise(op, self, other, meta_outputs=meta_outputs, wide_scalar="second")


def _operand_dtypes(node: fx.Node) -> list[torch.dtype | type]:
    """Of the two operands of a call: dtypes of tensors, Python types of numbers."""
    values = [operand.meta["val"] if isinstance(operand, fx.Node) else operand for operand in node.args[:2]]
    return [value.dtype if isinstance(value, torch.Tensor) else type(value) for value in values]


def _is_bool(dtype: torch.dtype | type) -> bool:
    return dtype in (torch.bool, bool, torch.SymBool)


def _scalable(node: fx.Node) -> Rejection | None:
    if isinstance(argument(node, "alpha"), bool) and node.meta["val"].dtype is not torch.bool:
        return Rejection("eager takes a bool alpha for bool results only")
    return None


def _subtractable(node: fx.Node) -> Rejection | None:
    if any(map(_is_bool, _operand_dtypes(node))):
        return Rejection("eager subtracts no bools", fix="Use ^ or torch.logical_xor.")
    return _scalable(node)


@register_fx_node_ge_converter(aten.add.Tensor, supports=_scalable)
def add(self: Any, other: Any, *, alpha: Any = 1, meta_outputs: TensorSpec) -> Value:
    """aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _axpy(Add, self, other, alpha, 1, meta_outputs)


@register_fx_node_ge_converter(aten.add.Scalar, supports=_scalable)
def add_scalar(self: Value, other: Any, alpha: Any = 1, *, meta_outputs: TensorSpec) -> Value:
    """aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return _axpy(Add, self, other, alpha, 1, meta_outputs)


@register_fx_node_ge_converter(aten.sub.Tensor, supports=_subtractable)
def sub(self: Any, other: Any, *, alpha: Any = 1, meta_outputs: TensorSpec) -> Value:
    """aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _axpy(Sub, self, other, alpha, -1, meta_outputs)


@register_fx_node_ge_converter(aten.sub.Scalar, supports=_subtractable)
def sub_scalar(self: Value, other: Any, alpha: Any = 1, *, meta_outputs: TensorSpec) -> Value:
    """aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return _axpy(Sub, self, other, alpha, -1, meta_outputs)


@register_fx_node_ge_converter(aten.rsub.Tensor, supports=_subtractable)
def rsub(self: Any, other: Any, *, alpha: Any = 1, meta_outputs: TensorSpec) -> Value:
    """aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"""
    return _axpy(Sub, other, self, alpha, -1, meta_outputs)


@register_fx_node_ge_converter(aten.rsub.Scalar, supports=_subtractable)
def rsub_scalar(self: Value, other: Any, alpha: Any = 1, *, meta_outputs: TensorSpec) -> Value:
    """aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"""
    return _axpy(Sub, other, self, alpha, -1, meta_outputs)


def _axpy(op: AscendOp[Value], x1: Any, x2: Any, alpha: Any, sign: int, meta_outputs: TensorSpec) -> Value:
    """``x1 + sign * alpha * x2``, which is ``op(x1, x2)`` when ``alpha`` is 1.

    For floats with ``alpha`` as an attribute, so that the result is rounded once, as eager's is.
    """
    if not isinstance(alpha, Value) and alpha == 1:
        return pointwise(op, x1, x2, meta_outputs=meta_outputs, wide_scalar="accelerator")
    common = compute_dtype((x1, x2), meta_outputs.dtype, "accelerator")
    a, b = promote(x1, common), promote(x2, common)
    if common.is_floating_point and not isinstance(alpha, Value | complex):
        y = Axpy(a, b, alpha=float(sign * alpha))
    else:
        scale = promote(alpha if sign > 0 or isinstance(alpha, Value) else -alpha, common)
        y = AxpyV2(a, b, Neg(scale) if sign < 0 and isinstance(alpha, Value) else scale)
    return cast(y, meta_outputs.dtype)


# --- powers ---


def _not_both_bool(node: fx.Node) -> Rejection | None:
    return Rejection("eager has no powers of bools by bools") if all(map(_is_bool, _operand_dtypes(node))) else None


def _possible_power(node: fx.Node) -> Rejection | None:
    """``supports=``: eager's kernel accepts the exponent."""
    exponent = argument(node, "exponent")
    dtype = node.meta["val"].dtype
    if isinstance(exponent, fx.Node | torch.SymInt | torch.SymFloat):
        if dtype in (torch.float32, torch.float64, torch.bfloat16):
            return None
        return Rejection(f"whether eager takes the exponent for {dtype} is known only when it is known")
    if isinstance(exponent, bool) and argument(node, "self").meta["val"].dtype is torch.bool:
        return Rejection("eager gives bools here, where its meta function promises integers")
    if exponent in (0, 1):
        return None
    if not dtype.is_floating_point and not dtype.is_complex and exponent < 0:
        return Rejection("eager takes no integers to negative powers", fix="Convert the tensor to a float dtype.")
    if not _takes_exponent(dtype, exponent):
        return Rejection(f"eager takes no exponent that {dtype} cannot hold")
    return None


def _takes_exponent(dtype: torch.dtype, exponent: Any) -> bool:
    if dtype.is_complex or dtype in (torch.float32, torch.float64) or not math.isfinite(exponent):
        return True
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return bool(limits.min <= exponent <= limits.max)


@register_fx_node_ge_converter(aten.pow.Tensor_Tensor, supports=_not_both_bool)
@register_fx_node_ge_converter(aten.pow.Scalar, supports=_not_both_bool)
def pow(self: Any, exponent: Any, *, meta_outputs: TensorSpec) -> Value:
    """aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    if not isinstance(self, Value) and self == 1:
        return Fill(list(exponent.shape), promote(1, meta_outputs.dtype))  # 1 also where the exponent is NaN
    return pointwise(Pow, self, exponent, meta_outputs=meta_outputs)


@register_fx_node_ge_converter(aten.pow.Tensor_Scalar, supports=_possible_power)
def pow_scalar(self: Value, exponent: Any, *, meta_outputs: TensorSpec) -> Value:
    """aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor

    Eager computes squares, cubes, roots and their reciprocals by multiplication and roots, which rounds differently.
    """
    x = cast(self, meta_outputs.dtype)
    simple = None if isinstance(exponent, Value) else _simple_power(x, exponent)
    return pointwise(Pow, x, exponent, meta_outputs=meta_outputs) if simple is None else simple


def _simple_power(x: Value, exponent: Any) -> Value | None:
    """``x ** exponent`` for the exponents that eager's kernel treats by themselves; None for the others."""
    result: Value | None = None
    if exponent == 0:
        result = Fill(list(x.shape), promote(1, x.dtype))  # 1 also where x is NaN
    elif exponent == 1:
        result = TensorMove(x)
    elif exponent == 2:
        result = Mul(x, x)
    elif exponent in _ROOTS and (x.dtype.is_complex or x.dtype.is_floating_point) and x.dtype is not DType.DT_FLOAT16:
        result = _ROOTS[exponent](x)
    elif exponent in (3, -2):
        wide = cast(x, DType.DT_FLOAT) if x.dtype is DType.DT_FLOAT16 else x
        square = Mul(wide, wide)
        result = cast(Mul(square, wide) if exponent == 3 else Reciprocal(square), x.dtype)
    return result


_ROOTS: dict[float, AscendOp[Value]] = {0.5: Sqrt, -0.5: Rsqrt, -1: Reciprocal}

# --- bounds ---


@register_fx_node_ge_converter(aten.clamp.default)
@register_fx_node_ge_converter(aten.hardtanh.default)
def clamp(self: Value, min: Any = None, max: Any = None, *, meta_outputs: TensorSpec) -> Value:
    """aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    return _clamp(self, min, max, meta_outputs.dtype)


def _clamp(x: Value, low: Any, high: Any, dtype: DType) -> Value:
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        return Fill(list(x.shape), promote(math.nan, dtype))
    limits = (torch.finfo if dtype.is_floating_point else torch.iinfo)(torch_dtype(dtype))
    unbounded = (-torch.inf, torch.inf) if dtype.is_floating_point else (limits.min, limits.max)
    bounds = [promote(given, dtype, checked=True) if given is not None else promote(free, dtype)
              for given, free in zip((low, high), unbounded, strict=True)]  # fmt: skip
    return ClipByValueV2(cast(x, dtype), *bounds)


@register_fx_node_ge_converter(aten.clamp.Tensor)
def clamp_tensor(self: Value, min: Value | None = None, max: Value | None = None, *, meta_outputs: TensorSpec) -> Value:
    """aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    if min is None:
        return pointwise(Minimum, self, max, meta_outputs=meta_outputs)
    if max is None:
        return pointwise(Maximum, self, min, meta_outputs=meta_outputs)
    return pointwise(ClipByValueV2, self, min, max, meta_outputs=meta_outputs)


# --- functions of two operands ---


@register_fx_node_ge_converter(aten.xlogy.Tensor, supports=_real)
@register_fx_node_ge_converter(aten.xlogy.Scalar_Other, supports=_real)
@register_fx_node_ge_converter(aten.xlogy.Scalar_Self, supports=_real)
def xlogy(self: Any, other: Any, *, meta_outputs: TensorSpec) -> Value:
    """aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor"""
    return pointwise(Xlogy, self, other, meta_outputs=meta_outputs)


def _of_equal_reals(node: fx.Node) -> Rejection | None:
    if len(set(_operand_dtypes(node))) > 1:
        return Rejection("eager takes operands of one dtype only")
    return _of_reals(node)


@register_fx_node_ge_converter(aten.heaviside.default, supports=_of_equal_reals)
def heaviside(self: Value, values: Value) -> Value:
    """aten::heaviside(Tensor self, Tensor values) -> Tensor"""
    zero = promote(0, self.dtype)
    return SelectV2(Equal(self, zero), values, cast(Greater(self, zero), self.dtype))


def _float_result(node: fx.Node) -> Rejection | None:
    dtype = node.meta["val"].dtype
    return None if dtype.is_floating_point else Rejection(f"there is no Ascend IR form for {dtype}")


def _log_of_sum(base: float, factor: float) -> Callable[..., Value]:
    def convert(self: Value, other: Value, *, meta_outputs: TensorSpec) -> Value:
        """aten::logaddexp(Tensor self, Tensor other) -> Tensor"""
        common = DType.DT_FLOAT if meta_outputs.dtype in HALF else meta_outputs.dtype
        a, b = promote(self, common), promote(other, common)
        tail = Log1p(Exp(Neg(Abs(Sub(a, b))), base=base))
        y = Add(Maximum(a, b), tail if factor == 1 else Mul(tail, promote(factor, common)))
        # The difference of equal infinities is NaN.
        return cast(SelectV2(LogicalAnd(IsInf(a), Equal(a, b)), a, y), meta_outputs.dtype)

    return convert


register_fx_node_ge_converter(aten.logaddexp.default, supports=_float_result)(_log_of_sum(-1.0, 1.0))
register_fx_node_ge_converter(aten.logaddexp2.default, supports=_float_result)(_log_of_sum(2.0, 1 / math.log(2.0)))


# --- three operands ---


@register_fx_node_ge_converter(aten.addcmul.default)
def addcmul(self: Value, tensor1: Value, tensor2: Value, *, value: Any = 1, meta_outputs: TensorSpec) -> Value:
    """aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return _with_number(Addcmul, (self, tensor1, tensor2), value, meta_outputs)


@register_fx_node_ge_converter(aten.addcdiv.default)
def addcdiv(self: Value, tensor1: Value, tensor2: Value, *, value: Any = 1, meta_outputs: TensorSpec) -> Value:
    """aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"""
    return _with_number(Addcdiv, (self, tensor1, tensor2), value, meta_outputs)


@register_fx_node_ge_converter(aten.lerp.Tensor)
def lerp(self: Value, end: Value, weight: Value, *, meta_outputs: TensorSpec) -> Value:
    """aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor"""
    return pointwise(Lerp, self, end, weight, meta_outputs=meta_outputs)


@register_fx_node_ge_converter(aten.lerp.Scalar)
def lerp_scalar(self: Value, end: Value, weight: Any, *, meta_outputs: TensorSpec) -> Value:
    """aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor"""
    return _with_number(Lerp, (self, end), weight, meta_outputs)


def _with_number(op: AscendOp[Value], tensors: tuple[Value, ...], number: Any, meta_outputs: TensorSpec) -> Value:
    """An operator whose last operand is a number, which eager uses unrounded, rounding once at the end."""
    exact = not isinstance(number, Value) and number == 1
    common = DType.DT_FLOAT if meta_outputs.dtype in HALF and not exact else meta_outputs.dtype
    return cast(op(*(promote(t, common) for t in (*tensors, number))), meta_outputs.dtype)
