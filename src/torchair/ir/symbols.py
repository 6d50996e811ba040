"""Values of symbolic sizes: evaluates expressions of Dynamo's symbols with numbers, or torch's symbolic numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from torchair.errors import ShapeError
from torchair.ir.types import Dim

__all__ = ["evaluate", "evaluate_all"]


def _function(name: str) -> Callable[[Any], Any]:
    """A function of ``math`` that takes torch's symbolic numbers, too."""

    def apply(x: Any) -> Any:
        symbolic = getattr(x, f"__sym_{name}__", None)
        return getattr(math, name)(x) if symbolic is None else symbolic()

    return apply


class _Arithmetic(PythonReferenceAnalysis):
    """Functions of sizes on Python's numbers and torch's symbolic ones; torch's class leaves these as expressions."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        return a / b

    @staticmethod
    def trunc_to_int(x: Any, dtype: Any) -> Any:
        return math.trunc(x)

    # float() of a symbolic number would guard on its value.
    @staticmethod
    def trunc(x: Any) -> Any:
        return math.trunc(x) * 1.0

    @staticmethod
    def floor(x: Any) -> Any:
        return math.floor(x) * 1.0

    @staticmethod
    def ceil(x: Any) -> Any:
        return math.ceil(x) * 1.0

    @staticmethod
    def bitwise_and(a: Any, b: Any) -> Any:
        return a & b

    @staticmethod
    def bitwise_or(a: Any, b: Any) -> Any:
        return a | b

    @staticmethod
    def bitwise_xor(a: Any, b: Any) -> Any:
        return a ^ b

    cos, sin, tan, acos, asin, atan, cosh, sinh, tanh = (
        staticmethod(_function(name)) for name in ("cos", "sin", "tan", "acos", "asin", "atan", "cosh", "sinh", "tanh")
    )


def evaluate(dim: Dim, bindings: Mapping[str, Any]) -> Any:
    """The value of a size.

    Args:
        dim: Number or expression.
        bindings: Symbol name -> Python number, or ``SymInt``/``SymFloat`` (then the result is symbolic too).

    Raises:
        ShapeError: A symbol of the expression has no value.
    """
    if not isinstance(dim, sympy.Basic):
        return dim
    if isinstance(dim, sympy.Symbol):
        if dim.name in bindings:
            return bindings[dim.name]
        raise _unbound(dim, [dim.name])
    missing = sorted(s.name for s in dim.free_symbols if s.name not in bindings)
    if missing:
        raise _unbound(dim, missing)
    env = {s: bindings[s.name] for s in dim.free_symbols}
    return sympy_interp(_Arithmetic, env, dim)


def evaluate_all(dims: Sequence[Dim], bindings: Mapping[str, Any]) -> list[Any]:
    """:func:`evaluate` for each."""
    return [evaluate(d, bindings) for d in dims]


def _unbound(dim: Dim, missing: Sequence[str]) -> ShapeError:
    return ShapeError(
        "A symbolic size has no value",
        why=f"{dim} needs {', '.join(missing)}, which no input of the graph gives",
        fix="If the graph came from torch.compile, this is a defect of TorchAir; please report it with the graph.",
    )
