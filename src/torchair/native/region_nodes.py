"""Nodes of one region -> operations, groups of them, and functions in C++; and the call that stands for them."""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch import fx

from torchair.native.emit import emit
from torchair.native.expressions import Buffer
from torchair.native.lower import lowering_of
from torchair.native.node_kinds import CREATIONS, tensors_of, writes
from torchair.native.program import NativeProgram, Output
from torchair.native.region import LoopValue, Region, Unsupported, sympy_shape
from torchair.native.schedule import Group, schedule
from torchair.native.scopes import limit_workers
from torchair.native.super_kernels import super_kernel, why_apart
from torchair.source_lines import source_line
from torchair.streams import set_stream

if TYPE_CHECKING:
    from torchair.native.partition import Partition, PartitionRecord

__all__ = ["RegionNodes"]


@dataclass(slots=True)
class RegionNodes:
    """The nodes of one region."""

    partition: Partition
    level: int
    nodes: list[fx.Node]
    region: Region = field(default_factory=Region)
    groups: list[Group] = field(default_factory=list)
    kernels: list[Any] = field(default_factory=list)
    results: dict[fx.Node, Buffer] = field(default_factory=dict)
    refused: dict[fx.Node, str] = field(default_factory=dict)

    def lower(self) -> None:
        """Fill in the region, or ``refused``: nodes that there is no code for after all."""
        self.region = region = Region(is_read_after=self._is_read_after)
        members = set(self.nodes)
        node = self.nodes[0]
        written = frozenset[fx.Node]().union(*map(self._memory_written, self.nodes))
        for node in self.nodes:
            self._lower(node, members, written)
        self._refuse_writes_under_several_names()
        if self.refused:
            return
        try:
            for node in self.nodes:
                if isinstance(node.meta["val"], torch.Tensor) and self.partition.is_read_outside(node, self.level):
                    self._result(node)
            self.groups = schedule(region.operations, region.builder)
            limit_workers(self.groups, self.partition.limit_of(self.level, self.nodes))
            wanted = set(self.results.values()) | {b for g in self.groups for b in g.writes if b.role == "input"}
            readers = Counter(b for g in self.groups for b in g.reads)
            for group in self.groups:
                stored = frozenset(b for b in group.writes if b in wanted or readers[b] > (b in group.reads))
                self.kernels.append(emit(group, region.builder, stored, region.errors))
        except Unsupported as e:
            self.refused[node] = str(e)

    def _lower(self, node: fx.Node, members: set[fx.Node], written: frozenset[fx.Node]) -> None:
        try:
            self._set_value(node, members, written)
        except Unsupported as e:
            self.refused[node] = str(e)
            # As if it came from outside: the next attempt finds it there, and this one finds all refusals.
            self._take_from_outside(node)

    def _set_value(self, node: fx.Node, members: set[fx.Node], written: frozenset[fx.Node]) -> None:
        region = self.region
        for used in node.all_input_nodes:
            self._prepare(used, members)
        region.label, region.where = _label(node), source_line(node)
        if node.target is operator.getitem:
            region.values[node] = region.values[node.args[0]][node.args[1]]  # type: ignore[index]
            return
        lowering = lowering_of(node.target)
        assert lowering is not None
        value = lowering(region, node)
        if isinstance(value, LoopValue) and (
            # What is written later, also through views of it.
            node in written
            # Sums along a chain of layers: else each layer would add up those of all layers before it.
            or (len(node.users) > 1 and not value.reads.isdisjoint(region.barriers))
        ):
            value = region.realize(value)
        region.values[node] = value

    def _take_from_outside(self, node: fx.Node) -> None:
        """Give a node a value that others can read."""
        region = self.region
        val = node.meta["val"]
        if isinstance(val, torch.Tensor):
            region.values[node] = region.from_buffer(region.input(node))
        else:
            region.values[node] = tuple(
                region.from_buffer(Buffer(node.name, t.dtype, sympy_shape(t.shape), sympy_shape(t.stride()), "input"))
                for t in tensors_of(val)
            )

    def _refuse_writes_under_several_names(self) -> None:
        """Leave writes to memory that comes in under several names to calls: programs tell memory by its name."""
        roots = self.partition.roots
        for node in self.nodes:
            memory = self._memory_written(node)
            names = [n.name for n in self.region.inputs if not roots[n].isdisjoint(memory)]
            if len(names) > 1:
                self.refused[node] = f"{' and '.join(names)} may be the same memory"

    def _is_read_after(self, node: fx.Node, write: fx.Node) -> bool:
        if node in self.partition.native and self.partition.is_read_outside(node, self.level):
            return True
        position = self.partition.position
        return any(
            position[user] >= position[write] or (user in self.partition.views and self._is_read_after(user, write))
            for user in node.users
        )

    def _prepare(self, node: fx.Node, members: set[fx.Node]) -> None:
        """Make the value of an argument known: views are followed to what they show, all else comes from outside."""
        region = self.region
        if node in region.values or node in members or not tensors_of(node.meta.get("val")):
            return
        if node in self.partition.views:
            base: Any = node.args[0]
            try:
                self._prepare(base, members)
                if node.target is operator.getitem:
                    region.values[node] = region.values[base][node.args[1]]
                    return
                lowering = lowering_of(node.target)
                assert lowering is not None
                region.values[node] = lowering(region, node)
            except Unsupported:
                if self._is_inside(node) or self._is_written(node):
                    raise
            else:
                return
        if isinstance(node.meta["val"], torch.Tensor):
            region.value(node)

    def _is_inside(self, node: fx.Node) -> bool:
        return self.partition.inside.get(node) == self.level

    def _is_written(self, node: fx.Node) -> bool:
        """Whether the region writes memory that a view lies in."""
        roots = self.partition.roots[node]
        return any(not roots.isdisjoint(self._memory_written(n)) for n in self.nodes)

    def _memory_written(self, node: fx.Node) -> frozenset[fx.Node]:
        """What made the memory that a node writes; nothing for those that write none."""
        argument: Any = node.args[0] if writes(node) else None
        return frozenset() if argument is None else self.partition.roots[argument]

    def _result(self, node: fx.Node) -> None:
        """Have a value in memory, in the strides that it has in the graph."""
        region = self.region
        value: LoopValue = region.values[node]
        tensor: torch.Tensor = node.meta["val"]
        strides = sympy_shape(tensor.stride())
        own = value.buffer
        if own is None or own.role != "workspace" or own.strides != strides or own in self.results.values():
            region.label = _label(node)
            made = region.realize(value.computed(), strides)
            own = made.buffer
            if not value.is_view:
                region.values[node] = made
        assert own is not None
        self.results[node] = own

    def call(self, graph: fx.Graph, new: dict[fx.Node, fx.Node], record: PartitionRecord) -> None:
        """Put the call into the graph that is built."""
        region = self.region
        used = {b for k in self.kernels for b in k.pointers}
        inputs = [(n, b) for n, b in region.inputs.items() if b in used]
        arguments = [n for n, _ in inputs]
        outputs = list(self.results.items())
        symbols = {s for k in self.kernels for s in k.sizes}
        for b in used | set(self.results.values()):
            for e in (*b.shape, *b.strides):
                symbols |= e.free_symbols
        sources = self._sources(symbols, arguments)
        written = {b for g in self.groups for b in g.writes}
        program = NativeProgram(
            self.groups,
            self.kernels,
            [b for _, b in inputs],
            sources,
            [Output(b, torch.device("cpu")) for _, b in outputs],
            [i for i, (_, b) in enumerate(inputs) if b in written],
        )
        record.programs.append(program)
        if (unit := self.partition.units.get(self.level)) is not None:
            is_first = all(made.scope != unit.kernel for made in record.super_kernels)
            after = "" if is_first else why_apart(unit, self.partition.refused)
            record.super_kernels.append(super_kernel(unit, self.partition.marks, after))
        call = graph.call_function(program, tuple(new[n] for n in arguments))
        (stream,) = {self.partition.stream(n) for n in self.nodes if n.target not in CREATIONS}
        set_stream(call, stream)
        call.meta["val"] = [n.meta["val"] for n, _ in outputs]
        for i, (node, _) in enumerate(outputs):
            item = graph.call_function(operator.getitem, (call, i))
            item.meta.update(node.meta)
            new[node] = item

    def _sources(
        self, symbols: set[sympy.Symbol], arguments: list[fx.Node]
    ) -> list[tuple[int, int | None, sympy.Symbol]]:
        """Where the values of symbols come from; adds arguments where no tensor tells."""
        found: dict[sympy.Symbol, tuple[int, int | None]] = {}
        for node in [*arguments, *(n for n in self.partition.nodes if n.op == "placeholder")]:
            value = node.meta.get("val")
            numbers: list[Any] = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]
            for d, number in enumerate(numbers):
                symbol = number.node.expr if isinstance(number, torch.SymInt) else None
                if symbol not in symbols or symbol in found:
                    continue
                if node not in arguments:
                    arguments.append(node)
                found[symbol] = arguments.index(node), d if isinstance(value, torch.Tensor) else None
        missing = symbols - found.keys()
        assert not missing, f"nothing tells {missing}"
        return [(*found[s], s) for s in sorted(symbols, key=str)]


def _label(node: fx.Node) -> str:
    val = node.meta.get("val")
    kind = f"{str(val.dtype).removeprefix('torch.')}{list(val.shape)}" if isinstance(val, torch.Tensor) else ""
    args = ", ".join(str(a) for a in node.args)
    return f"{node.name}: {kind} = {node.target}({args})"
