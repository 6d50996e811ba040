"""The way past AOTAutograd's wrapper, for graphs where it only hands arguments and results on.

The wrapper is a dozen Python calls a replay. Where its metadata says that it has nothing to do but to increment the
versions of inputs that the graph writes (no inputs that are written afterwards, no outputs that are views of inputs, no
symbolic sizes, no subclasses), a call that finds a capture replays it at once. Every other call takes the way through
the wrapper: the first one, and one that runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from torchair import _torch_compat
from torchair.capture.life_cycle import CapturedGraph
from torchair.pipeline.ge_mode import CompiledGraph

__all__ = ["Shortcut"]


class Shortcut:
    """What AOTAutograd compiles for one graph of Dynamo's.

    Args:
        gm: Dynamo's graph.
    """

    def __init__(self, gm: fx.GraphModule) -> None:
        self._gm = gm
        self._compiled: list[tuple[CapturedGraph, tuple[int, ...]] | None] = []

    def see(self, graph: fx.GraphModule, compiled: object) -> None:
        """Take in a graph that AOTAutograd is compiling, and what became of it."""
        direct = compiled if type(compiled) is CapturedGraph else None
        if isinstance(compiled, CompiledGraph):
            direct = compiled.direct
        written = _torch_compat.written_if_wrapper_is_empty(graph, self._gm)
        self._compiled.append(None if direct is None or written is None else (direct, written))

    def beside(self, wrapped: Callable[..., Any]) -> Callable[..., Any]:
        """The function that Dynamo calls, with the way past AOTAutograd's wrapper if there is one."""
        if len(self._compiled) != 1 or self._compiled[0] is None:
            return wrapped
        direct, written = self._compiled[0]
        return direct.replaying(wrapped, written)
