"""What functions of all kinds are emitted with: names of pointers and values, expressions, stores, axes of loops."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sympy
import torch

from torchair.native.accumulators import counted_index
from torchair.native.expressions import Buffer, Builder, Expr
from torchair.native.formulas import VALUE_TYPES, constant_text, operation_text, position_text
from torchair.native.operations import Reduce, Update, label_of
from torchair.native.schedule import Group, Member
from torchair.native.statements import c_type, factor, plain, stored

__all__ = ["COLUMNS", "RESULTS", "Axis", "Block", "Emitter", "Kernel"]

#: A loop variable and how many values it has.
Axis = tuple[sympy.Symbol, sympy.Expr]

#: Results of a product or of reductions by columns that are computed together.
COLUMNS = 32
#: Elements of less than four bytes that lie further apart are loaded one by one.
_LONGEST_STEP = 8
#: A variable that results of reductions and products depend on: nothing made of them is computed before them.
RESULTS = sympy.Symbol("results")


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


@dataclass(slots=True)
class Block:
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
    outer: Block | None = None
    variables: frozenset[sympy.Symbol] = frozenset()
    may_be_skipped: bool = False

    def name_of(self, expr: Expr) -> str | None:
        found = self.names.get(expr)
        return found if found is not None or self.outer is None else self.outer.name_of(expr)


class Emitter(abc.ABC):
    """What the kernels of all kinds of groups share: names, expressions, stores, axes.

    Args:
        group: What is emitted.
        builder: Of its expressions.
        stored: Buffers that somebody outside of the group reads.
        errors: Where indices out of range are reported.
    """

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

    def kernel(self) -> Kernel:
        """The kernel of the group."""
        group = self._group
        lines = self._body()
        errors = self._pointer(self._errors) if self._checks else ""
        head = []
        for i, (b, name) in enumerate(self._pointers.items()):
            type = f"{'' if b in self._written or b is self._errors else 'const '}{c_type(b)}*"
            head.append(f"{type} {name} = static_cast<{type}>(p[{i}]);")
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

    @abc.abstractmethod
    def _body(self) -> list[str]:
        """The statements after those that name pointers and sizes."""

    # --- names ---

    def _pointer(self, buffer: Buffer) -> str:
        if buffer not in self._pointers:
            prefix = "errors" if buffer is self._errors else "out" if buffer in self._written else "in"
            self._pointers[buffer] = f"{prefix}{len(self._pointers)}"
        return self._pointers[buffer]

    def _position(self, position: sympy.Expr, block: Block) -> str:
        # Values that positions depend on are computed first.
        symbols = position.free_symbols
        for symbol in sorted((s for s in symbols if s in self._builder.indirect), key=str):
            self._variables[symbol] = self._emit(self._builder.indirect[symbol], block)

        if not symbols.isdisjoint(self._merged):
            position = position.xreplace(self._merged)

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

    def _emit(self, expr: Expr, block: Block) -> str:
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

    def _text(self, expr: Expr, block: Block) -> str:
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

    def _checked(self, expr: Expr, args: Sequence[str], block: Block) -> str:
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

    def _store(self, member: Member, value: str, block: Block) -> str:
        place = f"{self._pointer(member.out)}[{plain(self._position(member.offset, block))}]"
        accumulate = isinstance(member.operation, Update) and member.operation.accumulate
        statement = stored(place, value, member.out.dtype, accumulate=accumulate)
        # Nothing is written for an index out of range.
        checks = [self._builder.indirect.get(s) for s in sorted(member.offset.free_symbols, key=str)]
        fits = " & ".join(self._fits[c] for c in checks if c in self._fits)
        return f"if ({fits}) {statement}" if fits else statement

    # --- loops ---

    def _unless_empty(self, sizes: Sequence[sympy.Expr], top: Block) -> list[str]:
        """The statements before all loops; when nothing is to be done, nothing is read."""
        unknown = [size for size in sizes if not (size.is_Integer and size > 0)]
        if not unknown or not top.lines:
            return top.lines
        first = Block()
        empty = " | ".join(f"({plain(self._position(size, first))} == 0)" for size in unknown)
        return [*first.lines, f"if ({empty}) return;", *top.lines]

    def _loop_nest(self, axes: Sequence[Axis], flat: str, block: Block, *, single: bool = False) -> list[str]:
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

    def _member_statements(self, members: Sequence[Member], block: Block) -> None:
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

    def _at(self, block: Block) -> Callable[[sympy.Expr], str]:
        """The text of positions in a block."""
        return lambda position: self._position(position, block)

    # --- axes ---

    def _collapsed(self, axes: Sequence[Axis], members: Sequence[Member]) -> list[Axis]:
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


@functools.lru_cache(maxsize=1 << 14)
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
