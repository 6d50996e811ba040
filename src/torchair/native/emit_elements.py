"""Element-by-element groups: one loop, over rows or tiles where the elements have several axes."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from torchair.native.emitter import Block, Emitter
from torchair.native.region import product
from torchair.native.statements import indented, plain, pragma
from torchair.native.strips import strip_loops

__all__ = ["ElementsEmitter"]

#: Rows and columns of a tile of elements that are read in another order than they are written.
_TILE_ROWS, _TILE_COLUMNS = 16, 64


class ElementsEmitter(Emitter):
    """A loop over the elements."""

    def _body(self) -> list[str]:
        group = self._group
        axes = self._collapsed(list(zip(group.variables, group.rows, strict=True)), group.members)
        top = Block()
        if not axes:
            values = [(m, self._emit(self._value(m), top)) for m in group.members]
            stores = [self._store(m, v, top) for m, v in values if self._is_stored(m)]
            return ["if (worker != 0) return;", *top.lines, *stores]
        *outer, (last, length) = axes
        rows = product([size for _, size in outer])
        # Few rows: all workers take part in each.
        by_rows = bool(outer) and not (rows.is_Integer and rows < 16 and not (length.is_Integer and length < 256))
        extent = plain(self._position(length, top))
        lines: list[str] = []
        serial = any(self._is_serial(m) for m in group.members)
        row = Block(outer=top, variables=frozenset(v for v, _ in outer))
        inner = Block(outer=row, variables=frozenset({last}))
        name = self._new_name("i")
        if outer:
            row.lines += self._loop_nest(outer, "row", top)
        self._variables[last] = name
        self._member_statements(group.members, inner)
        tiled = by_rows and not serial and self._turns(*outer[-1], last)
        bounds = ("first", "last") if tiled else ("0", extent) if by_rows else ("mine.begin", "mine.end")
        strips = None if serial else strip_loops(inner.lines, name, *bounds, pragma(inner.lines))
        loop = strips or [
            *([] if serial else [pragma(inner.lines)]),
            f"for (int64_t {name} = {bounds[0]}; {name} < {bounds[1]}; ++{name}) {{",
            *indented(inner.lines),
            "}",
        ]
        shared = plain(self._position(rows, top)) if by_rows else extent
        lines += self._unless_empty([size for _, size in axes], top)
        grain = _TILE_ROWS if tiled else 1 if by_rows else 64
        lines.append(f"const tair::Range mine = tair::share({shared}, worker, workers, {grain});")
        if tiled:
            return [*lines, *_in_tiles([*row.lines, *loop], extent)]
        if outer:
            first, end = ("mine.begin", "mine.end") if by_rows else ("0", plain(self._position(rows, top)))
            return [*lines, f"for (int64_t row = {first}; row < {end}; ++row) {{", *indented([*row.lines, *loop]), "}"]
        return [*lines, *row.lines, *loop]

    def _turns(self, outer: sympy.Symbol, size: sympy.Expr, inner: sympy.Symbol) -> bool:
        """Whether what is neighbors along the last axis lies far apart somewhere, and what is along the one before not.

        Row by row, every element would bring in a cache line that is gone when the next row wants it.
        """
        if size.is_Integer and size < _TILE_ROWS // 2:
            return False
        for position in self._positions(self._group.members):
            expanded = sympy.expand(position)
            step, other = expanded.coeff(inner), expanded.coeff(outer)
            if abs(other) == 1 and step != 0 and not (step.is_Integer and abs(step) < _TILE_ROWS):
                return True
        return False


def _in_tiles(body: Sequence[str], extent: str) -> list[str]:
    """The statements of a row, for tiles of rows and of columns ``first`` to ``last``."""
    return [
        f"for (int64_t top = mine.begin; top < mine.end; top += {_TILE_ROWS}) {{",
        f"  const int64_t bottom = tair::minimum<int64_t>(top + {_TILE_ROWS}, mine.end);",
        f"  for (int64_t first = 0; first < {extent}; first += {_TILE_COLUMNS}) {{",
        f"    const int64_t last = tair::minimum<int64_t>(first + {_TILE_COLUMNS}, {extent});",
        "    for (int64_t row = top; row < bottom; ++row) {",
        *indented(indented(indented(body))),
        "    }",
        "  }",
        "}",
    ]
