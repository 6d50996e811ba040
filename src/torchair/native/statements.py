"""Pieces of C++ statements that emitted functions are made of."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchair.native.expressions import Buffer
from torchair.native.formulas import C_TYPES

__all__ = ["c_type", "factor", "indented", "offset_pointer", "plain", "pragma", "sum_text"]


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


def sum_text(dtype: torch.dtype, a: str, b: str) -> str:
    """A sum of two values of a dtype."""
    if dtype in (torch.bfloat16, torch.float16):
        return f"{C_TYPES[dtype]}(static_cast<float>({a}) + static_cast<float>({b}))"
    if dtype is torch.bool:
        return f"{a} | {b}"
    return f"{a} + {b}" if dtype.is_floating_point else f"tair::add<{C_TYPES[dtype]}>({a}, {b})"
