"""Where the values of a plan lie in its arena: offsets planned over lifetimes."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ALIGNMENT", "Lifetime", "Uses", "plan_offsets", "plan_offsets_of_lanes"]

#: Bytes; what PyTorch's own CPU allocator aligns to.
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Memory that is wanted from one step of a plan to another.

    Attributes:
        first: Step that writes it first.
        last: Last step that reads or writes it.
        nbytes: How much.
    """

    first: int
    last: int
    nbytes: int


def plan_offsets(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Offsets such that no two values that live at the same step overlap.

    Walks the steps once and gives each value the smallest free block that it fits into: time ``n log n``.

    Args:
        lifetimes: One for each value, in order of ``first``.

    Returns:
        Offset of each value, and size of the arena, both in bytes; offsets are multiples of :data:`ALIGNMENT`.
    """
    offsets = [0] * len(lifetimes)
    free = _FreeBlocks()
    ends = sorted(range(len(lifetimes)), key=lambda i: lifetimes[i].last)
    done = 0
    for i, lifetime in enumerate(lifetimes):
        while done < len(ends) and lifetimes[ends[done]].last < lifetime.first:
            gone = ends[done]
            free.give_back(offsets[gone], _aligned(lifetimes[gone].nbytes))
            done += 1
        offsets[i] = free.take(_aligned(lifetime.nbytes))
    return offsets, free.top


@dataclass(frozen=True, slots=True)
class Uses:
    """Memory that steps of several lanes use, by the clocks of ``runtime/order.py``.

    Attributes:
        step: The first step that uses it, in program order.
        first: What has ended when the first step of each lane that uses it starts.
        last: How many steps of each lane have ended when none uses it any more.
        nbytes: How much.
    """

    step: int
    first: tuple[tuple[int, ...], ...]
    last: tuple[int, ...]
    nbytes: int

    def end_before(self, clock: Sequence[int]) -> bool:
        """Whether nobody uses it any more."""
        return all(map(operator.le, self.last, clock))


def plan_offsets_of_lanes(uses: Sequence[Uses], horizons: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """Offsets such that values overlap only if all uses of one end before the first one of the other.

    Walks the program once and gives each value the smallest gap between those that may be used at the same time.

    Args:
        uses: One for each value, in any order.
        horizons: For each step, what has ended when it or a later one of the program starts.

    Returns:
        As :func:`plan_offsets`.
    """
    offsets = [0] * len(uses)
    top = 0
    live: list[int] = []
    for i in sorted(range(len(uses)), key=lambda i: uses[i].step):
        use, size = uses[i], _aligned(uses[i].nbytes)
        live = [j for j in live if not uses[j].end_before(horizons[use.step])]
        taken = sorted(
            (offsets[j], offsets[j] + _aligned(uses[j].nbytes))
            for j in live
            if not all(uses[j].end_before(clock) for clock in use.first)
        )
        offsets[i] = _smallest_gap(taken, size)
        top = max(top, offsets[i] + size)
        live.append(i)
    return offsets, top


def _smallest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Where so many bytes fit between ranges, which are sorted and may overlap; behind them if nowhere else."""
    end, best, best_size = 0, -1, -1
    for begin, after in taken:
        gap = begin - end
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = end, gap
        end = max(end, after)
    return end if best < 0 else best


def _aligned(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


class _FreeBlocks:
    """Free blocks below ``top``, no two of them adjacent."""

    def __init__(self) -> None:
        self.top = 0
        self._by_offset: list[tuple[int, int]] = []  # offset, size
        self._by_size: list[tuple[int, int]] = []  # size, offset

    def take(self, size: int) -> int:
        at = bisect.bisect_left(self._by_size, (size, 0))
        if at < len(self._by_size):
            found, offset = self._by_size[at]
            self._remove(offset, found)
            if found > size:
                self._add(offset + size, found - size)
            return offset
        # A free block at the end grows.
        if self._by_offset and sum(self._by_offset[-1]) == self.top:
            offset, found = self._by_offset[-1]
            self._remove(offset, found)
        else:
            offset = self.top
        self.top = offset + size
        return offset

    def give_back(self, offset: int, size: int) -> None:
        at = bisect.bisect_left(self._by_offset, (offset, 0))
        if at < len(self._by_offset) and self._by_offset[at][0] == offset + size:
            following = self._by_offset[at]
            self._remove(*following)
            size += following[1]
        if at > 0 and sum(self._by_offset[at - 1]) == offset:
            before = self._by_offset[at - 1]
            self._remove(*before)
            offset, size = before[0], before[1] + size
        self._add(offset, size)

    def _add(self, offset: int, size: int) -> None:
        bisect.insort(self._by_offset, (offset, size))
        bisect.insort(self._by_size, (size, offset))

    def _remove(self, offset: int, size: int) -> None:
        del self._by_offset[bisect.bisect_left(self._by_offset, (offset, size))]
        del self._by_size[bisect.bisect_left(self._by_size, (size, offset))]
