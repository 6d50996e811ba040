"""FX graph -> the same graph with parts of it replaced by native programs.

Nodes that there is code for, and whose inputs are ready at the same time, become one region. Views cost nothing on
either side: a view of what a region makes is an index map in it, a view of anything else is made outside.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.config import CoreCounts
from torchair.errors import Rejection
from torchair.logs import get_logger
from torchair.native.emit import emit
from torchair.native.expressions import Buffer
from torchair.native.formulas import C_TYPES
from torchair.native.levels import levels_of_scopes
from torchair.native.lower import load_lowerings, lowering_of
from torchair.native.lower.views import strided
from torchair.native.program import NativeProgram, Output, compile_programs
from torchair.native.region import LoopValue, Region, Unsupported, sympy_shape
from torchair.native.schedule import Group, schedule
from torchair.native.scopes import Mark, launch_limit, least_limit, limit_workers, mark_of
from torchair.native.super_kernels import kernels_to_give_up, options_of, super_kernel, why_apart
from torchair.native.support import load_support
from torchair.native.units import Unit
from torchair.report import SuperKernel
from torchair.streams import orders_streams, set_stream, stream_of

__all__ = ["PartitionRecord", "replace_regions"]

_log = get_logger(__name__)
aten = torch.ops.aten

_NO_MARK = Mark("")
_VIEWS = frozenset(
    {
        aten.alias.default, aten.detach.default, aten.view.default, aten.reshape.default, aten._unsafe_view.default,
        aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.permute.default,
        aten.t.default, aten.transpose.int, aten.numpy_T.default, aten.expand.default, aten.slice.Tensor,
        aten.select.int, aten.split_with_sizes.default, aten.split.Tensor, aten.unbind.int, aten.diagonal.default,
    }
)  # fmt: skip
_CREATIONS = frozenset(
    {aten.full.default, aten.full_like.default, aten.scalar_tensor.default, aten.zeros.default, aten.zeros_like.default,
     aten.ones.default, aten.ones_like.default, torch.ops.prims.iota.default}
)  # fmt: skip
_SIZES = frozenset(
    {aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default, aten.sym_storage_offset.default}
)  # fmt: skip


@dataclass(slots=True)
class PartitionRecord:
    """What became native, and why other nodes did not.

    Attributes:
        programs: One for each region.
        left: Operator name to reason, for nodes that stay as they are.
        super_kernels: The programs that are parts of scopes, in the order in which they run.
    """

    programs: list[NativeProgram] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    super_kernels: list[SuperKernel] = field(default_factory=list)


def replace_regions(
    gm: fx.GraphModule, *, compile: bool = True, limit: CoreCounts | None = None
) -> tuple[fx.GraphModule, PartitionRecord]:
    """Compile what can be compiled.

    Args:
        gm: ATen operators with fake tensors in ``meta["val"]``; it may write its inputs. Not changed.
        compile: Call the compiler now, and not when a program first runs.
        limit: Cores that programs use at most, outside of scopes that say something else.

    Returns:
        A graph with calls of native programs, and the record.

    Raises:
        EngineCompileError: A super kernel that must be one launch is not.
        ConfigValueError: A super kernel is to be launched on a number of cores that it cannot have.
    """
    load_lowerings()
    record = PartitionRecord()
    if isinstance(load_support(), Rejection):
        return gm, record
    if any(mark_of(node) or stream_of(node) for node in gm.graph.nodes):
        gm = _with_own_constants(gm)
    refused: dict[fx.Node, str] = {}
    given_up: set[str] = set()
    while True:
        partition = _Partition(gm, refused, frozenset(given_up), limit)
        regions = partition.lowered()
        found = {node: reason for region in regions for node, reason in region.refused.items()}
        refused.update(found)
        if not found and not (
            split := kernels_to_give_up(partition.units.values(), partition.marks, refused, given_up)
        ):
            break
        if not found:
            given_up |= split
    for node, reason in refused.items():
        if not _is_of_sizes(node):
            record.left.setdefault(str(node.target), reason)
    if not regions:
        return gm, record
    rebuilt = partition.rebuilt(regions, record)
    if compile:
        compile_programs(record.programs)
    return rebuilt, record


def _with_own_constants(gm: fx.GraphModule) -> fx.GraphModule:
    """The graph, with a constant for each node that reads it: it becomes part of that node's program."""
    graph = fx.Graph()
    new: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        copies = {n: graph.node_copy(n, lambda m: new[m]) for n in node.all_input_nodes if _is_copied(n)}
        new[node] = graph.node_copy(node, lambda n, copies=copies: copies.get(n) or new[n])  # type: ignore[misc]
    for node in reversed(graph.nodes):
        if node.target in _CREATIONS and not node.users:
            graph.erase_node(node)
    return fx.GraphModule(gm, graph)


def _is_copied(node: fx.Node) -> bool:
    """Whether a node makes a constant that nothing writes, and that several nodes read."""
    return (
        node.target in _CREATIONS
        and len(node.users) > 1
        and all(
            isinstance(u.target, OpOverload) and u.target not in _VIEWS and not u.target._schema.is_mutable
            for u in node.users
        )
    )


def _maker(node: fx.Node) -> fx.Node:
    """The node; of one of several results, what made them."""
    return node.args[0] if node.target is operator.getitem else node  # type: ignore[return-value]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, list | tuple) else []


def _size_symbols(nodes: Iterable[fx.Node]) -> Iterator[sympy.Symbol]:
    """Symbols that decide a size or stride: a plan is recorded for given values of these."""
    for node in nodes:
        for tensor in _tensors(node.meta.get("val")):
            for size in (*tensor.shape, *(tensor.stride() if tensor.layout is torch.strided else ())):
                if isinstance(size, torch.SymInt):
                    yield from size.node.expr.free_symbols


def _unusable(node: fx.Node) -> str:
    """Why a value is none that native code can read or make; empty if it is."""
    if node.op == "get_attr" and "val" not in node.meta:
        return "nothing is known of a constant"
    for tensor in _tensors(node.meta.get("val")):
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return "a tensor is not a dense one on the CPU"
        if tensor.dtype not in C_TYPES or tensor.is_quantized:
            return f"it has {tensor.dtype}"
        if tensor.is_conj() or tensor.is_neg():
            return "a tensor is conjugated"
        for size in (*tensor.shape, *tensor.stride()):
            if isinstance(size, torch.SymInt) and any(
                _torch_compat.is_unbacked(s) for s in size.node.expr.free_symbols
            ):
                return "a size is known only at run time"
    return ""


class _Partition:
    def __init__(
        self,
        gm: fx.GraphModule,
        refused: dict[fx.Node, str],
        given_up: frozenset[str] = frozenset(),
        limit: CoreCounts | None = None,
    ) -> None:
        self.gm = gm
        self.refused = refused
        self.given_up = given_up
        self.limit = limit
        self.marks: dict[fx.Node, Mark] = {n: m for n in gm.graph.nodes if (m := mark_of(n)) is not None}
        self.has_streams = any(stream_of(n) for n in gm.graph.nodes)
        self.units: dict[int, Unit] = {}  # super kernels, by level
        self.nodes = list(gm.graph.nodes)
        self.position = {n: i for i, n in enumerate(self.nodes)}
        self.native: set[fx.Node] = set()
        self.views: set[fx.Node] = set()
        self.roots: dict[fx.Node, frozenset[fx.Node]] = {}
        self.level: dict[fx.Node, int] = {}  # of the region of a native node; of an outer node: before that region
        self.size_symbols = frozenset(_size_symbols(self.nodes))
        self.inside: dict[fx.Node, int] = {}  # views: the region that its base is made in
        self._classify()
        self._find_levels()

    def _classify(self) -> None:
        for node in self.nodes:
            self.roots[node] = self._roots_of(node)
            if node.op != "call_function":
                continue
            if node.target is operator.getitem:
                base: Any = node.args[0]
                if base in self.views:
                    self.views.add(node)
                elif base in self.native:
                    self.native.add(node)
                continue
            lowering = lowering_of(node.target)
            if lowering is None:
                self.refused.setdefault(node, "there is no code for it")
                continue
            if node in self.refused:
                continue
            used = [node, *node.all_input_nodes]
            reason = next((r for r in map(_unusable, used) if r), "") or self._changing_number(node)
            if not _tensors(node.meta.get("val")):
                reason = reason or "its value is no tensor"
            if reason:
                self.refused[node] = reason
            elif node.target in _VIEWS:
                self.views.add(node)
            else:
                self.native.add(node)

    def _changing_number(self, node: fx.Node) -> str:
        """Why the numbers that a node takes are none for native code, which is bound once for given sizes."""
        for used in node.all_input_nodes:
            number = used.meta.get("val")
            if isinstance(number, torch.SymInt) and not number.node.expr.free_symbols <= self.size_symbols:
                return f"it takes the number {number}, which decides no size"
        return ""

    def _roots_of(self, node: fx.Node) -> frozenset[fx.Node]:
        """Nodes whose memory a value may lie in."""
        if node.op != "call_function":
            return frozenset({node})
        if node.target is operator.getitem or node.target in _VIEWS:
            return self.roots[node.args[0]]  # type: ignore[index]
        if isinstance(node.target, OpOverload):
            shared = [
                arg
                for argument, arg in zip(node.target._schema.arguments, node.args, strict=False)
                if argument.alias_info is not None and isinstance(arg, fx.Node)
            ]
            return frozenset({node}).union(*(self.roots[a] for a in shared))
        return frozenset({node}).union(*(self.roots[n] for n in node.all_input_nodes))

    def _find_levels(self) -> None:
        if self.marks or self.has_streams:
            self._find_levels_of_scopes()
            return
        for node, before in self._dependences():
            self._level_of(node, before)

    def _find_levels_of_scopes(self) -> None:
        """Levels where nodes of different scopes or streams have different ones, those of one super kernel the same."""
        kernels: dict[fx.Node, str] = {}
        streams: dict[str, str] = {}  # of each super kernel; its nodes on others run by themselves
        for node in self.nodes:
            kernel = self._mark(node).kernel if node in self.native else ""
            if (
                kernel
                and kernel not in self.given_up
                and streams.setdefault(kernel, self.stream(node)) == self.stream(node)
            ):
                kernels[node] = kernel
        found = levels_of_scopes(
            self.nodes,
            dict(self._dependences()),
            native=self.native,
            views=self.views,
            readers={n: r for n in self.nodes if n in self.native and (r := self._only_reader(n)) is not None},
            kernels=kernels,
            kinds={n: (self._limit_of([n]), self.stream(n)) for n in self.native},
        )
        self.level, self.inside, self.units = found.level, found.inside, found.units

    def _only_reader(self, node: fx.Node) -> fx.Node | None:
        """The native node that alone reads a constant, if there is one."""
        if node.target not in _CREATIONS or any(_tensors(n.meta.get("val")) for n in node.all_input_nodes):
            return None
        reader = node
        while reader is node or reader in self.views:
            if len(reader.users) != 1:
                return None
            (reader,) = reader.users
        return reader if reader in self.native and reader.target not in _CREATIONS else None

    def _limit_of(self, nodes: Iterable[fx.Node]) -> CoreCounts | None:
        return least_limit(map(self._mark, nodes), self.limit)

    def _mark(self, node: fx.Node) -> Mark:
        """The mark of a native node; one of several results has that of the node that made it."""
        return self.marks.get(_maker(node), _NO_MARK)

    def stream(self, node: fx.Node) -> str:
        """The stream of a node; one of several results has that of the node that made it."""
        return stream_of(_maker(node))

    def limit_of(self, level: int, nodes: Sequence[fx.Node]) -> CoreCounts | None:
        """Cores that the program of a level uses at most."""
        limit = self._limit_of(nodes)
        unit = self.units.get(level)
        return limit if unit is None else launch_limit(unit.kernel, options_of(unit, self.marks), limit)

    def _dependences(self) -> Iterator[tuple[fx.Node, set[fx.Node]]]:
        """For each node, those that must run before it."""
        last_access: dict[fx.Node, list[fx.Node]] = {}
        last_write: dict[fx.Node, fx.Node] = {}
        last_effect: fx.Node | None = None
        last_event: dict[str, fx.Node] = {}  # of each stream
        since_event: dict[str, list[fx.Node]] = {}
        for node in self.nodes:
            before: set[fx.Node] = set(node.all_input_nodes)
            if node.op == "call_function" and self.has_streams:
                stream = self.stream(node)
                if stream in last_event:
                    before.add(last_event[stream])
                if orders_streams(node):
                    before.update(since_event.pop(stream, ()))
                    last_event[stream] = node
                else:
                    since_event.setdefault(stream, []).append(node)
            touched = frozenset().union(*(self.roots[n] for n in node.all_input_nodes))
            writes = self.writes(node)
            effect = writes or _has_effect(node)
            for root in touched:
                if effect:
                    before.update(last_access.get(root, ()))
                if root in last_write:
                    before.add(last_write[root])
            if effect and node not in self.native and last_effect is not None:
                before.add(last_effect)
            yield node, before - {node}
            for root in touched:
                last_access.setdefault(root, []).append(node)
                if effect:
                    last_write[root] = node
            if effect and node not in self.native:
                last_effect = node

    def _level_of(self, node: fx.Node, before: Iterable[fx.Node]) -> None:
        native = node in self.native
        level = 0
        for used in before:
            if used in self.native:
                level = max(level, self.level[used] + (0 if native else 1))
            elif native and used in self.views and used in self.inside:
                level = max(level, self.inside[used])
            else:
                level = max(level, self.level[used])
        self.level[node] = level
        if node in self.views:
            base: Any = node.args[0]
            if base in self.native:
                self.inside[node] = self.level[base]
            elif base in self.inside:
                self.inside[node] = self.inside[base]

    def writes(self, node: fx.Node) -> bool:
        return isinstance(node.target, OpOverload) and node.target._schema.is_mutable

    # --- regions ---

    def regions(self) -> list[_RegionNodes]:
        by_level: dict[int, list[fx.Node]] = {}
        for node in self.nodes:
            if node in self.native:
                by_level.setdefault(self.level[node], []).append(node)
        return [
            _RegionNodes(self, level, nodes)
            for level, nodes in sorted(by_level.items())
            if any(n.target not in _CREATIONS and n.target is not operator.getitem for n in nodes)
        ]

    def lowered(self) -> list[_RegionNodes]:
        """The regions, lowered; or with the nodes that have no code after all."""
        regions = self.regions()
        for region in regions:
            region.lower()
        return regions

    def rebuilt(self, regions: list[_RegionNodes], record: PartitionRecord) -> fx.GraphModule:
        taken = {n for r in regions for n in r.nodes}
        graph = fx.Graph()
        new: dict[fx.Node, fx.Node] = {}
        outer: dict[int, list[fx.Node]] = {}
        for node in self.nodes:
            if node not in taken and node.op != "output":
                outer.setdefault(self.level[node], []).append(node)
        by_level = {r.level: r for r in regions}
        for level in range(1 + max([*outer, *by_level], default=0)):
            for node in outer.get(level, ()):
                if node in self.views and node in self.inside and self._base_is_taken(node, taken, new):
                    continue  # nothing outside reads it
                new[node] = graph.node_copy(node, lambda n: new[n])
            if level in by_level:
                by_level[level].call(graph, new, record)
        output = self.nodes[-1]
        graph.node_copy(output, lambda n: new[n])
        for node in reversed(graph.nodes):
            if not node.users and (node.target in _VIEWS or node.target is operator.getitem):
                graph.erase_node(node)
        return fx.GraphModule(self.gm, graph)

    def _base_is_taken(self, node: fx.Node, taken: set[fx.Node], new: dict[fx.Node, fx.Node]) -> bool:
        return any(n not in new for n in node.all_input_nodes)

    def is_read_outside(self, node: fx.Node, level: int) -> bool:
        """Whether somebody outside of a region reads a value of it, or a view of it."""
        for user in node.users:
            if user.op == "output":
                return True
            if user in self.native and self.level[user] == level:
                continue
            if user in self.views:
                if self.is_read_outside(user, level):
                    return True
                continue
            return True
        return False


def _has_effect(node: fx.Node) -> bool:
    if node.op != "call_function":
        return False
    if isinstance(node.target, OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags or node.target.namespace not in ("aten", "prims")
    return node.target is not operator.getitem and not _is_symbolic(node)


def _is_symbolic(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def _is_of_sizes(node: fx.Node) -> bool:
    """Whether a node looks up a size or computes with numbers: no work that a program could take over."""
    return _is_symbolic(node) and (not isinstance(node.target, OpOverload) or node.target in _SIZES)


@dataclass(slots=True)
class _RegionNodes:
    """The nodes of one region."""

    partition: _Partition
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
        written = frozenset().union(
            *(self.partition.roots[n.args[0]] for n in self.nodes if self.partition.writes(n))  # type: ignore[index]
        )
        for node in self.nodes:
            self._lower(node, members, written)
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
        region.label = _label(node)
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
                for t in _tensors(val)
            )

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
        if node in region.values or node in members or not _tensors(node.meta.get("val")):
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
        return any(
            self.partition.writes(n) and not roots.isdisjoint(self.partition.roots[n.args[0]])  # type: ignore[index]
            for n in self.nodes
        )

    def _result(self, node: fx.Node) -> None:
        """Have a value in memory, in the strides that it has in the graph."""
        region = self.region
        value: LoopValue = region.values[node]
        tensor: torch.Tensor = node.meta["val"]
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            place = strided(region, value)
            assert place is not None, "what was written is in memory"
            if place.buffer.role == "input":
                return  # it is the argument
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
        program = NativeProgram(
            self.groups,
            self.kernels,
            [b for _, b in inputs],
            sources,
            [Output(b, torch.device("cpu")) for _, b in outputs],
            [i for i, (_, b) in enumerate(inputs) if any(b in g.writes for g in self.groups)],
        )
        record.programs.append(program)
        if (unit := self.partition.units.get(self.level)) is not None:
            is_first = all(made.scope != unit.kernel for made in record.super_kernels)
            after = "" if is_first else why_apart(unit, self.partition.refused)
            record.super_kernels.append(super_kernel(unit, self.partition.marks, after))
        call = graph.call_function(program, tuple(new[n] for n in arguments))
        (stream,) = {self.partition.stream(n) for n in self.nodes if n.target not in _CREATIONS}
        set_stream(call, stream)
        call.meta["val"] = [n.meta["val"] for n, _ in outputs]
        for i, (node, _) in enumerate(outputs):
            item = graph.call_function(operator.getitem, (call, i))
            item.meta.update(node.meta)
            new[node] = item
        for node in self.nodes:
            if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
                target: Any = node.args[0]
                if target in new:
                    new[node] = new[target]

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
