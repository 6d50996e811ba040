"""The text form of a graph: for people first, and read back to the same graph.

::

    graph graph_1(%x: float32[s0, 4], %cache: float32[8, 4]):
      %perm: int64[2]{1, 0} = Const(value=(1, 0))
      %t: float32[4, s0] = Transpose(%x, %perm)  # from t aten.t.default at model.py:5, in forward: return x.t()
      %Scatter: float32[8, 4] = Scatter(%cache, %t, None, axis=0, reduce="update") writes %Scatter=$0
      update %cache <- %Scatter
      return %t strides (1, 4), None

A type is ``dtype[sizes]``, then ``{content}`` where the elements are known, ``in FORMAT`` where it is not ND,
``on device`` where it is not the CPU. Operands come before attributes; ``None`` is an absent operand, ``[%a, %b]`` a
dynamic one; ``$0`` is the node's operand number 0, lists flattened. ``Op<name>`` gives the node's name where neither
its operator nor its value tells it. What differs from the default stands behind the parentheses. A comment that begins
with ``# from`` or ``# at`` at the end of a XX("name")``) are not part of the text.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torchair.errors import IRError
from torchair.ir.expressions import SymbolTable, assumption_words, default_symbol, dim_text, float_text, quote
from torchair.ir.graph import Attr, Blob, Call, Graph, Literal, Node, Operand, Origin, OutputSpec, Slot, Value
from torchair.ir.types import Dim, DType, Format, TensorType, as_dim

__all__ = [
    "call_key",
    "default_output_names",
    "from_text",
    "literal_key",
    "named_by_its_value",
    "structurally_equal",
    "to_text",
    "type_key",
    "type_text",
]

#: Lines up to this long keep the inputs of a graph on its first line.
_WIDTH = 120

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE = re.compile(r"[A-Za-z0-9_.]+")
_TARGET = re.compile(r"[A-Za-z0-9_.:]+")
_DEVICE = re.compile(r"[a-z_]+(:\d+)?")
#: Operators of these names are quoted: the words begin something else.
_KEYWORDS = frozenset(
    {"update", "return", "writes", "aliases", "side_effects", "binds", "after", "scope", "strides", "call"}
)


def from_text(text: str, blobs: Mapping[str, Any] | None = None) -> Graph:
    """Read a graph back.

    Args:
        text: What :func:`to_text` wrote, or a person in the same form.
        blobs: The constant tensors that the text names. Without them the graph can be looked at and transformed, but
            not run.

    Raises:
        IRTextError: The text is not in that form, or makes no graph; with line, column and what was expected.
    """
    from torchair.ir.text_reader import read  # the parser is built on first use

    return read(text, blobs)


# --- writing -----------------------------------------------------------------------------------------------------


def to_text(graph: Graph) -> str:
    """Write a graph, every type and every effect of it.

    Raises:
        IRError: An attribute or a size is of a kind that the IR does not have.
    """
    lines = _symbol_lines(graph)
    inputs = [_definition(v) for v in graph.inputs]
    head = f"graph {_word(graph.name)}("
    if len(one_line := f"{head}{', '.join(inputs)}):") <= _WIDTH:
        lines.append(one_line)
    else:
        lines += [head, *(f"  {text}," for text in inputs), "):"]
    lines += [f"  {_node(node)}" for node in graph]
    lines += [f"  update {_value(target)} <- {_value(source)}" for target, source in graph.updates]
    outputs = itertools.zip_longest(graph.outputs, graph.output_specs[: len(graph.outputs)])
    lines.append(f"  return {', '.join(_returned(v, spec) for v, spec in outputs)}".rstrip())
    return "\n".join(lines) + "\n"


def type_text(type: TensorType) -> str:
    """A type as text: ``float32[s0, 4] on cuda:0``."""
    text = f"{type.dtype.short_name}[{_dims(type.shape)}]"
    if type.content is not None:
        text += f"{{{_dims(type.content)}}}"
    if type.format is not Format.FORMAT_ND:
        text += f" in {type.format.name.removeprefix('FORMAT_')}"
    if type.device != "cpu":
        text += f" on {type.device if _DEVICE.fullmatch(type.device) else quote(type.device)}"
    return text


def default_output_names(count: int) -> tuple[str, ...]:
    """The names of outputs that are not written out."""
    return ("y",) if count == 1 else tuple(f"y{i}" for i in range(count))


def named_by_its_value(op: str, values: Sequence[str]) -> bool:
    """True when a node without a written name is called like its only output: ``%Add_1: ... = Add(...)``."""
    return len(values) == 1 and re.fullmatch(re.escape(op) + r"(_\d+)?", values[0]) is not None


def _symbol_lines(graph: Graph) -> list[str]:
    """The line that declares symbols whose name does not say what they are."""
    table = SymbolTable()
    values = itertools.chain(graph.inputs, *(node.outputs for node in graph))
    strides = [s.strides for s in graph.output_specs] + [s for node in graph for s in node.operand_strides]
    types = [*(v.type for v in values), *(TensorType(DType.DT_INT64, s) for s in strides if s)]
    for type in types:
        for symbol in sorted(type.symbols, key=lambda s: (s.name, assumption_words(s))):
            table.add(symbol)
    odd = sorted((s for s in table if s != default_symbol(s.name)), key=str)
    texts = [f"{_word(s.name)}: {' '.join(assumption_words(s))}" for s in odd]
    return [f"symbols {', '.join(texts)}"] if texts else []


def _node(node: Node) -> str:
    names = [v.name for v in node.outputs]
    op = quote(node.op) if node.op in _KEYWORDS else _word(node.op)
    automatic = names[0] if named_by_its_value(node.op, names) else node.op
    shown = "" if node.name == automatic else f"<{_bare(node.name)}>"
    arguments = [*(_operand(o) for o in node.inputs), *(_pair(k, v) for k, v in node.attrs.items())]
    left = f"{', '.join(_definition(v) for v in node.outputs)} = " if node.outputs else ""
    return " ".join([f"{left}{op}{shown}({', '.join(arguments)})", *_clauses(node)]) + _origin(node.origin)


def _clauses(node: Node) -> Iterable[str]:
    if node.output_names != default_output_names(len(node.outputs)):
        yield f"-> {', '.join(_word(n) for n in node.output_names)}"
    for word, pairs in (("writes", node.writes), ("aliases", node.aliases)):
        if pairs:
            yield f"{word} {', '.join(f'{_value(node.outputs[output])}=${operand}' for output, operand in pairs)}"
    if node.side_effects:
        yield "side_effects"
    if node.binds:
        yield f"binds {', '.join(_bind(node, *bind) for bind in node.binds)}"
    if node.control:
        yield f"after {', '.join(_bare(n.name) for n in node.control)}"
    if node.scope:
        yield f"scope({', '.join(_pair(k, v) for k, v in node.scope.items())})"
    if any(strides is not None for strides in node.operand_strides):
        shown = ((i, s) for i, s in enumerate(node.operand_strides) if s is not None)
        yield f"strides {', '.join(f'${i}={_tuple(map(dim_text, s))}' for i, s in shown)}"
    if node.call is not None:
        yield _call(node.call)


def _bind(node: Node, symbol: str, output: int, dim: int | None) -> str:
    return f"{_word(symbol)}={_value(node.outputs[output])}" + ("" if dim is None else f"[{dim}]")


def _call(call: Call) -> str:
    target = call.target if _TARGET.fullmatch(call.target) else quote(call.target)
    arguments = [*map(_literal, call.args), *(_pair(k, v) for k, v in call.kwargs)]
    writing = f" writing {', '.join(f'${i}' for i in call.writes)}" if call.writes else ""
    return f"call {target}({', '.join(arguments)}){writing}"


def _origin(origin: Origin) -> str:
    parts = []
    if origin.fx_node or origin.fx_target:
        parts += ["from", _unspaced(origin.fx_node)] + ([_unspaced(origin.fx_target)] if origin.fx_target else [])
    if origin.source:
        text = quote(origin.source)[1:-1].replace('\\"', '"')
        # White space at the ends would be lost.
        text = re.sub(r"^ | $", lambda _: "\\u{20}", text)
        parts += ["at", text]
    return f"  # {' '.join(parts)}" if parts else ""


def _unspaced(text: str) -> str:
    return text if re.fullmatch(r'[^\s"\\]+', text) and text.isprintable() and text != "at" else quote(text)


def _returned(value: Value | None, spec: OutputSpec | None) -> str:
    text = "None" if value is None else _value(value)
    spec = spec or OutputSpec("none" if value is None else "tensor")
    if spec.kind != ("none" if value is None else "tensor"):
        text += f" as {_plain_word(spec.kind)}"
    return text if spec.strides is None else f"{text} strides {_tuple(map(dim_text, spec.strides))}"


def _operand(operand: Operand) -> str:
    if operand is None:
        return "None"
    return f"[{', '.join(map(_value, operand))}]" if isinstance(operand, tuple) else _value(operand)


def _pair(name: str, value: Any) -> str:
    return f"{_word(name)}={_literal(value)}"


def _literal(value: Any) -> str:
    """An attribute value, or a part of a call's argument."""
    match value:
        case None:
            return "None"
        case DType():
            return value.short_name
        case Format():
            return f"format({quote(value.name.removeprefix('FORMAT_'))})"
        case bool():
            return str(value)
        case int() if type(value) is int:
            return str(value)
        case float():
            return float_text(value)
        case complex():
            return f"complex({float_text(value.real)}, {float_text(value.imag)})"
        case str():
            return quote(value)
        case Blob(name):
            return f"blob({quote(name)})"
        case Literal(kind, text):
            return f"{_plain_word(kind)}({quote(text)})"
        case Slot(index, host):
            return f"${index}.item" if host else f"${index}"
        case Attr(name):
            return f"${_word(name)}"
        case tuple():
            return _tuple(map(_literal, value))
        case list():
            return f"[{', '.join(map(_literal, value))}]"
    raise IRError("An attribute is of a kind that the IR does not have", why=f"{value!r} is a {type(value).__name__}")


def _tuple(texts: Iterable[str]) -> str:
    items = list(texts)
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _definition(value: Value) -> str:
    return f"{_value(value)}: {type_text(value.type)}"


def _value(value: Value) -> str:
    return f"%{_bare(value.name)}"


def _dims(dims: Sequence[Dim]) -> str:
    return ", ".join(map(dim_text, dims))


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else quote(text)


def _bare(text: str) -> str:
    return text if _BARE.fullmatch(text) else quote(text)


def _plain_word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise IRError("A kind has a name that is not a word", why=repr(text))
    return text


# --- comparing ---------------------------------------------------------------------------------------------------


def structurally_equal(a: Graph, b: Graph) -> bool:
    """True when two graphs are the same in all that the text form shows, names included; blobs are compared by name.

    The order of attributes and of scope entries does not count.
    """
    return bool(_key(a) == _key(b))


def _key(graph: Graph) -> Any:
    """Everything of a graph as nested tuples that compare with ``==``, also where nan and -0.0 are in it."""
    values = itertools.chain(graph.inputs, *(node.outputs for node in graph))
    number = {value: i for i, value in enumerate(values)}
    position = {node: i for i, node in enumerate(graph)}

    def ref(value: Value | None) -> Any:
        return None if value is None else number.get(value, ("elsewhere", id(value)))

    def operand(item: Operand) -> Any:
        return tuple(map(ref, item)) if isinstance(item, tuple) else ("one", ref(item))

    def definition(value: Value) -> Any:
        return value.name, type_key(value.type)

    nodes = tuple(
        (
            (node.name, node.op, tuple(map(operand, node.inputs)), _attrs_key(node.attrs)),
            (tuple(map(definition, node.outputs)), node.output_names, node.writes, node.aliases, node.side_effects),
            (None if node.call is None else call_key(node.call), node.binds, _attrs_key(node.scope), node.origin),
            tuple(position.get(n, id(n)) for n in node.control),
            tuple((i, _dims_key(s)) for i, s in enumerate(node.operand_strides) if s is not None),
        )
        for node in graph
    )
    specs = [
        (spec or OutputSpec("none" if value is None else "tensor"))
        for value, spec in itertools.zip_longest(graph.outputs, graph.output_specs[: len(graph.outputs)])
    ]
    outputs = tuple(
        (ref(v), spec.kind, None if spec.strides is None else _dims_key(spec.strides))
        for v, spec in zip(graph.outputs, specs, strict=True)
    )
    updates = tuple((ref(target), ref(source)) for target, source in graph.updates)
    return graph.name, tuple(map(definition, graph.inputs)), nodes, outputs, updates


def type_key(type: TensorType) -> Any:
    """Equal exactly for types that are the same; see :func:`literal_key`."""
    content = None if type.content is None else _dims_key(type.content)
    return type.dtype, _dims_key(type.shape), type.device, type.format, content


def _dims_key(dims: Sequence[Dim]) -> Any:
    return tuple(literal_key(as_dim(d)) for d in dims)


def _attrs_key(attrs: Mapping[str, Any]) -> Any:
    return tuple((name, literal_key(attrs[name])) for name in sorted(attrs))


def call_key(call: Call) -> Any:
    """Equal exactly for calls that are the same; see :func:`literal_key`."""
    return call.target, literal_key(call.args), tuple((k, literal_key(v)) for k, v in call.kwargs), call.writes


def literal_key(value: Any) -> Any:
    """Equal exactly for literals that are the same: 1, 1.0 and True differ, and so do 0.0 and -0.0; nan equals nan."""
    if isinstance(value, tuple | list):
        return type(value), tuple(map(literal_key, value))
    if isinstance(value, float):
        return float, "nan" if math.isnan(value) else float.hex(value)
    if isinstance(value, complex):
        return complex, literal_key(value.real), literal_key(value.imag)
    return type(value), value
