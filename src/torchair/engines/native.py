"""The native engine: lowerings of a whole graph, fused and compiled to C++; what it has no code for is an ATen call.

The lowerings are traced into one FX graph of ATen operators. Inputs are written in place where the graph allows it,
parts of the graph become native programs (``torchair.native``), and the whole is recorded as a plan.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchair import _torch_compat
from torchair.capture.life_cycle import CapturedGraph
from torchair.config import CoreCounts, Options, core_counts
from torchair.engines.base import BoxedExecutable
from torchair.engines.fx_trace import TracedGraph
from torchair.engines.graph_support import obstacle, supports_graph, supports_node
from torchair.engines.inductor import SETTINGS
from torchair.engines.standalone import StandaloneExecutable
from torchair.engines.traced import TracedExecutable
from torchair.errors import ExecutionError, Rejection, TorchAirError, UnsupportedGraphError
from torchair.frontend.dead_nodes import drop_dead_nodes
from torchair.frontend.reinplace import reinplace
from torchair.ir import Graph, Node
from torchair.logs import get_logger
from torchair.native import PartitionRecord, fuses_with_copy, replace_regions
from torchair.runtime.plan import Plan
from torchair.trace.plan_check import check_compiled

__all__ = ["NativeEngine", "NativeExecutable"]

_log = get_logger(__name__)
_numbers = itertools.count(1)


class NativeEngine:
    """Compiles whole graphs; operators that it has no code for run as ATen calls between native programs."""

    name = "native"

    def supports(self, node: Node) -> Rejection | None:
        """Sizes that depend on data, and dtypes that PyTorch cannot trace, are refused."""
        return supports_node(node)

    def supports_graph(self, graph: Graph, inputs: Sequence[Any] = ()) -> Rejection | None:
        """Why the engine cannot run a graph, or None; see :func:`torchair.engines.graph_support.supports_graph`."""
        return supports_graph(graph, inputs)

    def compile(self, graph: Graph, options: Options, inputs: Sequence[Any] = ()) -> BoxedExecutable:
        """Compile a graph; see :class:`torchair.engines.base.Engine`.

        Raises:
            UnsupportedGraphError: The graph has something that cannot be traced.
            MissingKernelError: Nothing computes a node.
            EngineCompileError: Tracing or compiling failed.
        """
        if (found := obstacle(graph, inputs)) is not None:
            rejection, where = found
            raise UnsupportedGraphError(
                "The native engine cannot run a graph", why=rejection.reason, fix=rejection.fix, where=where
            )
        fake_mode = _torch_compat.detect_fake_mode(inputs)
        fake = fake_mode is not None and all(_torch_compat.is_fake(i) for i in inputs if isinstance(i, torch.Tensor))
        if fake and len(inputs) == len(graph.inputs):
            return NativeExecutable(graph, inputs, fake_mode, options)
        return StandaloneExecutable(graph, functools.partial(NativeExecutable, options=options))


class NativeExecutable(TracedExecutable):
    """A graph compiled for arguments of known strides, as Dynamo's guards ensure them.

    Attributes:
        record: What became native, and what did not.
        captured: The plans.
    """

    engine = "native"
    # Into operators of Inductor's own, by way of its lowerings, which are not imported here.
    whole = frozenset(
        getattr(torch.ops.aten, name).default for name in ("max_pool2d_with_indices", "max_pool3d_with_indices")
    )
    record: PartitionRecord
    captured: CapturedGraph

    def __init__(self, graph: Graph, inputs: Sequence[Any], fake_mode: Any, options: Options) -> None:
        self._options = options
        self._steady = graph.steady
        self._static = all(value.type.is_static for value in graph.inputs)
        super().__init__(graph, inputs, fake_mode, **SETTINGS)

    def _compiled(self, traced: TracedGraph, fake_mode: Any) -> tuple[Callable[[list[Any]], Sequence[Any]], Any]:
        gm = traced.module
        drop_dead_nodes(gm.graph)
        with _torch_compat.no_dispatch_modes():
            reinplace(gm, intermediates=True, inputs=True, keep=fuses_with_copy)
        gm, self.record = replace_regions(gm, limit=_process_limit(self._options))
        gm.recompile()
        # A limit is for captures that cost much; these are bounded by the process, and the oldest one goes.
        limits = dataclasses.replace(self._options.capture, capture_limit=sys.maxsize)
        options = dataclasses.replace(self._options, capture=limits)
        constants = range(len(traced.used), len(traced.used) + len(traced.constants))
        self.captured = CapturedGraph(
            next(_numbers),
            gm,
            options,
            static_inputs=[*(i for i, number in enumerate(traced.used) if number in self._steady), *constants],
            on_plan=self._checker(),
            explicit_order=False,
        )
        return self.captured, self.captured

    def _checker(self) -> Callable[[Plan], object] | None:
        """What looks for deadlocks in the plan of a static graph, if that was asked for."""
        if not self._options.deadlock_check or not self._static:
            return None
        number = self._name.rpartition("_")[2]
        return functools.partial(check_compiled, number=int(number) if number.isdecimal() else 0)

    @property
    def direct(self) -> CapturedGraph | None:
        """The plans, where they take the graph's inputs and return its outputs as they are; else None."""
        as_it_is = self._used is None and not self._extra and self._outputs is None and not self._late
        return self.captured if as_it_is and not self._custom else None

    def _failed(self, error: Exception) -> TorchAirError:
        return ExecutionError.of(error, f"an operator (in {self._name}, native engine)")


def _process_limit(options: Options) -> CoreCounts | None:
    """What ``config.ge_config.aicore_num`` says; more cores than there are mean all of them."""
    cube, vector = options.aicore_num
    if cube is None and vector is None:
        return None
    limit = core_counts().clipped(cube, vector)
    _log.info_once("ge.aicoreNum: operators use at most %d|%d cores", limit.cube, limit.vector)
    return limit
