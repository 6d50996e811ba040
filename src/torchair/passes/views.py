"""Chains of views: ``Transpose`` of ``Transpose``, ``Reshape`` of ``Reshape``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torchair.errors import Rejection
from torchair.ir.graph import Graph, Node, Value
from torchair.ir.memory import Memory
from torchair.ir.types import Format
from torchair.passes.base import RewritePass
from torchair.passes.sharing import Caller, is_awaited, is_free, read_instead, reading_problem, sharing_problem

__all__ = ["MergeReshapes", "MergeTransposes", "host_constant", "permutation"]

#: Operators whose result has the elements of their first input, in the same order.
_RESHAPING = frozenset({"ExpandDims", "FlattenV2", "Reshape", "Squeeze", "Unsqueeze"})


def permutation(node: Node) -> tuple[int, ...] | None:
    """The order of dimensions that a ``Transpose`` makes; None where it is not known."""
    if node.op != "Transpose" or len(node.operands) != 2:
        return None
    x, perm = node.operands
    if x is None or perm is None or perm.type.content is None:
        return None
    order = tuple(p + x.rank if p < 0 else p for p in perm.type.content if isinstance(p, int))
    return order if sorted(order) == list(range(x.rank)) else None


def host_constant(graph: Graph, numbers: Sequence[int], like: Value, before: Node) -> Value:
    """A vector of host integers, of the dtype and on the device of another."""
    type = like.type.with_content(numbers)
    return graph.add_node(
        "Const", (), [type], attrs={"value": tuple(numbers)}, before=before, scope=before.scope, origin=before.origin
    ).output


def _inner(node: Node) -> Node | None:
    """The node that makes what a view is taken of."""
    return node.operands[0].producer if node.operands and node.operands[0] is not None else None


def _source(node: Node) -> Value:
    value = node.operands[0]
    assert value is not None
    return value


def _skipping_problem(memory: Memory, node: Node, inner: Node) -> str | None:
    """Why a view may not be taken of what another view was taken of."""
    source = _source(inner)
    if not is_free(node):
        return "it has effects, or orders other nodes"
    if any(v.type.format is not Format.FORMAT_ND for v in (source, inner.output, node.output)):
        return "its layout is not ND"
    if node.aliases and not memory.share(inner.output, source):
        return f"{inner.name} copies"
    return reading_problem(memory, source, node)


@dataclass(slots=True)
class MergeTransposes(RewritePass):
    """``Transpose(Transpose(x, p), q)`` becomes one ``Transpose``, or ``x`` where the two undo each other.

    The inner one stays for others that read it.
    """

    name: ClassVar[str] = "merge-transposes"
    caller: Caller = field(default_factory=Caller)

    def matches(self, node: Node) -> bool:
        inner = _inner(node)
        return inner is not None and permutation(node) is not None and permutation(inner) is not None

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        inner = _inner(node)
        assert inner is not None
        problem = _skipping_problem(memory, node, inner)
        return None if problem is None else Rejection(problem)

    def rewrite(self, memory: Memory, node: Node) -> None:
        inner = _inner(node)
        assert inner is not None
        first, second = permutation(inner), permutation(node)
        assert first is not None
        assert second is not None
        order = tuple(first[i] for i in second)
        source, perm = _source(inner), node.operands[1]
        assert perm is not None
        undone = order == tuple(range(len(order))) and not is_awaited(node)
        if undone and sharing_problem(memory, node.output, source, self.caller) is None:
            read_instead(memory, node.output, source)
            memory.forget(node)
            memory.graph.remove(node)
            return
        if order != perm.type.content:
            perm = host_constant(memory.graph, order, perm, node)
            assert perm.producer is not None
            memory.add(perm.producer)
            node.set_input(1, perm)
        node.set_input(0, source)
        memory.add(node)


@dataclass(slots=True)
class MergeReshapes(RewritePass):
    """``Reshape(Reshape(x, a), b)`` becomes ``Reshape(x, b)``, and so for ``Squeeze`` and ``Unsqueeze`` inside.

    The inner one stays for others that read it.
    """

    name: ClassVar[str] = "merge-reshapes"

    def matches(self, node: Node) -> bool:
        inner = _inner(node)
        whole = node.attrs.get("axis", 0) == 0 and node.attrs.get("num_axes", -1) == -1
        return (
            node.op == "Reshape"
            and whole
            and inner is not None
            and inner.op in _RESHAPING
            and len(inner.outputs) == 1
            and inner.operands[0] is not None
        )

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        inner = _inner(node)
        assert inner is not None
        problem = _skipping_problem(memory, node, inner)
        return None if problem is None else Rejection(problem)

    def rewrite(self, memory: Memory, node: Node) -> None:
        # Again and again: a Squeeze inside may stand on a Reshape.
        while self.matches(node) and self.check(memory, node) is None:
            inner = _inner(node)
            assert inner is not None
            node.set_input(0, _source(inner))
            memory.add(node)
