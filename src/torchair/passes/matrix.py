"""Passes about products of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torchair.ir.graph import Graph, Node, Value
from torchair.ir.memory import Memory
from torchair.ir.types import Format
from torchair.logs import get_logger
from torchair.passes.base import GraphPass
from torchair.passes.sharing import reading_problem
from torchair.passes.views import permutation

__all__ = ["FoldTransposeIntoMatMul"]

_log = get_logger(__name__)

#: Operator -> the attributes that transpose its first and its second input.
_FLAGS: Mapping[str, tuple[str, str]] = {
    "MatMul": ("transpose_x1", "transpose_x2"),
    "MatMulV2": ("transpose_x1", "transpose_x2"),
    "FusedMatMul": ("transpose_x1", "transpose_x2"),
    "BatchMatMul": ("adj_x1", "adj_x2"),
}


@dataclass(slots=True)
class FoldTransposeIntoMatMul(GraphPass):
    """``MatMul(Transpose(a, [1, 0]), b)`` becomes ``MatMul(a, b, transpose_x1=True)``.

    The same for the second operand, and for ``BatchMatMul`` where the last two dimensions change places. A Transpose
    that others read stays for them.
    """

    name: ClassVar[str] = "fold-transpose-into-matmul"

    def run(self, graph: Graph) -> None:
        memory = Memory(graph)
        for node in graph:
            for index, flag in enumerate(_FLAGS.get(node.op, ())):
                # Twice, where it is a transposed matrix of a transposed matrix.
                while (source := self._source(memory, node, index, flag)) is not None:
                    node.set_input(index, source)
                    node.set_attr(flag, not node.attrs.get(flag, False))

    def _source(self, memory: Memory, node: Node, index: int, flag: str) -> Value | None:
        """The matrix of which an operand is the transposed one, where it may be read instead."""
        operand = node.operands[index]
        transpose = operand.producer if operand is not None else None
        order = permutation(transpose) if transpose is not None else None
        if operand is None or transpose is None or order is None or not _swaps_last_two(order):
            return None
        # ``adj`` of a complex matrix is its conjugate transposed.
        if flag.startswith("adj") and operand.dtype.is_complex:
            return None
        source = transpose.operands[0]
        assert source is not None
        if any(v.type.format is not Format.FORMAT_ND for v in (source, operand)):
            return None
        problem = reading_problem(memory, source, node)
        if problem is not None:
            _log.debug("%s leaves %s (%s): %s", self.name, node.name, node.op, problem)
            return None
        return source


def _swaps_last_two(order: tuple[int, ...]) -> bool:
    rank = len(order)
    return rank >= 2 and order == (*range(rank - 2), rank - 1, rank - 2)
