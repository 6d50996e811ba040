"""Which lane runs each step of a plan, and after which steps of other lanes.

Order comes from what the user wrote (records and waits), and from what steps do: who makes a value before who reads it,
who writes memory before and after who touches it, random numbers and other effects as the program has them.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import fx

from torchair._torch_compat import OpOverload, has_python_kernel
from torchair.capture.values import aliases_arguments, tensor_leaves, written_arguments
from torchair.config import CoreCounts
from torchair.native import NativeProgram
from torchair.runtime.memory import Uses
from torchair.runtime.order import Clock, Clocks, joined
from torchair.runtime.plan import Callback, Launch
from torchair.streams import stream_of

__all__ = ["Access", "LaneOrder", "labels_of", "within_limit"]

#: Namespaces of operators that several processes run together: all have to begin them in the same order.
_COLLECTIVE = frozenset({"_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d", "npu_define"})

#: Operators without results that order themselves, by tokens and waits.
_ORDERED_OTHERWISE = frozenset({"npugraph_ex", "air"})

#: ATen operators that use the cores for products of matrices.
_PRODUCTS = frozenset(
    f"aten::{name}"
    for name in (
        *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "matmul", "linear", "convolution"),
        *("_convolution", "mkldnn_rnn_layer", "_scaled_dot_product_flash_attention_for_cpu"),
    )
)

_EFFECT = ("effects",)  # as memory that everything with an effect writes
_COLLECTIVES = ("collectives",)


def labels_of(nodes: Iterable[fx.Node]) -> tuple[str, ...]:
    """The label of each lane: the default one, then the others in order of appearance."""
    return tuple(dict.fromkeys(["", *(stream_of(n) for n in nodes if n.op == "call_function")]))


@dataclass(slots=True)
class Access:
    """What a step touches: memory by who brought it in, or by a name.

    Attributes:
        reads: What it reads.
        writes: What it writes.
        makes: What it makes.
    """

    reads: set[Any] = field(default_factory=set)
    writes: set[Any] = field(default_factory=set)
    makes: set[Any] = field(default_factory=set)

    @classmethod
    def of(cls, node: fx.Node, launch: Launch, memory: Mapping[fx.Node, Collection[Any]]) -> Access:
        """What the launch of a node touches.

        Args:
            memory: What the value of each node may lie in.
        """
        access = cls(reads={m for n in node.all_input_nodes for m in memory[n]})
        written: list[Any] = []
        target = node.target
        if isinstance(target, OpOverload):
            schema = target._schema
            args = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
            written = [args.get(schema.arguments[i].name) for i in written_arguments(target)]
            if target.namespace in _COLLECTIVE:
                access.writes.add(_COLLECTIVES)
            elif _has_effect(node, target):
                access.writes.add(_EFFECT)
        elif isinstance(target, NativeProgram):
            tensors = [a for a in node.args if isinstance(a, fx.Node)]
            written = [tensors[i] for i in target.written]
        elif isinstance(launch, Callback) and any(list(tensor_leaves(n.meta.get("val"))) for n in node.all_input_nodes):
            written = list(node.all_input_nodes)  # nothing is known of it
            access.writes.add(_EFFECT)
        fx.map_arg(written, lambda n: access.writes.update(memory[n]))
        access.makes = set(memory[node]) - access.reads if node.op == "call_function" else set()
        access.reads -= access.writes
        return access


def _has_effect(node: fx.Node, op: OpOverload) -> bool:
    if torch.Tag.nondeterministic_seeded in op.tags:
        return True
    if op._schema.is_mutable or op.namespace in _ORDERED_OTHERWISE:
        return False
    return node.is_impure() or not op._schema.returns


def within_limit(node: fx.Node, limit: CoreCounts | None, cores: int) -> int:
    """How many of some cores a node may use under a limit; 0, all, stays 0 where the limit allows as many."""
    if limit is None:
        return cores
    is_product = isinstance(node.target, OpOverload) and node.target._schema.name in _PRODUCTS
    most = limit.for_mixed if isinstance(node.target, NativeProgram) else limit.cube if is_product else limit.for_vector
    return min(cores or most, most)


def _surely_computes(node: fx.Node) -> bool:
    """Whether a launch uses cores all the time; one in Python, or with other processes, may wait for something else."""
    target = node.target
    if isinstance(target, OpOverload):
        is_view = bool(aliases_arguments(target)) and not target._schema.is_mutable
        return not is_view and target.namespace not in _COLLECTIVE and not has_python_kernel(target)
    return isinstance(target, NativeProgram)


class LaneOrder:
    """The order of the steps of a plan, which are added in program order.

    Attributes:
        lanes: Label of each lane.
        after: Of each step, the steps of other lanes that it waits for.
        unordered: Steps, maker and user, that what the user wrote does not order.
        clocks: When they run.
    """

    def __init__(self, lanes: Sequence[str]) -> None:
        self.lanes = tuple(lanes)
        self.after: list[tuple[int, ...]] = []
        self.unordered: dict[tuple[int, int], None] = {}
        self.clocks = Clocks(len(lanes))
        self._written = Clocks(len(lanes))  # by what the user wrote alone
        self._number = {label: i for i, label in enumerate(lanes)}
        self._pending: list[tuple[Clock, Clock]] = [(self._zero, self._zero)] * len(lanes)  # waits for the next step
        self._tokens: dict[fx.Node, tuple[Clock, Clock]] = {}
        self._makers: dict[fx.Node, int] = {}
        self._writer: dict[Any, int] = {}
        self._readers: dict[Any, dict[int, int]] = {}  # since the last write: of each lane the last one
        self._positions: list[list[int]] = [[] for _ in lanes]  # of the steps of each lane
        self._computes: list[bool] = []  # each step
        self._users: dict[Any, list[int]] = {}  # of memory

    @property
    def _zero(self) -> Clock:
        return (0,) * len(self.lanes)

    def lane_of(self, node: fx.Node) -> int:
        """The lane of a node."""
        return self._number[stream_of(node)]

    def record(self, node: fx.Node) -> None:
        """A token for all that was issued so far on a stream, and for what its next step waits for."""
        lane = self.lane_of(node)
        pending = self._pending[lane]
        self._tokens[node] = joined(self.clocks.now(lane), pending[0]), joined(self._written.now(lane), pending[1])

    def wait(self, node: fx.Node) -> None:
        """Let the next step of a stream wait for tokens and for the makers of tensors."""
        lane = self.lane_of(node)
        for used in node.all_input_nodes:
            maker = self._maker_of(used)
            token = self._tokens.get(used)
            if token is None and maker is not None:
                token = self.clocks.after(maker), self._written.after(maker)
            if token is not None:
                pending = self._pending[lane]
                self._pending[lane] = joined(pending[0], token[0]), joined(pending[1], token[1])

    def _maker_of(self, node: fx.Node) -> int | None:
        """The step that made a value; of an item or view that needs no step, the one that made what it is part of."""
        seen: fx.Node = node
        while seen not in self._makers:
            is_part = seen.target is operator.getitem or (
                isinstance(seen.target, OpOverload) and bool(aliases_arguments(seen.target))
            )
            if not is_part or not seen.all_input_nodes:
                return None
            seen = seen.all_input_nodes[0]
        return self._makers[seen]

    def add(self, node: fx.Node, launch: Launch, access: Access) -> None:
        """The next step."""
        step, lane = len(self.after), self.lane_of(node)
        needs = self._conflicts(access, launch)
        pending, self._pending[lane] = self._pending[lane], (self._zero, self._zero)
        is_view = isinstance(node.target, OpOverload) and bool(aliases_arguments(node.target)) and not access.writes
        self._written.add(lane, clocks=[pending[1]])
        if not is_view:
            for need, is_effect in needs.items():
                if not is_effect and not self._written.ended_before(need, step):
                    self.unordered[need, step] = None
        self.after.append(self._reduced(lane, needs, pending[0]))
        self.clocks.add(lane, self.after[-1])
        self._positions[lane].append(step)
        self._computes.append(_surely_computes(node))
        self._makers[node] = step
        self._note(step, lane, access, launch)

    def _conflicts(self, access: Access, launch: Launch) -> dict[int, bool]:
        """Steps that have to end before one that does this; whether an effect is the only reason."""
        found: dict[int, bool] = {}

        def note(step: int, memory: Any) -> None:
            is_effect = memory in (_EFFECT, _COLLECTIVES)
            found[step] = found.get(step, True) and is_effect

        slots = {("slot", s) for s in launch.reads}
        for memory in (*access.reads, *access.writes, *slots):
            if memory in self._writer:
                note(self._writer[memory], memory)
        for memory in access.writes:
            for step in self._readers.get(memory, {}).values():
                note(step, memory)
        return found

    def _note(self, step: int, lane: int, access: Access, launch: Launch) -> None:
        for memory in access.reads | access.writes | access.makes:
            self._users.setdefault(memory, []).append(step)
        for memory in access.reads:
            self._readers.setdefault(memory, {})[lane] = step
        for memory in (*access.writes, *access.makes, *(("slot", s) for s in launch.writes if s >= 0)):
            self._writer[memory] = step
            self._readers[memory] = {}

    def _reduced(self, lane: int, needs: Iterable[int], pending: Clock) -> tuple[int, ...]:
        """The steps of other lanes to wait for: of each lane the last one, without those that others imply."""
        wanted = list(joined(pending, *(self._only(n) for n in needs)))
        wanted[lane] = 0
        candidates = [
            self._positions[other][count - 1]
            for other, count in enumerate(wanted)
            if count > self.clocks.now(lane)[other]
        ]
        return tuple(
            sorted(
                c
                for c in candidates
                if not any(other != c and self.clocks.ended_before(c, other) for other in candidates)
            )
        )

    def _only(self, step: int) -> Clock:
        clock = list(self._zero)
        clock[self.clocks.lane[step]] = self.clocks.count[step]
        return tuple(clock)

    def cores(self, most: int) -> list[int]:
        """How many workers each step may use of so many: all where no other lane runs; else a share of them.

        What may only wait (a callback, a collective) leaves its share to what computes meanwhile.

        Returns:
            One number a step; 0: all.
        """
        computing = [list(accumulate((self._computes[p] for p in steps), initial=0)) for steps in self._positions]
        found = []
        for step, lane in enumerate(self.clocks.lane):
            is_after = partial(self.clocks.ended_before, step)
            lanes = 1
            for other, positions in enumerate(self._positions):
                # Steps of the other lane that neither end before this one nor begin after it.
                first = self.clocks.before[step][other]
                end = bisect_left(positions, True, first, key=is_after)
                count = computing[other][end] - computing[other][first] if self._computes[step] else end - first
                lanes += other != lane and count > 0
            found.append(0 if lanes == 1 else max(1, most // lanes))
        return found

    def ends_all(self, steps: Iterable[int]) -> int | None:
        """The one of some steps that starts when all others have ended; None where there is none."""
        given = sorted(steps)
        last = given[-1]
        return last if all(s == last or self.clocks.ended_before(s, last) for s in given) else None

    def uses(self, memory: Any, nbytes: int) -> Uses | None:
        """What planning has to know of memory; None for memory that no step uses."""
        steps = self._users.get(memory)
        if not steps:
            return None
        last = [0] * len(self.lanes)
        first: dict[int, Clock] = {}
        for step in steps:
            lane = self.clocks.lane[step]
            last[lane] = self.clocks.count[step]
            first.setdefault(lane, self.clocks.before[step])
        return Uses(steps[0], tuple(first.values()), tuple(last), nbytes)

    def horizons(self) -> list[Clock]:
        """For each step, what has ended when it or any step behind it in the program starts."""
        found: list[Clock] = []
        following: dict[int, Clock] = {}  # of each lane, the clock of its first step that is not before this one
        for step in reversed(range(len(self.after))):
            following[self.clocks.lane[step]] = self.clocks.before[step]
            found.append(tuple(map(min, zip(*following.values(), strict=True))))
        return found[::-1]
