"""Levels of nodes where scopes say which nodes may be part of one program."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from torchair.native.units import Unit, ordered_units

__all__ = ["Levels", "levels_of_scopes"]

#: A level, and one of the programs of that level.
_Place = tuple[int, int]


@dataclass(slots=True)
class Levels:
    """When nodes run.

    Attributes:
        level: Of a native node: that of its program, which has it alone. Of another one: it runs before that program.
        inside: Level of the program that makes what a view shows.
        units: The super kernels, by level.
    """

    level: dict[fx.Node, int] = field(default_factory=dict)
    inside: dict[fx.Node, int] = field(default_factory=dict)
    units: dict[int, Unit] = field(default_factory=dict)


def levels_of_scopes(
    nodes: Sequence[fx.Node],
    before: Mapping[fx.Node, Collection[fx.Node]],
    *,
    native: Collection[fx.Node],
    views: Collection[fx.Node],
    readers: Mapping[fx.Node, fx.Node],
    kernels: Mapping[fx.Node, str],
    kinds: Mapping[fx.Node, Hashable],
) -> Levels:
    """Put nodes into programs: nodes of one super kernel into one, if that is possible; others with nodes of one kind.

    Args:
        nodes: In an order that works.
        before: For each, those that must run before.
        native: Those that there is code for.
        views: Those that show what another one made.
        readers: Native constants, each with the only native node that reads it: they are part of that one's program.
        kernels: Names of super kernels, of nodes that are in one.
        kinds: Of native nodes: those that differ are in different programs.
    """
    bases = _bases(nodes, native, views)
    # What a native node takes by way of views, it takes from the node that made it.
    needs = {
        node: {(bases.get(u, u) if node in native else u) for u in used} - readers.keys() - {node}
        for node, used in before.items()
    }
    found = Levels()
    place: dict[fx.Node, _Place] = {}
    programs: dict[Any, int] = {}
    units: dict[_Place, Unit] = {}
    inner = {n: k for n, k in kernels.items() if n not in readers}
    for unit in ordered_units([n for n in nodes if n not in readers], needs, inner):
        first = unit.nodes[0]
        program = programs.setdefault(unit if unit.kernel else kinds.get(first), len(programs))
        members = set(unit.nodes)
        level = max(
            (
                found.level[used] + (used in native and not (node in native and place[used][1] == program))
                for node in unit.nodes
                for used in needs[node]
                if used not in members
            ),
            default=0,
        )
        for node in unit.nodes:
            found.level[node] = level
            if node in native:
                place[node] = level, program
        if unit.kernel:
            units[level, program] = unit
    for constant, reader in readers.items():
        found.level[constant], place[constant] = found.level[reader], place[reader]
    _number(found, place, units)
    found.inside = {view: found.level[base] for view, base in bases.items()}
    return found


def _bases(nodes: Sequence[fx.Node], native: Collection[fx.Node], views: Collection[fx.Node]) -> dict[fx.Node, fx.Node]:
    """The native node that made what a view shows."""
    bases: dict[fx.Node, fx.Node] = {}
    for node in nodes:
        if node in views:
            base: Any = node.args[0]
            if base in native or base in bases:
                bases[node] = bases.get(base, base)
    return bases


def _number(found: Levels, place: Mapping[fx.Node, _Place], units: Mapping[_Place, Unit]) -> None:
    """Give each program a level of its own. What is none runs before the first program of its old level."""
    numbers: dict[_Place, int] = {}
    first: dict[int, int] = {}
    for level, program in sorted({*place.values(), *((level, -1) for level in found.level.values())}):
        first.setdefault(level, len(numbers))
        if program >= 0:
            numbers[level, program] = len(numbers)
    for node, level in found.level.items():
        found.level[node] = numbers[place[node]] if node in place else first[level]
    found.units = {numbers[pair]: unit for pair, unit in units.items()}
