"""FX graph -> the same graph with parts of it replaced by native programs.

Nodes that there is code for, and whose inputs are ready at the same time, become one region. Views cost nothing on
either side: a view of what a region makes is an index map in it, a view of anything else is made outside.
"""

from __future__ import annotations

import operator
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
from torchair.native.levels import levels_of_scopes
from torchair.native.lower import load_lowerings, lowering_of
from torchair.native.node_kinds import (
    CREATIONS,
    VIEWS,
    has_effect,
    is_known_late,
    is_of_sizes,
    maker_of,
    tensors_of,
    why_unusable,
    writes,
)
from torchair.native.plain_views import make_views_plain
from torchair.native.program import NativeProgram, compile_programs
from torchair.native.region_nodes import RegionNodes
from torchair.native.scopes import Mark, launch_limit, least_limit, mark_of
from torchair.native.super_kernels import kernels_to_give_up, options_of
from torchair.native.support import load_support
from torchair.native.units import Unit
from torchair.native.written_arguments import name_once
from torchair.report import SuperKernel
from torchair.streams import orders_streams, stream_of

__all__ = ["PartitionRecord", "fuses_with_copy", "replace_regions"]

aten = torch.ops.aten

#: Operators that stay calls on purpose, since the user asked for them.
_ASKED_FOR = {"air.packed_linear.default": "it is the packed product that use_internal_format_weight asks for"}

_NO_MARK = Mark("")


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


def fuses_with_copy(node: fx.Node) -> bool:
    """Whether an operator and a ``copy_`` of its result are one loop: in-place forms of such operators have no code."""
    if isinstance(load_support(), Rejection):
        return False
    load_lowerings()
    return torch.Tag.pointwise in getattr(node.target, "tags", ()) and lowering_of(node.target) is not None


def replace_regions(
    gm: fx.GraphModule, *, compile: bool = True, limit: CoreCounts | None = None
) -> tuple[fx.GraphModule, PartitionRecord]:
    """Compile what can be compiled.

    Args:
        gm: ATen operators with fake tensors in ``meta["val"]``; it may write its inputs. Not changed, but for
            ``as_strided`` that is ``view``, and results that are arguments.
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
    make_views_plain(gm.graph)
    name_once(gm.graph)
    if any(mark_of(node) or stream_of(node) for node in gm.graph.nodes):
        gm = _with_own_constants(gm)
    refused: dict[fx.Node, str] = {}
    given_up: set[str] = set()
    while True:
        partition = Partition(gm, refused, frozenset(given_up), limit)
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
        if not is_of_sizes(node):
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
        if node.target in CREATIONS and not node.users:
            graph.erase_node(node)
    return _torch_compat.graph_module(gm, graph)


def _is_copied(node: fx.Node) -> bool:
    """Whether a node makes a constant that nothing writes, and that several nodes read."""
    return (
        node.target in CREATIONS
        and len(node.users) > 1
        and all(
            isinstance(u.target, OpOverload) and u.target not in VIEWS and not u.target._schema.is_mutable
            for u in node.users
        )
    )


def _size_symbols(nodes: Iterable[fx.Node]) -> Iterator[sympy.Symbol]:
    """Symbols that decide a size or stride: a plan is recorded for given values of these."""
    for node in nodes:
        for tensor in tensors_of(node.meta.get("val")):
            for size in (*tensor.shape, *(tensor.stride() if tensor.layout is torch.strided else ())):
                if isinstance(size, torch.SymInt):
                    yield from size.node.expr.free_symbols


class Partition:
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
                self.refused.setdefault(node, _ASKED_FOR.get(str(node.target), "there is no code for it"))
                continue
            if node in self.refused:
                continue
            used = [node, *node.all_input_nodes]
            reason = next((r for r in map(why_unusable, used) if r), "") or self._changing_number(node)
            if not tensors_of(node.meta.get("val")):
                reason = reason or "its value is no tensor"
            if reason:
                self.refused[node] = reason
            elif node.target in VIEWS:
                self.views.add(node)
            else:
                self.native.add(node)

    def _changing_number(self, node: fx.Node) -> str:
        """Why the numbers that a node takes are none for native code, which is bound once for given sizes."""
        for used in node.all_input_nodes:
            number = used.meta.get("val")
            if is_known_late(number):
                return f"it takes the number {number}, which is known only at run time"
            if isinstance(number, torch.SymInt) and not number.node.expr.free_symbols <= self.size_symbols:
                return f"it takes the number {number}, which decides no size"
        return ""

    def _roots_of(self, node: fx.Node) -> frozenset[fx.Node]:
        """Nodes whose memory a value may lie in."""
        if node.op != "call_function":
            return frozenset({node})
        if node.target is operator.getitem or node.target in VIEWS:
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
        if node.target not in CREATIONS or any(tensors_of(n.meta.get("val")) for n in node.all_input_nodes):
            return None
        reader = node
        while reader is node or reader in self.views:
            if len(reader.users) != 1:
                return None
            (reader,) = reader.users
        return reader if reader in self.native and reader.target not in CREATIONS else None

    def _limit_of(self, nodes: Iterable[fx.Node]) -> CoreCounts | None:
        return least_limit(map(self._mark, nodes), self.limit)

    def _mark(self, node: fx.Node) -> Mark:
        """The mark of a native node; one of several results has that of the node that made it."""
        return self.marks.get(maker_of(node), _NO_MARK)

    def stream(self, node: fx.Node) -> str:
        """The stream of a node; one of several results has that of the node that made it."""
        return stream_of(maker_of(node))

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
            is_write = writes(node)
            effect = is_write or has_effect(node)
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

    # --- regions ---

    def regions(self) -> list[RegionNodes]:
        by_level: dict[int, list[fx.Node]] = {}
        for node in self.nodes:
            if node in self.native:
                by_level.setdefault(self.level[node], []).append(node)
        return [
            RegionNodes(self, level, nodes)
            for level, nodes in sorted(by_level.items())
            if any(n.target not in CREATIONS and n.target is not operator.getitem for n in nodes)
        ]

    def lowered(self) -> list[RegionNodes]:
        """The regions, lowered; or with the nodes that have no code after all."""
        regions = self.regions()
        for region in regions:
            region.lower()
        return regions

    def rebuilt(self, regions: list[RegionNodes], record: PartitionRecord) -> fx.GraphModule:
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
            if not node.users and (node.target in VIEWS or node.target is operator.getitem):
                graph.erase_node(node)
        return _torch_compat.graph_module(self.gm, graph)

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
