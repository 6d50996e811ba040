"""The errors of conversion: one place for their words."""

from __future__ import annotations

import inspect
import linecache
import re
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import fx

from torchair._torch_compat import OpOverload, find_packet, overload_names
from torchair.convert.pasting import converter_code, parameters_of
from torchair.convert.schemas import OperatorSchema, own_name
from torchair.errors import ConversionError, UnconvertedOperatorsError
from torchair.opset.prototype import prototypes

if TYPE_CHECKING:
    from torchair.convert.registry import Converter
    from torchair.report import Refused

__all__ = ["conversion_failed", "definition", "failing_line", "unconverted"]


#: A Python operator, or a function of torch, by what it is in Ascend IR.
_IR_NAMES = {
    "*": "Mul", "+": "Add", "-": "Sub", "/": "RealDiv", "//": "FloorDiv", "%": "FloorMod", "@": "MatMul",
    "** or pow()": "Pow", "unary -": "Neg", ">": "Greater", ">=": "GreaterEqual", "<": "Less", "<=": "LessEqual",
    "mul": "Mul", "multiply": "Mul", "add": "Add", "sub": "Sub", "div": "RealDiv", "matmul": "MatMul", "mm": "MatMul",
    "pow": "Pow", "neg": "Neg", "exp": "Exp", "sqrt": "Sqrt", "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh",
}  # fmt: skip
_UNARY = frozenset({"Neg", "Exp", "Sqrt", "Relu", "Sigmoid", "Tanh"})
_PYTHON_OPERATOR = re.compile(
    r"(?:unsupported operand type\(s\) for|bad operand type for|'(?=[<>]))\s*(.+?)'?(?::| not)"
)
_TORCH_FUNCTION = re.compile(r"(\w+)\(\): argument '.*' .*must be .*, not Value")


def definition(function: Any) -> str:
    """Where a function is defined: ``file:line, in name: code``; empty for one that is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return _line(code.co_filename, code.co_firstlineno, code.co_name) if code is not None else ""


def failing_line(function: Any, cause: BaseException) -> tuple[str, bool]:
    """The last line of a function's file that an exception came through, else its definition; and whether it did."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = [
        f for f in traceback.extract_tb(cause.__traceback__) if code is not None and f.filename == code.co_filename
    ]
    if not frames:
        return definition(function), code is None
    return _line(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name), True


def conversion_failed(
    converter: Converter, node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any], source: str, cause: Exception
) -> Exception:
    """The error for a converter that raised. A stub's ``NotImplementedError`` stays one."""
    shown = ", ".join([*(repr(a) for a in args), *(f"{k}={v!r}" for k, v in kwargs.items())])
    place, entered = failing_line(converter.function, cause)
    error: type[ConversionError] = ConversionError
    message = str(cause)
    if isinstance(cause, NotImplementedError):
        error = _NotImplementedConversionError
        message = message or f"{converter.overload} ge_converter is not implemented!"
    fix = "Correct the converter."
    if isinstance(cause, TypeError) and not entered:  # the call itself failed
        parameters = parameters_of(OperatorSchema.of(converter.overload).arguments)
        fix = f"Give it the parameters of the operator:\n\ndef {converter.__name__}({', '.join(parameters)}):"
    elif isinstance(cause, TypeError):
        fix = _instead_of_python(message) or fix
    return error(
        "A converter raised an exception",
        why=[
            f"converter of {converter.overload} for FX node {node.name}({shown})",
            f"{type(cause).__name__}: {message}",
            *([f"at {place}"] if place else []),
        ],
        fix=fix,
        where=source,
    )


def _instead_of_python(message: str) -> str:
    """What to write for an operator of Python, or a function of torch, that was given a tensor of the graph."""
    found = _TORCH_FUNCTION.search(message) or ("Value" in message and _PYTHON_OPERATOR.search(message)) or None
    if found is None:
        return ""
    name = _IR_NAMES.get(found[1], "")
    operands = "x" if name in _UNARY else "x, y"
    example = f"torchair.ge.{name or 'Mul'}({operands})"
    which = f"use {example}" if name else f"use a function of torchair.ge, such as {example}"
    return f"A converter builds nodes from tensors of the graph, which Python and torch cannot compute with: {which}."


def _line(file: str, line: int, name: str) -> str:
    return f"{file}:{line}, in {name}: {linecache.getline(file, line).strip()}"


class _NotImplementedConversionError(ConversionError, NotImplementedError):
    """A converter that raised ``NotImplementedError``."""


def unconverted(refused: Sequence[Refused]) -> UnconvertedOperatorsError:
    """The error that lists all operators without an Ascend IR form."""
    groups: dict[tuple[str, str], list[Refused]] = {}
    for r in refused:
        groups.setdefault((r.target.strip(), r.rejection.reason), []).append(r)
    why = [
        f"{target}: {reason} ({len(items)} node{'s' if len(items) > 1 else ''}, first {items[0].node})"
        for (target, reason), items in groups.items()
    ]
    fixes = list(dict.fromkeys(r.rejection.fix for r in refused if r.rejection.fix))
    first = next((r.target.strip() for r in refused if not r.rejection.fix), None)
    overload = _find_overload(first) if first is not None else None
    if overload is not None:
        schema = OperatorSchema.of(overload)
        taken = prototypes.get(schema.name) is not None
        fixes.append(f"Register a converter:\n\n{converter_code(schema, own_name(overload) if taken else None)}")
    return UnconvertedOperatorsError(
        "Some operators cannot be converted to Ascend IR",
        why=why,
        fix="\n".join(fixes),
        where=list(dict.fromkeys(r.source for r in refused if r.source)),
    )


def _find_overload(text: str) -> OpOverload | None:
    """The overload that ``"aten.mm.default"`` names, or None."""
    namespace, _, rest = text.partition(".")
    name, _, overload = rest.rpartition(".")
    packet = find_packet(namespace, name) if name else None
    found = getattr(packet, overload) if packet is not None and overload in overload_names(packet) else None
    return found if isinstance(found, OpOverload) else None
