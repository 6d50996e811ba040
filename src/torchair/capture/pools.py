"""Pools: the memory that captured graphs share (specification, F-32).

A run borrows an arena for as long as it lasts, and nothing of what it returns lies there, so any number of graphs can
use one arena in turn: the memory of many captured graphs is that of the largest. Runs that go on at the same time take
an arena each.

A pool lives as long as a capture that uses it.
"""

from __future__ import annotations

import itertools
import weakref

from torchair.runtime.instance import Arena, new_arena

__all__ = ["Handle", "Pool", "all_pools", "graph_pool_handle", "named_pool", "shared_pool"]

Handle = tuple[int, int]

_handles = itertools.count(1)


class Pool:
    """Arenas that runs borrow.

    Attributes:
        free: Arenas that no run uses now; the last one is taken first. ``pop`` and ``append`` need no lock.
        shared: Several captures may use it.
    """

    __slots__ = ("__weakref__", "_arenas", "free", "shared")

    def __init__(self, *, shared: bool = True) -> None:
        self.shared = shared
        self.free: list[Arena] = []
        self._arenas: list[Arena] = []
        _all.add(self)

    def new_arena(self) -> Arena:
        """A further arena, in use from now on; give it back by appending it to ``free``."""
        arena = new_arena()
        self._arenas.append(arena)
        return arena

    @property
    def arenas(self) -> int:
        """How many arenas there are: the most runs that went on at the same time."""
        return len(self._arenas)

    @property
    def nbytes(self) -> int:
        """Bytes of all arenas."""
        return sum(arena.nbytes for arena in self._arenas)


_all: weakref.WeakSet[Pool] = weakref.WeakSet()
_named: weakref.WeakValueDictionary[Handle | None, Pool] = weakref.WeakValueDictionary()


def shared_pool() -> Pool:
    """The pool of all graphs that ask for no other."""
    return _pool(None)


def named_pool(handle: Handle) -> Pool:
    """The pool that a handle names."""
    return _pool(handle)


def _pool(name: Handle | None) -> Pool:
    pool = _named.get(name)
    if pool is None:
        pool = _named.setdefault(name, Pool())
    return pool


def graph_pool_handle() -> Handle:
    """A new name of a pool, for the option ``use_graph_pool``: graphs that are given the same one share memory."""
    return next(_handles), 0


def all_pools() -> list[Pool]:
    """The pools of the process."""
    return list(_all)
