"""Groups -> the text of C++ functions. Pointers and sizes are arguments, so that equal groups are one function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sympy
import torch

from torchair.native.accumulators import STREAMS, Accumulator, counted_index
from torchair.native.expressions import Buffer, Builder, Expr
from torchair.native.formulas import C_TYPES, VALUE_TYPES, constant_text, operation_text, position_text
from torchair.native.operations import Product, Reduce, Strided, Update, label_of
from torchair.native.region import product
from torchair.native.schedule import Group, Member
from torchair.native.statements import c_type, factor, indented, offset_pointer, plain, pragma, stored
from torchair.native.strips import strip_loops

__all__ = ["Kernel", "emit"]

#: Elements of a row that are summed in one go; sums of blocks are added in double, which bounds the error.
_BLOCK = 1024
#: Elements that are read from one place before the next, where a reduction has several partial results.
_LANES = 64
#: Results of a product or of reductions by columns that are computed together.
_COLUMNS = 32
#: A value that costs so many additions is kept from one loop over a row to the next, in an array on the stack: of at
#: most so many elements, and so many arrays.
_WORTH_KEEPING, _MOST_KEPT, _MOST_ARRAYS = 8, 4096, 4
#: Elements of less than four bytes that lie further apart are loaded one by one.
_LONGEST_STEP = 8
#: Rows and columns of a tile of elements that are read in another order than they are written.
_TILE_ROWS, _TILE_COLUMNS = 16, 64
#: Bytes of a row that is asked for ahead.
_LEAST_FETCHED, _MOST_FETCHED = 1024, 16384
#: A variable that results of reductions and products depend on: nothing made of them is computed before them.
_RESULTS = sympy.Symbol("results")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One C++ function, and what it is called with.

    Attributes:
        body: The function without its name; equal for groups that differ only in pointers and sizes.
        pointers: Its pointers, in order.
        sizes: Its sizes, in order.
        checks: Operators whose indices it checks; it reports one out of range in the last pointer.
        comment: What it computes, one line for each operator.
    """

    body: str
    pointers: tuple[Buffer, ...]
    sizes: tuple[sympy.Symbol, ...]
    checks: tuple[str, ...]
    comment: tuple[str, ...]


def emit(group: Group, builder: Builder, stored: frozenset[Buffer], errors: Buffer) -> Kernel:
    """The kernel of a group.

    Args:
        stored: Buffers that somebody outside of the group reads.
        errors: Where indices out of range are reported.

    Raises:
        Unsupported: A size has a form that is not known here.
    """
    return _Emitter(group, builder, set(stored), errors).kernel()


@dataclass(slots=True)
class _Block:
    """Statements at one depth of the loops.

    Attributes:
        lines: The statements so far.
        names: Names of the expressions that are computed here.
        outer: Block around it.
        variables: Loop variables that the block, not the one around it, has.
        may_be_skipped: The loop may have no iteration; nothing is read from memory before it that it would not read.
    """

    lines: list[str] = field(default_factory=list)
    names: dict[Expr, str] = field(default_factory=dict)
    outer: _Block | None = None
    variables: frozenset[sympy.Symbol] = frozenset()
    may_be_skipped: bool = False

    def name_of(self, expr: Expr) -> str | None:
        found = self.names.get(expr)
        return found if found is not None or self.outer is None else self.outer.name_of(expr)


class _Emitter:
    def __init__(self, group: Group, builder: Builder, stored: set[Buffer], errors: Buffer) -> None:
        self._group = group
        self._builder = builder
        self._stored = stored
        self._errors = errors
        self._pointers: dict[Buffer, str] = {}
        self._sizes: dict[sympy.Symbol, str] = {}
        self._variables: dict[sympy.Symbol, str] = {}
        self._count = 0
        self._checks: dict[str, None] = {}
        self._written = group.writes.keys()
        self._results: dict[Buffer, Expr] = {}  # results of reductions and products, as variables
        self._fits: dict[Expr | None, str] = {}  # of a checked index: the variable that says whether it is in range
        self._merged: dict[sympy.Symbol, sympy.Expr] = {}  # loop variables that others have taken over: they are 0
        self._hidden: dict[int, sympy.Symbol] = {}  # steps of loads, as variables
        self._memos: dict[object, dict[Expr, Expr]] = {}
        self._kept: dict[Expr, tuple[str, int]] = {}  # its array, and the phase that fills it

    def kernel(self) -> Kernel:
        group = self._group
        if group.kind == "elements":
            lines = self._elements()
        elif group.kind == "rows":
            lines = self._rows()
        elif group.kind == "columns":
            lines = self._columns()
        elif group.kind == "product":
            lines = self._products()
        else:
            lines = self._attention()
        errors = self._pointer(self._errors) if self._checks else ""
        head = [
            f"{'' if b in self._written or b is self._errors else 'const '}{c_type(b)}* {name} = "
            f"static_cast<{'' if b in self._written or b is self._errors else 'const '}{c_type(b)}*>(p[{i}]);"
            for i, (b, name) in enumerate(self._pointers.items())
        ]
        head += [f"const int64_t {name} = s[{i}];" for i, name in enumerate(self._sizes.values())]
        head += [f"const int64_t {name} = tair::unknown({abs(step)});" for step, name in self._hidden.items()]
        if self._checks:
            lines = ["int64_t bad = 0;", *lines, f"if (bad) {errors}[0] = 1;"]
        body = "\n".join(f"  {line}" if line and not line.startswith("#") else line for line in (*head, *lines))
        labels = [label_of(o) for o in (*group.products, *(m.operation for m in group.members))]
        if group.attention is not None:
            labels.append(label_of(group.attention))
        return Kernel(
            body,
            tuple(self._pointers),
            tuple(self._sizes),
            tuple(self._checks),
            tuple(line for label in dict.fromkeys(labels) for line in label.splitlines()),
        )

    # --- names ---

    def _pointer(self, buffer: Buffer) -> str:
        if buffer not in self._pointers:
            prefix = "errors" if buffer is self._errors else "out" if buffer in self._written else "in"
            self._pointers[buffer] = f"{prefix}{len(self._pointers)}"
        return self._pointers[buffer]

    def _position(self, position: sympy.Expr, block: _Block) -> str:
        # Values that positions depend on are computed first.
        for symbol in sorted(position.free_symbols, key=str):
            if symbol in self._builder.indirect:
                self._variables[symbol] = self._emit(self._builder.indirect[symbol], block)

        if self._merged:
            position = position.subs(self._merged)

        def name_of(symbol: sympy.Symbol) -> str:
            if symbol in self._variables:
                return self._variables[symbol]
            if symbol not in self._sizes:
                self._sizes[symbol] = f"n{len(self._sizes)}"
            return self._sizes[symbol]

        return position_text(position, name_of)

    def _new_name(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    # --- expressions ---

    def _emit(self, expr: Expr, block: _Block) -> str:
        """The name of an expression, or its text if that is as short."""
        if expr.op == "const":
            return constant_text(expr.value, expr.dtype)
        if expr.op == "variable":
            return str(expr.value)
        while block.outer is not None and block.variables.isdisjoint(expr.variables):
            if block.may_be_skipped and expr.loads:
                break
            block = block.outer
        if (known := block.name_of(expr)) is not None:
            return known
        text = self._text(expr, block)
        name = self._new_name()
        block.lines.append(f"const {VALUE_TYPES[expr.dtype]} {name} = {text};")
        block.names[expr] = name
        return name

    def _text(self, expr: Expr, block: _Block) -> str:
        if expr.op == "load":
            assert expr.buffer is not None
            assert expr.offset is not None
            mask = self._emit(expr.mask, block) if expr.mask is not None else ""
            offset = expr.offset if expr.dtype.itemsize >= 4 else self._with_hidden_steps(expr.offset, block.variables)
            element = f"{self._pointer(expr.buffer)}[{plain(self._position(offset, block))}]"
            if expr.dtype in (torch.bfloat16, torch.float16):
                element += ".bits"
            return f"{mask} ? {element} : {VALUE_TYPES[expr.dtype]}(0)" if mask else element
        if expr.op == "index":
            return plain(self._position(expr.value, block))
        args = [self._emit(a, block) for a in expr.args]
        if expr.op in ("checked", "checked_wrapped"):
            return self._checked(expr, args, block)
        return operation_text(expr, args)

    def _with_hidden_steps(self, position: sympy.Expr, variables: frozenset[sympy.Symbol]) -> sympy.Expr:
        """A position whose long steps the compiler does not know.

        Where GCC has no gather for such narrow elements, it would load all that lies between them, and pick.
        """
        expanded = sympy.expand(position)
        for variable in variables & expanded.free_symbols:
            step = expanded.coeff(variable)
            if step.is_Integer and abs(step) > _LONGEST_STEP:
                hidden = self._hidden.setdefault(int(step), sympy.Symbol(f"step{abs(step)}"))
                self._variables[hidden] = hidden.name
                position = expanded = sympy.expand(expanded + variable * (sympy.sign(step) * hidden - step))
        return position

    def _checked(self, expr: Expr, args: Sequence[str], block: _Block) -> str:
        self._checks[str(expr.value)] = None
        index, size = args[:2]
        if expr.op == "checked_wrapped":
            wrapped = self._new_name()
            block.lines.append(f"const int64_t {wrapped} = {index} < 0 ? {index} + {size} : {index};")
            index = wrapped
        fits = self._fits[expr] = self._new_name()
        block.lines.append(f"const bool {fits} = ({index} >= 0) & ({index} < {size});")
        block.lines.append(f"bad |= {f'!{fits} & {args[2]}' if len(args) > 2 else f'!{fits}'} ? 1 : 0;")
        return f"{fits} ? {index} : 0"

    def _value(self, member: Member) -> Expr:
        """What a member computes, from values of the group where it reads what the group makes."""
        phase = (member.phase, member.is_row)

        def replace(load: Expr) -> Expr | None:
            assert load.buffer is not None
            if load.buffer in self._results:
                return self._results[load.buffer]
            maker = next((m for m in self._group.members if m.out is load.buffer and m is not member), None)
            if maker is None or isinstance(maker.operation, Reduce) or self._reads_before(load, member):
                return None
            if not self._is_reloaded(maker, member):
                return self._value(maker)
            return None

        in_place = any(isinstance(m.operation, Update) for m in self._group.members)
        memo = self._memos.setdefault((phase, member) if in_place else phase, {})
        return self._builder.rewrite(member.value, {}, replace, memo)

    def _reads_before(self, load: Expr, member: Member) -> bool:
        """Whether what a member reads is what was in memory before the group."""
        position = self._group.members.index(member)
        return all(m.out is not load.buffer for m in self._group.members[:position])

    def _is_reloaded(self, maker: Member, reader: Member) -> bool:
        """Whether a value is read back from memory, since it was computed in an earlier loop."""
        if maker.is_row or maker.phase == reader.phase:
            return False
        if maker.out in self._stored:
            return True
        if maker.value.is_cheap and not any(load.buffer in self._written for load in maker.value.loads):
            return False
        self._stored.add(maker.out)
        return True

    def _settle_stores(self) -> None:
        """Find out which values later loops read back."""
        for member in self._group.members:
            for load in member.value.loads:
                maker = next((m for m in self._group.members if m.out is load.buffer and m is not member), None)
                if (
                    maker is not None
                    and not isinstance(maker.operation, Reduce)
                    and not self._reads_before(load, member)
                ):
                    self._is_reloaded(maker, member)

    def _is_stored(self, member: Member) -> bool:
        return isinstance(member.operation, Update) or member.out in self._stored

    def _store(self, member: Member, value: str, block: _Block) -> str:
        place = f"{self._pointer(member.out)}[{plain(self._position(member.offset, block))}]"
        accumulate = isinstance(member.operation, Update) and member.operation.accumulate
        statement = stored(place, value, member.out.dtype, accumulate=accumulate)
        # Nothing is written for an index out of range.
        checks = [self._builder.indirect.get(s) for s in sorted(member.offset.free_symbols, key=str)]
        fits = " & ".join(self._fits[c] for c in checks if c in self._fits)
        return f"if ({fits}) {statement}" if fits else statement

    # --- loops ---

    def _unless_empty(self, sizes: Sequence[sympy.Expr], top: _Block) -> list[str]:
        """The statements before all loops; when nothing is to be done, nothing is read."""
        unknown = [size for size in sizes if not (size.is_Integer and size > 0)]
        if not unknown or not top.lines:
            return top.lines
        first = _Block()
        empty = " | ".join(f"({plain(self._position(size, first))} == 0)" for size in unknown)
        return [*first.lines, f"if ({empty}) return;", *top.lines]

    def _loop_nest(
        self, axes: Sequence[tuple[sympy.Symbol, sympy.Expr]], flat: str, block: _Block, *, single: bool = False
    ) -> list[str]:
        """Statements that make loop variables from one number that counts all their combinations."""
        lines = []
        rest = flat
        for d in range(len(axes) - 1, -1, -1):
            variable, size = axes[d]
            name = self._variables[variable] = self._new_name("i")
            if d == 0:
                lines.append(f"const int64_t {name} = {rest};")
                continue
            extent = self._position(size, block)
            lines.append(f"const int64_t {name} = {rest} % {factor(extent)};")
            rest = f"{rest} / {factor(extent)}"
        return lines

    def _elements(self) -> list[str]:
        group = self._group
        axes = self._collapsed(list(zip(group.variables, group.rows, strict=True)), group.members)
        top = _Block()
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
        row = _Block(outer=top, variables=frozenset(v for v, _ in outer))
        inner = _Block(outer=row, variables=frozenset({last}))
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

    def _member_statements(self, members: Sequence[Member], block: _Block) -> None:
        """Compute the members at one depth, then write: what is overwritten is read before."""
        values = [(m, self._emit(self._value(m), block)) for m in members]
        for m, v in values:
            if self._is_stored(m):
                block.lines.append(self._store(m, v, block))

    def _is_serial(self, member: Member) -> bool:
        """Whether iterations must keep their order: several may go to one place."""
        return isinstance(member.operation, Update) and (
            member.operation.accumulate or any(s in self._builder.indirect for s in member.offset.free_symbols)
        )

    def _rows(self) -> list[str]:
        group = self._group
        self._settle_stores()
        count = len(group.rows)
        reduces = [m for m in group.members if isinstance(m.operation, Reduce)]
        for m in reduces:
            self._results[m.out] = self._builder.variable(
                self._new_name("r"), m.out.dtype, frozenset({_RESULTS, *group.variables[:count]})
            )
        axes = list(zip(group.variables, (*group.rows, *group.inner), strict=True))
        inner_axes = self._collapsed(axes[count:], group.members)
        row_axes = self._collapsed(axes[:count], group.members)
        top = _Block()
        top.lines += self._keep_values(inner_axes)
        row = _Block(outer=top, variables=frozenset({_RESULTS, *(v for v, _ in row_axes)}))
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
        row_axes: Sequence[tuple[sympy.Symbol, sympy.Expr]],
        inner_axes: Sequence[tuple[sympy.Symbol, sympy.Expr]],
        row: _Block,
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

    def _keep_values(self, inner_axes: Sequence[tuple[sympy.Symbol, sympy.Expr]]) -> list[str]:
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

    def _phase(self, members: Sequence[Member], axes: Sequence[tuple[sympy.Symbol, sympy.Expr]], row: _Block) -> None:
        """One loop over the inner indices."""
        skipped = not all(size.is_Integer and size > 0 for _, size in axes)
        inner = _Block(outer=row, variables=frozenset(v for v, _ in axes), may_be_skipped=skipped)
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

    def _take_result(self, accumulator: Accumulator, row: _Block) -> None:
        name = str(self._results[accumulator.member.out].value)
        row.lines.append(accumulator.result(name))
        if self._is_stored(accumulator.member):
            row.lines.append(self._store(accumulator.member, name, row))

    def _place_of_extreme(
        self, accumulator: Accumulator, name: str, extent: str, inner: _Block, value: str
    ) -> list[str] | None:
        """The place of an extreme where it is counted along the row; None where it is found element by element."""
        counted = counted_index(accumulator.member, self._group)
        if counted is None or any("bad |=" in line for line in inner.lines):
            return None
        if plain(self._position(counted, inner)) != name:
            return None
        return accumulator.found_at_once(name, extent, inner.lines, value)

    def _streams(self, sums: Sequence[Accumulator], axes: Sequence[tuple[sympy.Symbol, sympy.Expr]]) -> int:
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

    def _at(self, block: _Block) -> Callable[[sympy.Expr], str]:
        """The text of positions in a block."""
        return lambda position: self._position(position, block)

    def _columns(self) -> list[str]:
        """Reductions of neighbors in memory, together; the loop over reduced indices is around the one over them."""
        group = self._group
        self._settle_stores()
        count = len(group.rows)
        axes = list(zip(group.variables, (*group.rows, *group.inner), strict=True))
        *outer, (last, length) = axes[:count]
        inner_axes = self._collapsed(axes[count:], group.members)
        top = _Block()
        row = _Block(outer=top, variables=frozenset(v for v, _ in outer))
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
                    frozenset({_RESULTS, *group.variables[:count]}),
                )
        loop_head = f"for (int64_t {column} = first; {column} < last; ++{column}) {{"
        for phase in range(1 + max(m.phase for m in group.members)):
            mine = [m for m in group.members if m.phase == phase]
            epilogue = [m for m in mine if not isinstance(m.operation, Reduce)]
            if epilogue:
                block = _Block(outer=row, variables=frozenset({last, _RESULTS}))
                self._member_statements(epilogue, block)
                row.lines += [pragma(block.lines), loop_head, *indented(block.lines), "}"]
            sums = [Accumulator(m, group, self._new_name("a"), column) for m in mine if isinstance(m.operation, Reduce)]
            if sums:
                row.lines += self._column_phase(sums, inner_axes, last, loop_head, row)
        rows = plain(self._position(product([size for _, size in outer]), top))
        return [
            *self._unless_empty([size for _, size in axes[:count]], top),
            f"const int64_t columns_per_row = ({extent} + {_COLUMNS - 1}) / {_COLUMNS};",
            f"const tair::Range mine = tair::share({factor(rows)} * columns_per_row, worker, workers);",
            "for (int64_t unit = mine.begin; unit < mine.end; ++unit) {",
            *indented(
                [
                    f"const int64_t first = unit % columns_per_row * {_COLUMNS};",
                    f"const int64_t last = tair::minimum<int64_t>(first + {_COLUMNS}, {extent});",
                    *row.lines,
                ]
            ),
            "}",
        ]

    def _column_phase(
        self,
        sums: Sequence[Accumulator],
        axes: Sequence[tuple[sympy.Symbol, sympy.Expr]],
        last: sympy.Symbol,
        loop_head: str,
        row: _Block,
    ) -> list[str]:
        names = [self._new_name("i") for _ in axes]
        extents = [plain(self._position(size, row)) for _, size in axes]
        self._variables.update(zip((v for v, _ in axes), names, strict=True))
        skipped = not all(size.is_Integer and size > 0 for _, size in axes)
        variables = frozenset({last, _RESULTS, *(v for v, _ in axes)})
        block = _Block(outer=row, variables=variables, may_be_skipped=skipped)
        for a in sums:
            block.lines += a.step(self._emit(self._value(a.member), block), self._at(block))
        lines = [line for a in sums for line in a.array_declarations(_COLUMNS)]
        serial = any(a.is_serial for a in sums)
        loop = [*([] if serial else [pragma(block.lines)]), loop_head, *indented(block.lines), "}"]
        for name, size in zip(reversed(names), reversed(extents), strict=True):
            loop = [f"for (int64_t {name} = 0; {name} < {size}; ++{name}) {{", *indented(loop), "}"]
        lines += loop
        after = _Block(outer=row, variables=frozenset({last}))
        for a in sums:
            result = str(self._results[a.member.out].value)
            array = result.partition("[")[0]
            lines.append(f"{VALUE_TYPES[a.member.out.dtype]} {array}[{_COLUMNS}];")
            after.lines.append(f"{result} = {a.final()};")
            if self._is_stored(a.member):
                after.lines.append(self._store(a.member, result, after))
        return [*lines, loop_head, *indented(after.lines), "}"]

    def _products(self) -> list[str]:
        group = self._group
        first = group.products[0]
        m, k, n = first.sizes
        top = _Block()
        # Axes of the results that are not of size 1: rows, columns.
        variables = iter(group.variables)
        row_variable = next(variables) if m != 1 else None
        column_variable = next(variables) if n != 1 else None
        width, depth = plain(self._position(n, top)), plain(self._position(k, top))
        row_name, column = self._new_name("i"), self._new_name("i")
        if row_variable is not None:
            self._variables[row_variable] = row_name
        if column_variable is not None:
            self._variables[column_variable] = column
        calls, blocks = [], []
        for i, p in enumerate(group.products):
            blocks.append(f"{VALUE_TYPES[p.out.dtype]} sums{i}[{m * _COLUMNS}];")
            calls.append(self._product_call(p, f"sums{i}", depth, top))
            self._results[p.out] = self._builder.variable(
                f"sums{i}[{row_name} * {_COLUMNS} + {column} - first]",
                p.out.dtype,
                frozenset({_RESULTS, *group.variables}),
            )
        block = _Block(outer=top, variables=frozenset({_RESULTS, *group.variables}))
        for p in group.products:
            if p.out in self._stored:
                index: list[sympy.Expr] = [sympy.S.Zero if v is None else v for v in (row_variable, column_variable)]
                place = f"{self._pointer(p.out)}[{plain(self._position(p.out.offset(index), block))}]"
                block.lines.append(stored(place, str(self._results[p.out].value), p.out.dtype))
        self._member_statements(group.members, block)
        return [
            *self._unless_empty([n], top),
            f"const tair::Range mine = tair::share({width}, worker, workers, {_COLUMNS});",
            *blocks,
            f"for (int64_t first = mine.begin; first < mine.end; first += {_COLUMNS}) {{",
            *indented(
                [
                    f"const int64_t last = tair::minimum<int64_t>(first + {_COLUMNS}, mine.end);",
                    *calls,
                    f"for (int64_t {row_name} = 0; {row_name} < {m}; ++{row_name}) {{",
                    pragma(block.lines),
                    *indented(
                        [
                            f"for (int64_t {column} = first; {column} < last; ++{column}) {{",
                            *indented(block.lines),
                            "}",
                        ]
                    ),
                    "}",
                ]
            ),
            "}",
        ]

    def _product_call(self, p: Product, sums: str, depth: str, block: _Block) -> str:
        m = p.sizes[0]
        left = offset_pointer(self._pointer(p.left.buffer), self._position(p.left.start, block))
        right = offset_pointer(self._pointer(p.right.buffer), self._position(p.right.start, block))
        leading = plain(self._position(p.left.strides[0], block))
        if p.right.strides[0] == 1:
            step = plain(self._position(p.right.strides[1], block))
            return (
                f"tair::dot_rows({left}, {leading}, {m}, {right} + first * {factor(step)}, {step}, {depth}, "
                f"last - first, {sums}, {_COLUMNS});"
            )
        step = plain(self._position(p.right.strides[0], block))
        return (
            f"tair::dot_columns({left}, {leading}, {m}, {right} + first, {step}, {depth}, "
            f"last - first, {sums}, {_COLUMNS});"
        )

    def _attention(self) -> list[str]:
        a = self._group.attention
        assert a is not None
        top = _Block()

        def text(position: sympy.Expr) -> str:
            return plain(self._position(position, top))

        def operand(pointer: str, strides: Sequence[sympy.Expr]) -> str:
            return f"{{{pointer}, {{{', '.join(text(s) for s in strides)}}}}}"

        def given(o: Strided) -> str:
            return operand(offset_pointer(self._pointer(o.buffer), self._position(o.start, top)), o.strides)

        element = C_TYPES[a.out.dtype]
        sizes = ", ".join(text(s) for s in a.sizes)
        mask_element = element if a.mask is None else C_TYPES[a.mask.buffer.dtype]
        lines = [
            f"const tair::Attention<{element}, {mask_element}> call = {{",
            f"  {sizes},",
            *(f"  {given(o)}," for o in (a.query, a.key, a.value)),
            f"  {'{nullptr, {0, 0, 0, 0}}' if a.mask is None else given(a.mask)},",
            f"  {operand(self._pointer(a.out), a.out.strides)},",
            f"  {constant_text(a.scale, torch.float64)}, {'true' if a.causal else 'false'}}};",
            "tair::attention(call, worker, workers);",
        ]
        return [*top.lines, *lines]

    # --- axes ---

    def _collapsed(
        self, axes: Sequence[tuple[sympy.Symbol, sympy.Expr]], members: Sequence[Member]
    ) -> list[tuple[sympy.Symbol, sympy.Expr]]:
        """Axes whose neighbors everything passes through as through one are made one."""
        found = list(axes)
        d = len(found) - 2
        while d >= 0:
            (outer, _), (inner, size) = found[d], found[d + 1]
            if all(_is_mergeable(position, outer, inner, size) for position in self._positions(members)):
                zero = {outer: sympy.S.Zero}
                self._merged.update(zero)
                memo: dict[Expr, Expr] = {}
                for m in members:
                    m.value = self._builder.rewrite(m.value, zero, memo=memo)
                    m.offset = self._builder.rewrite_position(m.offset, zero, memo)
                found[d : d + 2] = [(inner, found[d][1] * size)]
            d -= 1
        return found

    def _positions(self, members: Sequence[Member]) -> list[sympy.Expr]:
        """All positions in expressions."""
        found: dict[sympy.Expr, None] = {}
        seen: set[Expr] = set()
        waiting = [m.value for m in members]
        for m in members:
            found[m.offset] = None
            if (counted := counted_index(m, self._group)) is not None:
                found[counted.subs(self._merged)] = None
            waiting += [self._builder.indirect[s] for s in m.offset.free_symbols if s in self._builder.indirect]
        while waiting:
            expr = waiting.pop()
            if expr in seen:
                continue
            seen.add(expr)
            position = expr.offset if expr.op == "load" else expr.value if expr.op == "index" else None
            if position is not None:
                found[position] = None
                waiting += [self._builder.indirect[s] for s in position.free_symbols if s in self._builder.indirect]
            waiting += [*expr.args, *([expr.mask] if expr.mask is not None else [])]
        return list(found)


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


def _sum_of(a: str, b: str) -> str:
    return b if a == "0" else a if b == "0" else f"{a} + {b}"


def _is_mergeable(position: sympy.Expr, outer: sympy.Symbol, inner: sympy.Symbol, size: sympy.Expr) -> bool:
    """Whether a position passes through two axes as through one."""
    symbols = position.free_symbols
    if outer not in symbols and inner not in symbols:
        return True
    expanded = sympy.expand(position)
    a, b = expanded.coeff(outer, 1), expanded.coeff(inner, 1)
    rest = sympy.expand(expanded - a * outer - b * inner)
    if not {outer, inner}.isdisjoint(rest.free_symbols | a.free_symbols | b.free_symbols):
        return False
    return bool(sympy.expand(a - b * size) == 0)
