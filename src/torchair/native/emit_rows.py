"""Groups of rows: reductions of each row, and loops over it before and after them."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from torchair.native.accumulators import STREAMS, Accumulator, counted_index
from torchair.native.emitter import RESULTS, Axis, Block, Emitter
from torchair.native.expressions import Buffer, Builder, Expr
from torchair.native.formulas import VALUE_TYPES
from torchair.native.operations import Reduce
from torchair.native.region import product
from torchair.native.schedule import Group, Member
from torchair.native.statements import factor, indented, offset_pointer, plain, pragma

__all__ = ["RowsEmitter"]

#: Elements of a row that are summed in one go; sums of blocks are added in double, which bounds the error.
_BLOCK = 1024
#: Elements that are read from one place before the next, where a reduction has several partial results.
_LANES = 64
#: A value that costs so many additions is kept from one loop over a row to the next, in an array on the stack: of at
#: most so many elements, and so many arrays.
_WORTH_KEEPING, _MOST_KEPT, _MOST_ARRAYS = 8, 4096, 4
#: Bytes of a row that is asked for ahead.
_LEAST_FETCHED, _MOST_FETCHED = 1024, 16384


class RowsEmitter(Emitter):
    """A loop over rows, and in it loops over each."""

    def __init__(self, group: Group, builder: Builder, stored: set[Buffer], errors: Buffer) -> None:
        super().__init__(group, builder, stored, errors)
        self._kept: dict[Expr, tuple[str, int]] = {}  # its array, and the phase that fills it

    def _body(self) -> list[str]:
        group = self._group
        self._settle_stores()
        count = len(group.rows)
        reduces = [m for m in group.members if isinstance(m.operation, Reduce)]
        for m in reduces:
            self._results[m.out] = self._builder.variable(
                self._new_name("r"), m.out.dtype, frozenset({RESULTS, *group.variables[:count]})
            )
        axes = list(zip(group.variables, (*group.rows, *group.inner), strict=True))
        inner_axes = self._collapsed(axes[count:], group.members)
        row_axes = self._collapsed(axes[:count], group.members)
        top = Block()
        top.lines += self._keep_values(inner_axes)
        row = Block(outer=top, variables=frozenset({RESULTS, *(v for v, _ in row_axes)}))
        if row_axes:
            row.lines += self._loop_nest(row_axes, "row", top)
        last = max((m.phase for m in group.members if not m.is_row), default=0)
        for phase in range(1 + max(m.phase for m in group.members)):
            mine = [m for m in group.members if m.phase == phase]
            self._member_statements([m for m in mine if m.is_row], row)
            inner = [m for m in mine if not m.is_row]
            if 0 < phase == last:
                row.lines += self._fetches(row_axes, inner_axes, row)
            if inner:
                self._phase(inner, inner_axes, row)
        rows = plain(self._position(product([size for _, size in row_axes]), top))
        return [
            *self._unless_empty([size for _, size in row_axes], top),
            f"const tair::Range mine = tair::share({rows}, worker, workers);",
            "for (int64_t row = mine.begin; row < mine.end; ++row) {",
            *indented(row.lines),
            "}",
        ]

    def _fetches(
        self,
        row_axes: Sequence[Axis],
        inner_axes: Sequence[Axis],
        row: Block,
    ) -> list[str]:
        """Ask for the next row while the last loop runs over this one: the loops before read it from the cache."""
        if len(row_axes) != 1 or len(inner_axes) != 1 or not inner_axes[0][1].is_Integer:
            return []
        (variable, _), (inner, length) = row_axes[0], inner_axes[0]
        lines: dict[str, None] = {}
        for load in (load for m in self._group.members if not m.is_row and m.phase == 0 for load in m.value.loads):
            assert load.buffer is not None
            assert load.offset is not None
            if (
                load.buffer in self._written
                or not _LEAST_FETCHED <= length * load.buffer.dtype.itemsize <= _MOST_FETCHED
            ):
                continue
            position = sympy.expand(load.offset)
            symbols = position.free_symbols
            if position.coeff(inner) == 1 and position.coeff(variable) == length and symbols == {inner, variable}:
                start = position.subs({inner: 0, variable: variable + 1}, simultaneous=True)
                place = offset_pointer(self._pointer(load.buffer), self._position(sympy.expand(start), row))
                lines[f"tair::prefetch({place}, {length});"] = None
        return list(lines)

    def _keep_values(self, inner_axes: Sequence[Axis]) -> list[str]:
        """Find what is expensive and used in several loops over a row; returns the arrays that keep it."""
        if len(inner_axes) != 1 or not (inner_axes[0][1].is_Integer and 1 < inner_axes[0][1] <= _MOST_KEPT):
            return []
        variable, length = inner_axes[0]
        seen: dict[Expr, int] = {}
        arrays = []
        for member in sorted((m for m in self._group.members if not m.is_row), key=lambda m: m.phase):
            waiting = [self._value(member)]
            while waiting:
                expr = waiting.pop()
                if expr.cost < _WORTH_KEEPING or variable not in expr.variables:
                    continue
                if expr not in seen:
                    seen[expr] = member.phase
                    waiting += expr.args
                elif seen[expr] < member.phase and expr not in self._kept and len(self._kept) < _MOST_ARRAYS:
                    name = self._new_name("kept")
                    self._kept[expr] = name, seen[expr]
                    arrays.append(f"alignas(64) {VALUE_TYPES[expr.dtype]} {name}[{length}];")
        return arrays

    def _phase(self, members: Sequence[Member], axes: Sequence[Axis], row: Block) -> None:
        """One loop over the inner indices."""
        skipped = not all(size.is_Integer and size > 0 for _, size in axes)
        inner = Block(outer=row, variables=frozenset(v for v, _ in axes), may_be_skipped=skipped)
        sums = [Accumulator(m, self._group, self._new_name("a")) for m in members if isinstance(m.operation, Reduce)]
        names = [self._new_name("i") for _ in axes]
        extents = [plain(self._position(size, row)) for _, size in axes]
        self._variables.update(zip((v for v, _ in axes), names, strict=True))
        phase = members[0].phase
        inner.names.update({e: f"{name}[{names[-1]}]" for e, (name, first) in self._kept.items() if first < phase})
        values = [(m, self._emit(self._value(m), inner)) for m in members if not isinstance(m.operation, Reduce)]
        taken = [(a, self._emit(self._value(a.member), inner)) for a in sums]
        writes = [
            f"{name}[{names[-1]}] = {self._emit(e, inner)};"
            for e, (name, first) in self._kept.items()
            if first == phase
        ]
        writes += [self._store(m, v, inner) for m, v in values if self._is_stored(m)]
        if len(axes) == 1 and not skipped:
            for accumulator, value in list(taken):
                found = self._place_of_extreme(accumulator, names[0], extents[0], inner, value)
                if found is not None:
                    row.lines += found
                    self._take_result(accumulator, row)
                    taken.remove((accumulator, value))
            sums = [a for a, _ in taken]
            if not (sums or writes):
                return
        serial = any(a.is_serial for a in sums) or any(self._is_serial(m) for m, _ in values)
        streams = 1 if serial or writes else self._streams(sums, axes)
        bodies = [
            [*inner.lines, *(line for a, v in taken for line in a.step(v, self._at(inner), stream)), *writes]
            for stream in range(streams)
        ]
        for accumulator in sums:
            row.lines += accumulator.declarations()
        if not axes:
            blocks = [line for a in sums for line in a.begin_block()]
            ends = [line for a in sums for line in a.end_block()]
            row.lines += ["{", *indented([*blocks, *bodies[0], *ends]), "}"]
        else:
            row.lines += self._inner_loops(names, extents, axes[-1][1], sums, bodies, serial=serial)
        for accumulator in sums:
            self._take_result(accumulator, row)

    def _take_result(self, accumulator: Accumulator, row: Block) -> None:
        name = str(self._results[accumulator.member.out].value)
        row.lines.append(accumulator.result(name))
        if self._is_stored(accumulator.member):
            row.lines.append(self._store(accumulator.member, name, row))

    def _place_of_extreme(
        self, accumulator: Accumulator, name: str, extent: str, inner: Block, value: str
    ) -> list[str] | None:
        """The place of an extreme where it is counted along the row; None where it is found element by element."""
        counted = counted_index(accumulator.member, self._group)
        if counted is None or any("bad |=" in line for line in inner.lines):
            return None
        if plain(self._position(counted, inner)) != name:
            return None
        return accumulator.found_at_once(name, extent, inner.lines, value)

    def _streams(self, sums: Sequence[Accumulator], axes: Sequence[Axis]) -> int:
        """How many partial results each reduction has; more than one where its values are cheap and many."""
        if not sums or not axes or (axes[-1][1].is_Integer and axes[-1][1] < STREAMS * _LANES):
            return 1
        inner = frozenset(v for v, _ in axes)
        seen: set[Expr] = set()
        waiting = [self._value(a.member) for a in sums]
        cost = 0
        while waiting:
            expr = waiting.pop()
            if expr not in seen and not inner.isdisjoint(expr.variables):
                seen.add(expr)
                waiting += expr.args
                cost += expr.cost - sum(arg.cost for arg in expr.args)
        return STREAMS if cost < _WORTH_KEEPING else 1

    def _inner_loops(
        self,
        names: Sequence[str],
        extents: Sequence[str],
        length: sympy.Expr,
        sums: Sequence[Accumulator],
        bodies: Sequence[Sequence[str]],
        *,
        serial: bool,
    ) -> list[str]:
        extent = extents[-1]
        blocked = bool(sums) and not (length.is_Integer and length <= _BLOCK)
        bounds = ("begin", "end") if blocked else ("0", extent)
        loop = [line for a in sums for line in a.begin_block(len(bodies))]
        if len(bodies) > 1:
            first, lines = self._loop_in_streams(names[-1], bounds, sums, bodies)
            loop += lines
            bounds = first, bounds[1]
        if bounds[0] != bounds[1]:
            clauses = [c for a in sums for c in a.clauses()]
            loop += [
                *([] if serial else [pragma(bodies[0], clauses)]),
                f"for (int64_t {names[-1]} = {bounds[0]}; {names[-1]} < {bounds[1]}; ++{names[-1]}) {{",
                *indented(bodies[0]),
                "}",
            ]
        loop += [line for a in sums for line in a.end_block(len(bodies))]
        if blocked:
            loop = [
                f"for (int64_t begin = 0; begin < {extent}; begin += {_BLOCK}) {{",
                *indented([f"const int64_t end = tair::minimum<int64_t>(begin + {_BLOCK}, {extent});", *loop]),
                "}",
            ]
        elif sums:
            loop = ["{", *indented(loop), "}"]
        for outer, size in zip(reversed(names[:-1]), reversed(extents[:-1]), strict=True):
            loop = [f"for (int64_t {outer} = 0; {outer} < {size}; ++{outer}) {{", *indented(loop), "}"]
        return loop

    def _loop_in_streams(
        self, name: str, bounds: tuple[str, str], sums: Sequence[Accumulator], bodies: Sequence[Sequence[str]]
    ) -> tuple[str, list[str]]:
        """A loop whose iterations take elements from several places; also where the elements begin that it leaves."""
        begin, end = bounds
        count, at = len(bodies), self._new_name("i")
        lines = []
        if begin == "0" and end.isdigit():
            each = int(end) // (count * _LANES) * _LANES
            share, starts = str(each), [str(stream * each) for stream in range(count + 1)]
        else:
            share = self._new_name("share")
            size = end if begin == "0" else f"{end} - {begin}"
            lines.append(f"const int64_t {share} = {factor(size)} / {count * _LANES} * {_LANES};")
            multiples = ["0", share, *(f"{stream} * {share}" for stream in range(2, count + 1))]
            starts = [_sum_of(begin, multiple) for multiple in multiples]
        inner = []
        for start, body in zip(starts, bodies, strict=False):
            inner += ["{", *indented([f"const int64_t {name} = {_sum_of(start, at)};", *body]), "}"]
        clauses = [c for a in sums for c in a.clauses(count)]
        lines += [
            pragma(bodies[0], clauses),
            f"for (int64_t {at} = 0; {at} < {share}; ++{at}) {{",
            *indented(inner),
            "}",
        ]
        return starts[-1], lines


def _sum_of(a: str, b: str) -> str:
    return b if a == "0" else a if b == "0" else f"{a} + {b}"
