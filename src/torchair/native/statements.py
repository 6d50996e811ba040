"""Pieces of C++ statements that emitted functions are made of."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchair.native.expressions import Buffer
from torchair.native.formulas import C_TYPES, VALUE_TYPES

__all__ = ["c_type", "factor", "indented", "offset_pointer", "plain", "pragma", "stored"]


def c_type(buffer: Buffer) -> str:
    """The type of a buffer's elements."""
    return C_TYPES[buffer.dtype]


def indented(lines: Sequence[str]) -> list[str]:
    """Lines one level deeper; what begins with # stays."""
    return [line if line.startswith("#") else f"  {line}" for line in lines]


def pragma(body: Sequence[str], clauses: Sequence[str] = ()) -> str:
    """What asks for a vectorized loop."""
    checks = ["reduction(|:bad)"] if any(line.lstrip().startswith("bad |=") for line in body) else []
    return " ".join(["#pragma omp simd", *clauses, *checks])


def plain(text: str) -> str:
    """Without parentheses around the whole."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


def factor(text: str) -> str:
    """As an operand of a multiplication or division."""
    return text if text.isidentifier() or text.isdigit() or text.startswith("INT64_C") else f"({text})"


def offset_pointer(pointer: str, start: str) -> str:
    """A pointer to an element."""
    return pointer if start == "0" else f"{pointer} + {plain(start)}"


def stored(place: str, value: str, dtype: torch.dtype, *, accumulate: bool = False) -> str:
    """An assignment to an element in memory.

    Args:
        accumulate: The value is added to what is there.
    """
    if dtype in (torch.bfloat16, torch.float16):
        if accumulate:
            value = f"tair::cast<{VALUE_TYPES[dtype]}>(static_cast<float>({place}) + tair::cast<float>({value}))"
        return f"{place}.bits = {value};"
    if not accumulate:
        return f"{place} = {value};"
    if dtype is torch.bool:
        return f"{place} = {place} | {value};"
    if dtype.is_floating_point:
        return f"{place} = {place} + {value};"
    return f"{place} = tair::add<{C_TYPES[dtype]}>({place}, {value});"
