"""Symbolic numbers."""

from __future__ import annotations

from typing import Any

import torch

__all__ = [
    "create_size_symbol",
    "floor_div",
    "guard_holds",
    "is_unbacked",
    "known_int",
    "known_true",
    "modular_indexing",
    "new_guards",
    "settled_number",
    "size_at",
    "size_function",
    "size_hint",
    "size_symbol",
    "symbolic_number",
    "sympy_number",
    "traced_data_dependence",
]


def symbolic_number(fake_mode: Any, expr: Any, pytype: type = int) -> Any:
    """A ``SymInt``/``SymFloat``/``SymBool`` for an expression over the symbols of the mode's shape environment."""
    env = fake_mode.shape_env
    if pytype is bool:
        return env.create_symboolnode(expr)
    if pytype is float:
        return env.create_symfloatnode(expr, hint=None)
    return env.create_symintnode(expr, hint=None)


def known_true(condition: Any) -> bool:
    """Whether a condition on (symbolic) numbers holds for all their values, as far as is known; adds no guard."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def known_int(number: Any) -> int | None:
    """The value of a (symbolic) integer that is the same in every call; adds no guard."""
    if isinstance(number, torch.SymInt):
        node: Any = number.node
        value: int | None = node.maybe_as_int()
        return value
    return int(number)


def size_hint(number: Any) -> int | None:
    """The value of a (symbolic) integer in the call that is being compiled for; adds no guard."""
    if isinstance(number, torch.SymInt):
        node: Any = number.node
        return int(node.hint) if node.has_hint() else None
    return int(number)


def create_size_symbol(fake_mode: Any, name: str, hint: int) -> Any:
    """A new symbolic size (2 or more) of a fake mode, for graphs that do not come from Dynamo."""
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    env, source = fake_mode.shape_env, ConstantSource(f"torchair_{name}")
    symbol = env.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    return env.create_symintnode(symbol, hint=hint, source=source)


def settled_number(number: Any) -> Any:
    """A symbolic number by the symbols that stand for it now.

    One may have been found equal to another since it was made; Inductor would name an input by the first, and read it
    by the other.
    """
    if not isinstance(number, torch.SymInt) or number.node.expr == number.node._expr:
        return number
    node: Any = number.node
    return node.shape_env.create_symintnode(node.expr, hint=size_hint(number))


def size_symbol(size: Any) -> Any:
    """The symbol of a size that :func:`create_size_symbol` made, which nothing replaces by what was found out of it."""
    return size.node._expr


def size_at(size: Any, values: Any) -> int | None:
    """A (symbolic) size where symbols have values; None if it depends on others.

    Args:
        values: Integers by symbol.
    """
    if not isinstance(size, torch.SymInt):
        return int(size)
    node: Any = size.node
    expr = node._expr.xreplace({symbol: sympy_number(value) for symbol, value in values.items()})
    return int(expr) if expr.is_number else None


def guard_holds(guard: Any, values: Any) -> bool | None:
    """Whether a condition on symbols holds where they have values; None if it depends on others."""
    found = guard.xreplace({symbol: sympy_number(value) for symbol, value in values.items()})
    return bool(found) if not getattr(found, "free_symbols", None) else None


def new_guards(fake_mode: Any) -> list[Any]:
    """What the shape environment assumed about its symbols while something was traced or compiled: sympy conditions."""
    return [guard.expr for guard in fake_mode.shape_env.guards]


def traced_data_dependence(error: BaseException) -> bool:
    """True when tracing failed because a size or a branch depends on the elements of a tensor."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, DataDependentOutputException | DynamicOutputShapeException | GuardOnDataDependentSymNode)


def sympy_number(value: int | float | bool) -> Any:
    """A Python number as torch's symbols take it."""
    import sympy

    return sympy.sympify(value)


def is_unbacked(symbol: Any) -> bool:
    """True for a size that is known only when an operator has run."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    return bool(symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)))


def floor_div(base: Any, divisor: Any) -> Any:
    """``base // divisor`` of sizes."""
    from torch.utils._sympy.functions import FloorDiv

    return FloorDiv(base, divisor)


def modular_indexing(base: Any, divisor: Any, modulus: Any) -> Any:
    """``base // divisor % modulus`` of positions, none of which is negative."""
    from torch.utils._sympy.functions import ModularIndexing

    return ModularIndexing(base, divisor, modulus)


def size_function(expr: Any) -> str:
    """Which function of sizes an expression is: floor_div, modular, mod, max, min; empty for any other."""
    import sympy
    from torch.utils._sympy import functions

    kinds = {
        "floor_div": ("FloorDiv", "CleanDiv"),
        "modular": ("ModularIndexing",),
        "mod": ("Mod", "PythonMod"),
        "max": ("Max",),
        "min": ("Min",),
    }
    if isinstance(expr, sympy.Mod):
        return "mod"
    for kind, names in kinds.items():
        classes = tuple(getattr(functions, n) for n in names if hasattr(functions, n))
        if isinstance(expr, classes) or (
            kind in ("max", "min") and isinstance(expr, getattr(sympy, kind.capitalize()))
        ):
            return kind
    return ""
