"""Products with packed weights, for the models that ask for them (specification, F-87)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import ClassVar

from torchair.errors import Rejection
from torchair.ir.graph import Call, Node, Slot, Value
from torchair.ir.memory import Memory
from torchair.ir.types import DType, Format, TensorType
from torchair.opset.torch_types import torch_dtype
from torchair.passes.base import RewritePass
from torchair.passes.products import LEAST_ROWS
from torchair.passes.sharing import is_awaited, is_free
from torchair.torchops.packed_weights import can_pack

__all__ = ["PackWeights"]


@dataclasses.dataclass(slots=True)
class PackWeights(RewritePass):
    """``MatMulV2(x, w, bias, transpose_x2=True)`` becomes ``packed_linear(x, w, bias, pack_linear_weight(w))``.

    ``hoist-frozen-computations`` then packs before the graph runs. Left alone: weights that nobody marked, products of
    up to 8 rows, which the native engine computes as fast with weights as they are, float32 with a symbolic number of
    rows, and dtypes that the machine cannot pack.

    Attributes:
        marked: Numbers of the graph inputs that are weights to be packed.
    """

    name: ClassVar[str] = "pack-weights"
    marked: Collection[int] = ()

    def matches(self, node: Node) -> bool:
        if node.op not in ("MatMul", "MatMulV2") or len(node.inputs) < 2:
            return False
        weight = node.inputs[1]
        sources = _sources(weight) if isinstance(weight, Value) else ()
        return bool(sources) and all(v.index in self.marked for v in sources)

    def check(self, memory: Memory, node: Node) -> Rejection | None:
        x, weight, *others = node.inputs
        assert isinstance(x, Value)
        assert isinstance(weight, Value)
        if not is_free(node) or is_awaited(node) or memory.writers(memory.group(weight)):
            return Rejection("it has effects, orders other nodes, or its weight is overwritten")
        if {target for target, _ in node.graph.updates} & set(_sources(weight)):
            return Rejection("its weight is updated")
        if node.attrs.get("transpose_x1") or not node.attrs.get("transpose_x2") or node.attrs.get("offset_x", 0):
            return Rejection("it is no product with the rows of its weight")
        bias = others[0] if others else None
        if any(other is not None for other in others[1:]) or isinstance(bias, tuple):
            return Rejection("it has an offset")
        operands = [v for v in (x, weight, bias, node.output) if v is not None]
        if len({v.dtype for v in operands}) > 1 or weight.type.symbols or (bias is not None and bias.rank != 1):
            return Rejection("its operands have several dtypes or symbolic sizes")
        if any(v.type.format not in (Format.FORMAT_ND, Format.FORMAT_FRACTAL_NZ) for v in operands):
            return Rejection("its layout is not ND")
        rows = x.shape[0]
        known = rows if isinstance(rows, int) else None
        if known is not None and known < LEAST_ROWS:
            return Rejection(f"it has {known} rows")
        if weight.type.device != "cpu" or not can_pack(torch_dtype(weight.dtype), known):
            return Rejection(f"{weight.dtype.name} is not packed here")
        return None

    def rewrite(self, memory: Memory, node: Node) -> None:
        graph, (x, weight, *others) = node.graph, node.inputs
        assert isinstance(x, Value)
        assert isinstance(weight, Value)
        bias = others[0] if others else None
        for source in _sources(weight):
            graph.set_type(source, dataclasses.replace(source.type, format=Format.FORMAT_FRACTAL_NZ))
        rows = x.shape[0] if weight.dtype is DType.DT_FLOAT else 0
        ticket = self._ticket(node, weight, rows)
        operands = [x, weight, *([bias] if bias is not None else []), ticket]
        slots = [Slot(0), Slot(1), None if bias is None else Slot(2), Slot(len(operands) - 1)]
        made = graph.add_node(
            "torch_call",
            operands,
            [node.output.type],
            output_names=("y0",),
            value_name=node.output.name,
            call=Call("air::packed_linear.default", tuple(slots)),
            scope=node.scope,
            origin=node.origin,
            before=node,
        )
        memory.add(made)
        graph.replace_all_uses_with(node.output, made.output)
        memory.forget(node)
        graph.remove(node)

    def _ticket(self, node: Node, weight: Value, rows: int) -> Value:
        """The packed copy; one for all products with that weight."""
        call = Call("air::pack_linear_weight.default", (Slot(0), rows))
        for user in weight.users:
            if user.call == call:
                return user.output
        graph = node.graph
        place = next((n for n in graph if n is node or weight in n.values), node)
        made = graph.add_node(
            "torch_call",
            [weight],
            [TensorType.of(DType.DT_INT64, (1,), device="cpu")],
            output_names=("y0",),
            value_name=f"{weight.name}_packed",
            call=call,
            scope=node.scope,
            origin=node.origin,
            before=place,
        )
        return made.output


def _sources(weight: Value) -> tuple[Value, ...]:
    """The graph input that a weight is, or those that it joins; none where it is something else."""
    producer = weight.producer
    if producer is None:
        return (weight,)
    parts = producer.values[:-1] if producer.op == "ConcatV2" else ()
    return parts if all(part.producer is None for part in parts) else ()
