"""Concatenation without copying: operands are computed where they belong (specification, F-37)."""

from __future__ import annotations

import logging
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.frontend.aliasing import readers_of_position, storages, tensors
from torchair.frontend.fx_pass import FxPass
from torchair.frontend.new_nodes import call
from torchair.logs import npugraph_ex_logger
from torchair.streams import stream_of

__all__ = ["RemoveCatOps"]

_aten = torch.ops.aten


@dataclass(slots=True)
class RemoveCatOps(FxPass):
    """``cat([f(x), g(y)], 0)`` becomes a buffer, into whose slices ``f.out(x)`` and ``g.out(y)`` write.

    Whatever else reads ``f(x)`` reads the slice. A concatenation stays if one of its operands cannot be computed in
    place: it is a graph input or a view, is concatenated elsewhere too, has another dtype or layout than the slice, the
    graph returns it, or its operator has no overload that writes a given tensor. It also stays if one of them is
    computed on another stream: nothing would say that the buffer is free by then, and writers of one buffer would wait
    for each other.

    The buffer is a value that was written before anybody reads it, which only the order of nodes shows.
    """

    name: ClassVar[str] = "remove-cat-ops"
    log: logging.Logger = npugraph_ex_logger

    def run(self, gm: fx.GraphModule) -> int:
        cats = gm.graph.find_nodes(op="call_function", target=_aten.cat.default)
        if not cats:
            return 0
        self.log.debug("[remove_cat_ops] Found %d cat node(s)", len(cats))
        uses = Counter(n for node in cats for n in _operands(node) if isinstance(n, fx.Node))
        kept = _kept_storages(gm.graph)
        order = {node: i for i, node in enumerate(gm.graph.nodes)}
        count = 0
        for node in cats:
            problem = _problem(node, uses, kept)
            sizes = None
            if not problem:
                first = min(_operands(node), key=order.__getitem__)
                sizes = _Sizes(gm.graph, first).of(node.meta["val"], [n.meta["val"] for n in _operands(node)])
                problem = "" if sizes is not None else "its size is computed only after its first operand"
            if problem or sizes is None:
                self.log.debug("[remove_cat_ops] %s stays: %s", node, problem)
                continue
            self.log.debug("Optimizing %s (%d inputs)", node, len(_operands(node)))
            _rewrite(node, first, sizes)
            count += 1
        self.log.debug("remove_cat_ops: Optimized %d cat node(s)", count)
        return count


def _operands(node: fx.Node) -> Sequence[Any]:
    operands: Any = node.args[0] if node.args else node.kwargs["tensors"]
    return operands  # type: ignore[no-any-return]


def _kept_storages(graph: fx.Graph) -> frozenset[int]:
    """The memory of what the graph returns or writes: it must not become a part of a buffer."""
    places: set[int] = set()
    for node in graph.nodes:
        values: list[fx.Node] = []
        if node.op == "output":
            values = node.all_input_nodes
        elif isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            schema = node.target._schema.arguments
            given = {**dict(zip((a.name for a in schema), node.args, strict=False)), **node.kwargs}
            fx.map_arg([given.get(a.name) for a in schema if a.alias_info and a.alias_info.is_write], values.append)
        for value in values:
            places |= storages(value.meta.get("val"))
    return frozenset(places)


def _problem(cat: fx.Node, uses: Counter[fx.Node], kept: frozenset[int]) -> str:
    """Why a concatenation stays as it is; empty if it need not."""
    operands, result = _operands(cat), cat.meta["val"]
    dim = cat.args[1] if len(cat.args) > 1 else cat.kwargs.get("dim", 0)
    if dim not in (0, -result.dim()):
        return f"it is along dimension {dim}"
    if len(operands) < 2:
        return "it has one operand"
    for node in operands:
        problem = _operand_problem(node, result)
        if not problem and stream_of(node) != stream_of(cat):
            problem = "it is computed on another stream"
        if not problem and uses[node] > 1:
            problem = "it is concatenated more than once"
        if not problem and not storages(node.meta["val"]).isdisjoint(kept):
            problem = "the graph returns it, or an operator may write it"
        if not problem and any(True for _ in readers_of_position(node)):
            problem = "something counts elements from the start of its memory"
        if problem:
            return f"operand {node}: {problem}"
    return ""


def _operand_problem(node: fx.Node, result: torch.Tensor) -> str:
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return "it is not computed by an operator"
    value = node.meta.get("val")
    out = _out_variant(node.target)
    if out is None or not isinstance(value, torch.Tensor):
        return f"{node.target} has no overload that writes a given tensor"
    if value.dtype != result.dtype:
        return f"it is {value.dtype}, the result {result.dtype}"
    if value.device != result.device or not _torch_compat.has_kernel(out, _dispatch_key(value.device)):
        return f"{out} does not run on {result.device}"
    if value.layout is not torch.strided or value.is_conj() or value.is_neg() or value.dim() != result.dim():
        return "it is not laid out as a slice of the result"
    known = _torch_compat.known_true
    if not all(known(m == n) for m, n in zip(value.shape[1:], result.shape[1:], strict=True)):
        return "it is not laid out as a slice of the result"
    # Sizes of 1 have any stride.
    strides = zip(value.shape, value.stride(), result.stride(), strict=True)
    if not all(known(m == n) or known(size == 1) for size, m, n in strides):
        return "it is not laid out as a slice of the result"
    return ""


def _out_variant(overload: Any) -> OpOverload | None:
    """The overload that computes one result right in a given tensor; random numbers stay where they are drawn."""
    schema = overload._schema
    if schema.is_mutable or torch.Tag.nondeterministic_seeded in overload.tags:
        return None
    if [str(r.type) for r in schema.returns] != ["Tensor"] or schema.returns[0].alias_info is not None:
        return None
    return _torch_compat.native_out_variant(overload)


def _dispatch_key(device: torch.device) -> str:
    return {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "mps": "MPS"}.get(device.type, "PrivateUse1")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Sizes and strides of a buffer, and how many rows each operand has, as arguments of nodes."""

    shape: list[Any]
    strides: list[Any] | None
    rows: list[Any]


@dataclass(slots=True)
class _Sizes:
    """Finds nodes for symbolic sizes that are known before a node."""

    graph: fx.Graph
    before: fx.Node
    _known: dict[Any, fx.Node] = field(init=False, default_factory=dict)
    _dims: dict[Any, tuple[fx.Node, int]] = field(init=False, default_factory=dict)

    def of(self, result: torch.Tensor, operands: Sequence[torch.Tensor]) -> _Layout | None:
        """Sizes of a concatenation along dimension 0; None if one is not known yet."""
        numbers = [*result.shape[1:], *(o.shape[0] for o in operands)]
        if any(isinstance(n, torch.SymInt) for n in numbers):
            self._look()
        found = [self._node(n) for n in numbers]
        if any(n is None for n in found):
            return None
        rest, rows = found[: result.dim() - 1], found[result.dim() - 1 :]
        strides = None
        if not _row_major(result):
            if not all(isinstance(n, int) for n in (*found, *result.stride())):
                return None
            strides = list(result.stride())
        return _Layout([None, *rest], strides, rows)

    def _look(self) -> None:
        for node in self.graph.nodes:
            if node is self.before:
                break
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt):
                self._known.setdefault(value.node.expr, node)
            for tensor in tensors(value) if node.op == "placeholder" else ():
                for dim, size in enumerate(tensor.shape):
                    number: Any = size
                    if isinstance(number, torch.SymInt):
                        self._dims.setdefault(number.node.expr, (node, dim))

    def _node(self, number: Any) -> Any:
        if not isinstance(number, torch.SymInt):
            return number
        expr = number.node.expr
        if expr.is_Integer:
            return int(expr)
        if expr not in self._known and expr in self._dims:
            with self.graph.inserting_before(self.before):
                self._known[expr] = self.graph.call_function(_aten.sym_size.int, self._dims[expr])
        return self._known.get(expr)


def _row_major(tensor: torch.Tensor) -> bool:
    expected: Any = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        number: Any = size
        if not _torch_compat.known_true(stride == expected) and not _torch_compat.known_true(number == 1):
            return False
        expected = expected * number
    return True


def _rewrite(cat: fx.Node, first: fx.Node, layout: _Layout) -> None:
    graph, result = cat.graph, cat.meta["val"]

    def plus(a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return b if a == 0 else call(graph, operator.add, (a, b), {}, cat)

    with graph.inserting_before(first):
        ends: list[Any] = [0]
        for rows in layout.rows:
            ends.append(plus(ends[-1], rows))
        shape = [ends[-1], *layout.shape[1:]]
        like = {"dtype": result.dtype, "layout": torch.strided, "device": result.device, "pin_memory": False}
        if layout.strides is None:
            buffer = call(graph, _aten.empty.memory_format, (shape,), like, cat)
        else:
            buffer = call(graph, _aten.empty_strided.default, (shape, layout.strides), like, cat)
    for node, start, end in zip(list(_operands(cat)), ends[:-1], ends[1:], strict=True):
        with graph.inserting_before(node):
            place = call(graph, _aten.slice.Tensor, (buffer, 0, start, end), {}, node)
            out = _out_variant(node.target)
            assert out is not None
            written = call(graph, out, node.args, {**node.kwargs, out._schema.arguments[-1].name: place}, node)
        node.replace_all_uses_with(written)
        graph.erase_node(node)
    cat.replace_all_uses_with(buffer)
    graph.erase_node(cat)
