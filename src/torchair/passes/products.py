"""Products that read the same matrix, as one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torchair.ir.graph import Graph, Node, Value
from torchair.ir.memory import Memory
from torchair.ir.types import DType, Format, TensorType
from torchair.logs import get_logger
from torchair.passes.base import GraphPass
from torchair.passes.sharing import is_awaited, is_free, reading_problem

__all__ = ["MergeProducts"]

_log = get_logger(__name__)

#: Products of fewer rows are loops of the native engine, which run side by side without a barrier as they are.
LEAST_ROWS = 9


@dataclass(slots=True)
class MergeProducts(GraphPass):
    """``MatMul(x, v)`` and ``MatMul(x, w)`` with frozen weights become parts of ``MatMul(x, ConcatV2([v, w]))``.

    ``hoist-frozen-computations`` then joins the weights before the graph runs. Left alone: products without frozen
    weights, which would be joined in each run, those with a bias, and those of up to 8 rows.

    Attributes:
        frozen: Numbers of the graph inputs that are frozen parameters.
    """

    name: ClassVar[str] = "merge-products"
    frozen: Collection[int] = ()

    def run(self, graph: Graph) -> None:
        if not self.frozen:
            return
        memory = Memory(graph)
        for nodes in list(self._groups(graph, memory)):
            _merge(graph, nodes)

    def _groups(self, graph: Graph, memory: Memory) -> Iterator[list[Node]]:
        """Products of one matrix with several weights."""
        updated = {target for target, _ in graph.updates}
        groups: dict[object, list[Node]] = {}
        for node in graph:
            if node.op not in ("MatMul", "MatMulV2") or len(node.values) != 2 or node.operands[1] is not node.values[1]:
                continue
            x, weight = node.values
            rows = x.shape[1 if node.attrs.get("transpose_x1") else 0]
            if isinstance(rows, int) and rows < LEAST_ROWS:
                continue
            if weight.producer is not None or weight.index not in self.frozen or weight in updated:
                continue
            if weight.type.symbols or any(v.type.format is not Format.FORMAT_ND for v in node.values):
                continue
            if not is_free(node) or is_awaited(node) or memory.writers(memory.group(weight)):
                continue
            attrs = tuple(sorted(node.attrs.items()))
            scope = tuple(sorted(node.scope.items()))
            groups.setdefault((node.op, x, attrs, scope, weight.dtype, node.output.dtype), []).append(node)
        for nodes in groups.values():
            first = nodes[0]
            # The merged product stands where the first one stood, and what it reads is there.
            kept = [n for n in nodes if self._problem(memory, n, first) is None]
            if len({n.values[1] for n in kept}) == len(kept) > 1:
                yield kept

    def _problem(self, memory: Memory, node: Node, first: Node) -> str | None:
        problem = reading_problem(memory, node.values[0], node)
        if problem is None and memory.writers(memory.group(node.output)):
            problem = f"%{node.output.name} is overwritten"
        if problem is None and node.graph.is_read_outside(node.output):
            problem = f"the graph returns %{node.output.name}, which would be a part of something larger"
        if problem is not None:
            _log.debug("%s leaves %s (%s): %s", self.name, node.name, node.op, problem)
        return problem


def _merge(graph: Graph, nodes: Sequence[Node]) -> None:
    first = nodes[0]
    weights = [node.values[1] for node in nodes]
    axis = 0 if first.attrs.get("transpose_x2") else 1
    sizes = [node.output.shape[1] for node in nodes]
    device = first.output.type.device
    one = weights[0]
    shape = list(one.shape)
    shape[axis] = sum(w.shape[axis] for w in weights)

    def number(content: Sequence[int], shape: Sequence[int]) -> Value:
        type = TensorType.of(DType.DT_INT64, shape, device="cpu", content=content)
        return graph.add_node(
            "Const", (), [type], attrs={"value": tuple(content)}, before=first, scope=first.scope, origin=first.origin
        ).output

    joined = graph.add_node(
        "ConcatV2",
        [tuple(weights), number([axis], ())],
        [TensorType.of(one.dtype, shape, device=device)],
        attrs={"N": len(weights)},
        before=first,
        scope=first.scope,
        origin=first.origin,
    ).output
    inputs = (first.inputs[0], joined, *first.inputs[2:])
    rows = first.output.shape[0]
    merged = graph.add_node(
        first.op,
        inputs,
        [TensorType.of(first.output.dtype, (rows, sum(sizes)), device=device)],
        attrs=first.attrs,
        before=first,
        scope=first.scope,
        origin=first.origin,
    ).output
    parts = graph.add_node(
        "SplitV",
        [merged, number(sizes, (len(sizes),)), number([1], ())],
        [node.output.type for node in nodes],
        attrs={"num_split": len(nodes)},
        value_names=[node.output.name for node in nodes],
        aliases=[(i, 0) for i in range(len(nodes))],
        before=first,
        scope=first.scope,
        origin=first.origin,
    )
    for node, part in zip(nodes, parts.outputs, strict=True):
        graph.replace_all_uses_with(node.output, part)
        graph.remove(node)
