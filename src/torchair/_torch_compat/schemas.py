"""Schemas of operators as text."""

from __future__ import annotations

import torch

__all__ = ["parse_schema_text"]


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
