"""Casts that change nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torchair.errors import Rejection
from torchair.ir.graph import Node, Value
from torchair.ir.memory import Memory
from torchair.ir.types import DType, Format
from torchair.passes.base import RewritePass
from torchair.passes.sharing import Caller, is_awaited, is_free, read_instead, reading_problem, sharing_problem

__all__ = ["RemoveCasts"]

_FLOATS = {DType.DT_FLOAT16, DType.DT_BF16, DType.DT_FLOAT, DType.DT_DOUBLE}

#: dtype -> those that can hold each of its numbers.
_HELD_BY: dict[DType, frozenset[DType]] = {
    DType.DT_FLOAT16: frozenset({DType.DT_FLOAT, DType.DT_DOUBLE}),
    DType.DT_BF16: frozenset({DType.DT_FLOAT, DType.DT_DOUBLE}),
    DType.DT_FLOAT: frozenset({DType.DT_DOUBLE}),
    DType.DT_INT8: frozenset({DType.DT_INT16, DType.DT_INT32, DType.DT_INT64, *_FLOATS}),
    DType.DT_UINT8: frozenset({DType.DT_INT16, DType.DT_INT32, DType.DT_INT64, *_FLOATS}),
    DType.DT_INT16: frozenset({DType.DT_INT32, DType.DT_INT64, DType.DT_FLOAT, DType.DT_DOUBLE}),
    DType.DT_INT32: frozenset({DType.DT_INT64, DType.DT_DOUBLE}),
    DType.DT_BOOL: frozenset({DType.DT_INT8, DType.DT_UINT8, DType.DT_INT16, DType.DT_INT32, DType.DT_INT64, *_FLOATS}),
}


@dataclass(slots=True)
class RemoveCasts(RewritePass):
    """``Cast(Cast(x, float32), bfloat16)`` becomes ``x``, if that is bfloat16; to another float, one ``Cast`` of ``x``.

    Only where the dtype between holds every number of the first one, so that no bit of the result changes: a cast down
    rounds, and stays. The inner cast stays for others that read it.
    """

    name: ClassVar[str] = "remove-casts"
    caller: Caller = field(default_factory=Caller)

    def matches(self, node: Node) -> bool:
        source = _source(node)
        if source is None or source.producer is None or (first := _source(source.producer)) is None:
            return False
        if source.dtype not in _HELD_BY.get(first.dtype, ()):
            return False
        # Numbers that are out of range are cast by each machine as it likes, so that only floats, whose casts are
        # defined for all numbers, become another dtype.
        return node.output.dtype == first.dtype or node.output.dtype in _FLOATS

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        first = _first(node)
        if not is_free(node):
            return Rejection("it has effects, or orders other nodes")
        if any(v.type.format is not Format.FORMAT_ND for v in (first, node.output)):
            return Rejection("its layout is not ND")
        if node.output.dtype != first.dtype:
            problem = reading_problem(memory, first, node)
        elif is_awaited(node):
            problem = "another node waits for it"
        else:
            problem = sharing_problem(memory, node.output, first, self.caller)
        return None if problem is None else Rejection(problem)

    def rewrite(self, memory: Memory, node: Node) -> None:
        first = _first(node)
        if node.output.dtype != first.dtype:
            node.set_input(0, first)
            memory.add(node)
            return
        read_instead(memory, node.output, first)
        memory.forget(node)
        memory.graph.remove(node)


def _source(node: Node) -> Value | None:
    """What a ``Cast`` casts."""
    return node.operands[0] if node.op == "Cast" and len(node.outputs) == 1 else None


def _first(node: Node) -> Value:
    source = _source(node)
    assert source is not None
    assert source.producer is not None
    first = _source(source.producer)
    assert first is not None
    return first
