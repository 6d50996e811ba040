"""Operators that return what they were given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torchair.errors import Rejection
from torchair.ir.graph import Node
from torchair.ir.memory import Memory
from torchair.passes.base import RewritePass
from torchair.passes.sharing import Caller, is_awaited, is_free, read_instead, sharing_problem
from torchair.passes.views import permutation

__all__ = ["RemoveIdentities"]

#: Operators that change nothing but the type, so that they do nothing when it stays.
_BY_TYPE = frozenset({"BroadcastTo", "Cast", "Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


@dataclass(slots=True)
class RemoveIdentities(RewritePass):
    """``Identity(x)``, ``Cast`` to its own dtype, ``Reshape`` to its own shape, ``Transpose(x, [0, 1])`` become ``x``.

    Left alone: those that keep outputs and inputs of the graph apart, that keep a value from a later write, that order
    nodes by a control edge, or that ask for strides.
    """

    name: ClassVar[str] = "remove-identities"
    caller: Caller = field(default_factory=Caller)

    def matches(self, node: Node) -> bool:
        if not node.values or len(node.outputs) != 1 or node.operands[0] is None:
            return False
        if any(strides is not None for strides in node.operand_strides):
            return False
        if node.op == "Transpose":
            order = permutation(node)
            return order is not None and list(order) == list(range(len(order)))
        return node.op in _BY_TYPE and node.output.type.same_tensor(node.operands[0].type)

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        source = node.operands[0]
        assert source is not None
        if not is_free(node) or is_awaited(node):
            return Rejection("it has effects, or orders other nodes")
        problem = sharing_problem(memory, node.output, source, self.caller)
        return None if problem is None else Rejection(problem)

    def rewrite(self, memory: Memory, node: Node) -> None:
        source = node.operands[0]
        assert source is not None
        read_instead(memory, node.output, source)
        memory.forget(node)
        memory.graph.remove(node)
