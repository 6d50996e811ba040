"""Scalar expressions of loop bodies: what one element of a tensor is, as a function of loop variables.

Expressions are made by a :class:`Builder`, which returns the same object for the same expression, so that sharing is
identity and a graph of them stays as small as the operators it came from. Positions in memory are sympy expressions
over loop variables, sizes, and *indirect* symbols that stand for values which were loaded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

__all__ = ["Buffer", "Builder", "Expr", "loop_variable"]

#: Dtype -> wider ones that have all of its numbers.
_EXACT: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
    torch.bool: (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64),
    torch.uint8: (torch.int16, torch.int32, torch.int64, torch.float32, torch.float64),
    torch.int8: (torch.int16, torch.int32, torch.int64, torch.float32, torch.float64),
    torch.int16: (torch.int32, torch.int64, torch.float32, torch.float64),
    torch.int32: (torch.int64, torch.float64),
}

#: What an operation costs, in units of an addition; those that are not here cost 1.
_COSTS = {
    **dict.fromkeys(("div", "sqrt", "rsqrt", "fmod", "remainder", "reciprocal"), 4),
    **dict.fromkeys(("load", "const", "index", "cast", "variable"), 0),
}
_EXPENSIVE = 16


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory that kernels read or write.

    Attributes:
        name: For comments in the code.
        dtype: Of its elements.
        shape: Sizes, as sympy expressions.
        strides: In elements, as sympy expressions.
        role: ``"input"``, ``"output"``, ``"workspace"``, or ``"errors"``.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[sympy.Expr, ...]
    strides: tuple[sympy.Expr, ...]
    role: str = "workspace"

    def offset(self, index: Sequence[sympy.Expr]) -> sympy.Expr:
        """Where an element lies, in elements from the first."""
        terms = [i * s for i, s in zip(index, self.strides, strict=True)]
        return sympy.Add(*terms) if terms else sympy.S.Zero

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One scalar value; made by :class:`Builder` only.

    Attributes:
        op: ``"load"``, ``"const"``, ``"index"`` (a position as a number), ``"cast"``, ``"variable"``, or the name of an
            operation.
        args: Operands.
        dtype: Of the value; bfloat16 and float16 only in loads and casts, arithmetic is in float32.
        buffer, offset: Of a load.
        value: Of a constant; the sympy expression of an index; the name of a variable; of a checked index, the operator
            that takes it.
        mask: A load happens only where this is true; elsewhere it is 0.
        variables: Loop variables it depends on.
        loads: The loads in it, itself included.
        cost: Of computing it, in additions.
    """

    op: str
    args: tuple[Expr, ...]
    dtype: torch.dtype
    buffer: Buffer | None
    offset: sympy.Expr | None
    value: Any
    mask: Expr | None
    variables: frozenset[sympy.Symbol]
    loads: frozenset[Expr]
    cost: int

    @property
    def is_cheap(self) -> bool:
        """Computing it again costs no more than reading it from memory."""
        return self.cost <= 2


def loop_variable(number: int) -> sympy.Symbol:
    """A loop variable: counts from 0."""
    return sympy.Symbol(f"i{number}", integer=True, nonnegative=True)


class Builder:
    """Makes expressions.

    Attributes:
        indirect: The expressions that indirect symbols stand for.
    """

    def __init__(self) -> None:
        self._table: dict[Any, Expr] = {}
        self._names = itertools.count()
        self._symbols: dict[Expr, sympy.Symbol] = {}
        self.indirect: dict[sympy.Symbol, Expr] = {}

    # --- kinds ---

    def load(self, buffer: Buffer, offset: sympy.Expr, mask: Expr | None = None) -> Expr:
        """An element of a buffer."""
        return self._make("load", (), buffer.dtype, buffer=buffer, offset=offset, mask=mask)

    def constant(self, value: bool | int | float, dtype: torch.dtype) -> Expr:
        """A number."""
        if dtype is torch.bool:
            value = bool(value)
        elif dtype.is_floating_point:
            value = float(value)
        else:
            value = int(value)  # Python's True is a number, too
        return self._make("const", (), dtype, value=value)

    def index(self, position: sympy.Expr) -> Expr:
        """A position as an int64."""
        return self._make("index", (), torch.int64, value=sympy.sympify(position))

    def variable(self, name: str, dtype: torch.dtype, variables: frozenset[sympy.Symbol]) -> Expr:
        """The result of a reduction, which is a variable of the code."""
        return self._make("variable", (), dtype, value=name, variables=variables)

    def op(self, name: str, *args: Expr, dtype: torch.dtype) -> Expr:
        """An operation."""
        return self._make(name, args, dtype)

    def checked(self, *args: Expr, wraps: bool, label: str) -> Expr:
        """An index that is reported where it is out of range, and is 0 there.

        Args:
            args: The index, the size, and optionally where it is read at all.
            wraps: Negative ones count from the end.
            label: The operator that takes it.
        """
        return self._make("checked_wrapped" if wraps else "checked", args, torch.int64, value=label)

    def cast(self, value: Expr, dtype: torch.dtype) -> Expr:
        """A conversion, as ``Tensor.to`` does it; none where one there and back changes nothing."""
        if value.op == "cast" and value.args[0].dtype is dtype and value.dtype in _EXACT.get(dtype, ()):
            value = value.args[0]
        return value if value.dtype is dtype else self._make("cast", (value,), dtype)

    def symbol(self, value: Expr) -> sympy.Symbol:
        """A symbol for positions that stands for an integer value."""
        if value not in self._symbols:
            symbol = sympy.Symbol(f"t{len(self._symbols)}", integer=True, nonnegative=True)
            self._symbols[value] = symbol
            self.indirect[symbol] = value
        return self._symbols[value]

    def both(self, a: Expr | None, b: Expr | None) -> Expr | None:
        """The conjunction of two masks."""
        if a is None or b is None:
            return a or b
        return a if a is b else self.op("logical_and", a, b, dtype=torch.bool)

    # --- making ---

    def _make(self, op: str, args: tuple[Expr, ...], dtype: torch.dtype, **fields: Any) -> Expr:
        buffer, offset, value, mask = (fields.get(f) for f in ("buffer", "offset", "value", "mask"))
        # repr tells -0.0 from 0.0, NaN from nothing, and 1 from True and 1.0.
        key = (op, args, dtype, buffer, offset, repr(value) if op == "const" else value, mask)
        found = self._table.get(key)
        if found is None:
            found = self._table[key] = self._new(op, args, dtype, buffer, offset, value, mask, fields)
        return found

    def _new(
        self,
        op: str,
        args: tuple[Expr, ...],
        dtype: torch.dtype,
        buffer: Buffer | None,
        offset: sympy.Expr | None,
        value: Any,
        mask: Expr | None,
        fields: Mapping[str, Any],
    ) -> Expr:
        position = offset if op == "load" else value if op == "index" else None
        symbols = position.free_symbols if position is not None else set()
        parts = [*args, *(self.indirect[s] for s in symbols if s in self.indirect), *([mask] if mask else [])]
        variables = frozenset(s for s in symbols if s.name[0] in "ir" and s.name[1:].isdigit())
        variables = variables.union(fields.get("variables", ()), *(p.variables for p in parts))
        loads = frozenset().union(*(p.loads for p in parts))
        cost = sum(p.cost for p in parts) + _COSTS.get(op, _EXPENSIVE if op in EXPENSIVE else 1)
        expr = Expr(op, args, dtype, buffer, offset, value, mask, variables, loads, cost)
        if op == "load":
            object.__setattr__(expr, "loads", loads | {expr})
        return expr

    # --- rewriting ---

    def rewrite(
        self,
        expr: Expr,
        positions: Mapping[sympy.Symbol, sympy.Expr],
        replace: Callable[[Expr], Expr | None] = lambda load: None,
        memo: dict[Expr, Expr] | None = None,
    ) -> Expr:
        """The expression with other loop variables in positions, and other expressions for some of its loads.

        Args:
            positions: What stands for a loop variable.
            replace: Called with each load, as it is before; what it returns is taken as it is.
            memo: Results so far; one for all calls with the same arguments.
        """
        done: dict[Expr, Expr] = {} if memo is None else memo

        def position(old: sympy.Expr) -> sympy.Expr:
            return self._rewrite_position(old, positions, visit)

        def visit(old: Expr) -> Expr:
            if old in done:
                return done[old]
            new: Expr | None = None
            if old.op == "load":
                new = replace(old)
            if new is None:
                if old.op == "load":
                    assert old.buffer is not None
                    assert old.offset is not None
                    new = self.load(old.buffer, position(old.offset), visit(old.mask) if old.mask else None)
                elif old.op == "index":
                    new = self.index(position(old.value))
                elif old.args:
                    new = self._make(old.op, tuple(visit(a) for a in old.args), old.dtype, value=old.value)
                else:
                    new = old
            done[old] = new
            return new

        return visit(expr)

    def rewrite_position(
        self, position: sympy.Expr, positions: Mapping[sympy.Symbol, sympy.Expr], memo: dict[Expr, Expr] | None = None
    ) -> sympy.Expr:
        """A position with other loop variables, also in the values that its indirect symbols stand for."""
        return self._rewrite_position(position, positions, lambda e: self.rewrite(e, positions, memo=memo))

    def _rewrite_position(
        self, old: sympy.Expr, positions: Mapping[sympy.Symbol, sympy.Expr], visit: Callable[[Expr], Expr]
    ) -> sympy.Expr:
        changes: dict[Any, Any] = dict(positions)
        for symbol in old.free_symbols:
            if symbol in self.indirect:
                changes[symbol] = self.symbol(visit(self.indirect[symbol]))
        return old.xreplace({k: v for k, v in changes.items() if k in old.free_symbols})


#: Operations that cost many additions.
EXPENSIVE = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "erfc",
        "erfinv",
        "lgamma",
        "digamma",
        "pow",
        "atan2",
        "hypot",
        "sigmoid",
    ]
)
