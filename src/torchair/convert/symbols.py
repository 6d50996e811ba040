"""Which symbols of FX an IR graph knows: those of its inputs, and those that a node makes known when it has run."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from torchair.ir import Dim, Graph, TensorType

__all__ = ["KnownSymbols"]


class KnownSymbols:
    """The symbols that have a value at this point of a conversion."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names: set[str] | None = None

    def bind(self, types: Sequence[TensorType], first: int = 0) -> list[tuple[str, int, int | None]]:
        """``Node.binds`` for outputs of these types: sizes and numbers that only running the node makes known.

        Args:
            types: Types of the outputs from number ``first`` on.
        """
        if self._names is None:
            self._names = {s.name for v in self._graph.inputs for s in v.type.symbols}
        binds: list[tuple[str, int, int | None]] = []
        for output, type in enumerate(types, first):
            sizes = [(size, dim) for dim, size in enumerate(type.shape)]
            number = [(_symbol_of(type.content[0]), None)] if type.content and not type.rank else []
            for size, dim in [*sizes, *number]:
                if isinstance(size, sympy.Symbol) and size.name not in self._names:
                    self._names.add(size.name)
                    binds.append((size.name, output, dim))
        return binds


def _symbol_of(number: Dim) -> Dim:
    """The symbol that a number tells: of a bool, which is ``Eq(u0, 1)``, it is ``u0``."""
    if isinstance(number, sympy.Eq) and isinstance(number.lhs, sympy.Symbol) and number.rhs == 1:
        return number.lhs
    return number
