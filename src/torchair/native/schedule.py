"""Operations -> groups: what runs in one kernel, and where workers must wait for each other.

A group is a loop nest, ``rows`` around ``inner`` loops, in which several operations share loads, values in registers,
and the pass over memory. An operation joins an earlier group when it has the same nest and reads what the group makes
only at the same place; nothing that it depends on may stand between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import sympy

from torchair.native.expressions import Buffer, Builder, Expr, loop_variable
from torchair.native.operations import Attention, Compute, Operation, Product, Reduce, Shape, Update
from torchair.native.region import product

__all__ = ["Group", "Member", "schedule"]

#: More operations or buffers than these make a function that compilers are slow on.
_MOST_MEMBERS = 24
_MOST_BUFFERS = 28

#: An operation joins one of so many last groups: with all of them, time grows with the square of their number.
_FARTHEST = 64

#: Groups whose work, in additions, is less than this are left to one worker: waiting for others costs more.
_SMALL = 6000


@dataclass(eq=False, slots=True)
class Member:
    """An operation in a group.

    Attributes:
        operation: What it is.
        is_row: It has one element for each row, and not for each inner index.
        value: The element that it computes, or, of a reduction, the element that goes into it.
        offset: Where in ``operation.out`` the element lies.
        loads: What it reads: for the element, and for its place where that is data.
        phase: How many loops over the inner indices stand before the one it is in.
    """

    operation: Compute | Update | Reduce
    is_row: bool
    value: Expr
    offset: sympy.Expr
    loads: frozenset[Expr]
    phase: int = 0

    @property
    def out(self) -> Buffer:
        return self.operation.out


@dataclass(eq=False, slots=True)
class Group:
    """Operations in one loop nest.

    Attributes:
        kind: ``"elements"`` (no reduction yet: all axes are rows), ``"rows"``, ``"columns"`` (the reduced axes are not
            the innermost ones in memory), ``"product"``, ``"attention"``.
        rows, inner: Sizes of the axes; those of size 1 are left out.
        members: In order.
        products: Of a product group.
        attention: Of an attention group.
        workers: At most this many take part; 0 for all.
        barrier: Workers wait for each other before it.
    """

    kind: str
    rows: Shape
    inner: Shape = ()
    members: list[Member] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    attention: Attention | None = None
    workers: int = 0
    barrier: bool = False
    _writes: dict[Buffer, Operation] = field(default_factory=dict)
    _reads: frozenset[Buffer] = frozenset()
    _known: int = 0  # how many operations these two are of

    @property
    def writes(self) -> dict[Buffer, Operation]:
        """Memory that it writes, and by what."""
        self._look()
        return self._writes

    @property
    def reads(self) -> frozenset[Buffer]:
        """Memory that it reads."""
        self._look()
        return self._reads

    def _look(self) -> None:
        count = len(self.members) + len(self.products) + (self.attention is not None)
        if count == self._known:
            return
        self._known = count
        self._writes = {m.out: m.operation for m in self.members}
        self._writes.update({p.out: p for p in self.products})
        if self.attention is not None:
            self._writes[self.attention.out] = self.attention
        found: set[Buffer] = set()
        for member in self.members:
            found.update(_reads_of(member))
        for p in self.products:
            found |= {p.left.buffer, p.right.buffer}
        if self.attention is not None:
            a = self.attention
            found |= {o.buffer for o in (a.query, a.key, a.value, a.mask) if o is not None}
        self._reads = frozenset(found)

    @property
    def variables(self) -> list[sympy.Symbol]:
        """Loop variables of the axes, rows first."""
        return [loop_variable(d) for d in range(len(self.rows) + len(self.inner))]


def _reads_of(member: Member) -> set[Buffer]:
    found = {load.buffer for load in member.loads if load.buffer is not None}
    if isinstance(member.operation, Update) and member.operation.accumulate:
        found.add(member.out)
    return found


def schedule(operations: Sequence[Operation], builder: Builder) -> list[Group]:
    """Put operations into groups, in an order in which each finds what it reads."""
    groups: list[Group] = []
    accesses = _Accesses()
    for operation in operations:
        if any(size == 0 for size in _results(operation)):
            continue
        candidate = _alone(operation, builder)
        # The last one that it depends on, or a later one.
        first = max(accesses.last_conflict(candidate), len(groups) - _FARTHEST, 0)
        for i in range(len(groups) - 1, first - 1, -1):
            if _join(groups[i], operation, builder):
                accesses.add(i, candidate)
                break
        else:
            accesses.add(len(groups), candidate)
            groups.append(candidate)
    for group in groups:
        _set_phases(group)
        if (work := _work(group)) is not None and work < _SMALL:
            group.workers = 1
        if any(isinstance(m.operation, Update) and _is_scattered(m, builder) for m in group.members):
            # Several elements may go to one place: the last one stays, or they add up, as in eager mode.
            group.workers = 1
    _set_barriers(groups)
    return groups


def _results(operation: Operation) -> Shape:
    """Sizes of what an operation makes or writes."""
    return operation.shape if isinstance(operation, Update) else operation.out.shape


def _is_scattered(member: Member, builder: Builder) -> bool:
    return any(s in builder.indirect for s in member.offset.free_symbols)


# --- dependences ---


class _Accesses:
    """The last group that reads or writes each buffer."""

    def __init__(self) -> None:
        self._reads: dict[Buffer, int] = {}
        self._writes: dict[Buffer, int] = {}
        self._disjoint_writes: dict[Buffer, int] = {}

    def add(self, number: int, group: Group) -> None:
        """Note what a group, or an operation that joins it, reads and writes."""
        for buffer in group.reads:
            self._reads[buffer] = max(number, self._reads.get(buffer, -1))
        for buffer, operation in group.writes.items():
            table = self._disjoint_writes if _is_disjoint(operation) else self._writes
            table[buffer] = max(number, table.get(buffer, -1))

    def last_conflict(self, group: Group) -> int:
        """The number of the last group that must run before another one; -1 if there is none."""
        found = [-1]
        for buffer in group.reads:
            found += [self._writes.get(buffer, -1), self._disjoint_writes.get(buffer, -1)]
        for buffer, operation in group.writes.items():
            found += [self._reads.get(buffer, -1), self._writes.get(buffer, -1)]
            if not _is_disjoint(operation):
                found.append(self._disjoint_writes.get(buffer, -1))
        return max(found)


def _is_disjoint(operation: Operation) -> bool:
    return isinstance(operation, Update) and operation.disjoint


def _set_barriers(groups: Sequence[Group]) -> None:
    everything, divided = _Accesses(), _Accesses()
    for i, group in enumerate(groups):
        # What one worker does alone, it does in order.
        if (divided if group.workers == 1 else everything).last_conflict(group) >= 0:
            group.barrier = True
            everything, divided = _Accesses(), _Accesses()
        everything.add(i, group)
        if group.workers != 1:
            divided.add(i, group)


# --- groups ---


def _wide(sizes: Iterable[sympy.Expr]) -> Shape:
    return tuple(s for s in sizes if s != 1)


def _index(shape: Shape, variables: Sequence[sympy.Symbol]) -> list[sympy.Expr]:
    """An index of a shape, with the variables for its axes that are not of size 1."""
    rest = iter(variables)
    return [sympy.S.Zero if size == 1 else next(rest) for size in shape]


def _member(
    operation: Compute | Update | Reduce,
    variables: Sequence[sympy.Symbol],
    builder: Builder,
    *,
    is_row: bool,
    rows: int,
) -> Member:
    if isinstance(operation, Reduce):
        value = operation.element(
            [*_index(operation.kept, variables[:rows]), *_index(operation.reduced, variables[rows:])]
        )
        offset = operation.out.offset(_index(operation.kept, variables[:rows]))
        return Member(operation, is_row, value, offset, value.loads)
    index = _index(operation.shape, variables)
    offset = operation.position(index) if isinstance(operation, Update) else operation.out.offset(index)
    value = operation.element(index)
    places = (builder.indirect[s] for s in offset.free_symbols if s in builder.indirect)
    return Member(operation, is_row, value, offset, value.loads.union(*(p.loads for p in places)))


def _alone(operation: Operation, builder: Builder) -> Group:
    """A group of one operation."""
    if isinstance(operation, Product):
        m, _, n = operation.sizes
        return Group("product", _wide((sympy.Integer(m), n)), products=[operation])
    if isinstance(operation, Attention):
        return Group("attention", (), attention=operation)
    if isinstance(operation, Reduce):
        rows, inner = _wide(operation.kept), _wide(operation.reduced)
        group = Group("rows", rows, inner)
        member = _member(operation, group.variables, builder, is_row=False, rows=len(rows))
        if rows and inner and _is_by_columns(member, group):
            group.kind = "columns"
        group.members.append(member)
        return group
    group = Group("elements", _wide(operation.shape))
    group.members.append(_member(operation, group.variables, builder, is_row=True, rows=len(group.rows)))
    return group


def _is_by_columns(member: Member, group: Group) -> bool:
    """Whether neighbors in memory belong to different results."""
    last_row, last_inner = group.variables[len(group.rows) - 1], group.variables[-1]
    votes = 0
    for load in member.value.loads:
        if load.offset is None or load.buffer is None:
            continue
        offset = sympy.expand(load.offset)
        votes += (offset.coeff(last_row, 1) == 1) - (offset.coeff(last_inner, 1) == 1)
    return votes > 0


def _join(group: Group, operation: Operation, builder: Builder) -> bool:
    """Make an operation part of a group, if it fits."""
    if group.attention is not None or isinstance(operation, Attention):
        return False
    if len(group.members) + len(group.products) >= _MOST_MEMBERS:
        return False
    if isinstance(operation, Product):
        return _join_product(group, operation)
    if isinstance(operation, Reduce):
        rows, inner = _wide(operation.kept), _wide(operation.reduced)
        if group.kind == "elements":
            natural = list(operation.order) == sorted(operation.order)
            if not inner or group.rows != (*rows, *inner) or not natural:
                return False
            member = _member(operation, group.variables, builder, is_row=False, rows=len(rows))
            if not _fits(group, member):
                return False
            if _is_by_columns(member, Group("rows", rows, inner)) and rows:
                return False
            group.kind, group.rows, group.inner = "rows", rows, inner
            for other in group.members:
                other.is_row = False
            group.members.append(member)
            return True
        if group.kind not in ("rows", "columns") or (group.rows, group.inner) != (rows, inner):
            return False
        natural = list(operation.order) == sorted(operation.order)
        if any(isinstance(m.operation, Compute | Update) and not m.is_row for m in group.members) and not natural:
            return False
        member = _member(operation, group.variables, builder, is_row=False, rows=len(rows))
        if rows and inner and _is_by_columns(member, group) != (group.kind == "columns"):
            return False
        return _add(group, member)
    sizes = _wide(operation.shape)
    if group.kind in ("elements", "product"):
        if sizes != group.rows:
            return False
        return _add(group, _member(operation, group.variables, builder, is_row=True, rows=len(group.rows)))
    if sizes == group.rows:
        return _add(group, _member(operation, group.variables, builder, is_row=True, rows=len(group.rows)))
    if group.kind == "rows" and group.inner and sizes == (*group.rows, *group.inner) and _is_natural(group):
        return _add(group, _member(operation, group.variables, builder, is_row=False, rows=len(group.rows)))
    return False


def _is_natural(group: Group) -> bool:
    """Whether the group's axes stand in the order of the tensors that it reduces."""
    return all(
        list(m.operation.order) == sorted(m.operation.order) for m in group.members if isinstance(m.operation, Reduce)
    )


def _join_product(group: Group, operation: Product) -> bool:
    """Products with the same left operand, of matrices of one layout, share a loop."""
    if group.kind != "product" or group.members:
        return False
    first = group.products[0]
    same = (
        first.left.buffer is operation.left.buffer
        and first.left.start == operation.left.start
        and first.sizes == operation.sizes
        and (first.right.strides[0] == 1) == (operation.right.strides[0] == 1)
        and first.right.buffer.dtype is operation.right.buffer.dtype
    )
    if not same or operation.left.buffer in group.writes or operation.right.buffer in group.writes:
        return False
    group.products.append(operation)
    return True


def _add(group: Group, member: Member) -> bool:
    if not _fits(group, member):
        return False
    group.members.append(member)
    return True


def _fits(group: Group, member: Member) -> bool:
    """Whether a member reads what the group makes, and writes what the group reads, only at the same place."""
    made = group.writes
    if len(made.keys() | group.reads | _reads_of(member)) > _MOST_BUFFERS:
        return False
    places: dict[Buffer, sympy.Expr] = {m.out: m.offset for m in group.members}
    variables = group.variables
    for p in group.products:
        places[p.out] = p.out.offset(_index(p.out.shape, variables))
    for load in member.loads:
        if load.buffer in made:
            assert load.offset is not None
            if sympy.expand(load.offset - places[load.buffer]) != 0 or not _can_forward(group, load, member):
                return False
    if isinstance(member.operation, Update) and member.operation.accumulate and member.out in made:
        return False
    if isinstance(member.operation, Update) and any(s.name[0] == "t" for s in member.offset.free_symbols):
        # Where it writes is data: other rows may go there, too.
        if member.out in made or member.out in group.reads or member.out in _reads_of(member):
            return False
        return group.kind == "elements" and not group.members
    if member.out in made:
        return False
    return all(
        load.buffer is not member.out or sympy.expand(load.offset - member.offset) == 0
        for other in (*group.members, member)
        for load in other.loads
    )


def _can_forward(group: Group, load: Expr, member: Member) -> bool:
    """Whether a value that the group makes is one that a later member can take."""
    maker = group.writes[load.buffer]  # type: ignore[index]
    if isinstance(maker, Update) and maker.accumulate:
        return False
    if group.kind == "columns" and isinstance(maker, Compute | Update):
        return isinstance(member.operation, Compute | Update)
    return True


def _set_phases(group: Group) -> None:
    if group.kind not in ("rows", "columns"):
        return
    done: dict[Buffer, int] = {}
    for member in group.members:
        phase = 0
        for load in member.value.loads:
            if load.buffer in done:
                phase = max(phase, done[load.buffer])
        for other in group.members:
            # What is overwritten is read before, in the same loop or an earlier one.
            if other is member:
                break
            if any(load.buffer is member.out for load in other.value.loads):
                phase = max(phase, other.phase)
        member.phase = phase
        done[member.out] = phase + 1 if isinstance(member.operation, Reduce) else phase


def _work(group: Group) -> int | None:
    """About how many additions; None when it depends on sizes that change."""
    total = 0
    for p in group.products:
        m, k, n = p.sizes
        count = product((sympy.Integer(m), k, n))
        if not count.is_Integer:
            return None
        total += int(count) // 4
    if group.attention is not None:
        count = product(group.attention.sizes)
        if not count.is_Integer:
            return None
        batch, heads, _, rows, length, depth = (int(s) for s in group.attention.sizes)
        total += batch * heads * rows * length * depth // 4
    for member in group.members:
        count = product(group.rows if member.is_row else (*group.rows, *group.inner))
        if not count.is_Integer:
            return None
        total += int(count) * (1 + member.value.cost) // 4
    return total
