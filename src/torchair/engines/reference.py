"""The reference engine: runs the lowerings node by node.

Slow, simple, always right; the others are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchair import _torch_compat
from torchair.config import Options
from torchair.engines.output_check import check_node_results, is_opaque
from torchair.engines.runtime_values import (
    SymbolBinder,
    constant,
    describe,
    host_flags,
    host_numbers,
    host_tensor,
    nest,
    nesting,
    restride,
    wanted_output,
)
from torchair.errors import ExecutionError, Rejection, TorchAirError
from torchair.ir import Graph, Node, Value
from torchair.ir.symbols import evaluate
from torchair.opset.kernels import Evaluator, evaluator_for, node_evaluator

__all__ = ["ReferenceEngine", "ReferenceExecutable"]


class ReferenceEngine:
    """Runs every node that has a lowering, a kernel or a torch operator of its own."""

    name = "reference"

    def supports(self, node: Node) -> Rejection | None:
        """A node needs something that computes it."""
        if node.op in ("Const", "HostInts") or evaluator_for(node.op, node.call) is not None:
            return None
        return Rejection(f"{node.op} has no lowering and no kernel")

    def compile(self, graph: Graph, options: Options, inputs: Sequence[Any] = ()) -> ReferenceExecutable:
        """Prepare one step for each node.

        Raises:
            MissingKernelError: Nothing computes a node.
        """
        return ReferenceExecutable(graph)


@dataclass(frozen=True, slots=True)
class _Step:
    """One node, with what can be decided before the first run."""

    node: Node
    evaluate: Evaluator
    hosts: tuple[bool, ...]
    nesting: tuple[int | None, ...]
    drop: tuple[Value, ...]
    opaque: bool


#: Called with each node and its outputs, for dumps and comparisons.
Observer = Callable[[Node, Sequence[Any]], None]


class ReferenceExecutable:
    """A graph, ready to run.

    Attributes:
        observer: When set, sees each node's outputs.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._bind = SymbolBinder(graph)
        self._constants = {n.output: constant(graph, n) for n in graph if n.op == "Const"}
        steps = [n for n in graph if n.op not in ("Const", "HostInts")]
        last = _last_uses(graph, steps)
        self._steps = [
            _Step(n, node_evaluator(n), host_flags(n), nesting(n), last.get(n, ()), is_opaque(n)) for n in steps
        ]
        self._ran = False
        self.observer: Observer | None = None

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run; see :class:`torchair.engines.base.Executable`.

        Raises:
            ExecutionError: A node failed; names it and the user's line.
            OutputCheckError: In the first run, a user's kernel returned something else than its meta function promised.
        """
        run = _Run(self._graph, self._bind(inputs), dict(self._constants), inputs, check=not self._ran)
        for step in self._steps:
            run.step(step, self.observer)
        self._ran = True
        return run.finish()

    def close(self) -> None:
        """Release constants."""
        self._constants.clear()
        self._steps.clear()


def _last_uses(graph: Graph, steps: Sequence[Node]) -> dict[Node, tuple[Value, ...]]:
    """Values that nothing reads after a node, so that their memory is freed as early as in eager mode."""
    kept = {v for v in graph.outputs if v is not None} | {v for pair in graph.updates for v in pair} | set(graph.inputs)
    last: dict[Value, Node] = {}
    for node in steps:
        for value in (*node.values, *node.outputs):
            last[value] = node
    freed: dict[Node, list[Value]] = {}
    for value, node in last.items():
        if value not in kept and (value.producer is None or value.producer.op not in ("Const", "HostInts")):
            freed.setdefault(node, []).append(value)
    return {node: tuple(values) for node, values in freed.items()}


class _Run:
    """State of one call."""

    def __init__(
        self,
        graph: Graph,
        bindings: dict[str, Any],
        env: dict[Value, Any],
        inputs: Sequence[Any],
        *,
        check: bool = False,
    ) -> None:
        self.graph = graph
        self.check = check
        self.bindings = bindings
        self.constants = {
            _torch_compat.storage_id(tensor)
            for tensor in env.values()
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
        }
        self.env = env
        self.env.update(zip(graph.inputs, inputs, strict=True))

    def read(self, value: Value) -> Any:
        """A value as a tensor."""
        found = self.env.get(value)
        if isinstance(found, torch.Tensor):
            return found
        if value.type.content is not None:
            return host_tensor(value.type, self.bindings)
        return found

    def _operand(self, value: Value | None, host: bool) -> Any:
        if value is None:
            return None
        return host_numbers(value, self.bindings, self.read) if host else self.read(value)

    def step(self, step: _Step, observer: Observer | None) -> None:
        """Run one node."""
        node = step.node
        try:
            flat = [self._operand(v, h) for v, h in zip(node.operands, step.hosts, strict=True)]
            for i, strides in enumerate(node.operand_strides):
                if strides is not None and isinstance(flat[i], torch.Tensor) and i not in {o for _, o in node.writes}:
                    flat[i] = restride(flat[i], strides, self.bindings)
            outputs = step.evaluate(nest(step.nesting, flat), node.attrs)
        except TorchAirError:
            raise
        except Exception as e:
            raise ExecutionError.of(e, describe(node), where=node.origin.source) from e
        if len(outputs) != len(node.outputs):
            raise ExecutionError(
                "An operator returned another number of results than its prototype has",
                why=f"{describe(node)} returned {len(outputs)}, {len(node.outputs)} are declared",
                fix="Correct the kernel, or the prototype.",
                where=node.origin.source,
            )
        if self.check and step.opaque:
            check_node_results(self.graph, node, outputs, self.bindings)
        for value, result in zip(node.outputs, outputs, strict=True):
            self.env[value] = result
        for name, output, dim in node.binds:
            self.bindings[name] = outputs[output] if dim is None else outputs[output].shape[dim]
        if observer is not None:
            observer(node, outputs)
        for value in step.drop:
            self.env.pop(value, None)

    def finish(self) -> list[Any]:
        """Outputs, then the inputs' new contents."""
        results: list[Any] = []
        for value, spec in zip(self.graph.outputs, self.graph.output_specs, strict=True):
            if value is None:
                results.append(None)
            elif spec.kind != "tensor":
                number = evaluate(value.type.content[0], self.bindings) if value.type.content else self.env[value]
                results.append(bool(number) if spec.kind == "bool" else number)
            else:
                result = wanted_output(self.read(value), spec, self.bindings)
                # What the caller gets it may write; a constant must be the same in the next run.
                results.append(result.clone() if self._is_constant(result) else result)
        self._update_inputs()
        return results

    def _is_constant(self, result: torch.Tensor | None) -> bool:
        # None is the token that orders operators with side effects.
        if result is None or result.layout is not torch.strided:
            return False
        return _torch_compat.storage_id(result) in self.constants

    def _update_inputs(self) -> None:
        updates = [(self.read(target), self.read(source)) for target, source in self.graph.updates]
        written = [_torch_compat.storage_id(target) for target, _ in updates]
        # An update must not read what another one has already written, nor, in another order, what it writes itself.
        safe = [
            (t, s.clone() if _torch_compat.storage_id(s) in written[: i + 1] and not _same_memory(t, s) else s)
            for i, (t, s) in enumerate(updates)
        ]
        for target, source in safe:
            if not (target is source or _same_memory(target, source)):
                target.copy_(source)


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (
        _torch_compat.storage_id(a) == _torch_compat.storage_id(b)
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.storage_offset() == b.storage_offset()
        and a.dtype == b.dtype
    )
