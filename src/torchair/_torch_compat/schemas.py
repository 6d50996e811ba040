"""Schemas of operators as text."""

from __future__ import annotations

import torch

from torchair._torch_compat.operators import find_packet
from torchair._torch_compat.types import OpOverload

__all__ = ["find_exact", "parse_schema_text"]


def find_exact(name: str) -> OpOverload | None:
    """The overload ``"ns::my_op"`` or ``"ns::my_op.out"``, or None where nobody defined it."""
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    packet = find_packet(namespace, operator)
    found = None if packet is None else getattr(packet, overload or "default", None)
    return found if isinstance(found, OpOverload) else None


def parse_schema_text(text: str) -> torch.FunctionSchema:
    """Read a schema by PyTorch's own parser.

    Raises:
        ValueError: It cannot be read; the text is the parser's, the first lines with the place.
    """
    try:
        # What torch.library.define calls, too. Numbers out of range come as IndexError, of the C++ library's.
        schema: torch.FunctionSchema = torch._C.parse_schema(text)
    except (RuntimeError, IndexError) as e:
        raise ValueError(str(e)) from e
    return schema
