"""The inductor engine: the lowerings of a whole graph, compiled by PyTorch's Inductor.

The lowerings are traced into one functional FX graph, which goes to Inductor below AOTAutograd: the graph has been
through AOTAutograd once already, and a second pass would cost time on every call (measured on a graph of two operators
on a CPU: 4 us a call as it is, 10 us through ``compile_fx``).
"""

from __future__ import annotations

import functools
import linecache
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchair import _torch_compat, contracts
from torchair.config import Options
from torchair.engines.base import BoxedExecutable
from torchair.engines.fx_trace import TracedGraph
from torchair.engines.graph_support import obstacle, supports_graph, supports_node
from torchair.engines.standalone import StandaloneExecutable
from torchair.engines.traced import TracedExecutable
from torchair.errors import ExecutionError, Rejection, TorchAirError, UnsupportedGraphError
from torchair.ir import Graph, Node

__all__ = ["InductorEngine", "InductorExecutable"]

#: Inductor's settings, for the time of a compile, that make its results eager's.
SETTINGS: dict[str, Any] = {
    # Random numbers are those that eager would draw.
    "fallback_random": True,
    # bfloat16 and float16 are rounded after each operator, as eager does, and not only at the end of a fused kernel.
    "emulate_precision_casts": True,
    # x + 0 is not x for -0.0, nor where the result must not share memory with x.
    "joint_graph_constant_folding": False,
    # Operators that Inductor does not know see eager's strides.
    "custom_op_layout": _torch_compat.strides_tag().name,
}


class InductorEngine:
    """Compiles whole graphs. What it cannot take is refused as a whole: no node runs on another engine."""

    name = "inductor"

    def supports(self, node: Node) -> Rejection | None:
        """Sizes that depend on data, and dtypes that Inductor has no code for, are refused."""
        return supports_node(node)

    def supports_graph(self, graph: Graph, inputs: Sequence[Any] = ()) -> Rejection | None:
        """Why the engine cannot run a graph, or None; see :func:`torchair.engines.graph_support.supports_graph`."""
        return supports_graph(graph, inputs)

    def compile(self, graph: Graph, options: Options, inputs: Sequence[Any] = ()) -> BoxedExecutable:
        """Compile a graph; see :class:`torchair.engines.base.Engine`.

        Raises:
            UnsupportedGraphError: The graph has something that Inductor cannot take.
            MissingKernelError: Nothing computes a node.
            EngineCompileError: Tracing or Inductor failed.
        """
        if (found := obstacle(graph, inputs)) is not None:
            rejection, where = found
            raise UnsupportedGraphError(
                "The inductor engine cannot run a graph", why=rejection.reason, fix=rejection.fix, where=where
            )
        fake_mode = _torch_compat.detect_fake_mode(inputs)
        fake = fake_mode is not None and all(_torch_compat.is_fake(i) for i in inputs if isinstance(i, torch.Tensor))
        if fake and len(inputs) == len(graph.inputs):
            return InductorExecutable(graph, inputs, fake_mode)
        # Inductor's cache compares sizes with what a compile assumed only where they are arguments of their own, as
        # Dynamo makes them.
        return StandaloneExecutable(graph, functools.partial(InductorExecutable, fx_graph_cache=False))


class InductorExecutable(TracedExecutable):
    """A graph compiled for arguments of known strides, as Dynamo's guards ensure them.

    Args:
        inputs: A fake tensor or symbolic number for each graph input.
        fake_mode: Their mode.
        settings: More of Inductor's settings.
    """

    engine = "inductor"

    def __init__(self, graph: Graph, inputs: Sequence[Any], fake_mode: Any, **settings: Any) -> None:
        if not all(value.type.is_static for value in graph.inputs):
            # Entries of Inductor's cache on disk have guards that may name inputs of the graph they were made for, and
            # raise KeyError in a graph with other names (2.13).
            settings["fx_graph_cache"] = False
        _torch_compat.load_inductor_lowerings()
        super().__init__(graph, inputs, fake_mode, **SETTINGS, **settings)

    def _compiled(self, traced: TracedGraph, fake_mode: Any) -> tuple[Callable[[list[Any]], Sequence[Any]], Any]:
        return _torch_compat.inductor_compile(traced.module, fake_mode)

    def _failed(self, error: Exception) -> TorchAirError:
        target = _failing_operator(error)
        if isinstance(error, AssertionError) and _fails_at(error, "assert_size_stride") and target in self._custom:
            found = str(error).partition("\n")[0]
            problem = f"a result has another shape or other strides than its fake kernel promises ({found})"
            return contracts.broken_contract(target, [problem], self._where.get(target, ()))
        operator = target or "which operator it was is not known: Inductor fused several into one function"
        where = self._where.get(target, ())
        return ExecutionError.of(error, f"{operator} (in {self._name}, inductor engine)", where=where)


#: Calls in the code that Inductor writes: a torch operator, or one of its own names for an ATen operator.
_CALL = re.compile(r"torch\.ops\.(\w+\.\w+\.\w+)|extern_kernels\.(\w+)|aoti_torch_\w+?_(\w+)\(")


def _failing_operator(error: BaseException) -> str:
    """The operator on the line of generated code where an error came from; empty when that line is a fused function."""
    trace = error.__traceback__
    name = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "call" and (found := _CALL.search(linecache.getline(code.co_filename, trace.tb_lineno))):
            name = next(group for group in found.groups() if group)
        trace = trace.tb_next
    return name


def _fails_at(error: BaseException, function: str) -> bool:
    """Whether the line of generated code where an error came from calls a function."""
    trace, found = error.__traceback__, False
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "call":
            found = function in linecache.getline(code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found
