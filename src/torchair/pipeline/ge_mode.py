"""GE mode: FX graph -> FX passes -> Ascend IR -> IR passes -> engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from torchair import _torch_compat
from torchair.config import Options
from torchair.convert.driver import Converted, convert_graph
from torchair.convert.registry import converters
from torchair.engines import select_engine
from torchair.engines.base import Executable
from torchair.logs import logger
from torchair.pipeline.builtin import load_converters

__all__ = ["CompiledGraph", "compile_graph"]

_numbers = itertools.count(1)


class CompiledGraph:
    """One FX graph, compiled.

    Attributes:
        converted: The IR graph as it runs, and what became of each FX node.
        executable: What the engine made of it.
        engine: Name of the engine.
    """

    _boxed_call = True

    def __init__(self, converted: Converted, executable: Executable, engine: str) -> None:
        self.converted = converted
        self.executable = executable
        self.engine = engine

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run with the flat arguments of the FX graph; the list is emptied, so that inputs can be freed early."""
        inputs = [args[i] for i in self.converted.inputs]
        args.clear()
        return self.executable(*inputs)


def compile_graph(gm: fx.GraphModule, inputs: Sequence[Any], options: Options) -> Callable[[list[Any]], Sequence[Any]]:
    """Compile an AOT-level FX graph.

    Returns:
        A callable that takes one list, the flat arguments of the graph.
    """
    load_converters()
    name = f"graph_{next(_numbers)}"
    if options.run_eagerly:
        logger.warning(f"{name} runs eagerly: config.debug.run_eagerly is set")
        return _torch_compat.make_boxed(lambda args: gm(*args))
    with _torch_compat.no_dispatch_modes():
        converted = convert_graph(
            gm,
            converters.snapshot(),
            name=name,
            unconverted_ops=options.unconverted_ops,
            require_prototype=options.require_prototype,
        )
        engine = select_engine(options.engine)
        executable = engine.compile(converted.graph, options)
    return CompiledGraph(converted, executable, engine.name)
