"""Reads the text form of a graph (:mod:`torchair.ir.text`) with the grammar in ``text.lark``."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

import sympy
from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from torchair.errors import IRTextError
from torchair.ir.expressions import ASSUMPTIONS, CONSTANTS, FUNCTIONS, SymbolTable, build_call, build_mod
from torchair.ir.graph import Attr, Blob, Call, Graph, Literal, Node, Operand, Origin, OutputSpec, Slot, Value
from torchair.ir.text import named_by_its_value
from torchair.ir.types import Dim, DType, Format, TensorType, as_dim

__all__ = ["read"]

_Branch: TypeAlias = "Tree[Token]"
_Leaf: TypeAlias = "_Branch | Token"

#: What the grammar's terminals are called in messages.
_TERMINALS = {
    "VALUE": "a value such as %x",
    "SLOT": "an operand number such as $0",
    "ATTR_REFERENCE": "an attribute such as $dim",
    "NAME": "a name",
    "BARE": "a node name",
    "DEVICE": "a device such as cuda:0",
    "TARGET": "an operator such as aten::sin.default",
    "STRING": "a quoted string",
    "FLOAT": "a number",
    "INT": "a number",
    "PLUS_MINUS": "'+', '-'",
    "TIMES_OVER": "'*', '/', '//', '%'",
    "ORIGIN": "",
    "$END": "the end of the text",
}
#: Characters of a line that an error shows.
_SHOWN = 100

_LITERAL_KINDS = ("dtype", "device", "layout", "memory_format")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]+)\}|(.))")
_UNESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"'}
_TOKEN = r'(?:"(?:[^"\\]|\\.)*"|\S+)'
_ORIGIN = re.compile(rf"#\s*(?:from (?P<node>{_TOKEN})(?: (?!at )(?P<target>{_TOKEN}))?)?(?: ?at (?P<source>.*))?")


@functools.cache
def _parser() -> Lark:
    grammar = resources.files("torchair.ir").joinpath("text.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def read(text: str, blobs: Mapping[str, Any] | None) -> Graph:
    """See :func:`torchair.ir.text.from_text`."""
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as e:
        raise _syntax_error(text, e) from e
    return _Reader(text, blobs).graph(tree)


# --- errors ------------------------------------------------------------------------------------------------------


def _error(text: str, line: int, column: int, why: str, fix: str = "") -> IRTextError:
    source = text.split("\n")[line - 1]
    # Of a long line, the part around the place.
    start = max(0, column - 1 - _SHOWN // 2) if len(source) > _SHOWN else 0
    shown = ("..." if start else "") + source[start : start + _SHOWN] + ("..." if len(source) > start + _SHOWN else "")
    caret = " " * (column - 1 - start + (3 if start else 0)) + "^"
    return IRTextError(
        "The text of an IR graph cannot be read",
        why=f"line {line}, column {column}: {why}",
        fix=fix,
        where=(shown, caret),
    )


def _syntax_error(text: str, e: UnexpectedInput) -> IRTextError:
    if isinstance(e, UnexpectedCharacters):
        found, names = repr(e.char), e.allowed
    else:
        assert isinstance(e, UnexpectedToken)
        found, names = repr(str(e.token)), e.accepts or e.expected
    line, column = e.line, e.column
    if isinstance(e, UnexpectedToken) and e.token.type == "$END":
        found = "the end of the text"
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    expected = ", ".join(sorted({shown for name in names or () if (shown := _terminal(name))}))
    return _error(text, line, column, f"found {found}, expected {expected}")


def _terminal(name: str) -> str:
    if name in _TERMINALS:
        return _TERMINALS[name]
    try:
        pattern = _parser().get_terminal(name).pattern
    except KeyError:
        return ""
    return f"'{pattern.value}'" if isinstance(pattern, PatternStr) else ""


def _like(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=3)
    return f"Did you mean {' or '.join(close)}?" if close else ""


# --- reading -----------------------------------------------------------------------------------------------------


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _UNESCAPED.get(m[2], m[0]), text)


def _unquote(token: str) -> str:
    return _unescape(token[1:-1]) if token.startswith('"') else str(token)  # a token of lark would live on in the graph


def _split(children: Sequence[_Leaf], *rules: str) -> tuple[list[_Leaf], dict[str, _Branch]]:
    """The children of a tree: those of the named rules by name, and the others."""
    named = {c.data: c for c in children if isinstance(c, Tree) and c.data in rules}
    return [c for c in children if not (isinstance(c, Tree) and c.data in rules)], named


@dataclass(frozen=True, slots=True)
class _Scope:
    """What an attribute value may refer to: that many operands, and, in the call of a node, its attributes."""

    operands: int | None = None
    attrs: Mapping[str, Any] | None = None


class _Reader:
    """Turns one parsed text into a graph."""

    def __init__(self, text: str, blobs: Mapping[str, Any] | None) -> None:
        self._text = text
        self._blobs = blobs
        self._graph = Graph()
        self._symbols = SymbolTable()
        self._values: dict[str, Value] = {}
        self._nodes: dict[str, Node] = {}

    def error(self, at: _Leaf, why: str, fix: str = "") -> IRTextError:
        place: Any = at.meta if isinstance(at, Tree) else at
        return _error(self._text, getattr(place, "line", 1), getattr(place, "column", 1), why, fix)

    def graph(self, tree: _Branch) -> Graph:
        for child in tree.children:
            assert isinstance(child, Tree)
            if child.data == "symbols":
                for declaration in child.children:
                    self._declare(declaration)
            else:
                self._read_graph(child)
        self._graph.blobs = dict(self._blobs or {})
        return self._graph

    def _declare(self, tree: _Leaf) -> None:
        assert isinstance(tree, Tree)
        word, *rest = tree.children
        name, assumptions = self._word(word), {}
        for item in rest:
            assert isinstance(item, Tree)
            (token,) = item.children
            if token == "any" and len(rest) == 1:
                continue
            if token not in ASSUMPTIONS:
                raise self.error(
                    item,
                    f"{str(token)!r} says nothing about a number",
                    "Use integer, real, positive, nonnegative or any.",
                )
            assumptions[str(token)] = item.data == "assumed"
        if name in self._symbols:
            raise self.error(word, f"{name} is declared twice")
        try:
            self._symbols.declare(name, assumptions)
        except ValueError as e:
            raise self.error(word, f"{name}: {e}") from e

    def _read_graph(self, tree: _Branch) -> None:
        word, *parts = tree.children
        self._graph.name = self._word(word)
        for part in parts:
            assert isinstance(part, Tree)
            match part.data:
                case "value_definition":
                    _, name, type = self._definition(part)
                    self._values[name] = self._graph.add_input(type, name)
                case "node":
                    self._node(part)
                case "update":
                    target, source = part.children
                    self._graph.updates.append((self._value(target), self._value(source)))
                case _:
                    outputs = [self._returned(item) for item in part.children]
                    self._graph.set_outputs([v for v, _ in outputs], [s for _, s in outputs])

    def _definition(self, tree: _Branch) -> tuple[Token, str, TensorType]:
        token, type_tree = tree.children
        assert isinstance(token, Token)
        assert isinstance(type_tree, Tree)
        name = _unquote(token[1:])
        if not name:
            raise self.error(token, "a value needs a name")
        if name in self._values:
            raise self.error(token, f"%{name} is defined twice")
        return token, name, self._type(type_tree)

    def _returned(self, tree: _Leaf) -> tuple[Value | None, OutputSpec]:
        assert isinstance(tree, Tree)
        (head, *rest), named = _split(tree.children, "dims")
        value = None if self._is_none(head) else self._value(head)
        kind = str(rest[0]) if rest else "none" if value is None else "tensor"
        if kind not in ("tensor", "none", "int", "float", "bool"):
            raise self.error(rest[0], f"{kind!r} is not a kind of output", "Kinds: tensor, none, int, float, bool.")
        return value, OutputSpec(kind, self._dims(named["dims"].children) if named else None)

    # --- nodes ---

    def _node(self, tree: _Branch) -> None:
        definitions = [
            self._definition(c) for c in tree.children if isinstance(c, Tree) and c.data == "value_definition"
        ]
        names = [name for _, name, _ in definitions]
        for (token, name, _), earlier in zip(definitions, range(len(names)), strict=True):
            if name in names[:earlier]:
                raise self.error(token, f"%{name} is defined twice")
        op_tree = next(c for c in tree.children if isinstance(c, Tree) and c.data == "word")
        op = self._word(op_tree)
        inputs, attrs = self._arguments([c for c in tree.children if isinstance(c, Tree) and c.data in _ARGUMENTS])
        _, clauses = self._clauses([c for c in tree.children if isinstance(c, Tree) and c.data in _CLAUSES])
        node_name = self._node_name(tree, op, names)
        node = self._graph.add_node(
            op, inputs, [type for _, _, type in definitions], attrs=attrs, name=node_name, value_names=names
        )
        self._nodes[node.name] = node
        self._values.update(zip(names, node.outputs, strict=True))
        for clause in clauses:
            getattr(self, f"_{clause.data}")(node, clause)
        if len(node.output_names) != len(node.outputs):
            raise self.error(tree, f"{len(node.outputs)} outputs have {len(node.output_names)} names")
        last = tree.children[-1]
        if isinstance(last, Token) and last.type == "ORIGIN":
            node.origin = self._origin(last)

    def _node_name(self, tree: _Branch, op: str, values: Sequence[str]) -> str | None:
        """The name that is written, or that the value has; None to number the operator."""
        for child in tree.children:
            if isinstance(child, Tree) and child.data == "node_name":
                (token,) = child.children
                assert isinstance(token, Token)
                name = _unquote(token)
                if not name or name in self._nodes:
                    raise self.error(child, f"{name!r} is the name of another node" if name else "a node needs a name")
                return name
        if named_by_its_value(op, values):
            if values[0] in self._nodes:
                raise self.error(
                    tree, f"{values[0]!r} is the name of another node", f"Write its name: {op}<name>(...)."
                )
            return values[0]
        return None

    def _clauses(self, trees: Sequence[_Branch]) -> tuple[set[str], list[_Branch]]:
        seen: set[str] = set()
        for tree in trees:
            if tree.data in seen:
                raise self.error(tree, f"{tree.data!r} stands twice on one node")
            seen.add(tree.data)
        return seen, list(trees)

    def _arguments(self, trees: Sequence[_Branch]) -> tuple[list[Operand], dict[str, Any]]:
        inputs: list[Operand] = []
        attrs: dict[str, Any] = {}
        for tree in trees:
            if tree.data == "attribute":
                operands = sum(len(i) if isinstance(i, tuple) else 1 for i in inputs)
                name, value = self._attribute(tree, _Scope(operands))
                if name in attrs:
                    raise self.error(tree, f"attribute {name!r} is given twice")
                attrs[name] = value
                continue
            if attrs:
                raise self.error(tree, "operands come before attributes")
            match tree.data:
                case "operand":
                    inputs.append(self._value(tree.children[0]))
                case "operand_list":
                    inputs.append(tuple(self._value(c) for c in tree.children))
                case _:
                    if not self._is_none(tree.children[0]):
                        raise self.error(
                            tree, f"found {str(tree.children[0])!r}, expected a value such as %x, None or name=value"
                        )
                    inputs.append(None)
        return inputs, attrs

    def _attribute(self, tree: _Branch, scope: _Scope) -> tuple[str, Any]:
        word, value = tree.children
        return self._word(word), self._literal(value, scope)

    # One method for each clause of the grammar; each changes the node that was just added.

    def _output_names(self, node: Node, tree: _Branch) -> None:
        node.output_names = tuple(self._word(c) for c in tree.children)

    def _writes(self, node: Node, tree: _Branch) -> None:
        node.writes = tuple(self._effect(node, c) for c in tree.children)

    def _aliases(self, node: Node, tree: _Branch) -> None:
        node.aliases = tuple(self._effect(node, c) for c in tree.children)

    def _side_effects(self, node: Node, tree: _Branch) -> None:
        node.side_effects = True

    def _binds(self, node: Node, tree: _Branch) -> None:
        binds: list[tuple[str, int, int | None]] = []
        for bind in tree.children:
            assert isinstance(bind, Tree)
            word, value, *dim = bind.children
            output = self._output(node, value)
            if dim and int(str(dim[0])) >= node.outputs[output].rank:
                raise self.error(dim[0], f"%{node.outputs[output].name} has {node.outputs[output].rank} dimensions")
            binds.append((self._word(word), output, int(str(dim[0])) if dim else None))
        node.binds = tuple(binds)

    def _after(self, node: Node, tree: _Branch) -> None:
        control = []
        for reference in tree.children:
            assert isinstance(reference, Tree)
            (token,) = reference.children
            name = _unquote(str(token))
            if name == node.name or name not in self._nodes:
                raise self.error(reference, f"no node called {name!r} is above", _like(name, self._nodes))
            control.append(self._nodes[name])
        node.graph.wait_for(node, control)

    def _scope(self, node: Node, tree: _Branch) -> None:
        for item in tree.children:
            assert isinstance(item, Tree)
            name, value = self._attribute(item, _Scope())
            if not isinstance(value, bool | str):
                raise self.error(item, "a scope attribute is a string, True or False")
            node.scope[name] = value

    def _operand_strides(self, node: Node, tree: _Branch) -> None:
        strides: list[tuple[Dim, ...] | None] = [None] * len(node.operands)
        for item in tree.children:
            assert isinstance(item, Tree)
            slot, dims = item.children
            assert isinstance(dims, Tree)
            strides[self._slot(len(node.operands), slot)] = self._dims(dims.children)
        node.operand_strides = tuple(strides)

    def _call(self, node: Node, tree: _Branch) -> None:
        target, *rest = tree.children
        assert isinstance(target, Token)
        args: list[Any] = []
        kwargs: list[tuple[str, Any]] = []
        writes: list[int] = []
        scope = _Scope(len(node.operands), node.attrs)
        for item in rest:
            if isinstance(item, Token):
                writes.append(self._slot(len(node.operands), item))
            elif item.data == "attribute":
                kwargs.append(self._attribute(item, scope))
            elif kwargs:
                raise self.error(item, "positional arguments come before keywords")
            else:
                args.append(self._literal(item.children[0], scope))
        node.call = Call(_unquote(target), tuple(args), tuple(kwargs), tuple(writes))

    def _effect(self, node: Node, tree: _Leaf) -> tuple[int, int]:
        assert isinstance(tree, Tree)
        value, slot = tree.children
        return self._output(node, value), self._slot(len(node.operands), slot)

    def _output(self, node: Node, token: _Leaf) -> int:
        value = self._value(token)
        if value.producer is not node:
            raise self.error(token, f"%{value.name} is not an output of this node")
        return value.index

    def _slot(self, operands: int, token: _Leaf) -> int:
        index = int(str(token)[1:])
        if index >= operands:
            raise self.error(token, f"the node has {operands} operands, counted from $0")
        return index

    def _origin(self, token: Token) -> Origin:
        match = _ORIGIN.fullmatch(token.rstrip())
        if match is None:
            raise self.error(token, "an origin reads: # from fx_node fx_target at file.py:1, in function: code")
        node, target, source = (match[name] or "" for name in ("node", "target", "source"))
        return Origin(_unquote(node), _unquote(target), _unescape(source))

    # --- leaves ---

    def _word(self, tree: _Leaf) -> str:
        assert isinstance(tree, Tree)
        (token,) = tree.children
        return _unquote(str(token))

    def _value(self, token: _Leaf) -> Value:
        name = _unquote(str(token)[1:])
        if not str(token).startswith("%") or name not in self._values:
            raise self.error(token, f"no value called {token} is defined above", _like(name, self._values))
        return self._values[name]

    def _is_none(self, token: _Leaf) -> bool:
        return isinstance(token, Token) and token == "None"

    def _literal(self, tree: _Leaf, scope: _Scope) -> Any:
        """An attribute value, or a part of a call's argument."""
        assert isinstance(tree, Tree)
        items = tree.children
        match tree.data:
            case "string":
                return _unquote(str(items[0]))
            case "number":
                token = items[-1]
                number = int(str(token)) if isinstance(token, Token) and token.type == "INT" else float(str(token))
                return -number if len(items) > 1 else number
            case "named":
                return self._named(tree, str(items[-1]), negative=len(items) > 1)
            case "tagged":
                return self._tagged(tree, str(items[0]), [self._literal(c, scope) for c in items[1:]], scope)
            case "tuple":
                return tuple(self._literal(c, scope) for c in items)
            case "list":
                return [self._literal(c, scope) for c in items]
            case "slot" if scope.operands is not None:
                if len(items) > 1 and items[1] != "item":
                    raise self.error(items[1], f"found {str(items[1])!r}, expected 'item'")
                return Slot(self._slot(scope.operands, items[0]), host=len(items) > 1)
            case "attr_reference" if scope.attrs is not None:
                name = _unquote(str(items[0])[1:])
                if name not in scope.attrs:
                    raise self.error(tree, f"the node has no attribute {name!r}", _like(name, scope.attrs))
                return Attr(name)
        raise self.error(tree, "references to operands and attributes are for the call of a node")

    def _named(self, tree: _Branch, name: str, *, negative: bool) -> Any:
        words: dict[str, Any] = {"inf": float("inf"), "nan": float("nan")}
        if name in words:
            return -words[name] if negative else words[name]
        words |= {"True": True, "False": False, "None": None}
        if not negative:
            if name in words:
                return words[name]
            try:
                return DType.from_name(name)
            except KeyError:
                pass
        raise self.error(
            tree,
            f"found {name!r}, expected a number, a string, True, False, None, inf, nan or a dtype",
            _like(name, [*words, *(d.short_name for d in DType)]),
        )

    def _tagged(self, tree: _Branch, tag: str, args: Sequence[Any], scope: _Scope) -> Any:
        if tag == "complex" and len(args) == 2 and all(isinstance(a, int | float) for a in args):
            return complex(*args)
        text = args[0] if len(args) == 1 and isinstance(args[0], str) else None
        if tag == "blob" and text is not None:
            if self._blobs is not None and text not in self._blobs:
                raise self.error(tree, f"no blob called {text!r} was given", _like(text, self._blobs))
            return Blob(text)
        if tag == "format" and text is not None and f"FORMAT_{text}" in Format.__members__:
            return Format[f"FORMAT_{text}"]
        if tag in _LITERAL_KINDS and text is not None and scope.attrs is not None:
            return Literal(tag, text)
        raise self.error(
            tree, f'{tag}(...) is not a value; values: complex(1.0, 2.0), blob("name"), in a call also dtype("float32")'
        )

    # --- types and sizes ---

    def _type(self, tree: _Branch) -> TensorType:
        (dtype, *dims), named = _split(tree.children, "content", "format", "device")
        try:
            parsed = DType.from_name(str(dtype))
        except KeyError as e:
            known = [d.short_name for d in DType]
            raise self.error(dtype, f"{str(dtype)!r} is not a dtype", _like(str(dtype), known)) from e
        content = self._dims(named["content"].children) if "content" in named else None
        format = Format.FORMAT_ND
        if "format" in named:
            (token,) = named["format"].children
            if f"FORMAT_{token}" not in Format.__members__:
                raise self.error(
                    token,
                    f"{str(token)!r} is not a format",
                    _like(str(token), [f.name.removeprefix("FORMAT_") for f in Format]),
                )
            format = Format[f"FORMAT_{token}"]
        device = _unquote(str(named["device"].children[0])) if "device" in named else "cpu"
        return TensorType(parsed, self._dims(dims), device, format, content)

    def _dims(self, trees: Sequence[_Leaf]) -> tuple[Dim, ...]:
        return tuple(self._dim(tree) for tree in trees)

    def _dim(self, tree: _Leaf) -> Dim:
        # A number that stands alone is Python's: sympy has no -0.0, and another nan.
        negative, inner = False, tree
        if isinstance(tree, Tree) and tree.data == "negated":
            negative, inner = True, tree.children[0]
        if isinstance(inner, Tree) and inner.data in ("float_atom", "name_atom"):
            text = str(inner.children[0])
            if inner.data == "float_atom" or text in ("inf", "nan"):
                return -float(text) if negative else float(text)
        return as_dim(self._expression(tree))

    def _expression(self, tree: _Leaf) -> Any:
        assert isinstance(tree, Tree)
        try:
            return self._build(tree)
        except IRTextError:
            raise
        except (ArithmeticError, AssertionError, AttributeError, TypeError, ValueError) as e:
            raise self.error(tree, f"this cannot be computed: {e}") from e

    def _build(self, tree: _Branch) -> Any:
        items = tree.children
        match tree.data:
            case "sum":
                return sympy.Add(*self._terms(items))
            case "product":
                return self._product(items)
            case "negated":
                return sympy.Mul(*self._factors(tree))
            case "power":
                return sympy.Pow(*(self._expression(c) for c in items))
            case "int_atom":
                return sympy.Integer(str(items[0]))
            case "float_atom":
                return sympy.Float(float(str(items[0])))
            case "quoted_atom":
                return self._symbols[_unquote(str(items[0]))]
            case "name_atom":
                return self._named_atom(tree, str(items[0]))
        name, args = str(items[0]), [self._expression(c) for c in items[1:]]
        if name not in FUNCTIONS:
            hint = _like(name, FUNCTIONS) or "Functions are those of torch.utils._sympy.functions."
            raise self.error(tree, f"{name!r} is not a function", hint)
        return build_call(name, args, exact=tree.data == "exact_function")

    def _named_atom(self, tree: _Branch, name: str) -> Any:
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in FUNCTIONS or name in ("inf", "nan", "None"):
            raise self.error(tree, f"{name} is not a symbol", f'Write "{name}" in quotes if a symbol has that name.')
        return self._symbols[name]

    def _terms(self, items: Sequence[_Leaf]) -> list[Any]:
        terms = [self._expression(items[0])]
        for sign, item in zip(items[1::2], items[2::2], strict=True):
            terms.append(
                self._expression(item) if sign == "+" else sympy.Mul(sympy.S.NegativeOne, *self._factors(item))
            )
        return terms

    def _factors(self, tree: _Leaf) -> list[Any]:
        """The factors of a product. They are multiplied all at once: sympy would expand ``2*(s0 + 1)`` on its own."""
        if isinstance(tree, Tree) and tree.data == "negated":
            return [sympy.S.NegativeOne, *self._factors(tree.children[0])]
        if isinstance(tree, Tree) and tree.data == "product" and all(op in ("*", "/") for op in tree.children[1::2]):
            factors = self._factors(tree.children[0])
            for op, item in zip(tree.children[1::2], tree.children[2::2], strict=True):
                if op == "*":
                    factors += self._factors(item)
                else:
                    factors.append(sympy.Pow(self._expression(item), sympy.S.NegativeOne))
            return factors
        return [self._expression(tree)]

    def _product(self, items: Sequence[_Leaf]) -> Any:
        factors = self._factors(items[0])
        for op, item in zip(items[1::2], items[2::2], strict=True):
            match str(op):
                case "*":
                    factors += self._factors(item)
                case "/":
                    factors.append(sympy.Pow(self._expression(item), sympy.S.NegativeOne))
                case "//":
                    factors = [FUNCTIONS["FloorDiv"](sympy.Mul(*factors), self._expression(item))]
                case _:
                    factors = [build_mod(sympy.Mul(*factors), self._expression(item))]
        return sympy.Mul(*factors)


_ARGUMENTS = frozenset({"operand", "operand_list", "absent", "attribute"})
_CLAUSES = frozenset(
    {"output_names", "writes", "aliases", "side_effects", "binds", "after", "scope", "operand_strides", "call"}
)
