"""Operations and positions as C++ text."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Sequence

import sympy
import torch

from torchair import _torch_compat
from torchair.native.expressions import Expr
from torchair.native.region import Unsupported

__all__ = ["C_TYPES", "VALUE_TYPES", "constant_text", "operation_text", "position_text"]

#: Types of elements in memory.
C_TYPES: dict[torch.dtype, str] = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "tair::bfloat16",
    torch.float16: "tair::float16",
    torch.int64: "int64_t",
    torch.int32: "int32_t",
    torch.int16: "int16_t",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.bool: "bool",
}

#: Types of values in functions.
VALUE_TYPES = {
    **C_TYPES,
    torch.bfloat16: "tair::bfloat16_bits",
    torch.float16: "tair::float16_bits",
}

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC = {"add": ("+", "tair::add"), "sub": ("-", "tair::subtract"), "mul": ("*", "tair::multiply")}
_LOGICAL = {"logical_and": "&", "logical_or": "|", "logical_xor": "!="}  # without branches, so that loops vectorize
_BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_NAMES = {
    "max": "tair::maximum",
    "min": "tair::minimum",
    "neg": "tair::negate",
    "round": "tair::round_half_even",
}


def operation_text(expr: Expr, args: Sequence[str]) -> str:
    """An operation on operands that are names or constants."""
    name, dtype = expr.op, expr.dtype
    operand = expr.args[0].dtype
    if name == "cast":
        return f"tair::cast<{VALUE_TYPES[dtype]}>({args[0]})"
    if name == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if name in _COMPARISONS:
        return f"{args[0]} {_COMPARISONS[name]} {args[1]}"
    if name in _ARITHMETIC:
        sign, function = _ARITHMETIC[name]
        return f"{args[0]} {sign} {args[1]}" if operand.is_floating_point else f"{function}({args[0]}, {args[1]})"
    if name in _LOGICAL:
        return f"{args[0]} {_LOGICAL[name]} {args[1]}"
    if name in _BITWISE:
        text = f"{args[0]} {_BITWISE[name]} {args[1]}"
        return text if dtype is torch.bool else f"static_cast<{C_TYPES[dtype]}>({text})"
    if name == "logical_not":
        return f"!{args[0]}"
    if name == "bitwise_not":
        return f"!{args[0]}" if dtype is torch.bool else f"static_cast<{C_TYPES[dtype]}>(~{args[0]})"
    if name == "div":
        return f"{args[0]} / {args[1]}"
    if name == "div_trunc":
        return f"tair::trunc({args[0]} / {args[1]})"
    if name == "reciprocal":
        return f"{constant_text(1.0, dtype)} / {args[0]}"
    if name == "rsqrt":
        return f"{constant_text(1.0, dtype)} / tair::sqrt({args[0]})"
    if name in ("isnan", "isinf") and not operand.is_floating_point:
        return "false"
    if name == "abs" and not operand.is_signed:
        return args[0]
    if name == "signbit" and not operand.is_floating_point:
        return f"{args[0]} < 0" if operand.is_signed else "false"
    return f"{_NAMES.get(name, 'tair::' + name)}({', '.join(args)})"


def constant_text(value: bool | int | float, dtype: torch.dtype) -> str:
    """A number of a dtype."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if dtype in (torch.bfloat16, torch.float16):
        return f"tair::cast<{VALUE_TYPES[dtype]}>({constant_text(value, torch.float32)})"
    if not dtype.is_floating_point:
        if value == -(2**63):
            return "(-INT64_C(9223372036854775807) - 1)"
        return f"INT64_C({value})" if dtype is torch.int64 else f"static_cast<{C_TYPES[dtype]}>({value})"
    suffix = "f" if dtype is torch.float32 else ""
    number = float(value)
    if math.isnan(number):
        return f'__builtin_nan{suffix}("")'
    if dtype is torch.float32:
        number = _as_float32(number)
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    return f"{number!r}{suffix}" if number >= 0 and math.copysign(1, number) > 0 else f"({number!r}{suffix})"


def _as_float32(number: float) -> float:
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def position_text(position: sympy.Expr, name_of: Callable[[sympy.Symbol], str]) -> str:
    """A position as int64 arithmetic.

    Args:
        name_of: The C++ name of a symbol.

    Raises:
        Unsupported: It has a function that is not known here.
    """
    text, symbols = _position_form(position)
    return text.format(*map(name_of, symbols))


@functools.lru_cache(maxsize=1 << 14)
def _position_form(position: sympy.Expr) -> tuple[str, tuple[sympy.Symbol, ...]]:
    """The text with ``{0}``, ``{1}``, ... for its symbols, and these: layers that are alike have the same positions."""
    symbols: dict[sympy.Symbol, int] = {}

    def visit(e: sympy.Expr) -> str:
        if e.is_Integer:
            return str(int(e)) if abs(int(e)) < 2**31 else f"INT64_C({int(e)})"
        if e.is_Symbol:
            return f"{{{symbols.setdefault(e, len(symbols))}}}"
        if e.is_Add:
            # As people write it: variables in order, the constant last.
            terms = sorted(e.args, key=lambda t: (t.is_Integer, str(t)))
            text = visit(terms[0])
            for term in terms[1:]:
                negative = term.is_Integer and term < 0
                text += f" - {-int(term)}" if negative else f" + {visit(term)}"
            return f"({text})"
        if e.is_Mul:
            factors = sorted(e.args, key=lambda t: (t.is_Integer, str(t)))
            return " * ".join(visit(f) for f in factors) if len(factors) > 1 else visit(factors[0])
        if e.is_Pow and e.exp.is_Integer and e.exp > 0:
            return " * ".join([visit(e.base)] * int(e.exp))
        kind = _torch_compat.size_function(e)
        if kind == "floor_div":
            return rounded_down("/", "tair::integer_div_floor", *e.args)
        if kind == "modular":  # of a position, which is not negative where it is read
            base, divisor, modulus = e.args
            inner = visit(base) if divisor == 1 else f"({visit(base)} / {atom(divisor)})"
            return f"({inner} % {atom(modulus)})"
        if kind == "mod":
            return rounded_down("%", "tair::integer_remainder", *e.args)
        if kind in ("max", "min"):
            first, *rest = e.args
            text = visit(first)
            for other in rest:
                text = f"tair::{kind}imum<int64_t>({text}, {visit(other)})"
            return text
        raise Unsupported(f"a size is {e}")

    def rounded_down(sign: str, function: str, base: sympy.Expr, divisor: sympy.Expr) -> str:
        # Python rounds down, C++ to 0. Sizes have negative parts: what is missing to a multiple of 3 is -s0 % 3.
        if base.is_nonnegative and divisor.is_nonnegative:
            return f"({visit(base)} {sign} {atom(divisor)})"
        return f"{function}<int64_t>({visit(base)}, {visit(divisor)})"

    def atom(e: sympy.Expr) -> str:
        return f"({visit(e)})" if e.is_Mul or e.is_Pow else visit(e)

    text = visit(position)
    return text, tuple(symbols)
