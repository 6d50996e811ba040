"""Capture mode: FX graph -> FX passes -> reinplacing -> a plan for each shape key -> replay."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from torch import fx

from torchair import _torch_compat
from torchair.capture.record import Recorder
from torchair.capture.values import key_sources, key_symbols
from torchair.config import Options
from torchair.logs import npugraph_ex_logger as logger
from torchair.runtime.instance import Arena, Instance, new_arena
from torchair.runtime.plan import Plan

__all__ = ["CapturedGraph", "capture_graph"]

_numbers = itertools.count(1)


class Capture:
    """One plan, and its instances."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.instances: dict[Arena, Instance] = {}

    def instance(self, arena: Arena) -> Instance:
        found = self.instances.get(arena)
        if found is None:
            found = self.instances[arena] = Instance(self.plan, arena)
        return found


class CapturedGraph:
    """One FX graph, captured once for each shape key and replayed.

    Attributes:
        number: Counts the graphs of the process from 1.
        gm: The FX graph as it is captured.
    """

    _boxed_call = True

    def __init__(self, number: int, gm: fx.GraphModule, options: Options, static_inputs: Collection[int]) -> None:
        self.number = number
        self.gm = gm
        self.captures: dict[tuple[int, ...], Capture] = {}
        self._recorder = Recorder(gm, static_inputs, static_outputs=options.capture.clone_output is False)
        self._symbols = key_symbols(gm.graph)
        self._sources = key_sources(gm.graph, self._symbols)
        self._free: list[Arena] = []

    def __call__(self, args: list[Any]) -> list[Any]:
        """Run with the flat arguments of the FX graph; the list is emptied, so that inputs can be freed early."""
        key = tuple([source.read(args) for source in self._sources])
        capture = self.captures.get(key)
        if capture is None:
            capture = self.captures[key] = self._capture(key)
        try:
            arena = self._free.pop()
        except IndexError:
            arena = new_arena()
        try:
            return capture.instance(arena).run(args)
        finally:
            self._free.append(arena)

    def check(self, args: Sequence[Any]) -> None:
        """Compare arguments with what the graph was compiled for."""

    def _capture(self, key: tuple[int, ...]) -> Capture:
        plan = self._recorder.record(dict(zip(self._symbols, key, strict=True)))
        logger.info(f"Success to capture fx_graph graph_{self.number} for graph key{{{key}}}")
        return Capture(plan)


def capture_graph(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Options, config: Any = None
) -> Callable[[list[Any]], Sequence[Any]]:
    """Compile an AOT-level FX graph for capture and replay."""
    return CapturedGraph(next(_numbers), gm, options, _torch_compat.static_input_positions())
