"""GE mode: FX graph -> FX passes -> Ascend IR -> IR passes -> engine."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat, contracts
from torchair.capture.life_cycle import CapturedGraph
from torchair.config import Options
from torchair.convert.driver import Converted, convert_graph
from torchair.convert.registry import converters
from torchair.engines import BoxedExecutable, Executable, compile_on
from torchair.engines.native import NativeExecutable
from torchair.errors import ConfigValueError
from torchair.frontend import FxPassRecord, decomposition_table, optimize_fx
from torchair.frontend.call_inputs import refuse_hidden_layouts, refuse_inputs
from torchair.ir import Graph
from torchair.ir.text import to_text
from torchair.logs import logger
from torchair.opset.torch_types import tensor_type
from torchair.passes import PassRecord
from torchair.pipeline.builtin import load_converters
from torchair.pipeline.collector import collections_put_off
from torchair.pipeline.frozen_values import FrozenValues
from torchair.pipeline.ge_passes import returned_inputs, run_passes
from torchair.report import ConversionReport, Fallback

__all__ = ["CompiledGraph", "compile_graph"]

_numbers = itertools.count(1)


class CompiledGraph:
    """One FX graph, compiled.

    Attributes:
        number: Counts the graphs of the process from 1.
        graph: The IR graph as it runs.
        report: What became of each FX node.
        engine: Name of the engine.
        executable: What the engine made of it.
        passes: A record of each graph pass.
        frozen: What is computed once for each state of the parameters; None where nothing is.
        fx_passes: A record of each pass over the FX graph before.
        fallbacks: Why another engine runs it than the one that was chosen.
    """

    _boxed_call = True

    def __init__(
        self,
        number: int,
        converted: Converted,
        executable: Executable,
        engine: str,
        passes: tuple[PassRecord, ...] = (),
        *,
        frozen: FrozenValues | None = None,
        fx_passes: tuple[FxPassRecord, ...] = (),
        verify: bool = False,
        fallbacks: tuple[Fallback, ...] = (),
    ) -> None:
        self.number = number
        self.fallbacks = fallbacks
        self.graph: Graph = converted.graph
        self.report: ConversionReport = converted.report
        self.engine = engine
        self.passes = passes
        self.fx_passes = fx_passes
        self.executable = executable
        self._boxed = executable.boxed if isinstance(executable, BoxedExecutable) else None
        self._positions = converted.inputs
        self.frozen = frozen
        self._checked = False
        self._verify = verify

    @property
    def direct(self) -> CapturedGraph | None:
        """The plans that do all that a call of the graph does; None where there is more to do, or another engine."""
        in_order = self.frozen is None and list(self._positions) == list(range(len(self.graph.inputs)))
        if self._verify or not in_order or not isinstance(self.executable, NativeExecutable):
            return None
        return self.executable.direct

    @property
    def text(self) -> str:
        """The graph in text form."""
        return to_text(self.graph)

    def check(self, args: Sequence[Any]) -> None:
        """Compare arguments with what the graph was compiled for; see :func:`check_inputs`."""
        check_inputs(self.graph, self._inputs(args))
        self._checked = True

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Run with the flat arguments of the FX graph; the list is emptied, so that inputs can be freed early."""
        inputs = self._inputs(args)
        args.clear()
        if not self._checked:
            check_inputs(self.graph, inputs)
            self._checked = True
        if self._verify:
            with contracts.verifying():
                results = self.executable(*inputs)
            self._verify = False
            return results
        return self.executable(*inputs) if self._boxed is None else self._boxed(inputs)

    def _inputs(self, args: Sequence[Any]) -> list[Any]:
        """What the engine takes."""
        inputs = [args[i] for i in self._positions]
        if self.frozen is not None:
            inputs += self.frozen(inputs)
        return inputs

    def __repr__(self) -> str:
        return f"<CompiledGraph {self.graph.name}: {len(self.graph)} nodes on the {self.engine} engine>"


def check_inputs(graph: Graph, inputs: Sequence[Any]) -> None:
    """Compare arguments with what the graph was compiled for (specification, F-68).

    Raises:
        GraphInputError: A dtype, a number of dimensions or a fixed size differs.
        UnsupportedGraphError: A tensor has a layout that fake tensors, for which graphs are compiled, do not show.
    """
    refuse_hidden_layouts(inputs, [value.name for value in graph.inputs])
    problems = []
    for i, (value, given) in enumerate(zip(graph.inputs, inputs, strict=True)):
        # AOTAutograd passes None for the tokens that order side effects; they are compiled as empty tensors.
        if value.type.content is not None or (given is None and value.shape == (0,)):
            continue
        if not isinstance(given, torch.Tensor):
            problems.append(f"input {i} (%{value.name}) is a {type(given).__name__}, not a tensor")
            continue
        got = tensor_type(given)
        fixed = len(got.shape) == value.rank and all(
            a == b or not isinstance(b, int) for a, b in zip(got.shape, value.shape, strict=True)
        )
        if got.dtype != value.dtype or not fixed:
            problems.append(f"input {i} (%{value.name}) is {got}, compiled for {value.type}")
    refuse_inputs(problems)


@collections_put_off()
def compile_graph(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    options: Options,
    config: Any = None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    marked: Collection[int] = (),
) -> Callable[[list[Any]], Sequence[Any]]:
    """Compile an AOT-level FX graph.

    Args:
        gm: The graph; it is not changed.
        inputs: Fake inputs.
        config: The user's config object, for custom passes.
        decompositions: What the graph was traced with; the mode's own table when omitted.
        marked: Numbers of the FX graph's inputs that are weights to be packed.

    Returns:
        A callable that takes one list, the flat arguments of the graph.
    """
    load_converters()
    number = next(_numbers)
    name = f"graph_{number}"
    logger.info("compiler inputs: %s", inputs)
    logger.info("graph: %s", gm.graph)
    known = converters.snapshot()
    optimized = optimize_fx(
        gm, inputs, config, options, mode="ge", decompositions=decompositions or decomposition_table(known, {})
    )
    gm = optimized.gm
    if options.run_eagerly:
        logger.warning(f"{name} runs eagerly: config.debug.run_eagerly is set")
        return _torch_compat.make_boxed(lambda args: gm(*args))
    with _torch_compat.no_dispatch_modes():
        converted = convert_graph(
            gm,
            known,
            name=name,
            unconverted_ops=options.unconverted_ops,
            require_prototype=options.require_prototype,
        )
        if options.enable_single_stream:
            _put_on_one_stream(converted.graph)
        given = [inputs[i] for i in converted.inputs]
        passed = run_passes(
            converted.graph,
            given,
            options,
            returned_inputs(gm),
            fuel=optimized.fuel_left,
            frozen=_frozen_inputs(converted, options),
            marked=[i for i, position in enumerate(converted.inputs) if position in marked],
        )
        frozen = None
        if passed.prologue is not None:
            frozen = FrozenValues(passed.prologue, given, _torch_compat.detect_fake_mode(inputs))
            given += frozen.fakes
        converted.graph.steady = _steady_inputs(converted)
        left: list[str] = []
        executable, engine = compile_on(options.engine, converted.graph, options, given, on_fallback=left.append)
    _log_classification(converted.graph, number)
    if options.deadlock_check:
        _warn_of_no_check(converted.graph, executable, engine)
    return CompiledGraph(
        number,
        converted,
        executable,
        engine,
        passed.records,
        frozen=frozen,
        fx_passes=optimized.records,
        verify=options.verify_custom_ops,
        fallbacks=tuple(Fallback(name, reason) for reason in left),
    )


def _warn_of_no_check(graph: Graph, executable: Executable, engine: str) -> None:
    """Say why ``config.debug.deadlock_check`` looks at nothing, where it does (specification, F-105, decision 28)."""
    if not isinstance(executable, NativeExecutable):
        reason = f"the {engine} engine has no list of tasks, only the native engine has"
    elif not all(value.type.is_static for value in graph.inputs):
        reason = "its sizes are dynamic; compile it with dynamic=False"
    else:
        return
    text = f"config.debug.deadlock_check: {graph.name} is not checked: {reason}"
    logger.warning_once(text)
    warnings.warn(text, UserWarning, stacklevel=2)


def _put_on_one_stream(graph: Graph) -> None:
    """Let a graph run on one stream (specification, F-100).

    Raises:
        ConfigValueError: Its sizes are fixed, and it has streams of its own.
    """
    found = [node for node in graph if node.stream]
    if found and _is_static(graph):
        raise ConfigValueError(
            "A graph with streams of its own cannot run on one stream",
            why=[
                "config.ge_config.enable_single_stream = True",
                f"{found[0].name} is on the stream {found[0].stream!r}",
            ],
            fix="Take out torchair.scope.npu_stream_switch, or leave the option False.",
            where=found[0].origin.source,
        )
    for node in found:
        logger.info_once("enable_single_stream: streams of graphs with symbolic sizes are one stream")
        node.scope = {key: value for key, value in node.scope.items() if not key.startswith("_user_stream_")}


def _is_static(graph: Graph) -> bool:
    values = (*graph.inputs, *(v for node in graph for v in node.outputs))
    return all(value.type.is_static for value in values)


def _frozen_inputs(converted: Converted, options: Options) -> list[int]:
    """Numbers of the graph inputs that are parameters or buffers, where the user froze them."""
    return _parameters(converted) if options.frozen_parameter else []


def _steady_inputs(converted: Converted) -> frozenset[int]:
    """Numbers of the graph inputs that are parameters or buffers, or what passes make of them ahead."""
    made = range(len(converted.inputs), len(converted.graph.inputs))
    return frozenset((*_parameters(converted), *made))


def _parameters(converted: Converted) -> list[int]:
    # AOTAutograd says it of the forward graph only.
    if _torch_compat.aot_phase() == "backward":
        return []
    static = frozenset(_torch_compat.static_input_positions())
    return [i for i, position in enumerate(converted.inputs) if position in static]


def _log_classification(graph: Graph, number: int) -> None:
    """Whether sizes are fixed, in the words that users search for (specification, F-12 and F-16)."""
    static_inputs = all(v.type.is_static for v in graph.inputs)
    static = _is_static(graph)
    words = ("Static" if static_inputs else "Dynamic", "static" if static else "dynamic")
    level = logger.warning if static_inputs and not static else logger.info
    level(f"{words[0]} FX graph compiled to {words[1]} Ascend GE graph, graph id: {number}")
