"""How much all captures of the process may hold: beyond that, those that ran longest ago are dropped.

``capture_limit`` bounds the captures of one graph, and what is beyond it runs eagerly for good. These bounds are for
the process: a capture that is dropped is made again when its sizes come back.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchair.config.rules import show
from torchair.errors import ArgumentError
from torchair.logs import npugraph_ex_logger as logger

if TYPE_CHECKING:
    from torchair.capture.life_cycle import Capture, CapturedGraph, Key

__all__ = ["BOUNDS", "Bounds", "set_capture_bounds"]

#: What a launch takes in a plan and in its instance.
LAUNCH_BYTES = 2048


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 << 30


class Bounds:
    """The bounds, and the graphs that they are for.

    Attributes:
        captures: Most captures.
        nbytes: Most bytes that captures have for themselves: plans, static outputs, pools that nobody shares. The pools
            that are shared are as large as the largest graph, however many captures there are.
    """

    def __init__(self) -> None:
        self.captures = 4096
        self.nbytes = _physical_memory() // 4
        self._graphs: weakref.WeakSet[CapturedGraph] = weakref.WeakSet()

    def add(self, graph: CapturedGraph) -> None:
        """Let the bounds hold for a graph."""
        self._graphs.add(graph)

    def enforce(self, newest: Capture) -> None:
        """Drop the captures that ran longest ago until the rest is within the bounds.

        Args:
            newest: Stays, however large it is.
        """
        held = sorted(self._all(), key=lambda entry: entry[0].used)
        number, nbytes = len(held), sum(capture.held_bytes for capture, _, _ in held)
        for capture, graph, key in held:
            if number <= self.captures and nbytes <= self.nbytes:
                return
            if capture is newest:
                continue
            number -= 1
            nbytes -= capture.held_bytes
            logger.info("a capture of fx_graph %s is dropped: all captures hold more than they may", graph.name)
            graph.drop(key)

    def _all(self) -> Iterator[tuple[Capture, CapturedGraph, Key]]:
        for graph in list(self._graphs):
            for key, capture in list(graph.captures.items()):
                if hasattr(capture, "held_bytes"):  # captures of devices are not ours to drop
                    yield capture, graph, key


BOUNDS = Bounds()


def set_capture_bounds(captures: int | None = None, nbytes: int | None = None) -> None:
    """Bound what the captures of the process hold; those that ran longest ago go first, and are made again when needed.

    Args:
        captures: Most captures of all graphs; 4096 at first. None leaves the bound as it is.
        nbytes: Most bytes that they have for themselves; a quarter of the machine's memory at first. None likewise.

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
