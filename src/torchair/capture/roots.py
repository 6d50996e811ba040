"""Memory that the nodes of an FX graph bring in: how long it is needed, and whether it may lie in the arena."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.capture.operators import ALLOCATIONS, COPIES, cpu_out_variant, has_unreliable_strides
from torchair.capture.values import Numbers, is_contiguous, is_dense, is_dense_cpu, tensor_leaves
from torchair.frontend.aliasing import counts_from_storage

if TYPE_CHECKING:
    from torchair.capture.record import Recorder

__all__ = ["Root", "find_roots"]


@dataclass(slots=True)
class Root:
    """Memory that one node brings in.

    Attributes:
        first: Step that makes it.
        last: Last step that uses it or a view of it.
        planned: It lies in the arena, as these buffers: one for each result.
        out: Overload that writes there; None where ``copy_`` or nothing does.
        returned: An output may lie in it.
        alone: It begins where its storage does: something counts elements from there, or changes the tensor itself.
    """

    first: int
    last: int
    planned: bool = False
    out: OpOverload | None = None
    returned: bool = False
    alone: bool = False


def find_roots(graph: Recorder, numbers: Numbers) -> dict[fx.Node, Root]:
    """What is known of the memory that each node brings in, under a shape key."""
    return _Search(graph, numbers).found()


class _Search:
    def __init__(self, graph: Recorder, numbers: Numbers) -> None:
        self._graph = graph
        self._numbers = numbers
        self._roots: dict[fx.Node, Root] = {}
        self._unsettled: set[fx.Node] = set()

    def found(self) -> dict[fx.Node, Root]:
        graph = self._graph
        for i, node in enumerate(graph.nodes):
            for root in graph.roots_of[node]:
                if root is node:
                    self._roots[node] = Root(i, i)
                else:
                    self._roots[root].last = i
            for used in node.all_input_nodes:
                for root in graph.roots_of[used]:
                    self._roots[root].last = i
        for output in graph.outputs:
            if isinstance(output, fx.Node):
                for root in graph.roots_of[output]:
                    self._roots[root].returned = True
        self._find_unsettled()
        for node, memory in self._roots.items():
            if node.op == "call_function" and isinstance(node.target, OpOverload):
                if memory.returned and not graph.static_outputs:
                    continue
                memory.planned, memory.out = self._can_plan(node, node.target)
        for node in graph.nodes:
            # Whoever changes the sizes or the memory of a tensor, or counts elements from where its memory begins, gets
            # one of its own.
            if counts_from_storage(node) or (
                isinstance(node.target, OpOverload) and _torch_compat.changes_metadata(node.target)
            ):
                for used in node.all_input_nodes:
                    for root in graph.roots_of[used]:
                        self._roots[root].planned = False
                        self._roots[root].alone = True
        return self._roots

    def _find_unsettled(self) -> None:
        """Find the values whose strides may be others than ``meta`` says."""
        for node in self._graph.nodes:
            shapes = [[self._numbers.value(n) for n in t.shape] for t in tensor_leaves(node.meta.get("val"))]
            if all(sum(n != 1 for n in shape) < 2 for shape in shapes):
                continue
            op = node.target
            unreliable = isinstance(op, OpOverload) and has_unreliable_strides(op)
            if not self._unsettled.isdisjoint(node.all_input_nodes) or (unreliable and not self._is_plain(node)):
                self._unsettled.add(node)

    def _is_plain(self, node: fx.Node) -> bool:
        """Whether all that a node reads and makes lies in order, vectors and numbers apart, and has one shape."""
        shapes = set()
        for value in (node.meta.get("val"), *(used.meta.get("val") for used in node.all_input_nodes)):
            for tensor in tensor_leaves(value):
                if tensor.layout is not torch.strided:
                    return False
                if tensor.dim() < 2:
                    continue
                sizes, strides = self._numbers.all(tensor.shape), self._numbers.all(tensor.stride())
                if sizes is None or strides is None or not is_contiguous(sizes, strides):
                    return False
                shapes.add(sizes)
        return len(shapes) <= 1

    def _can_plan(self, node: fx.Node, op: OpOverload) -> tuple[bool, OpOverload | None]:
        """Whether the results of a node can lie in the arena, and the overload that writes them there."""
        value = node.meta.get("val")
        results = list(value) if isinstance(value, list | tuple) else [value]
        if op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags:
            return False, None
        if not results or not all(self._is_plannable(r) for r in results):
            return False, None
        if node in self._unsettled or not all(
            is_dense_cpu(t) for used in node.all_input_nodes for t in tensor_leaves(used.meta.get("val"))
        ):
            return False, None
        if op._schema.name in ALLOCATIONS:
            return True, None
        if op._schema.name in COPIES:
            return True, None
        if op.namespace != "aten" or len(op._schema.returns) != len(results):  # a list of results has no place
            return False, None
        out = cpu_out_variant(op)
        return out is not None, out

    def _is_plannable(self, tensor: Any) -> bool:
        if not is_dense_cpu(tensor) or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
            return False
        sizes, strides = self._numbers.all(tensor.shape), self._numbers.all(tensor.stride())
        return sizes is not None and strides is not None and is_dense(sizes, strides)
