"""What engines that compile the traced lowerings of a whole graph share: arguments in, results out, checks, errors."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat, contracts
from torchair.engines.fx_trace import TracedGraph, trace_graph
from torchair.engines.graph_support import FIX
from torchair.engines.lazy_bits import inputs_with_lazy_bits, resolve
from torchair.errors import EngineCompileError, ExecutionError, TorchAirError
from torchair.ir import Graph

__all__ = ["TracedExecutable"]


class TracedExecutable(abc.ABC):
    """A graph compiled for arguments of known strides, as Dynamo's guards ensure them.

    Args:
        inputs: A fake tensor or symbolic number for each graph input.
        fake_mode: Their mode.
        settings: Inductor's settings, whose decompositions are used.

    Attributes:
        written: Numbers of the inputs that it writes.

    Raises:
        MissingKernelError: Nothing computes a node.
        UnsupportedGraphError: While it was traced, something came up that the engine cannot take.
        EngineCompileError: Tracing or compiling failed.
    """

    #: The engine's name, for messages.
    engine: str
    #: Operators that it does not want decomposed as Inductor decomposes them.
    whole: frozenset[Any] = frozenset()

    def __init__(self, graph: Graph, inputs: Sequence[Any], fake_mode: Any, **settings: Any) -> None:
        self._name = graph.name
        self._where = _sources(graph)
        # Backward graphs may be compiled outside Dynamo, in autograd's thread.
        with _torch_compat.compile_lock(), _torch_compat.inductor_settings(**settings):
            try:
                traced = trace_graph(graph, inputs, fake_mode, self.engine, self.whole)
                self._custom = self._custom_operators(traced.module)
                run, owner = self._compiled(traced, fake_mode)
            except TorchAirError:
                raise
            except Exception as e:
                raise EngineCompileError(
                    f"The {self.engine} engine failed to compile a graph",
                    why=[f"{graph.name}, {len(graph)} nodes", f"{type(e).__name__}: {e}"],
                    fix=FIX,
                ) from e
        self._run: Callable[[list[Any]], Sequence[Any]] = run
        self._owner: Any = owner
        self._extra: tuple[torch.Tensor, ...] = traced.constants + ((torch.zeros(1),) if traced.has_effects else ())
        self._used = traced.used if len(traced.used) < len(graph.inputs) else None
        self._late = traced.late
        self._outputs = None if traced.returns_results else traced.outputs
        self.written = traced.written
        self._may_be_lazy = inputs_with_lazy_bits(inputs)
        self._unchecked = bool(self._custom)

    @abc.abstractmethod
    def _compiled(self, traced: TracedGraph, fake_mode: Any) -> tuple[Callable[[list[Any]], Sequence[Any]], Any]:
        """Compile what was traced.

        Returns:
            A function that takes the list of arguments and empties it, and the object that owns it.
        """

    @abc.abstractmethod
    def _failed(self, error: Exception) -> TorchAirError:
        """The error of a run that failed."""

    @staticmethod
    def _custom_operators(module: fx.GraphModule) -> frozenset[str]:
        return frozenset(str(op) for op in _torch_compat.called_operators(module) if not contracts.is_trusted(op))

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Run; see :class:`torchair.engines.base.Executable`."""
        return self.boxed(list(inputs))

    def boxed(self, inputs: list[Any]) -> Sequence[Any]:
        """Run on a list of arguments, which is emptied.

        Raises:
            ExecutionError: An operator failed.
            OperatorContractError: A custom operator returned something else than its fake kernel promises.
        """
        handed_on = None if self._outputs is None else self._handed_on(inputs)
        resolved = resolve(inputs, self._may_be_lazy)
        if self._used is not None:
            inputs[:] = [inputs[i] for i in self._used]
        if self._extra:
            inputs += self._extra
        try:
            # The first run is enough for dtypes; shapes and strides are asserted by the code that Inductor writes.
            with contracts.verifying_results(self._where) if self._unchecked else contextlib.nullcontext():
                results = self._run(inputs)
            self._unchecked = False
        except ExecutionError as e:
            if (where := self._where.get(e.why[0])) and not e.where:
                raise type(e)(e.what, why=e.why, fix=e.fix, where=where) from (e.__cause__ or e)
            raise
        except TorchAirError:
            raise
        except Exception as e:
            raise self._failed(e) from e
        for i, (given, plain) in resolved.items():
            if i in self.written:
                given.detach().copy_(plain)
        if self._outputs is None or handed_on is None:
            return results
        for i, result in self._late:
            handed_on[i].copy_(results[result])
        return [
            results[o.index] if o.source == "result" else handed_on[o.index] if o.source == "input" else o.value
            for o in self._outputs
        ]

    def _handed_on(self, inputs: Sequence[Any]) -> dict[int, Any]:
        """Inputs that are outputs, or written after the run."""
        outputs = {o.index: inputs[o.index] for o in self._outputs or () if o.source == "input"}
        return outputs | {i: inputs[i] for i, _ in self._late}

    def close(self) -> None:
        """Release the compiled code and the constants."""
        self._run, self._owner, self._extra = _closed, None, ()


def _closed(inputs: list[Any]) -> Sequence[Any]:
    raise ExecutionError(
        "A compiled graph was called after it was closed", why="close() released it", fix="Compile the function again."
    )


def _sources(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The user's lines, by the IR operator, and by the torch operator that a node calls."""
    found: dict[str, dict[str, None]] = {}
    for node in graph:
        names = [node.op] if node.call is None else [node.op, node.call.target.replace("::", ".")]
        for name in names if node.origin.source else ():
            found.setdefault(name, {})[node.origin.source] = None
    return {target: tuple(lines) for target, lines in found.items()}
