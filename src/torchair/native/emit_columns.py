"""Groups of columns: reductions of neighbors in memory, some of them together."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from torchair.native.accumulators import Accumulator
from torchair.native.emitter import COLUMNS, RESULTS, Axis, Block, Emitter
from torchair.native.formulas import VALUE_TYPES
from torchair.native.operations import Reduce
from torchair.native.region import product
from torchair.native.statements import factor, indented, plain, pragma

__all__ = ["ColumnsEmitter"]


class ColumnsEmitter(Emitter):
    """A loop over blocks of columns, in it the loops over what is reduced."""

    def _body(self) -> list[str]:
        """Reductions of neighbors in memory, together; the loop over reduced indices is around the one over them."""
        group = self._group
        self._settle_stores()
        count = len(group.rows)
        axes = list(zip(group.variables, (*group.rows, *group.inner), strict=True))
        *outer, (last, length) = axes[:count]
        inner_axes = self._collapsed(axes[count:], group.members)
        top = Block()
        row = Block(outer=top, variables=frozenset(v for v, _ in outer))
        if outer:
            row.lines += self._loop_nest(outer, "unit / columns_per_row", top)
        column = self._new_name("i")
        self._variables[last] = column
        extent = plain(self._position(length, top))
        for m in group.members:
            if isinstance(m.operation, Reduce):
                self._results[m.out] = self._builder.variable(
                    f"{self._new_name('r')}[{column} - first]",
                    m.out.dtype,
                    frozenset({RESULTS, *group.variables[:count]}),
                )
        loop_head = f"for (int64_t {column} = first; {column} < last; ++{column}) {{"
        for phase in range(1 + max(m.phase for m in group.members)):
            mine = [m for m in group.members if m.phase == phase]
            epilogue = [m for m in mine if not isinstance(m.operation, Reduce)]
            if epilogue:
                block = Block(outer=row, variables=frozenset({last, RESULTS}))
                self._member_statements(epilogue, block)
                row.lines += [pragma(block.lines), loop_head, *indented(block.lines), "}"]
            sums = [Accumulator(m, group, self._new_name("a"), column) for m in mine if isinstance(m.operation, Reduce)]
            if sums:
                row.lines += self._column_phase(sums, inner_axes, last, loop_head, row)
        rows = plain(self._position(product([size for _, size in outer]), top))
        return [
            *self._unless_empty([size for _, size in axes[:count]], top),
            f"const int64_t columns_per_row = ({extent} + {COLUMNS - 1}) / {COLUMNS};",
            f"const tair::Range mine = tair::share({factor(rows)} * columns_per_row, worker, workers);",
            "for (int64_t unit = mine.begin; unit < mine.end; ++unit) {",
            *indented(
                [
                    f"const int64_t first = unit % columns_per_row * {COLUMNS};",
                    f"const int64_t last = tair::minimum<int64_t>(first + {COLUMNS}, {extent});",
                    *row.lines,
                ]
            ),
            "}",
        ]

    def _column_phase(
        self,
        sums: Sequence[Accumulator],
        axes: Sequence[Axis],
        last: sympy.Symbol,
        loop_head: str,
        row: Block,
    ) -> list[str]:
        names = [self._new_name("i") for _ in axes]
        extents = [plain(self._position(size, row)) for _, size in axes]
        self._variables.update(zip((v for v, _ in axes), names, strict=True))
        skipped = not all(size.is_Integer and size > 0 for _, size in axes)
        variables = frozenset({last, RESULTS, *(v for v, _ in axes)})
        block = Block(outer=row, variables=variables, may_be_skipped=skipped)
        for a in sums:
            block.lines += a.step(self._emit(self._value(a.member), block), self._at(block))
        lines = [line for a in sums for line in a.array_declarations(COLUMNS)]
        serial = any(a.is_serial for a in sums)
        loop = [*([] if serial else [pragma(block.lines)]), loop_head, *indented(block.lines), "}"]
        for name, size in zip(reversed(names), reversed(extents), strict=True):
            loop = [f"for (int64_t {name} = 0; {name} < {size}; ++{name}) {{", *indented(loop), "}"]
        lines += loop
        after = Block(outer=row, variables=frozenset({last}))
        for a in sums:
            result = str(self._results[a.member.out].value)
            array = result.partition("[")[0]
            lines.append(f"{VALUE_TYPES[a.member.out.dtype]} {array}[{COLUMNS}];")
            after.lines.append(f"{result} = {a.final()};")
            if self._is_stored(a.member):
                after.lines.append(self._store(a.member, result, after))
        return [*lines, loop_head, *indented(after.lines), "}"]
