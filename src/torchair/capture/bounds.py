"""How much all captures of the process may hold: beyond that, those that ran longest ago are dropped.

``capture_limit`` bounds the captures of one graph, and what is beyond it runs eagerly for good. These bounds are for
the process: a capture that is dropped is made again when its sizes come back.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import torch

from torchair.config.rules import show
from torchair.errors import ArgumentError
from torchair.logs import npugraph_ex_logger as logger

if TYPE_CHECKING:
    from torchair.capture.life_cycle import CapturedGraph, Key

__all__ = ["BOUNDS", "LAUNCH_BYTES", "RUNS", "Bounded", "Bounds", "set_capture_bounds"]

#: Numbers the runs of all captures, to tell which ran longest ago.
RUNS = itertools.count()

#: What a launch takes in a plan and in its instance.
LAUNCH_BYTES = 2048


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def _memory_of(device: torch.device) -> int:
    """Bytes of memory that a device has; where it does not tell, those of the machine."""
    describe = getattr(getattr(torch, device.type, None), "get_device_properties", None)
    total: Any = None if describe is None else getattr(describe(device), "total_memory", None)
    return total if isinstance(total, int) else _physical_memory()


class Bounded(Protocol):
    """A capture, as bounds see it."""

    @property
    def used(self) -> int:
        """Orders captures by their last run."""

    @property
    def held_bytes(self) -> int:
        """Bytes that are free when it is dropped."""

    @property
    def memory(self) -> torch.device | None:
        """The device whose memory it holds; None: that of the machine."""


class Bounds:
    """The bounds, and the graphs that they are for.

    Attributes:
        captures: Most captures.
        nbytes: Most bytes that captures have for themselves in the memory of the machine, and most in that of each
            device: plans, static outputs, pools that nobody shares, what a device graph added to its pool. The pools
            that are shared are as large as the largest graph, however many captures there are. None: a quarter of that
            memory.
    """

    def __init__(self) -> None:
        self.captures = 4096
        self.nbytes: int | None = None
        self._graphs: weakref.WeakSet[CapturedGraph] = weakref.WeakSet()
        self._quarters: dict[torch.device | None, int] = {}

    def add(self, graph: CapturedGraph) -> None:
        """Let the bounds hold for a graph."""
        self._graphs.add(graph)

    def enforce(self, newest: Bounded) -> None:
        """Drop the captures that ran longest ago until the rest is within the bounds.

        Args:
            newest: Stays, however large it is.
        """
        held = sorted(self._all(), key=lambda entry: entry[0].used)
        number, nbytes = len(held), Counter[torch.device | None]()
        for capture, _, _ in held:
            nbytes[capture.memory] += capture.held_bytes
        full = {memory for memory, n in nbytes.items() if n > self.bytes_in(memory)}
        for capture, graph, key in held:
            if number <= self.captures and not full:
                return
            if capture is newest or (number <= self.captures and not (capture.memory in full and capture.held_bytes)):
                continue
            number -= 1
            nbytes[capture.memory] -= capture.held_bytes
            if nbytes[capture.memory] <= self.bytes_in(capture.memory):
                full.discard(capture.memory)
            logger.info("a capture of fx_graph %s is dropped: all captures hold more than they may", graph.name)
            graph.drop(key)

    def bytes_in(self, memory: torch.device | None) -> int:
        """Most bytes in the memory of a device; None: of the machine."""
        if self.nbytes is not None:
            return self.nbytes
        if memory not in self._quarters:
            self._quarters[memory] = (_physical_memory() if memory is None else _memory_of(memory)) // 4
        return self._quarters[memory]

    def _all(self) -> Iterator[tuple[Bounded, CapturedGraph, Key]]:
        for graph in list(self._graphs):
            for key, capture in list(graph.captures.items()):
                yield capture, graph, key


BOUNDS = Bounds()


def set_capture_bounds(captures: int | None = None, nbytes: int | None = None) -> None:
    """Bound what the captures of the process hold; those that ran longest ago go first, and are made again when needed.

    Args:
        captures: Most captures of all graphs; 4096 at first. None leaves the bound as it is.
        nbytes: Most bytes that they have for themselves in the memory of the machine, and in that of each device; a
            quarter of it at first. None likewise.

    Raises:
        ArgumentError: A bound is not a positive int.
    """
    given: dict[str, object] = {"captures": captures, "nbytes": nbytes}
    for name, value in given.items():
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ArgumentError(
                "A bound of captures is not a positive int",
                why=f"{name} = {show(value)}",
                fix="npugraph_ex.set_capture_bounds(captures=1000, nbytes=2**30)",
            )
    BOUNDS.captures = BOUNDS.captures if captures is None else captures
    BOUNDS.nbytes = BOUNDS.nbytes if nbytes is None else nbytes
