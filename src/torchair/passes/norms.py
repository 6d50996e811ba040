"""Normalizations that models write out, or that decompositions leave, as the operator that computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torchair.errors import Rejection
from torchair.ir.graph import Node, Value
from torchair.ir.memory import Memory
from torchair.ir.types import DType, Format
from torchair.passes.base import RewritePass
from torchair.passes.sharing import is_awaited, is_free, read_instead, reading_problem

__all__ = ["FuseAddRmsNorm", "FuseRmsNorm"]

_HALVES = (DType.DT_FLOAT16, DType.DT_BF16)


@dataclass(frozen=True, slots=True)
class _Norm:
    """The nodes of one normalization.

    Attributes:
        x: What is normalized, in its own dtype.
        gamma: The weight, in its own dtype.
        epsilon: What is added to the mean.
        rstd: Makes ``1 / sqrt(mean + epsilon)``.
        last: Makes the result.
        inner: All nodes but ``rstd`` and ``last``.
    """

    x: Value
    gamma: Value
    epsilon: float
    rstd: Node
    last: Node
    inner: tuple[Node, ...]


@dataclass(slots=True)
class FuseRmsNorm(RewritePass):
    """``x * Rsqrt(ReduceMean(x * x) + epsilon) * gamma`` becomes ``RmsNorm(x, gamma)``.

    With half precision it is ``Cast(... Cast(x, float32) ...)``, the last cast after the product with ``gamma``, as
    ``torch.nn.RMSNorm`` computes it. Where a model casts before that product, as those of ``transformers`` do, the
    result is rounded twice, and no Ascend operator rounds so: left alone, and so are parts that others read.
    """

    name: ClassVar[str] = "fuse-rms-norm"

    def matches(self, node: Node) -> bool:
        return node.op == "Rsqrt" and _norm(node) is not None

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        norm = _norm(node)
        assert norm is not None
        graph, nodes = node.graph, (norm.rstd, norm.last, *norm.inner)
        if any(not is_free(n) or is_awaited(n) for n in nodes) or any(n.scope != node.scope for n in nodes):
            return Rejection("it has effects, orders other nodes, or is in several scopes")
        if any(n.output.type.format is not Format.FORMAT_ND for n in nodes):
            return Rejection("its layout is not ND")
        if any(memory.writers(memory.group(n.output)) for n in nodes):
            return Rejection("a part of it is overwritten")
        inside = set(nodes)
        for part in norm.inner:
            if graph.is_read_outside(part.output) or any(u not in inside for u in part.output.users):
                # What casts the input up may serve others; it stays for them.
                if part.op != "Cast":
                    return Rejection(f"%{part.output.name} is read elsewhere")
        at = memory.place(norm.last)
        if any(u not in inside and memory.place(u) < at for u in norm.rstd.output.users):
            return Rejection(f"%{norm.rstd.output.name} is read before the result is there")
        problem = reading_problem(memory, norm.x, norm.last) or reading_problem(memory, norm.gamma, norm.last)
        return None if problem is None else Rejection(problem)

    def rewrite(self, memory: Memory, node: Node) -> None:
        norm, graph = _norm(node), node.graph
        assert norm is not None
        last, rstd = norm.last, norm.rstd
        made = graph.add_node(
            "RmsNorm",
            [norm.x, norm.gamma],
            [last.output.type, rstd.output.type],
            attrs={"epsilon": norm.epsilon},
            output_names=("y", "rstd"),
            value_names=(last.output.name, rstd.output.name),
            scope=last.scope,
            origin=last.origin,
            before=last,
        )
        memory.add(made)
        for old, new in ((last.output, made.outputs[0]), (rstd.output, made.outputs[1])):
            read_instead(memory, old, new)
        # Readers before what they read: from the end of the graph.
        for part in sorted((last, rstd, *norm.inner), key=memory.place, reverse=True):
            if not any(v.uses or graph.is_read_outside(v) for v in part.outputs):
                memory.forget(part)
                graph.remove(part)


@dataclass(slots=True)
class FuseAddRmsNorm(RewritePass):
    """``RmsNorm(Add(a, b), gamma)`` becomes ``AddRmsNorm(a, b, gamma)``, whose last result is the sum.

    Left alone where the sum is broadcast, overwritten, or read before the normalization.
    """

    name: ClassVar[str] = "fuse-add-rms-norm"

    def matches(self, node: Node) -> bool:
        if node.op != "RmsNorm" or node.operands[0] is None:
            return False
        x = node.operands[0]
        add = x.producer
        return add is not None and add.op == "Add" and all(v.type.same_tensor(x.type) for v in add.values)

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        x = node.values[0]
        add = x.producer
        assert add is not None
        if any(not is_free(n) or is_awaited(n) for n in (node, add)) or add.scope != node.scope:
            return Rejection("it has effects, orders other nodes, or is in several scopes")
        if any(v.type.format is not Format.FORMAT_ND for v in (*add.values, x)):
            return Rejection("its layout is not ND")
        if memory.writers(memory.group(x)):
            return Rejection(f"%{x.name} is overwritten")
        at = memory.place(node)
        if any(memory.place(user) < at for user in x.users):
            return Rejection(f"%{x.name} is read before the normalization")
        problem = next((p for v in add.values if (p := reading_problem(memory, v, node))), None)
        return None if problem is None else Rejection(problem)

    def rewrite(self, memory: Memory, node: Node) -> None:
        graph, (x, gamma) = node.graph, node.values
        add = x.producer
        assert add is not None
        a, b = add.values
        made = graph.add_node(
            "AddRmsNorm",
            [a, b, gamma],
            [node.outputs[0].type, node.outputs[1].type, x.type],
            attrs={"epsilon": node.attrs["epsilon"]},
            output_names=("y", "rstd", "x"),
            value_names=(node.outputs[0].name, node.outputs[1].name, x.name),
            scope=node.scope,
            origin=node.origin,
            before=node,
        )
        memory.add(made)
        for old, new in zip((*node.outputs, x), made.outputs, strict=True):
            read_instead(memory, old, new)
        for part in (node, add):
            memory.forget(part)
            graph.remove(part)


def _norm(rsqrt: Node) -> _Norm | None:
    """The normalization around a ``Rsqrt``; None where there is none."""
    shift = _made_by(rsqrt.values[0] if rsqrt.values else None, "Add")
    if shift is None or len(shift.values) != 2:
        return None
    epsilon = _number(shift.values[1])
    mean = _made_by(shift.values[0], "ReduceMean")
    if epsilon is None or mean is None or not mean.attrs.get("keep_dims"):
        return None
    square = _made_by(mean.values[0], "Mul")
    if square is None or square.values[0] is not square.values[1]:
        return None
    wide = square.values[0]
    scaled = _only_product(rsqrt.output, wide)
    weighted = None if scaled is None else _only_reader(scaled.output, "Mul")
    if scaled is None or weighted is None:
        return None
    first, second = weighted.values
    gamma = second if first is scaled.output else first
    inner = [weighted, scaled, shift, mean, square]
    x, last = wide, weighted
    up = _made_by(wide, "Cast")
    down = _only_reader(weighted.output, "Cast")
    if up is not None and down is not None and up.values[0].dtype in _HALVES:
        if wide.dtype is DType.DT_FLOAT and down.output.dtype is up.values[0].dtype:
            x, last = up.values[0], down
            inner.append(up)
    if last is weighted:
        inner.remove(weighted)
    if x.dtype in _HALVES and x is wide:
        return None
    gamma, gamma_cast = _own_dtype(gamma, x, wide)
    if gamma_cast is not None:
        inner.append(gamma_cast)
    if gamma.dtype not in (x.dtype, wide.dtype) or not _fits(
        x, gamma, mean.values[1] if len(mean.values) > 1 else None
    ):
        return None
    if not last.output.type.same_tensor(x.type):
        return None
    return _Norm(x, gamma, epsilon, rsqrt, last, tuple(inner))


def _own_dtype(gamma: Value, x: Value, wide: Value) -> tuple[Value, Node | None]:
    """The weight before it was cast to the dtype of the computation, and that cast."""
    cast = _made_by(gamma, "Cast")
    if cast is not None and x is not wide and cast.values[0].dtype is x.dtype and gamma.dtype is wide.dtype:
        return cast.values[0], cast
    return gamma, None


def _fits(x: Value, gamma: Value, axes: Value | None) -> bool:
    """True when the weight has the last dimensions of ``x``, and the mean is over these."""
    rank = gamma.rank
    if not 0 < rank <= x.rank or x.shape[x.rank - rank :] != gamma.shape or axes is None:
        return False
    content: Any = axes.type.content
    if content is None or not all(isinstance(a, int) for a in content):
        return False
    return sorted(a % x.rank for a in content) == list(range(x.rank - rank, x.rank))


def _made_by(value: Value | None, op: str) -> Node | None:
    node = None if value is None else value.producer
    return node if node is not None and node.op == op and len(node.outputs) == 1 else None


def _only_reader(value: Value, op: str) -> Node | None:
    """The only node that reads a value, once, if it is of that operator."""
    uses = value.uses
    node = uses[0].node if len(uses) == 1 and not value.graph.is_read_outside(value) else None
    return node if node is not None and node.op == op and len(node.outputs) == 1 else None


def _only_product(rstd: Value, x: Value) -> Node | None:
    """The only product of ``rstd`` and ``x``."""
    found = [n for n in rstd.users if n.op == "Mul" and len(n.values) == 2 and set(n.values) == {rstd, x}]
    return found[0] if len(found) == 1 else None


def _number(value: Value) -> float | None:
    """The number that a constant of one element is."""
    node = value.producer
    if node is None or node.op != "Const" or value.rank or not isinstance(node.attrs.get("value"), tuple):
        return None
    (number,) = node.attrs["value"]
    return float(number) if isinstance(number, int | float) else None
