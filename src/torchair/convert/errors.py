"""The errors of conversion: one place for their words."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import fx

from torchair.convert.pasting import parameters_of
from torchair.convert.schemas import OperatorSchema
from torchair.errors import ConversionError, UnconvertedOperatorsError

if TYPE_CHECKING:
    from torchair.convert.registry import Converter
    from torchair.report import Refused

__all__ = ["conversion_failed", "unconverted"]


def conversion_failed(
    converter: Converter, node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any], source: str, cause: Exception
) -> Exception:
    """The error for a converter that raised. A stub's ``NotImplementedError`` stays one."""
    shown = ", ".join([*(repr(a) for a in args), *(f"{k}={v!r}" for k, v in kwargs.items())])
    frame = traceback.extract_tb(cause.__traceback__)[-1]
    error: type[ConversionError] = ConversionError
    message = str(cause)
    if isinstance(cause, NotImplementedError):
        error = _NotImplementedConversionError
        message = message or f"{converter.overload} ge_converter is not implemented!"
    fix = "Correct the converter."
    if isinstance(cause, TypeError) and frame.name == "__call__":  # the call itself failed
        parameters = parameters_of(OperatorSchema.of(converter.overload).arguments)
        fix = f"Give it the parameters of the operator:\n\ndef {converter.__name__}({', '.join(parameters)}):"
    return error(
        "A converter raised an exception",
        why=[
            f"converter of {converter.overload} for FX node {node.name}({shown})",
            f"{type(cause).__name__}: {message}",
            f"at {frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}",
        ],
        fix=fix,
        where=source,
    )


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
    if first is not None:
        fixes.append(
            "Register a converter:\n\n"
            f"@torchair.register_fx_node_ge_converter(torch.ops.{first})\n"
            "def convert(self, meta_outputs=None):\n"
            '    return torchair.ge.custom_op("SomeAscendOp", self)'
        )
    return UnconvertedOperatorsError(
        "Some operators cannot be converted to Ascend IR",
        why=why,
        fix="\n".join(fixes),
        where=list(dict.fromkeys(r.source for r in refused if r.source)),
    )
