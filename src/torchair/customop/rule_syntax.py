"""Grammar of output rules: the expressions of C++ that ``op_plugin_functions.yaml`` files use for sizes and dtypes."""

from __future__ import annotations

import functools
import re

import lark

__all__ = ["RuleSyntaxError", "parse_expression", "split_arguments"]

_MAX_LENGTH = 2_000
_MAX_DEPTH = 60

_GRAMMAR = r"""
    ?start: conditional
    ?conditional: either
        | either "?" conditional ":" conditional -> choice
    ?either: both
        | either "||" both -> binary_or
    ?both: equality
        | both "&&" equality -> binary_and
    ?equality: relation
        | equality EQUALITY relation -> binary
    ?relation: sum
        | relation RELATION sum -> binary
    ?sum: product
        | sum SIGN product -> binary
    ?product: unary
        | product FACTOR unary -> binary
    ?unary: postfix
        | SIGN unary -> unary
        | "!" unary -> negation
    ?postfix: atom
        | postfix "." NAME "(" arguments ")" -> method
        | postfix "->" NAME "(" arguments ")" -> method
        | postfix "[" conditional "]" -> item
    ?atom: FLOAT -> float
        | INTEGER -> integer
        | STRING -> string
        | SIZES "(" arguments ")" -> sizes_of
        | SIZES "{" arguments "}" -> sizes
        | "{" arguments "}" -> plain_sizes
        | NAME "(" arguments ")" -> call
        | NAME -> name
        | "(" conditional ")"
    arguments: [conditional ("," conditional)*]

    EQUALITY: "==" | "!="
    RELATION: "<=" | ">=" | "<" | ">"
    SIGN: "+" | "-"
    FACTOR: "*" | "/" | "%"
    FLOAT: /(\d+\.\d*|\.\d+)([eE][+-]?\d+)?f?|\d+[eE][+-]?\d+f?/
    INTEGER: /\d+(?![\w.])|\d+(?=[LlUu]+\b)[LlUu]+/
    STRING: /"[ !#-\[\]-~]*"/
    SIZES.2: /((at|c10|std|torch)\s*::\s*)?(IntArrayRef|SymIntArrayRef|ArrayRef\s*<\s*int64_t\s*>)/
        | /(std\s*::\s*)?vector\s*<\s*int64_t\s*>/
        | /((at|c10)\s*::\s*)?SmallVector\s*<\s*int64_t\s*,\s*\w+\s*>/
    NAME: /[A-Za-z_]\w*(\s*::\s*[A-Za-z_]\w*)*/
    %ignore /[ \t\r\n]+/
"""


class RuleSyntaxError(ValueError):
    """A text is not an expression of the grammar."""


@functools.cache
def _parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


def parse_expression(text: str) -> lark.Tree[lark.Token]:
    """The syntax tree of an expression.

    Raises:
        RuleSyntaxError: It is none; the message names the place.
    """
    if not text.strip():
        raise RuleSyntaxError("it is empty")
    if len(text) > _MAX_LENGTH:
        raise RuleSyntaxError(f"it has {len(text)} characters; {_MAX_LENGTH} are allowed")
    if not text.isascii():
        raise RuleSyntaxError(f"it has the character {next(c for c in text if not c.isascii())!r}; rules are ASCII")
    try:
        tree = _parser().parse(text)
    except lark.exceptions.UnexpectedEOF as e:
        raise RuleSyntaxError("it ends too early") from e
    except lark.exceptions.UnexpectedToken as e:
        place = "it ends too early" if e.token.type == "$END" else f"{str(e.token)!r} is not expected there"
        raise RuleSyntaxError(f"{place} (character {max(e.column, 1)})") from e
    except lark.exceptions.UnexpectedCharacters as e:
        raise RuleSyntaxError(f"{e.char!r} is not expected there (character {e.column})") from e
    _check_depth(tree)
    return tree


def _check_depth(tree: lark.Tree[lark.Token]) -> None:
    """What walks a tree recurses; the parser does not."""
    rest = [(tree, 1)]
    while rest:
        node, depth = rest.pop()
        if depth > _MAX_DEPTH:
            raise RuleSyntaxError(f"it is nested more than {_MAX_DEPTH} deep")
        rest += [(child, depth + 1) for child in node.children if isinstance(child, lark.Tree)]


def split_arguments(text: str) -> list[str]:
    """``"aclnnMyOp, x, {1, 2}, f(a, b)"`` -> its parts between the outer commas."""
    parts, start, depth = [], 0, 0
    for match in re.finditer(r"[(\[{]|[)\]}]|,", text):
        if match[0] == ",":
            if depth == 0:
                parts.append(text[start : match.start()].strip())
                start = match.end()
        else:
            depth += 1 if match[0] in "([{" else -1
    return [*parts, text[start:].strip()]
