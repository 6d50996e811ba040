"""Values of symbolic sizes: evaluate an expression of Dynamo's symbols with numbers, or with torch's symbolic numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from torchair.errors import ShapeError
from torchair.ir.types import Dim

__all__ = ["evaluate", "evaluate_all"]


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
    missing = sorted(s.name for s in dim.free_symbols if s.name not in bindings)  # type: ignore[attr-defined]
    if missing:
        raise _unbound(dim, missing)
    env = {s: bindings[s.name] for s in dim.free_symbols}  # type: ignore[attr-defined]
    return sympy_interp(PythonReferenceAnalysis, env, dim)  # type: ignore[arg-type]


def evaluate_all(dims: Sequence[Dim], bindings: Mapping[str, Any]) -> list[Any]:
    """:func:`evaluate` for each."""
    return [evaluate(d, bindings) for d in dims]


def _unbound(dim: Dim, missing: Sequence[str]) -> ShapeError:
    return ShapeError(
        "A symbolic size has no value",
        why=f"{dim} needs {', '.join(missing)}, which no input of the graph gives",
        fix="This is a defect of TorchAir if the graph came from torch.compile; please report it with the graph's text form.",
    )
