"""Rules for the size and dtype of outputs, as ``op_plugin_functions.yaml`` writes them (specification, F-111).

A rule is an expression of a small part of C++ over the operator's arguments. It is checked against the schema when it
is read, and then has three forms: a value here (:func:`evaluate`), C++ (:func:`to_cpp`) and Python (:func:`to_python`).

::

    schema = parse_schema("my_op(Tensor x, Tensor y, int n) -> Tensor")
    size = parse_size("n == 1 ? x.sizes() : {n, x.size(0)}", schema)
    dtype = parse_dtype("at::promote_types(x, y)", schema)
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import lark
import torch

from torchair import _torch_compat
from torchair.convert.schemas import Argument, OperatorSchema
from torchair.customop import rule_functions as functions
from torchair.customop.rule_functions import DTYPES, FUNCTIONS, METHODS, Function, Kind
from torchair.customop.rule_syntax import RuleSyntaxError, parse_expression
from torchair.errors import OutputRuleError

__all__ = [
    "Expression",
    "OutputRule",
    "Rule",
    "Scope",
    "evaluate",
    "kind_of_rule",
    "parse_dtype",
    "parse_size",
    "parse_value",
    "scope_of",
    "to_cpp",
    "to_python",
]

#: Names that a rule may use, and what they are.
Scope: TypeAlias = "Mapping[str, Kind]"

_KINDS: dict[str, Kind] = {
    "Tensor": "tensor",
    "Tensor[]": "tensors",
    "Tensor?[]": "tensors",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "bool": "bool",
    "SymBool": "bool",
    "str": "text",
    "ScalarType": "dtype",
    "int[]": "sizes",
    "SymInt[]": "sizes",
    "float[]": "floats",
}

#: Namespaces of C++ that rules may write before a name, or leave out.
_NAMESPACES = frozenset({"at", "c10", "torch", "std", "native", "op_infer", "op_plugin", "utils", "at_npu"})


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression.

    Attributes:
        op: ``"argument"``, ``"literal"``, ``"sizes"`` (a list of whole numbers), ``"choice"``, ``"call"``, or an
            operator of C++: ``"+"``, ``"&&"``, ``"!"`` ...
        kind: What it is.
        operands: What it is made of.
        value: Name of the argument, the literal (a number, text or ``torch.dtype``), or the function.
    """

    op: str
    kind: Kind
    operands: tuple[Expression, ...] = ()
    value: Any = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        text: As it was written.
        result: What it gives: ``"size"``, ``"dtype"`` or ``"value"``.
        expression: Its checked form.
    """

    text: str
    result: Literal["size", "dtype", "value"]
    expression: Expression

    @property
    def names(self) -> frozenset[str]:
        """Names of the arguments that it reads."""
        found, rest = set(), [self.expression]
        while rest:
            expression = rest.pop()
            rest += expression.operands
            if expression.op == "argument":
                found.add(str(expression.value))
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class OutputRule:
    """What an output is: its name, its size and its dtype."""

    name: str
    size: Rule
    dtype: Rule


def scope_of(schema: OperatorSchema) -> dict[str, Kind]:
    """The arguments of a schema as names of rules."""
    return {a.name: _kind_of(a) for a in schema.arguments}


def kind_of_rule(rule: Rule) -> Kind:
    """What a rule gives, for a scope."""
    return rule.expression.kind


def _kind_of(argument: Argument) -> Kind:
    mark = "?" if argument.torch_type.endswith("?") else ""
    kind = _KINDS.get(argument.torch_type.removesuffix("?"), "other")
    return kind if kind == "tensors" else kind + mark


def parse_size(text: str, schema: OperatorSchema | Scope) -> Rule:
    """Read a rule for a size: an argument's name, ``{4, x.size(0)}``, a condition, or a named function of sizes.

    Raises:
        OutputRuleError: It is no such rule, or reads what the operator does not have.
    """
    return _parse(text, schema, "size", "sizes")


def parse_dtype(text: str, schema: OperatorSchema | Scope) -> Rule:
    """Read a rule for a dtype: an argument's name, ``at::kFloat``, a condition, or a named function of dtypes.

    Raises:
        OutputRuleError: It is no such rule, or reads what the operator does not have.
    """
    return _parse(text, schema, "dtype", "dtype")


def parse_value(text: str, schema: OperatorSchema | Scope) -> Rule:
    """Read an expression of any kind: a further parameter, or an argument of a call.

    Raises:
        OutputRuleError: It is none, or reads what the operator does not have.
    """
    return _parse(text, schema, "value", None)


def _parse(
    text: str, schema: OperatorSchema | Scope, result: Literal["size", "dtype", "value"], wanted: Kind | None
) -> Rule:
    scope = scope_of(schema) if isinstance(schema, OperatorSchema) else schema
    try:
        expression = _Checker(scope).check(parse_expression(text), wanted)
    except (RuleSyntaxError, _MeaningError) as e:
        article = {"size": "a size", "dtype": "a dtype", "value": "a value"}[result]
        names = ", ".join(f"{name}: {kind}" for name, kind in scope.items()) or "none"
        raise OutputRuleError(
            "A rule for an output cannot be used",
            why=[f"{_shown(text)} is to give {article}: {e}", f"arguments: {names}"],
            fix=_FIXES[result],
        ) from None
    return Rule(text, result, expression)


_FIXES = {
    "size": "Write an argument's name, '{4, x.size(0)}', 'n == 1 ? x.sizes() : {n}', or a function: "
    + ", ".join(sorted(name for name, found in FUNCTIONS.items() if found[0].result == "sizes")),
    "dtype": "Write an argument's name, at::kFloat, 'n == 1 ? at::kFloat : x.scalar_type()', or a function: "
    + ", ".join(sorted(name for name, found in FUNCTIONS.items() if found[0].result == "dtype")),
    "value": "Write an expression over the arguments: n + 1, x.size(0), y.value_or(0).",
}


def _shown(text: str) -> str:
    return repr(text if len(text) <= 120 else f"{text[:120]}...")


# --- checking ---


class _MeaningError(Exception):
    """An expression that is written well means nothing for these arguments."""


_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_ARTICLES = {
    "tensor": "a tensor",
    "tensors": "a list of tensors",
    "sizes": "a list of whole numbers",
    "floats": "a list of numbers",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "dtype": "a dtype",
    "text": "a text",
    "none": "nothing (nullopt)",
    "other": "of a type that rules cannot use",
}


def _article(kind: Kind) -> str:
    return _ARTICLES[kind.removesuffix("?")] + (" that may be None" if kind.endswith("?") else "")


class _Checker:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def check(self, tree: lark.Tree[lark.Token], wanted: Kind | None) -> Expression:
        """The checked form of a syntax tree; ``wanted`` is the kind that it has to be, None for any."""
        if tree.data == "choice":
            return self._choice(tree, wanted)
        if tree.data == "plain_sizes" and wanted == "floats":
            items = tuple(self.check(item, "float") for item in _children(tree.children[0]))
            return Expression("sizes", "floats", items)
        made: Expression = getattr(self, f"_{tree.data}")(*tree.children)
        return made if wanted is None else _converted(made, wanted)

    def _choice(self, tree: lark.Tree[lark.Token], wanted: Kind | None) -> Expression:
        test, then, other = _trees(tree)
        condition = self.check(test, "bool")
        if wanted is None:
            wanted = self._common(self.check(then, None), self.check(other, None))
        branches = self.check(then, wanted), self.check(other, wanted)
        return Expression("choice", wanted, (condition, *branches))

    def _common(self, a: Expression, b: Expression) -> Kind:
        for one, other in ((a, b), (b, a)):
            if _try_converted(one, other.kind) is not None:
                return other.kind
        raise _MeaningError(f"its two cases are {_article(a.kind)} and {_article(b.kind)}")

    def _name(self, token: lark.Token) -> Expression:
        name = str(token)
        if name in self.scope:
            kind = self.scope[name]
            if kind.startswith("other"):
                raise _MeaningError(f"the argument {name!r} is {_article(kind)}")
            return Expression("argument", kind, (), name)
        if name in ("true", "false"):
            return Expression("literal", "bool", (), name == "true")
        *spaces, last = re.split(r"\s*::\s*", name)
        if last == "nullopt":
            return Expression("literal", "none", (), None)
        found = DTYPES.get(last if spaces[-1:] == ["ScalarType"] else last.removeprefix("k") if last[0] == "k" else "")
        if found is not None and set(spaces) <= {*_NAMESPACES, "ScalarType"}:
            return Expression("literal", "dtype", (), found)
        known = [*self.scope, *(f"at::k{dtype}" for dtype in DTYPES)]
        raise _MeaningError(f"it reads {name!r}, which is no argument and no dtype{_hint(name, known)}")

    def _integer(self, token: lark.Token) -> Expression:
        number = int(str(token).rstrip("LlUu"))
        if number >= 2**63:
            raise _MeaningError(f"{number} is out of range")
        return Expression("literal", "int", (), number)

    def _float(self, token: lark.Token) -> Expression:
        number = float(str(token).rstrip("f"))
        if not math.isfinite(number):
            raise _MeaningError(f"{token} is out of range")
        return Expression("literal", "float", (), number)

    def _string(self, token: lark.Token) -> Expression:
        return Expression("literal", "text", (), str(token)[1:-1])

    def _plain_sizes(self, arguments: lark.Tree[lark.Token]) -> Expression:
        return Expression("sizes", "sizes", tuple(self.check(item, "int") for item in _children(arguments)))

    def _sizes(self, _: lark.Token, arguments: lark.Tree[lark.Token]) -> Expression:
        return self._plain_sizes(arguments)

    def _sizes_of(self, token: lark.Token, arguments: lark.Tree[lark.Token]) -> Expression:
        """``at::ArrayRef<int64_t>()`` is empty, ``at::IntArrayRef(x.sizes())`` a copy."""
        items = _children(arguments)
        if not items:
            return Expression("sizes", "sizes")
        if len(items) > 1:
            raise _MeaningError(f"{token}(...) takes one list of whole numbers")
        return self.check(items[0], "sizes")

    def _unary(self, sign: lark.Token, operand: lark.Tree[lark.Token]) -> Expression:
        checked = _number(self.check(operand, None), str(sign))
        if checked.op == "literal" and sign == "-":
            return Expression("literal", checked.kind, (), -checked.value)
        return Expression("negative", checked.kind, (checked,)) if sign == "-" else checked

    def _negation(self, operand: lark.Tree[lark.Token]) -> Expression:
        return Expression("!", "bool", (self.check(operand, "bool"),))

    def _binary_or(self, left: lark.Tree[lark.Token], right: lark.Tree[lark.Token]) -> Expression:
        return Expression("||", "bool", (self.check(left, "bool"), self.check(right, "bool")))

    def _binary_and(self, left: lark.Tree[lark.Token], right: lark.Tree[lark.Token]) -> Expression:
        return Expression("&&", "bool", (self.check(left, "bool"), self.check(right, "bool")))

    def _binary(self, left: lark.Tree[lark.Token], token: lark.Token, right: lark.Tree[lark.Token]) -> Expression:
        sign = str(token)
        a, b = self.check(left, None), self.check(right, None)
        if sign in ("==", "!="):
            pairs = [(_try_converted(a, kind), _try_converted(b, kind)) for kind in ("bool", "dtype", "text")]
            kinds = {a.kind.removesuffix("?"), b.kind.removesuffix("?")}
            for kind, (x, y) in zip(("bool", "dtype", "text"), pairs, strict=True):
                if kind in kinds and x is not None and y is not None:
                    return Expression(sign, "bool", (x, y))
        a, b = _number(a, sign), _number(b, sign)
        if sign == "%" and "float" in (a.kind, b.kind):
            raise _MeaningError("% takes whole numbers")
        kind = "bool" if sign in _COMPARISONS else "float" if "float" in (a.kind, b.kind) else "int"
        return Expression(sign, kind, (a, b))

    def _item(self, operand: lark.Tree[lark.Token], index: lark.Tree[lark.Token]) -> Expression:
        return self._call_of(METHODS["[]"], "[]", [self.check(operand, None), self.check(index, None)])

    def _method(
        self, operand: lark.Tree[lark.Token], token: lark.Token, arguments: lark.Tree[lark.Token]
    ) -> Expression:
        name = str(token)
        if name not in METHODS:
            raise _MeaningError(f"the method {name!r} is not known{_hint(name, METHODS)}")
        object_, given = self.check(operand, None), [self.check(item, None) for item in _children(arguments)]
        if object_.kind == "bool" or name in ("value", "value_or", "has_value"):
            if not object_.kind.endswith("?"):
                raise _MeaningError(f".{name}() is asked of {_article(object_.kind)}, which is never None")
        return self._call_of(METHODS[name], f".{name}", [object_, *given])

    def _call(self, token: lark.Token, arguments: lark.Tree[lark.Token]) -> Expression:
        *spaces, name = re.split(r"\s*::\s*", str(token))
        found = FUNCTIONS.get(name) if set(spaces) <= _NAMESPACES else None
        if found is None:
            raise _MeaningError(f"the function {str(token)!r} is not known{_hint(name, FUNCTIONS)}")
        return self._call_of(found, name, [self.check(item, None) for item in _children(arguments)])

    def _call_of(self, candidates: Sequence[Function], name: str, given: Sequence[Expression]) -> Expression:
        for exact in (True, False):  # what fits as it is goes before what fits after a conversion
            for function in candidates:
                parameters = list(function.parameters)
                if function.variadic and len(given) > len(parameters):
                    parameters += parameters[-1:] * (len(given) - len(parameters))
                if len(parameters) != len(given):
                    continue
                converted = [
                    _try_converted(a, kind) if not exact or i else (a if a.kind == kind else None)
                    for i, (a, kind) in enumerate(zip(given, parameters, strict=True))
                ]
                operands = tuple(c for c in converted if c is not None)
                if len(operands) == len(converted):
                    return Expression("call", function.result, operands, function)
        takes = " or ".join(dict.fromkeys(f"({', '.join(map(_article, f.parameters))})" for f in candidates))
        shown = ", ".join(_article(a.kind) for a in given) or "nothing"
        raise _MeaningError(f"{name} takes {takes}, and is given ({shown})")


def _children(arguments: Any) -> list[lark.Tree[lark.Token]]:
    return [child for child in arguments.children if isinstance(child, lark.Tree)]


def _trees(tree: lark.Tree[lark.Token]) -> list[lark.Tree[lark.Token]]:
    return [child for child in tree.children if isinstance(child, lark.Tree)]


def _hint(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""


def _method_call(name: str, operand: Expression) -> Expression:
    function = next(f for f in METHODS[name] if f.parameters == (operand.kind,))
    return Expression("call", function.result, (operand,), function)


def _try_converted(made: Expression, wanted: Kind) -> Expression | None:
    """An expression as another kind, by the conversions that rules leave out."""
    if made.kind == wanted:
        return made
    if made.kind.endswith("?") and not wanted.endswith("?") and made.kind != "other?":
        given = next((f for f in METHODS["value"] if f.parameters == (made.kind,)), None)
        if given is not None:
            return _try_converted(Expression("call", given.result, (made,), given), wanted)
    match made.kind, wanted:
        case "tensor", "sizes":
            return _method_call("sizes", made)
        case "tensor", "dtype":
            return _method_call("scalar_type", made)
        case "int", "float":
            return Expression("literal", "float", (), float(made.value)) if made.op == "literal" else made
        case "int", "bool":
            return Expression("!=", "bool", (made, Expression("literal", "int", (), 0)))
        case "none", _ if wanted.endswith("?"):
            return made
        case kind, _ if wanted == f"{kind}?":
            return made
        case _:
            return None


def _converted(made: Expression, wanted: Kind) -> Expression:
    found = _try_converted(made, wanted)
    if found is None:
        hint = "; write {...} around it" if (made.kind, wanted) == ("int", "sizes") else ""
        raise _MeaningError(f"it has {_article(made.kind)} where {_article(wanted)} is needed{hint}")
    return found


def _number(made: Expression, sign: str) -> Expression:
    for kind in ("int", "float"):
        if made.kind == "bool":
            break
        found = _try_converted(made, kind)
        if found is not None:
            return found
    raise _MeaningError(f"{sign} takes numbers, and is given {_article(made.kind)}")


# --- values ---


def evaluate(rule: Rule, arguments: Mapping[str, Any]) -> Any:
    """What a rule gives for the arguments of a call.

    Args:
        arguments: Every argument of the operator by name; tensors may be fake, numbers symbolic.

    Returns:
        A list of (symbolic) whole numbers for a size, a ``torch.dtype``, or any value.

    Raises:
        OutputRuleError: It gives nothing for these: sizes that cannot be broadcast, a dimension that is not there ...
    """
    try:
        value = _evaluate(rule.expression, arguments)
        if rule.result == "size":
            value = list(value)
            if any(map(_is_no_size, value)):
                raise ValueError(f"{value} is no size")
    except ValueError as e:
        names = sorted(rule.names)
        raise OutputRuleError(
            "A rule for an output gives nothing for these arguments",
            why=[f"{rule.result}: {rule.text}", str(e), *(f"{n}: {_described(arguments.get(n))}" for n in names)],
            fix="Pass other arguments, or correct the rule.",
        ) from None
    return value


def _is_no_size(number: Any) -> bool:
    """Whether a number is negative or too great; of a symbolic one its value in this call is read, without a guard."""
    if isinstance(number, torch.SymInt):
        hint = _torch_compat.size_hint(number)  # for other values PyTorch adds the guard, when it makes the tensor
        return hint is not None and hint < 0
    return not 0 <= number < 2**63


def _evaluate(expression: Expression, arguments: Mapping[str, Any]) -> Any:
    op, operands = expression.op, expression.operands
    match op:
        case "argument":
            return arguments[expression.value]
        case "literal":
            return expression.value
        case "choice":
            test, then, other = operands
            return _evaluate(then if _truth(_evaluate(test, arguments)) else other, arguments)
        case "&&":
            return all(_truth(_evaluate(operand, arguments)) for operand in operands)
        case "||":
            return any(_truth(_evaluate(operand, arguments)) for operand in operands)
    values = [_evaluate(operand, arguments) for operand in operands]
    match op:
        case "sizes":
            return values
        case "call":
            return expression.value.compute(*values)
        case "!":
            return not _truth(values[0])
        case "negative":
            return -values[0]
        case "/" if expression.kind == "float":
            if not values[1]:
                raise ValueError("it divides by zero")
            return values[0] / values[1]
        case "==":
            return values[0] == values[1]
        case "!=":
            return values[0] != values[1]
        case _:
            return _ARITHMETIC[op](*values)


_ARITHMETIC: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": functions.divide,
    "%": functions.modulo,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _truth(value: Any) -> bool:
    """A condition; a symbolic one that is not the same in every call adds a guard, since it chooses the size."""
    return bool(value)


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    return repr(value)


# --- C++ and Python ---


def to_cpp(rule: Rule, namespace: str = "torchair") -> str:
    """A rule in C++, over arguments of the same names.

    Everything that it calls is a free function of the namespace: ``size(x, i)``, ``sizes(x)``, ``dim(x)``,
    ``numel(x)``, ``dtype(x)``, ``length(list)``, ``item(list, i)``, ``has_value(v)``, ``value(v)``, ``value_or(v, w)``,
    ``broadcast(a, b, ...)``, ``reduce(a, dims, keepdim)``, ``promote(a, b)``, ``divide(a, b)``, ``modulo(a, b)`` ...
    (each :class:`~torchair.customop.rule_functions.Function` has its name), the type ``Sizes`` (a
    ``std::vector<int64_t>``), and dtypes as ``kFloat``.

    Args:
        namespace: The namespace; empty for none.
    """
    return _cpp(rule.expression, f"{namespace}::" if namespace else "")


def _cpp(expression: Expression, space: str) -> str:
    operands = [_cpp(operand, space) for operand in expression.operands]
    match expression.op:
        case "argument":
            return str(expression.value)
        case "literal":
            return _cpp_literal(expression, space)
        case "sizes":
            element = "Sizes" if expression.kind == "sizes" else "Floats"
            return f"{space}{element}{{{', '.join(operands)}}}"
        case "choice":
            return f"({operands[0]} ? {operands[1]} : {operands[2]})"
        case "call":
            return f"{space}{expression.value.name}({', '.join(operands)})"
        case "!":
            return f"!{operands[0]}"
        case "negative":
            return f"(-{operands[0]})"
        case "/" if expression.kind == "int":
            return f"{space}divide({', '.join(operands)})"
        case "%":
            return f"{space}modulo({', '.join(operands)})"
        case _:
            return f"({operands[0]} {expression.op} {operands[1]})"


def _cpp_literal(expression: Expression, space: str) -> str:
    value = expression.value
    match expression.kind:
        case "bool":
            return "true" if value else "false"
        case "dtype":
            return f"{space}k{next(name for name, dtype in DTYPES.items() if dtype is value)}"
        case "text":
            return f'"{value}"'
        case "none":
            return "std::nullopt"
        case "float":
            return repr(float(value))
        case _:
            return f"int64_t{{{value}}}" if abs(value) >= 2**31 else str(value)


def to_python(rule: Rule) -> str:
    """A rule in Python, over arguments of the same names.

    What it may use besides them: ``torch``, ``math``, and ``rules``, which is ``torchair.customop.rule_functions``.
    """
    text = _python(rule.expression)
    return text[1:-1] if _is_wrapped(text) else text


def _is_wrapped(text: str) -> bool:
    """Whether the first parenthesis closes at the end."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return c == ")" and i == len(text) - 1 and text[0] == "("
    return False


_PYTHON_SIGNS = {"&&": "and", "||": "or"}


def _python(expression: Expression) -> str:
    operands = [_python(operand) for operand in expression.operands]
    match expression.op:
        case "argument":
            return str(expression.value)
        case "literal":
            return f'"{expression.value}"' if expression.kind == "text" else repr(expression.value)
        case "sizes":
            return f"[{', '.join(operands)}]"
        case "choice":
            return f"({operands[1]} if {operands[0]} else {operands[2]})"
        case "call":
            template = str(expression.value.python)
            return template.replace("{*}", ", ".join(operands)) if "{*}" in template else template.format(*operands)
        case "!":
            return f"(not {operands[0]})"
        case "negative":
            return f"(-{operands[0]})"
        case "/" if expression.kind == "int":
            if all(map(_is_not_negative, expression.operands)):
                return f"({operands[0]} // {operands[1]})"
            return f"rules.divide({', '.join(operands)})"
        case "%":
            if all(map(_is_not_negative, expression.operands)):
                return f"({operands[0]} % {operands[1]})"
            return f"rules.modulo({', '.join(operands)})"
        case sign:
            if expression.operands[0].kind == "dtype" and sign in ("==", "!="):
                sign = "is" if sign == "==" else "is not"
            return f"({operands[0]} {_PYTHON_SIGNS.get(sign, sign)} {operands[1]})"


def _is_not_negative(expression: Expression) -> bool:
    """Whether a whole number cannot be negative, so that Python rounds a quotient as C++ does."""
    match expression.op:
        case "literal":
            return bool(expression.value > 0)
        case "call":
            return expression.value.name in ("size", "dim", "numel", "length")
        case "+" | "*" | "/":
            return all(map(_is_not_negative, expression.operands))
        case _:
            return False
