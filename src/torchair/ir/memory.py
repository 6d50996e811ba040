"""Which values of a graph may share memory, and who reads memory that something has overwritten.

``Node.writes`` and ``Node.aliases`` say what a node does to memory. Values that are linked by them form a *group*: its
members may lie in one memory. That is an upper bound: two slices of one tensor are in one group although they do not
meet.

One kind of node is special. An operator that writes an argument through a view is followed by a ``ViewCopy`` that puts
the view back into its base::

    %view = AsStrided(%base, size, stride, offset) aliases %view=$0
    %view_1 = MyInplace(%view, %x) writes %view_1=$0
    %base_1 = ViewCopy(%base, size, stride, offset, %view_1, size, stride, offset) writes %base_1=$0

Run in place, ``MyInplace`` has already changed ``%base``, and ``ViewCopy`` finds the very elements that it should
write: it changes nothing. So it may read ``%base``, although that was overwritten, and its own write overwrites nothing
that others read. Such a node is called a *write-back*.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sympy

from torchair.ir.graph import Graph, Node, Value
from torchair.ir.types import Dim

__all__ = [
    "Memory",
    "StaleRead",
    "depends_on",
    "is_constant",
    "may_become_constant",
    "may_overlap_itself",
    "write_back_of",
]


@dataclass(frozen=True, slots=True)
class StaleRead:
    """A read that in-place execution would make wrong.

    Attributes:
        value: What is read.
        reader: Who reads it: a node, or None for a graph output or an update, after all nodes.
        writer: The node that overwrites its memory before (or, when it is the reader itself, meanwhile).
    """

    value: Value
    reader: Node | None
    writer: Node

    @property
    def text(self) -> str:
        """A sentence for messages."""
        if self.reader is self.writer:
            return f"{self.writer.name} reads %{self.value.name} while it overwrites memory that may be the same"
        who = "the graph returns or stores" if self.reader is None else f"{self.reader.name} reads"
        return f"{who} %{self.value.name} after {self.writer.name} has overwritten its memory"


class _Group(dict[Value, None]):
    """Values that may share memory.

    Attributes:
        is_plain: No node writes them, and none is an input, an output or an update of the graph. False may be wrong
            after edits.
    """

    is_plain = True


class Memory:
    """The memory groups of a graph.

    A pass that edits the graph keeps them right with :meth:`add`, :meth:`join` and :meth:`forget`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._revision = -1
        self._order: dict[Node, int] = {}
        self._group: dict[Value, _Group] = {value: _Group({value: None}) for value in graph.inputs}
        for node in graph:
            self.add(node)
        for value in (*graph.inputs, *graph.outputs, *(v for update in graph.updates for v in update)):
            if value in self._group:
                self._group[value].is_plain = False

    def add(self, node: Node) -> None:
        """Note a node, or what a changed node reads now."""
        for value in node.outputs:
            if value not in self._group:
                self._group[value] = _Group({value: None})
        operands = node.operands
        for output, operand in (*node.writes, *node.aliases):
            if (source := operands[operand]) is not None:
                self.join(node.outputs[output], source)
        for output, _ in node.writes:
            self._group[node.outputs[output]].is_plain = False

    @property
    def _position(self) -> dict[Node, int]:
        """A number for each node, by which they stand in order."""
        if self._revision != self.graph.order_revision:
            self._order = {node: i for i, node in enumerate(self.graph)}
            self._revision = self.graph.order_revision
        return self._order

    def place(self, node: Node) -> int:
        """Place of a node in execution order."""
        return self._position[node]

    def position(self, value: Value) -> int:
        """Place of the node that makes a value; -1 for graph inputs."""
        return -1 if value.producer is None else self._position[value.producer]

    def group(self, value: Value) -> tuple[Value, ...]:
        """The values that may share memory with one, itself included, in the order in which they are made."""
        return tuple(sorted(self._group[value], key=lambda v: (self.position(v), v.index)))

    def groups(self) -> list[tuple[Value, ...]]:
        """All groups, in the order of their first values."""
        first = {id(group): value for value, group in reversed(self._group.items())}
        return [self.group(value) for value in reversed(first.values())]

    def is_plain(self, value: Value) -> bool:
        """Whether nothing writes the memory of a value, and the caller has none of it."""
        return self._group[value].is_plain

    def share(self, a: Value, b: Value) -> bool:
        """True when two values may share memory."""
        return self._group[a] is self._group[b]

    def join(self, a: Value, b: Value) -> None:
        """Note that two values may share memory."""
        kept, merged = self._group[a], self._group[b]
        if kept is merged:
            return
        if len(kept) < len(merged):
            kept, merged = merged, kept
        kept.update(merged)
        kept.is_plain = kept.is_plain and merged.is_plain
        for value in merged:
            self._group[value] = kept

    def forget(self, node: Node) -> None:
        """Note that a node is being removed."""
        for value in node.outputs:
            self._group.pop(value).pop(value, None)

    def writers(self, values: Iterable[Value]) -> list[Node]:
        """The nodes that change the memory of one of the values, in order; write-backs change nothing."""
        found: dict[Node, None] = {}
        for value in values:
            for node in value.users:
                if not node.writes:
                    continue
                operands = node.operands
                if any(operands[operand] is value for _, operand in node.writes) and write_back_of(node) is None:
                    found[node] = None
        return sorted(found, key=self._position.__getitem__)

    def stale_reads(self, values: Iterable[Value], merged: tuple[Value, Value] | None = None) -> Iterator[StaleRead]:
        """Reads of overwritten memory, if all the values shared one memory.

        Args:
            merged: ``(copy, source)``: as if every reader of ``copy`` read ``source``.
        """
        members = dict.fromkeys(values)
        writers = self.writers(members)
        if not writers:
            return
        for value in members:
            made = self.position(merged[1] if merged is not None and value is merged[0] else value)
            later = [w for w in writers if self._position[w] > made]
            if not later:
                continue
            for reader in value.users:
                stale_by = self._stale_by(value, reader, later, members)
                if stale_by is not None:
                    yield StaleRead(value, reader, stale_by)
            if self.graph.is_read_outside(value) and not self._is_only_updated(value):
                yield StaleRead(value, None, later[0])

    def _stale_by(self, value: Value, reader: Node, writers: Sequence[Node], members: Collection[Value]) -> Node | None:
        """The node after which ``reader`` may not read ``value`` any more, or None."""
        at = self._position[reader]
        chain = write_back_of(reader)
        for writer in writers:
            if self._position[writer] < at:
                if chain is not None and reader.operands[0] is value and writer in chain:
                    # A write-back reads its base after the writes that it puts back, and after no others.
                    if self._is_put_back(reader, writer):
                        continue
                return writer
            if writer is reader and self._meets(value, reader, members):
                return writer
        return None

    def _meets(self, value: Value, node: Node, members: Collection[Value]) -> bool:
        """True when a node would begin to read, or to write, by one operand memory that it overwrites by another.

        Where the operand may lie in that memory already, that is meant: the operator sees what it sees in eager mode.
        Only ``ViewCopy`` never means it, since it has to tell a write-back from a copy.
        """
        operands = node.operands
        written = {operand for _, operand in node.writes}
        if any(operands[i] is value for i in written):
            others = (operands[i] for i in written)
            if any(v is not None and v in members and not self.share(v, value) for v in others):
                return True
        if not any(v is value and i not in written for i, v in enumerate(operands)):
            return False
        targets = (operands[operand] for operand in written)
        return node.op == "ViewCopy" or any(v is not None and not self.share(v, value) for v in targets)

    def _is_put_back(self, node: Node, writer: Node) -> bool:
        """True when all that ``writer`` wrote through views is put back one after the other, with no reader between.

        Between two write-backs of one operator the memory already has what the second one is to put there.
        """
        operands = writer.operands
        assert node.operands[0] is not None
        base = whole_memory(node.operands[0])
        pending = {
            writer.outputs[output]
            for output, operand in writer.writes
            if (view := operands[operand]) is not None and base in _bases(view)
        }
        current = node
        while (base_value := current.operands[0]) and _put_back_by(base_value.producer, writer):
            assert base_value.producer is not None
            current = base_value.producer
        chain = _put_back_by(current, writer)
        assert chain is not None
        while True:
            pending.discard(chain[writer])
            if not pending:
                return True
            uses = current.output.uses
            if len(uses) != 1 or uses[0].index != 0 or self.graph.is_read_outside(current.output):
                return False
            current = uses[0].node
            if (chain := _put_back_by(current, writer)) is None:
                return False

    def _is_only_updated(self, value: Value) -> bool:
        """True for a graph input that is only the target of an update: that writes it, and reads nothing."""
        read = any(value is out for out in self.graph.outputs) or any(
            value is source for _, source in self.graph.updates
        )
        return not read


def _put_back_by(node: Node | None, writer: Node) -> Mapping[Node, Value] | None:
    """The chain of a write-back that puts back something of ``writer``; None for other nodes."""
    chain = write_back_of(node) if node is not None else None
    return chain if chain is not None and writer in chain else None


def _bases(view: Value) -> set[Value]:
    """The whole memories that a value may be a view of."""
    found = {whole_memory(view)}
    producer = view.producer
    if producer is not None:
        for output, operand in producer.aliases:
            source = producer.operands[operand]
            if output == view.index and source is not None:
                found |= _bases(source)
    return found


def whole_memory(value: Value) -> Value:
    """The oldest value that is all of the same memory: goes back over nodes that overwrote it, not over views."""
    while value.producer is not None:
        producer = value.producer
        source = next((producer.operands[o] for i, o in producer.writes if i == value.index), None)
        if source is None:
            break
        value = source
    return value


def write_back_of(node: Node) -> Mapping[Node, Value] | None:
    """For a write-back: the nodes whose writes it puts back, each with its output; None for any other node.

    The geometry that it writes has to be that of the view, and the view has to be one of its base.
    """
    if node.op != "ViewCopy" or len(node.operands) != 8:
        return None
    dst, *to, src, size, stride, offset = node.operands
    if dst is None or src is None or not _same_numbers(to, (size, stride, offset)):
        return None
    writers: dict[Node, Value] = {}
    while src.producer is not None:
        producer = src.producer
        operands = producer.operands
        written = next((operands[operand] for output, operand in producer.writes if output == src.index), None)
        if written is None:
            break
        writers[producer] = src
        src = written
    view = src.producer
    if not writers or view is None or view.op != "AsStrided" or len(view.operands) != 4:
        return None
    base, *of = view.operands
    if base is None or not _same_numbers(to, of) or whole_memory(base) is not whole_memory(dst):
        return None
    return writers


def _same_numbers(a: Sequence[Value | None], b: Sequence[Value | None]) -> bool:
    return all(
        x is y or (x is not None and y is not None and x.type.content is not None and x.type.content == y.type.content)
        for x, y in zip(a, b, strict=True)
    )


#: Operators whose result is part of the graph.
_CONSTANTS = frozenset({"Const", "Constant", "HostInts"})


def is_constant(value: Value) -> bool:
    """True for a constant: an engine keeps one tensor for all runs."""
    return value.producer is not None and value.producer.op in _CONSTANTS


def may_become_constant(value: Value) -> bool:
    """True for a value that is the same in every run, so that an engine may compute it once and keep it."""
    pending, seen = [value], {value}
    while pending:
        producer = pending.pop().producer
        if producer is None or producer.side_effects or any(out.type.symbols for out in producer.outputs):
            return False
        pending += [v for v in producer.values if v not in seen]
        seen.update(producer.values)
    return True


def depends_on(value: Value, node: Node) -> bool:
    """True when a value is computed from what a node returns."""
    seen: set[Node] = set()
    pending = [value.producer]
    while pending:
        current = pending.pop()
        if current is node:
            return True
        if current is not None and current not in seen:
            seen.add(current)
            pending += [v.producer for v in current.values]
    return False


def may_overlap_itself(value: Value) -> bool:
    """False when no two elements of a value lie at one place of memory, as they do in an expanded tensor."""
    producer = value.producer
    if producer is None:
        return False
    operands = producer.operands
    for output, operand in producer.writes:
        if output == value.index and (source := operands[operand]) is not None:
            return may_overlap_itself(source)
    for output, operand in producer.aliases:
        if output != value.index or (source := operands[operand]) is None:
            continue
        if producer.op == "AsStrided":
            size, stride = (v.type.content if v is not None else None for v in operands[1:3])
            if size is None or stride is None or _strides_may_overlap(size, stride):
                return True
        elif not _has_no_more_elements(value, source) or may_overlap_itself(source):
            return True
    return False


def _has_no_more_elements(value: Value, source: Value) -> bool:
    """True when a view has at most as many elements as its source, so that none is there twice."""
    view, whole = math.prod(value.shape), math.prod(source.shape)
    return bool(view == whole or (isinstance(view, int) and isinstance(whole, int) and view <= whole))


def _strides_may_overlap(sizes: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    dims = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    if any(size == 0 for size, _ in dims):
        return False
    if all(isinstance(n, int) for dim in dims for n in dim):
        reached = 0
        for size, stride in sorted(dims, key=lambda dim: int(dim[1])):
            if int(stride) <= reached:
                return True
            reached += (int(size) - 1) * int(stride)
        return False
    # Symbolic: each stride has to be the number of elements of the faster dimensions.
    expected: Dim = 1
    while dims:
        match = next((dim for dim in dims if dim[1] == expected), None)
        if match is None:
            return True
        dims.remove(match)
        expected = sympy.sympify(expected) * match[0]
    return False
