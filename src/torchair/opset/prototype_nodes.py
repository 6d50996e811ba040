"""Nodes of operators that are known by their prototype alone: layout of outputs, attributes known at run time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torchair.ir import DType, Node, Operand, Slot, TensorType, Value
from torchair.opset.builder import GraphBuilder, written_operands
from torchair.opset.operator import operators
from torchair.opset.prototype import Prototype

__all__ = [
    "Layout",
    "add_prototype_node",
    "flatten_operand",
    "layout_of",
    "output_names",
    "structured",
    "symbolic_attrs",
]

#: For each output of a prototype how many values it has in a node: None for one tensor, a number for a list, 0 for one
#: that is absent.
Layout: TypeAlias = "tuple[int | None, ...]"


def layout_of(prototype: Prototype, operands: Sequence[Operand], counts: Mapping[str, int]) -> Layout:
    """The layout of a node's outputs.

    Args:
        operands: The node's inputs. An output with an input's name has as many values as that input.
        counts: How many values each dynamic output has, and 0 for an optional one that is absent.
    """
    given = {spec.name: operand for spec, operand in zip(prototype.inputs, operands, strict=True)}
    layout: list[int | None] = []
    for spec in prototype.outputs:
        if spec.name in given:
            operand = given[spec.name]
            layout.append(len(operand) if isinstance(operand, tuple) else None if operand is not None else 0)
        else:
            layout.append(counts.get(spec.name))
    return tuple(layout)


def output_names(prototype: Prototype, layout: Layout) -> list[str]:
    """One name for each value: ``y``, or ``y0``, ``y1`` ... for a list."""
    names: list[str] = []
    for spec, count in zip(prototype.outputs, layout, strict=True):
        names += [spec.name] if count is None else [f"{spec.name}{i}" for i in range(count)]
    return names


def structured(prototype: Prototype, layout: Layout, node: Node) -> list[Any]:
    """For each output of the prototype its value, a list of them, or None for an absent one."""
    lists = {spec.name for spec in prototype.inputs if spec.kind == "dynamic"}
    lists |= {spec.name for spec in prototype.outputs if spec.kind == "dynamic"}
    values = iter(node.outputs)
    return [
        next(values) if count is None else list(itertools.islice(values, count)) if spec.name in lists else None
        for spec, count in zip(prototype.outputs, layout, strict=True)
    ]


def flatten_operand(operands: Sequence[Operand]) -> list[Value | None]:
    """Operands with the lists flattened: what ``Slot`` and ``Node.writes`` count."""
    flat: list[Value | None] = []
    for operand in operands:
        flat.extend(operand) if isinstance(operand, tuple) else flat.append(operand)
    return flat


def symbolic_attrs(attrs: Mapping[str, Any], operands: Sequence[Operand]) -> tuple[dict[str, Any], list[Value]]:
    """Attributes whose number is known at run time, as slots of one more operand that holds these numbers.

    Returns:
        The attributes, and the values of that operand.
    """
    first = len(flatten_operand(operands))
    extra: list[Value] = []

    def attribute(value: Any) -> Any:
        if isinstance(value, Value):
            extra.append(value)
            return Slot(first + len(extra) - 1, host=True)
        return tuple(attribute(v) for v in value) if isinstance(value, tuple) else value

    return {name: attribute(value) for name, value in attrs.items()}, extra


def add_prototype_node(
    builder: GraphBuilder,
    prototype: Prototype,
    operands: Sequence[Operand],
    attrs: Mapping[str, Any],
    layout: Layout,
    *,
    types: Sequence[TensorType] | None = None,
    side_effects: bool = False,
    **fields: Any,
) -> Node:
    """Add a node of a prototype.

    Args:
        attrs: As nodes hold them; a symbolic number is a :class:`Value`.
        types: Types of the outputs. By default inferred; where nothing tells them, an output that is written in place
            has its input's type and any other one ``DT_UNDEFINED``.
    """
    node_attrs, extra = symbolic_attrs(attrs, operands)
    names = output_names(prototype, layout)
    known = operators.get(prototype.name)
    node = builder.node(
        prototype.name,
        [*operands, *([tuple(extra)] if extra else [])],
        node_attrs,
        None,
        types=[TensorType.of(DType.DT_UNDEFINED)] * len(names) if types is None and extra else types,
        output_names=names,
        writes=written_operands(prototype, operands, names),
        side_effects=side_effects or (known is not None and known.side_effects),
        **fields,
    )
    flat = node.operands
    for output, operand in node.writes:
        source = flat[operand]
        if node.outputs[output].dtype is DType.DT_UNDEFINED and source is not None:
            builder.graph.set_type(node.outputs[output], source.type.with_content(None))
    return node
