"""Computing the same only once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torchair.ir.graph import Graph, Node
from torchair.ir.memory import Memory
from torchair.ir.text import call_key, literal_key, type_key
from torchair.logs import get_logger
from torchair.passes.base import GraphPass
from torchair.passes.sharing import is_free, read_instead, sharing_problem

__all__ = ["EliminateCommonSubexpressions"]

_log = get_logger(__name__)


@dataclass(slots=True)
class EliminateCommonSubexpressions(GraphPass):
    """Of nodes with the same operator, inputs, attributes and scope, the first one stays and the others are taken out.

    Left alone: nodes with side effects, control edges or writes, nodes whose result something overwrites, and results
    that the caller would no longer get as tensors of their own.
    """

    name: ClassVar[str] = "eliminate-common-subexpressions"

    def run(self, graph: Graph) -> None:
        memory = Memory(graph)
        awaited = {other for node in graph for other in node.control}
        first: dict[Any, Node] = {}
        for node in graph:
            if not is_free(node) or node in awaited:
                continue
            key = _key(node)
            kept = first.setdefault(key, node)
            if kept is node:
                continue
            pairs = list(zip(node.outputs, kept.outputs, strict=True))
            problem = next((p for copy, source in pairs if (p := sharing_problem(memory, copy, source))), None)
            if problem is not None:
                _log.debug("%s leaves %s (%s): %s", self.name, node.name, node.op, problem)
                first[key] = node  # the next one is nearer to this one
                continue
            for copy, source in pairs:
                read_instead(memory, copy, source)
            memory.forget(node)
            graph.remove(node)


def _key(node: Node) -> Any:
    attrs = tuple((name, literal_key(value)) for name, value in sorted(node.attrs.items()))
    call = None if node.call is None else call_key(node.call)
    types = tuple(type_key(value.type) for value in node.outputs)
    scope = tuple(sorted(node.scope.items()))
    return (node.op, node.inputs, attrs, call), (types, node.output_names, node.aliases, node.operand_strides, scope)
