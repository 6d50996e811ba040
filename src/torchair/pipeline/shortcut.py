"""The way past AOTAutograd's wrapper, for graphs where it only hands arguments and results on.

The wrapper is a dozen Python calls a replay. Where its metadata says that it has nothing to do (no inputs that are
written, no outputs that are views of inputs, no symbolic sizes, no subclasses), a call that finds a capture replays it
at once. Every other call takes the way through the wrapper: the first one, and one that runs eagerly.
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
        self._compiled: list[CapturedGraph | None] = []

    def see(self, graph: fx.GraphModule, compiled: object) -> None:
        """Take in a graph that AOTAutograd is compiling, and what became of it."""
        direct = compiled if type(compiled) is CapturedGraph else None
        if isinstance(compiled, CompiledGraph):
            direct = compiled.direct
        self._compiled.append(direct if _torch_compat.wrapper_is_empty(graph, self._gm) else None)

    def beside(self, wrapped: Callable[..., Any]) -> Callable[..., Any]:
        """The function that Dynamo calls, with the way past AOTAutograd's wrapper if there is one."""
        if len(self._compiled) != 1 or self._compiled[0] is None:
            return wrapped
        return self._compiled[0].replaying(wrapped)
