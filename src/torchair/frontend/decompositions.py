"""Which operators AOTAutograd decomposes (specification, decision 32)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from torchair import _torch_compat

__all__ = ["decomposition_table"]


def decomposition_table(
    converted: Container[Any], custom: Mapping[Any, Callable[..., Any]]
) -> dict[Any, Callable[..., Any]]:
    """PyTorch's core ATen table without the overloads that have a converter; the user's entries win.

    Args:
        converted: Overloads that have a converter.
        custom: Overload to decomposition.
    """
    table = {op: f for op, f in _torch_compat.core_decompositions().items() if op not in converted}
    table.update(custom)
    return table
