"""Which nodes of super kernels can run in one launch, and in which order all nodes run then.

Nodes of a scope are one unit unless what one of them takes is made from another one's result by a node that is none of
them. Then there are two units: what comes before that node, and what comes after it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from torch import fx

__all__ = ["Unit", "ordered_units"]


@dataclass(eq=False, slots=True)
class Unit:
    """Nodes that run at once.

    Attributes:
        nodes: In order.
        kernel: Name of the super kernel; empty: one node of none.
        after: Why it is not one with the unit of that name before it: a node between the two; None for the first, and
            where the units of two super kernels would wait for each other.
    """

    nodes: list[fx.Node]
    kernel: str = ""
    after: fx.Node | None = None
    depends: set[Unit] = field(default_factory=set)


def ordered_units(
    nodes: Sequence[fx.Node], before: Mapping[fx.Node, Collection[fx.Node]], kernels: Mapping[fx.Node, str]
) -> list[Unit]:
    """All nodes in units, in an order in which each finds what it takes.

    Args:
        nodes: In an order that works.
        before: For each, those that must run before.
        kernels: Names of super kernels, of nodes that are in one.
    """
    units, unit_of = _by_scope(nodes, before, kernels)
    _connect(nodes, before, unit_of)
    position = {n: i for i, n in enumerate(nodes)}
    order = _sorted(units, position)
    if len(order) < len(units):
        # Super kernels that wait for each other: they end where another one begins in the order of nodes.
        done = set(order)
        _cut([u for u in units if u not in done and u.kernel], units, unit_of, position)
        _connect(nodes, before, unit_of)
        order = _sorted(units, position)
    assert len(order) == len(units), "pieces follow the order of nodes"
    return order


def _by_scope(
    nodes: Sequence[fx.Node], before: Mapping[fx.Node, Collection[fx.Node]], kernels: Mapping[fx.Node, str]
) -> tuple[list[Unit], dict[fx.Node, Unit]]:
    # For each super kernel that a node is in or depends on: twice the number of its unit; 1 more after the unit.
    seen: dict[fx.Node, dict[str, int]] = {}
    units: list[Unit] = []
    unit_of: dict[fx.Node, Unit] = {}
    found: dict[tuple[str, int], Unit] = {}
    for node in nodes:
        own = kernels.get(node, "")
        numbers: dict[str, int] = {}
        for used in before[node]:
            for name, number in seen[used].items():
                numbers[name] = max(number, numbers.get(name, 0))
        entered = numbers.get(own, 0)
        numbers = {name: number if name == own else number | 1 for name, number in numbers.items()}
        if not own:
            unit = Unit([node])
            units.append(unit)
        else:
            numbers[own] = entered + (entered & 1)
            key = own, numbers[own]
            if key not in found:
                between = None
                if entered & 1:
                    between = _first_outside(node, own, entered, before, seen)
                found[key] = Unit([], own, between)
                units.append(found[key])
            unit = found[key]
            unit.nodes.append(node)
        seen[node] = numbers
        unit_of[node] = unit
    return units, unit_of


def _first_outside(
    node: fx.Node,
    kernel: str,
    number: int,
    before: Mapping[fx.Node, Collection[fx.Node]],
    seen: Mapping[fx.Node, Mapping[str, int]],
) -> fx.Node:
    """The node that left a super kernel which another one, behind it, is in again."""
    while (used := next((u for u in before[node] if seen[u].get(kernel) == number), None)) is not None:
        node = used
    return node


def _connect(
    nodes: Sequence[fx.Node], before: Mapping[fx.Node, Collection[fx.Node]], unit_of: Mapping[fx.Node, Unit]
) -> None:
    for unit in unit_of.values():
        unit.depends = set()
    for node in nodes:
        unit_of[node].depends.update(unit_of[used] for used in before[node])
    for unit in unit_of.values():
        unit.depends.discard(unit)


def _sorted(units: Sequence[Unit], position: Mapping[fx.Node, int]) -> list[Unit]:
    """The units in order; without those that wait for each other, and what depends on them."""
    waiting = Counter({unit: len(unit.depends) for unit in units})
    users: dict[Unit, list[Unit]] = {}
    for unit in units:
        for used in unit.depends:
            users.setdefault(used, []).append(unit)
    ready = [(position[u.nodes[0]], u) for u in units if not u.depends]
    heap = [(p, i) for i, (p, _) in enumerate(ready)]
    listed = [u for _, u in ready]
    heapq.heapify(heap)
    order = []
    while heap:
        _, i = heapq.heappop(heap)
        unit = listed[i]
        order.append(unit)
        for user in users.get(unit, ()):
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(heap, (position[user.nodes[0]], len(listed)))
                listed.append(user)
    return order


def _cut(
    entangled: Sequence[Unit], units: list[Unit], unit_of: dict[fx.Node, Unit], position: Mapping[fx.Node, int]
) -> None:
    """Make a unit of each run of nodes between which no node of another one stands."""
    members = sorted((node for unit in entangled for node in unit.nodes), key=position.__getitem__)
    whole = {node: unit for unit in entangled for node in unit.nodes}
    for unit in entangled:
        units.remove(unit)
    last: Unit | None = None
    current = Unit([])
    for node in members:
        if whole[node] is not last:
            last = whole[node]
            current = Unit([], last.kernel, last.after if node is last.nodes[0] else None)
            units.append(current)
        current.nodes.append(node)
        unit_of[node] = current
