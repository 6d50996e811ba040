"""Symbolic sizes as text, and back: the expressions of the IR's text form.

Expressions are built by name from one fixed table of torch's and sympy's classes. sympy's own parser is never used: it
evaluates its input, and it knows neither torch's ``FloorDiv`` and ``Mod`` nor the assumptions of a symbol.

An expression is written with ``+ - * / // % **`` and calls such as ``Max(s0, 1)``. Where building it that way would
simplify it to something else, ``@`` before the name keeps it as it stands: ``@Mul(2, s0 + 1)``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from torch.utils._sympy import functions as torch_functions, numbers as torch_numbers

from torchair.errors import IRError
from torchair.ir.types import Dim, as_dim

__all__ = [
    "ASSUMPTIONS",
    "CONSTANTS",
    "FUNCTIONS",
    "SymbolTable",
    "assumption_words",
    "build_call",
    "build_mod",
    "default_symbol",
    "dim_text",
    "float_text",
    "quote",
]

#: Classes of torch.utils._sympy.functions that Dynamo's sizes are made of. A few came after torch 2.6.
_TORCH_NAMES = (
    "FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "IntTrueDiv",
    "FloatTrueDiv", "LShift", "RShift", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt",
    "RoundDecimal", "ToFloat", "FloatPow", "PowByNatural", "Identity", "Max", "Min",
    "OpaqueUnaryFn_sqrt", "OpaqueUnaryFn_cos", "OpaqueUnaryFn_cosh", "OpaqueUnaryFn_sin", "OpaqueUnaryFn_sinh",
    "OpaqueUnaryFn_tan", "OpaqueUnaryFn_tanh", "OpaqueUnaryFn_asin", "OpaqueUnaryFn_acos", "OpaqueUnaryFn_atan",
    "OpaqueUnaryFn_exp", "OpaqueUnaryFn_log", "OpaqueUnaryFn_asinh", "OpaqueUnaryFn_log2",
    "BitwiseFn_bitwise_and", "BitwiseFn_bitwise_or", "BitwiseFn_bitwise_xor",
)  # fmt: skip

#: Every function that the text form knows, by name.
FUNCTIONS: Mapping[str, Any] = {
    **{name: getattr(torch_functions, name) for name in _TORCH_NAMES if hasattr(torch_functions, name)},
    "Add": sympy.Add,
    "Mul": sympy.Mul,
    "Pow": sympy.Pow,
    "Eq": sympy.Eq,
    "Ne": sympy.Ne,
    "Lt": sympy.Lt,
    "Le": sympy.Le,
    "Gt": sympy.Gt,
    "Ge": sympy.Ge,
    "And": sympy.And,
    "Or": sympy.Or,
    "Not": sympy.Not,
    "Piecewise": sympy.Piecewise,
    "Abs": sympy.Abs,
    "floor": sympy.floor,
    "ceiling": sympy.ceiling,
    "ITE": sympy.ITE,
    "Xor": sympy.Xor,
    "sympy_Mod": sympy.Mod,
    "sympy_Max": sympy.Max,
    "sympy_Min": sympy.Min,
}
_NAMES: Mapping[Any, str] = {cls: name for name, cls in FUNCTIONS.items()}

#: Named constants inside expressions.
CONSTANTS: Mapping[str, Any] = {
    "oo": sympy.oo,
    "int_oo": torch_numbers.int_oo,
    "zoo": sympy.zoo,
    "undefined_number": sympy.nan,
    "True": sympy.true,
    "False": sympy.false,
}
_CONSTANT_TEXTS: Mapping[Any, str] = {
    **{value: name for name, value in CONSTANTS.items()},
    -sympy.oo: "-oo",
    -torch_numbers.int_oo: "-int_oo",
}

#: Words that a bare symbol name may not be.
_RESERVED = frozenset({*FUNCTIONS, *CONSTANTS, "inf", "nan", "None"})

#: What a symbol is by its name when the text says nothing: Dynamo's prefixes (torch.utils._sympy.symbol).
_BY_PREFIX: tuple[tuple[re.Pattern[str], dict[str, bool]], ...] = (
    (re.compile(r"u\d+"), {"integer": True}),  # known only when the graph runs
    (re.compile(r"zf\d+"), {"real": True}),  # floats
    (re.compile(r"zuf\d+"), {}),  # floats known only when the graph runs
)
_SIZE = {"integer": True, "positive": True}
_USUAL = (
    _SIZE,
    {"integer": True},
    {"integer": True, "nonnegative": True},
    {"real": True},
    {"real": True, "positive": True},
)

#: Words of sympy for what a symbol may be.
ASSUMPTIONS = frozenset(
    [
        "algebraic",
        "antihermitian",
        "complex",
        "composite",
        "even",
        "extended_negative",
        "extended_nonnegative",
        "extended_nonpositive",
        "extended_nonzero",
        "extended_positive",
        "extended_real",
        "finite",
        "hermitian",
        "imaginary",
        "infinite",
        "integer",
        "irrational",
        "negative",
        "noninteger",
        "nonnegative",
        "nonpositive",
        "nonzero",
        "odd",
        "positive",
        "prime",
        "rational",
        "real",
        "transcendental",
        "zero",
    ]
)

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def float_text(value: float) -> str:
    """A Python float as text that reads back to the same bits (but one nan): ``1.0``, ``-0.0``, ``inf``, ``nan``."""
    return float.__repr__(value)


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """A string in double quotes, on one line."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text) + '"'


# --- symbols -----------------------------------------------------------------------------------------------------


def default_symbol(name: str) -> sympy.Symbol:
    """The symbol of that name, with the assumptions that Dynamo gives to such a name; a positive size by default."""
    for pattern, assumptions in _BY_PREFIX:
        if pattern.fullmatch(name):
            return sympy.Symbol(name, **assumptions)
    return sympy.Symbol(name, **_SIZE)


def assumption_words(symbol: sympy.Symbol) -> tuple[str, ...]:
    """The assumptions of a symbol as words: ``("integer", "positive")``, with ``!`` before what it is not."""
    for usual in _USUAL:
        if sympy.Symbol(symbol.name, **usual) == symbol:
            return tuple(usual)
    words = [word if holds else f"!{word}" for word, holds in symbol.assumptions0.items() if word != "commutative"]
    return tuple(words) or ("any",)


class SymbolTable:
    """The symbols of one text: declared ones, and the others by their name."""

    def __init__(self) -> None:
        self._symbols: dict[str, sympy.Symbol] = {}

    def declare(self, name: str, assumptions: Mapping[str, bool]) -> None:
        """Say what a symbol is.

        Raises:
            ValueError: No number can be all of that.
        """
        try:
            self._symbols[name] = sympy.Symbol(name, **assumptions)
        except sympy.core.facts.InconsistentAssumptions as e:
            raise ValueError("no number is all of that") from e

    def add(self, symbol: sympy.Symbol) -> None:
        """Take in a symbol of a graph that is being written.

        Raises:
            IRError: Another symbol has the same name and other assumptions, so text could not tell them apart.
        """
        known = self._symbols.setdefault(symbol.name, symbol)
        if known != symbol:
            raise IRError(
                "Two symbols of a graph have one name",
                why=f"{symbol.name} is {' '.join(assumption_words(known))}, and {' '.join(assumption_words(symbol))}",
                fix="Make sizes from the symbols of one ShapeEnv.",
            )

    def __getitem__(self, name: str) -> sympy.Symbol:
        if name not in self._symbols:
            self._symbols[name] = default_symbol(name)
        return self._symbols[name]

    def __contains__(self, name: str) -> bool:
        return name in self._symbols

    def __iter__(self) -> Any:
        return iter(self._symbols.values())


# --- building ----------------------------------------------------------------------------------------------------


def build_call(name: str, args: Sequence[Any], *, exact: bool) -> Any:
    """Call a function of the table; ``exact`` keeps the expression from being simplified.

    Raises:
        KeyError: The table has no such function.
        TypeError, ValueError, ArithmeticError: The function cannot be called with that.
    """
    if name == "Piecewise":
        if len(args) % 2:
            raise TypeError("Piecewise takes pairs of a number and a condition")
        args = [sympy.Tuple(*pair) for pair in zip(args[::2], args[1::2], strict=True)]
    function = FUNCTIONS[name]
    return function(*args, evaluate=False) if exact else function(*args)


def build_mod(base: Any, modulus: Any) -> Any:
    """``base % modulus`` as torch builds it: ``Mod`` where both are known not to be negative, else ``PythonMod``."""
    plain = base.is_nonnegative and modulus.is_nonnegative
    return FUNCTIONS["Mod" if plain else "PythonMod"](base, modulus)


# --- writing -----------------------------------------------------------------------------------------------------

# How strongly a text binds: a sum, a product, a sign, a power, an atom.
_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(5)


def dim_text(dim: Dim) -> str:
    """A size or host number as text."""
    dim = as_dim(dim)
    if isinstance(dim, bool | int):
        return str(dim)
    if isinstance(dim, float):
        return float_text(dim)
    return _expression(dim)[0]


@functools.lru_cache(maxsize=4096, typed=True)
def _expression(e: Any) -> tuple[str, int]:
    """The text of an expression, and how strongly it binds."""
    if isinstance(e, sympy.Symbol):
        return (e.name if _BARE.fullmatch(e.name) and e.name not in _RESERVED else quote(e.name)), _ATOM
    if isinstance(e, sympy.Integer):
        return str(int(e)), (_ATOM if e >= 0 else _SIGN)
    if isinstance(e, sympy.Float) and e == sympy.Float(float(e)):
        return float_text(float(e)), (_ATOM if e >= 0 else _SIGN)
    if isinstance(e, sympy.Rational):
        return f"{e.p}/{e.q}", _PRODUCT
    if e.is_Atom and (text := _CONSTANT_TEXTS.get(e)) is not None:
        return text, (_SIGN if text.startswith("-") else _ATOM)
    name = _NAMES.get(e.func)
    if name is None:
        # Shown by its name: a dump is better than an error. Reading it back is refused, with that name.
        return f"{e.func.__name__}({', '.join(_expression(arg)[0] for arg in e.args)})" if e.args else quote(
            str(e)
        ), _ATOM
    if e.func(*e.args) == e:
        operators = {
            "Add": _sum,
            "Mul": _product,
            "Pow": _power,
            "FloorDiv": _floor_div,
            "Mod": _mod,
            "PythonMod": _mod,
        }
        if name in operators and (written := operators[name](e)) is not None:
            return written
        return _call(name, e), _ATOM
    return "@" + _call(name, e), _ATOM


def _call(name: str, e: Any) -> str:
    # The arguments of Piecewise are pairs; they are written one after the other.
    args = [part for pair in e.args for part in pair.args] if name == "Piecewise" else e.args
    return f"{name}({', '.join(_expression(arg)[0] for arg in args)})"


def _within(e: Any, binding: int) -> str:
    """The text of an operand, in parentheses where it binds less than that."""
    text, binds = _expression(e)
    return text if binds >= binding else f"({text})"


def _sum(e: Any) -> tuple[str, int]:
    # Numbers last, as people write: s0 + 1.
    terms = sorted(e.args, key=lambda term: bool(term.is_Number))
    text = _within(terms[0], _PRODUCT)
    for term in terms[1:]:
        part = _within(term, _PRODUCT)
        text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
    return text, _SUM


def _product(e: Any) -> tuple[str, int]:
    coefficient, factors = sympy.S.One, list(e.args)
    if factors[0].is_Number:
        coefficient = factors.pop(0)
    factors.sort(key=lambda factor: factor.name if isinstance(factor, sympy.Symbol) else "~")
    parts = [_within(factor, _POWER) for factor in factors]
    if isinstance(coefficient, sympy.Rational):
        number, divisor = coefficient.p, coefficient.q
        sign = "-" if number < 0 else ""
        head = [] if abs(number) == 1 else [str(abs(number))]
        return sign + "*".join([*head, *parts]) + (f"/{divisor}" if divisor != 1 else ""), _PRODUCT
    return "*".join([_within(coefficient, _SIGN), *parts]), _PRODUCT


def _power(e: Any) -> tuple[str, int]:
    base, exponent = e.args
    return f"{_within(base, _ATOM)}**{_within(exponent, _SIGN)}", _POWER


def _floor_div(e: Any) -> tuple[str, int]:
    base, divisor = e.args
    # In parentheses inside any product, so that nobody has to know what a*b//c means.
    return f"{_within(base, _ATOM)}//{_within(divisor, _ATOM)}", _SUM


def _mod(e: Any) -> tuple[str, int] | None:
    base, modulus = e.args
    if build_mod(base, modulus) != e:
        return None
    return f"{_within(base, _ATOM)} % {_within(modulus, _ATOM)}", _SUM
