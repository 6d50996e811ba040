"""What of a plan runs before what, and whether that is enough: steps that touch the same memory must be in order.

The order of steps is that of their lanes and of ``Step.after``, and what follows from both. A vector clock says it for
each step: how many steps of each lane have ended when it starts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from torchair import _torch_compat
from torchair.runtime.plan import Call, Item, Launch, Native, Plan, Step, slots_in

__all__ = ["Clock", "Clocks", "Region", "accesses", "clocks_of", "joined", "order_problems"]

#: How many steps of each lane have ended.
Clock = tuple[int, ...]


class Clocks:
    """Vector clocks of steps, which are added in an order that works.

    Attributes:
        lane: Of each step.
        count: Which step of its lane it is; the first one is 1.
        before: What has ended when it starts.
    """

    def __init__(self, lanes: int) -> None:
        self.lane: list[int] = []
        self.count: list[int] = []
        self.before: list[Clock] = []
        self._zero: Clock = (0,) * lanes
        self._last: list[Clock] = [self._zero] * lanes  # with all steps so far

    def add(self, lane: int, after: Iterable[int] = (), clocks: Iterable[Clock] = ()) -> None:
        """Add a step.

        Args:
            after: Steps that end before it.
            clocks: The same, as clocks.
        """
        before = joined(self._last[lane], *(self.after(step) for step in after), *clocks)
        self.lane.append(lane)
        self.count.append(before[lane] + 1)
        self.before.append(before)
        self._last[lane] = self.after(len(self.lane) - 1)

    def after(self, step: int) -> Clock:
        """What has ended when a step has."""
        lane, before = self.lane[step], self.before[step]
        return (*before[:lane], self.count[step], *before[lane + 1 :])

    def now(self, lane: int) -> Clock:
        """What has ended when the last step of a lane has."""
        return self._last[lane]

    def ended_before(self, first: int, second: int) -> bool:
        """Whether a step has ended when another one starts."""
        return self.before[second][self.lane[first]] >= self.count[first]

    def ordered(self, first: int, second: int) -> bool:
        """Whether two steps can never run at the same time."""
        return first == second or self.ended_before(first, second) or self.ended_before(second, first)


def joined(*clocks: Clock) -> Clock:
    """What has ended when all that the clocks say has."""
    return tuple(map(max, zip(*clocks, strict=True))) if len(clocks) > 1 else clocks[0]


def clocks_of(steps: Sequence[Step], lanes: int) -> Clocks:
    """The clocks of a plan's steps."""
    clocks = Clocks(lanes)
    for step in steps:
        clocks.add(step.lane, step.after)
    return clocks


def order_problems(plan: Plan) -> list[str]:
    """Why a run of a plan may have a race, whatever the speed of its lanes; empty for a good plan.

    Two steps that touch the same memory, one of them writing, have to be in order. What views of it touch counts as all
    of it; what Python does to its arguments is not known.

    Returns:
        A line for each pair, with both operators.
    """
    problems = [
        f"step {i}, {step.label}, waits for step {after}, which does not come before it in another lane"
        for i, step in enumerate(plan.steps)
        for after in step.after
        if not 0 <= after < i or plan.steps[after].lane == step.lane
    ]
    return problems if problems or len(plan.lanes) == 1 else _races(plan)


@dataclass(frozen=True, slots=True)
class Region:
    """Memory.

    Attributes:
        of: What it is part of, and a number: of an input, of a slot.
        begin: First byte.
        end: After the last one; 0: all of it.
    """

    of: tuple[str, int]
    begin: int = 0
    end: int = 0

    def __str__(self) -> str:
        what, number = self.of
        if what in ("the arena", "static memory"):
            return f"bytes {self.begin} to {self.end} of {what}"
        return f"{what} {number}"


@dataclass(slots=True)
class _Accesses:
    """Who touches a region."""

    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


_Regions = dict[int, frozenset[Region]]  # of each slot


def accesses(plan: Plan) -> list[tuple[set[Region], set[Region]]]:
    """What each step of a plan reads and what it writes; views count as all of what they show."""
    regions = _regions_before_run(plan)
    held = regions.keys() - set(range(plan.inputs))
    found = []
    for step in plan.steps:
        reads, writes = _accesses(step.launch, regions)
        reads |= {Region(("slot", s)) for s in step.launch.reads if s not in held}
        writes |= {Region(("slot", s)) for s in (*step.launch.writes, *step.release) if s >= 0 and s not in held}
        found.append((reads - writes, writes))
    return found


def _races(plan: Plan) -> list[str]:
    clocks = clocks_of(plan.steps, len(plan.lanes))
    touched: dict[Region, _Accesses] = {}
    for i, (reads, writes) in enumerate(accesses(plan)):
        for region in reads:
            touched.setdefault(region, _Accesses()).reads.append(i)
        for region in writes:
            touched.setdefault(region, _Accesses()).writes.append(i)
    found: dict[tuple[int, int], Region] = {}
    for region, users in touched.items():
        _note_races(found, clocks, region, users, users)
    for a, b in _overlapping(touched):
        _note_races(found, clocks, b, touched[a], touched[b])
        _note_races(found, clocks, b, touched[b], touched[a])
    name = [f"step {i}, {s.label}{f' ({s.where})' if s.where else ''}" for i, s in enumerate(plan.steps)]
    return [f"{name[a]}, and {name[b]} are not in order, and touch {what}" for (a, b), what in sorted(found.items())]


def _note_races(
    found: dict[tuple[int, int], Region], clocks: Clocks, region: Region, writers: _Accesses, others: _Accesses
) -> None:
    for write in writers.writes:
        for other in (*others.reads, *others.writes):
            if not clocks.ordered(write, other):
                found.setdefault((min(write, other), max(write, other)), region)


def _overlapping(regions: Iterable[Region]) -> list[tuple[Region, Region]]:
    """Pairs of different regions that share bytes."""
    pairs = []
    live: list[Region] = []
    for region in sorted((r for r in regions if r.end), key=lambda r: (r.of, r.begin)):
        live = [r for r in live if r.of == region.of and r.end > region.begin]
        pairs += [(r, region) for r in live]
        live.append(region)
    return pairs


def _regions_before_run(plan: Plan) -> _Regions:
    """Memory of the slots that hold something when the steps begin."""
    regions: _Regions = {i: frozenset({Region(("input", i))}) for i in range(plan.inputs)}
    for slot, value in plan.constants.items():
        is_memory = isinstance(value, torch.Tensor) and value.layout is torch.strided
        regions[slot] = frozenset({Region(("constant", _torch_compat.storage_id(value)))} if is_memory else ())
    for b in plan.buffers:
        # The tensors of buffers are dense.
        end = b.offset + max(math.prod(b.sizes) * b.dtype.itemsize, 1)
        regions[b.slot] = frozenset({Region(("static memory" if b.static else "the arena", 0), b.offset, end)})
    for view in (*plan.held_views, *plan.kept_views):
        shared = frozenset().union(*(regions[s] for s in view.reads))
        regions.update((slot, shared) for slot in view.writes if slot >= 0)
    return regions


def _accesses(launch: Launch, regions: _Regions) -> tuple[set[Region], set[Region]]:
    """What a launch reads and what it writes; notes where its results lie."""
    given = frozenset().union(*(regions.get(s, frozenset()) for s in launch.reads))
    writes: set[Region] = set()
    shares = True
    if isinstance(launch, Call):
        for argument, value in zip(launch.op._schema.arguments, launch.args, strict=True):
            if argument.alias_info is not None and argument.alias_info.is_write:
                writes |= frozenset().union(*(regions.get(s, frozenset()) for s in slots_in([value])))
        shares = launch.may_alias
    elif isinstance(launch, Native):
        for pointer in launch.pointers:
            if pointer.written:
                writes |= regions.get(pointer.slot, frozenset())
        shares = False
    for slot in launch.writes:
        if slot >= 0 and not (isinstance(launch, Native) and slot not in launch.fresh):
            own = frozenset({Region(("the result in slot", slot))})
            regions[slot] = given if isinstance(launch, Item) else (given | own if shares else own)
    return set(given - writes), writes
