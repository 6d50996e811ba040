"""Operators that refuse a negative index in eager mode, and that Inductor compiles as if it counted from the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["strict_indices"]

aten = torch.ops.aten

#: Greater than any size, and an index of all integer dtypes that indices have.
_OUT_OF_RANGE = 2**31 - 1


def strict_indices(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Inductor's decompositions, in which negative indices are out of range where they are so in eager mode.

    The code that Inductor writes asserts that indices are in range, so that it fails then; ``gather``, ``scatter`` and
    their kind need no change. The comparison runs in the loop that reads the indices.
    """
    changed = dict(table)

    def embedding(
        weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
    ) -> Tensor:
        result: Tensor = aten.index.Tensor(weight, [_refusing(indices)])
        return result

    changed[aten.embedding.default] = embedding
    for overload in (aten.index_select.default, aten.index_add.default, aten.index_add_.default):
        if (original := table.get(overload)) is not None:
            changed[overload] = _with_strict_index(original)
    return changed


def _with_strict_index(original: Callable[..., Any]) -> Callable[..., Any]:
    def decomposition(self: Tensor, dim: int, index: Tensor, *args: Any, **kwargs: Any) -> Any:
        return original(self, dim, _refusing(index), *args, **kwargs)

    return decomposition


def _refusing(index: Tensor) -> Tensor:
    return torch.where(index < 0, _OUT_OF_RANGE, index)
