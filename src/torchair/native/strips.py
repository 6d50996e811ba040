"""A long loop body -> several short loops over strips of its index, so that iterations overlap.

In a chain of many operators each one waits for the one before. A processor works on a few hundred instructions at a
time: with a long body these belong to one iteration, and most of the time is waiting. Short loops over a strip have the
next iterations at hand; what one hands to the next lies in an array in the nearest cache.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["strip_loops"]

#: Elements in a strip.
_STRIP = 256
#: In additions: what a body has at least that is split, and each of the loops that it becomes.
_LONG, _SHORT = 64, 24
#: Most values that one loop hands to the next.
_MOST_HANDED_ON = 3

_DEFINITION = re.compile(r"const (\w+) (\w+) = (.*);")
_STORE = re.compile(r"\w+\[.*\] = (.*);")
_NAME = re.compile(r"[A-Za-z_]\w*")
_LOAD = re.compile(r"in\d+\[[^?]*\]")


@dataclass(slots=True)
class _Statement:
    """A line of the body.

    Attributes:
        defines: The variable, or nothing for a store.
        type: Of the variable.
        is_load: From memory that the loop does not write: it may be repeated.
    """

    line: str
    names: frozenset[str]
    defines: str = ""
    type: str = ""
    is_load: bool = False

    @property
    def weight(self) -> int:
        return 1 + 10 * self.line.count("tair::") + 4 * self.line.count(" / ")


@dataclass(slots=True)
class _Loop:
    statements: list[_Statement] = field(default_factory=list)
    handed_on: list[_Statement] = field(default_factory=list)

    @property
    def weight(self) -> int:
        return sum(s.weight for s in self.statements)


def strip_loops(body: Sequence[str], index: str, begin: str, end: str, pragma: str) -> list[str] | None:
    """The loops, or None where one loop over all is right.

    Args:
        body: Definitions of constants, and stores.
        index, begin, end: The loop variable and its bounds.
        pragma: What stands before each loop.
    """
    statements = [_parse(line) for line in body]
    known = [s for s in statements if s is not None]
    if len(known) < len(statements) or sum(s.weight for s in known) < _LONG:
        return None
    loops = _split(known)
    if len(loops) == 1:
        return None
    arrays = {s.defines: s.type for loop in loops for s in loop.handed_on}
    lines = [f"alignas(64) {type} kept_{name}[{_STRIP}];" for name, type in arrays.items()]
    lines.append(f"for (int64_t strip = {begin}; strip < {end}; strip += {_STRIP}) {{")
    lines.append(f"  const int64_t strip_end = tair::minimum<int64_t>(strip + {_STRIP}, {end});")
    for loop in loops:
        defined = {s.defines for s in loop.statements}
        missing = {n for s in loop.statements for n in s.names} - defined
        before = [s for s in known if s.defines in missing]
        taken = [
            s.line if s.is_load else f"const {s.type} {s.defines} = kept_{s.defines}[{index} - strip];" for s in before
        ]
        kept = [f"kept_{s.defines}[{index} - strip] = {s.defines};" for s in loop.handed_on if s.defines in defined]
        lines += [
            pragma,
            f"  for (int64_t {index} = strip; {index} < strip_end; ++{index}) {{",
            *(f"    {line}" for line in (*taken, *(s.line for s in loop.statements), *kept)),
            "  }",
        ]
    return [*lines, "}"]


def _parse(line: str) -> _Statement | None:
    if found := _DEFINITION.fullmatch(line):
        type, name, value = found.groups()
        is_load = _LOAD.fullmatch(value) is not None
        return _Statement(line, frozenset(_NAME.findall(value)), name, type, is_load)
    return _Statement(line, frozenset(_NAME.findall(line))) if _STORE.fullmatch(line) else None


def _split(statements: Sequence[_Statement]) -> list[_Loop]:
    last_use = {name: i for i, s in enumerate(statements) for name in s.names}
    loops = [_Loop()]
    live: dict[str, _Statement] = {}
    rest = sum(s.weight for s in statements)
    for i, statement in enumerate(statements):
        loops[-1].statements.append(statement)
        rest -= statement.weight
        if statement.defines:
            live[statement.defines] = statement
        live = {name: s for name, s in live.items() if last_use.get(name, -1) > i}
        handed_on = [s for s in live.values() if not s.is_load]
        if loops[-1].weight >= _SHORT and rest >= _SHORT and len(handed_on) <= _MOST_HANDED_ON:
            loops[-1].handed_on = handed_on
            loops.append(_Loop())
    return loops
