"""``as_strided`` that only gives a contiguous tensor other sizes is ``view``, which native loops see through.

Decompositions of group normalization end in it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

__all__ = ["make_views_plain"]

aten = torch.ops.aten


def make_views_plain(graph: fx.Graph) -> None:
    """Rename such operators, in place."""
    for node in graph.find_nodes(op="call_function", target=aten.as_strided.default):
        if _is_view(node):
            node.target, node.args, node.kwargs = aten.view.default, node.args[:2], {}


def _is_view(node: fx.Node) -> bool:
    base: Any = node.args[0]
    given, result = base.meta.get("val"), node.meta.get("val")
    if not isinstance(given, torch.Tensor) or not isinstance(result, torch.Tensor) or len(node.args) < 2:
        return False
    numbers = (*given.shape, *result.shape, given.storage_offset(), result.storage_offset())
    return (
        all(isinstance(n, int) for n in numbers)  # with symbols, equality would be a guard
        and given.storage_offset() == result.storage_offset()
        and given.numel() == result.numel()
        and given.is_contiguous()
        and result.is_contiguous()
    )
