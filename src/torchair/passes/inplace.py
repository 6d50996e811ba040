"""Writing in place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torchair.errors import Rejection
from torchair.ir.graph import Node, Value
from torchair.ir.memory import Memory, whole_memory
from torchair.ir.types import Dim
from torchair.passes.base import RewritePass
from torchair.passes.sharing import Caller, is_awaited, is_free, read_instead, sharing_problem

__all__ = ["Reinplace"]


@dataclass(slots=True)
class Reinplace(RewritePass):
    """``MyInplace(TensorMove(x))`` becomes ``MyInplace(x)`` when nobody reads the old value of ``x`` later.

    Conversion copies every tensor that an operator writes, because FX graphs are functional. A copy is dropped if

    * nothing that may lie in the memory of ``x`` is read after a node has overwritten it, but by the ``ViewCopy`` that
      puts a written view back into its base;
    * ``x`` is not, and does not become, a constant, and no two of its elements lie at one place;
    * a graph input in whose memory ``x`` lies is updated at the end with what comes from these writes, and no other
      input may lie there;
    * no output of the graph begins to share memory with an input or with another output;
    * where the copy is also there to put the elements in a certain order of memory (``operand_strides``), they lie in
      that order: graph inputs do, and such copies.

    A copy that nothing overwrites is dropped by the same rules.
    """

    name: ClassVar[str] = "reinplace"
    caller: Caller = field(default_factory=Caller)

    def matches(self, node: Node) -> bool:
        return node.op == "TensorMove" and len(node.operands) == 1 and node.operands[0] is not None

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        (source,) = node.values
        if not is_free(node) or is_awaited(node):
            return Rejection("it has effects, or orders other nodes")
        if not _has_strides(whole_memory(source), node.operand_strides):
            return Rejection(f"the elements of %{source.name} may not lie in the order of memory that is needed")
        problem = sharing_problem(memory, node.output, source, self.caller)
        return None if problem is None else Rejection(problem)

    def rewrite(self, memory: Memory, node: Node) -> None:
        (source,) = node.values
        read_instead(memory, node.output, source)
        memory.forget(node)
        memory.graph.remove(node)


def _has_strides(value: Value, wanted: tuple[tuple[Dim, ...] | None, ...]) -> bool:
    """True when a value surely has the strides that a node wants of its only operand."""
    if not any(strides is not None for strides in wanted):
        return True
    # The graph is compiled for inputs of certain strides, and the wanted ones come from there.
    producer = value.producer
    return producer is None or (producer.op == "TensorMove" and producer.operand_strides == wanted)
