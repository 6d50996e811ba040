"""Checks that a graph is well formed. Every rule has a name, and can be waived by it.

The order of nodes is an execution order, and engines may run nodes in place: so the rules about memory are what keeps a
pass from making a graph that computes something else.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy

from torchair.errors import IRError
from torchair.ir.graph import Attr, Blob, Graph, Literal, Node, Slot, Use, Value
from torchair.ir.memory import Memory, depends_on, is_constant
from torchair.ir.text import type_text
from torchair.ir.types import DType, Format

__all__ = ["RULES", "Violation", "verify", "violations"]

#: Lines of user source that an error shows.
_SHOWN_SOURCES = 3


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a graph breaks.

    Attributes:
        rule: Name of the rule.
        message: What is wrong, with names.
        node: The node where it shows, if it is one.
    """

    rule: str
    message: str
    node: Node | None = None


_Found: TypeAlias = Iterator[tuple[str, "Node | None"]]
_Rule: TypeAlias = Callable[[Graph], _Found]


def verify(graph: Graph, waive: Collection[str] = ()) -> None:
    """Check a graph.

    Args:
        waive: Names of rules (:data:`RULES`) that this graph may break.

    Raises:
        IRError: Listing everything that is wrong, or naming a waived rule that does not exist.
    """
    found = violations(graph, waive)
    if found:
        sources = dict.fromkeys(v.node.origin.source for v in found if v.node is not None and v.node.origin.source)
        raise IRError(
            "An IR graph is not well formed",
            why=[f"{v.rule}: {v.message}" for v in found],
            where=list(sources)[:_SHOWN_SOURCES],
        )


def violations(graph: Graph, waive: Collection[str] = ()) -> list[Violation]:
    """Everything that is wrong with a graph, as data.

    Where the structure is broken, the rules about memory and symbols are not tried: they build on it.

    Raises:
        IRError: A waived rule does not exist.
    """
    for name in waive:
        if name not in RULES:
            close = difflib.get_close_matches(name, RULES, n=1)
            raise IRError(
                "There is no verifier rule of that name",
                why=f"{name!r} was to be waived",
                fix=f"Did you mean {close[0]}?" if close else f"Rules: {', '.join(RULES)}.",
            )
    broken = _broken(graph, _STRUCTURE)
    if not broken:
        broken = _broken(graph, _MEANING)
    return [v for v in broken if v.rule not in waive]


def _broken(graph: Graph, rules: Mapping[str, _Rule]) -> list[Violation]:
    return [Violation(name, message, node) for name, rule in rules.items() for message, node in rule(graph)]


# --- structure ---------------------------------------------------------------------------------------------------


def _order(graph: Graph) -> _Found:
    """Every operand is a graph input or the output of an earlier node."""
    defined = set(graph.inputs)
    for node in graph:
        for value in node.values:
            if value not in defined:
                known = value.producer is not None and value.producer in graph
                problem = "which only a later node makes" if known else "which nothing in the graph makes"
                yield f"{node.name} reads %{value.name}, {problem}", node
        defined.update(node.outputs)


def _uses(graph: Graph) -> _Found:
    """The use lists say exactly who reads a value."""
    expected: dict[Value, Counter[Use]] = {}
    for node in graph:
        for index, operand in enumerate(node.inputs):
            if isinstance(operand, tuple):
                for element, value in enumerate(operand):
                    expected.setdefault(value, Counter())[Use(node, index, element)] += 1
            elif operand is not None:
                expected.setdefault(operand, Counter())[Use(node, index)] += 1
    for value in [*graph.inputs, *(v for node in graph for v in node.outputs)]:
        listed, real = Counter(value.uses), expected.get(value, Counter())
        for use in listed - real:
            yield f"%{value.name} lists a use by {use.node.name} (input {use.index}), which does not read it", use.node
        for use in real - listed:
            yield f"%{value.name} does not list its use by {use.node.name} (input {use.index})", use.node


def _producers(graph: Graph) -> _Found:
    """Every value is made once, knows by whom, and belongs to the graph."""
    seen: dict[Value, str] = {}
    for index, value in enumerate(graph.inputs):
        yield from _produced(graph, value, None, index, seen)
    for node in graph:
        if node.graph is not graph:
            yield f"{node.name} belongs to another graph", node
        for index, value in enumerate(node.outputs):
            yield from _produced(graph, value, node, index, seen)


def _produced(graph: Graph, value: Value, node: Node | None, index: int, seen: dict[Value, str]) -> _Found:
    maker = "the graph's inputs" if node is None else node.name
    if value in seen:
        yield f"%{value.name} is made by {seen[value]} and again by {maker}", node
    seen[value] = maker
    if value.producer is not node or value.index != index:
        yield f"%{value.name} is number {index} of {maker}, but says something else", node
    if value.graph is not graph:
        yield f"%{value.name} belongs to another graph", node


def _names(graph: Graph) -> _Found:
    """Nodes have different names, values have different names, none is empty."""
    values = [*graph.inputs, *(v for node in graph for v in node.outputs)]
    for kind, counted in (("nodes", Counter(n.name for n in graph)), ("values", Counter(v.name for v in values))):
        for name, count in counted.items():
            if count > 1 or not name:
                yield f"{count} {kind} are called {name!r}", None


def _node_fields(graph: Graph) -> _Found:
    """What a node says about its operands and outputs by number fits them."""
    for node in graph:
        operands, outputs = len(node.operands), len(node.outputs)
        if len(node.output_names) != outputs:
            yield f"{node.name} has {outputs} outputs and {len(node.output_names)} names for them", node
        if node.operand_strides and len(node.operand_strides) != operands:
            yield f"{node.name} has {operands} operands and strides for {len(node.operand_strides)}", node
        for field, pairs in (("writes", node.writes), ("aliases", node.aliases)):
            for output, operand in pairs:
                if not (0 <= output < outputs and 0 <= operand < operands) or node.operands[operand] is None:
                    yield f"{field} of {node.name}: it has no output {output} or no operand {operand}", node
        for symbol, output, dim in node.binds:
            if not 0 <= output < outputs or (dim is not None and not 0 <= dim < node.outputs[output].rank):
                yield f"{node.name} binds {symbol} to dimension {dim} of its output {output}, which is not there", node
        slots, attrs = _references([*node.attrs.values(), node.call and (node.call.args, node.call.kwargs)])
        written = node.call.writes if node.call else ()
        for slot in sorted({*slots, *written}):
            if not 0 <= slot < operands:
                yield f"{node.name} refers to its operand {slot}, and has {operands}", node
        for name in sorted(attrs - set(node.attrs)):
            yield f"the call of {node.name} refers to an attribute {name!r}, which the node does not have", node


def _references(tree: Any) -> tuple[set[int], set[str]]:
    """Operand numbers and attribute names that an attribute or a call refers to."""
    if isinstance(tree, Slot):
        return {tree.index}, set()
    if isinstance(tree, Attr):
        return set(), {tree.name}
    slots: set[int] = set()
    attrs: set[str] = set()
    for item in tree if isinstance(tree, tuple | list) else ():
        more_slots, more_attrs = _references(item)
        slots |= more_slots
        attrs |= more_attrs
    return slots, attrs


def _attributes(graph: Graph) -> _Found:
    """Attributes are of the kinds that the IR has."""
    for node in graph:
        for name, value in node.attrs.items():
            for bad in _foreign(value):
                yield f"attribute {name!r} of {node.name} holds a {type(bad).__name__} ({bad!r})", node


def _foreign(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in value:
            yield from _foreign(item)
    elif value is not None and not isinstance(
        value, bool | int | float | complex | str | DType | Format | Blob | Slot | Literal
    ):
        yield value


def _control(graph: Graph) -> _Found:
    """A node waits only for earlier nodes."""
    earlier: set[Node] = set()
    for node in graph:
        for other in node.control:
            if other not in earlier:
                problem = "stands later" if other in graph else "is not in the graph"
                yield f"{node.name} waits for {other.name}, which {problem}", node
        earlier.add(node)


def _outputs(graph: Graph) -> _Found:
    """Outputs and updates are values of the graph; updates go into different inputs of the same type."""
    values = {*graph.inputs, *(v for node in graph for v in node.outputs)}
    for index, value in enumerate(graph.outputs):
        if value is not None and value not in values:
            yield f"output {index}, %{value.name}, is not made in the graph", None
    if len(graph.output_specs) != len(graph.outputs):
        yield f"there are {len(graph.outputs)} outputs and {len(graph.output_specs)} specifications of them", None
    for value, spec in zip(graph.outputs, graph.output_specs, strict=False):
        if (value is None) != (spec.kind == "none"):
            yield f"an output of kind {spec.kind!r} is {'None' if value is None else '%' + value.name}", None
    inputs = set(graph.inputs)
    for target, count in Counter(target for target, _ in graph.updates).items():
        if count > 1:
            yield f"%{target.name} is updated {count} times", None
    for target, source in graph.updates:
        if target not in inputs:
            yield f"%{target.name} is updated, and is not a graph input", None
        if source not in values:
            yield f"%{target.name} is updated with %{source.name}, which is not made in the graph", None
        if not target.type.same_tensor(source.type):
            types = f"{type_text(target.type)} with {type_text(source.type)}"
            yield f"%{target.name} is updated with %{source.name} of another type: {types}", None


# --- meaning -----------------------------------------------------------------------------------------------------


def _writes(graph: Graph) -> _Found:
    """Nothing reads memory after a node has overwritten it, but write-backs (:mod:`torchair.ir.memory`)."""
    memory = Memory(graph)
    for group in memory.groups():
        for read in memory.stale_reads(group):
            yield read.text, read.reader or read.writer


def _written_inputs(graph: Graph) -> _Found:
    """A graph input is overwritten only if it is updated in the end, with something that comes from that write."""
    memory = Memory(graph)
    updates = dict(graph.updates)
    for value in graph.inputs:
        for writer in memory.writers(memory.group(value)):
            source = updates.get(value)
            if source is None:
                yield f"{writer.name} overwrites memory of the input %{value.name}, which has no update", writer
            elif not depends_on(source, writer):
                update = f"the update of %{value.name} with %{source.name}"
                yield (
                    f"{writer.name} overwrites memory of the input %{value.name}, and {update} does not come from it",
                    writer,
                )


def _constants(graph: Graph) -> _Found:
    """Constants and host numbers are not overwritten: one tensor serves all runs."""
    memory = Memory(graph)
    for group in memory.groups():
        fixed = [v for v in group if is_constant(v) or (v.producer is None and v.type.content is not None)]
        if fixed:
            for writer in memory.writers(group):
                yield f"{writer.name} overwrites memory of %{fixed[0].name}, which is a constant", writer


def _symbols(graph: Graph) -> _Found:
    """Every symbol of a type has a value when the type is needed, and one meaning."""
    bound: set[str] = set()
    for value in graph.inputs:
        sizes = value.type.shape if value.type.content is None else (*value.type.shape, *value.type.content)
        bound |= {size.name for size in sizes if isinstance(size, sympy.Symbol)}
    meaning: dict[str, sympy.Symbol] = {}
    for node in (None, *graph):
        values = graph.inputs if node is None else list(node.outputs)
        bound |= {symbol for symbol, _, _ in node.binds} if node is not None else set()
        strides = [] if node is None else [d for s in node.operand_strides if s is not None for d in s]
        for where, dims in (
            *((f"the type of %{v.name}", (*v.type.shape, *(v.type.content or ()))) for v in values),
            (f"a stride of {node.name}" if node else "", strides),
        ):
            for symbol in _free_symbols(dims):
                if symbol.name not in bound:
                    yield f"{where} has {symbol.name}, which no input and no node before tells", node
                if meaning.setdefault(symbol.name, symbol) != symbol:
                    yield f"{where} has another {symbol.name}, with other assumptions", node
    for spec in graph.output_specs:
        for symbol in _free_symbols(spec.strides or ()):
            if symbol.name not in bound:
                yield f"a stride of an output has {symbol.name}, which no input and no node tells", None


def _free_symbols(dims: Any) -> list[sympy.Symbol]:
    found = {s for d in dims if isinstance(d, sympy.Basic) for s in d.free_symbols}
    return sorted(found, key=lambda symbol: str(symbol))


def _contents(graph: Graph) -> _Found:
    """The content of a value has as many numbers as its shape has places."""
    for value in [*graph.inputs, *(v for node in graph for v in node.outputs)]:
        type = value.type
        if type.content is not None and type.is_static and len(type.content) != math.prod(type.shape):
            yield f"%{value.name} is {type_text(type)}: {len(type.content)} numbers", value.producer


def _blobs(graph: Graph) -> _Found:
    """The constant tensors that attributes name are there."""
    for node in graph:
        for blob in _blobs_of(tuple(node.attrs.values())):
            if blob.name not in graph.blobs:
                yield f"{node.name} needs the constant tensor {blob.name!r}", node


def _blobs_of(value: Any) -> Iterator[Blob]:
    if isinstance(value, Blob):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _blobs_of(item)


_STRUCTURE: Mapping[str, _Rule] = {
    "producers": _producers,
    "order": _order,
    "uses": _uses,
    "names": _names,
    "node-fields": _node_fields,
    "attributes": _attributes,
    "control": _control,
    "outputs": _outputs,
}
_MEANING: Mapping[str, _Rule] = {
    "symbols": _symbols,
    "contents": _contents,
    "writes": _writes,
    "written-inputs": _written_inputs,
    "constants": _constants,
    "blobs": _blobs,
}

#: Every rule, by the name that waives it; its docstring says what it asks.
RULES: Mapping[str, _Rule] = {**_STRUCTURE, **_MEANING}
