"""What the types in an FX graph say about memory: which values share it, and which are of the same type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import HigherOrderOperator, OpOverload

__all__ = [
    "counts_from_storage",
    "readers_of_position",
    "same_layout",
    "same_type",
    "share_memory",
    "storages",
    "tensors",
]

_POSITIONAL = frozenset({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "sym_storage_offset"})


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value: a tensor, or nested lists of them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)


def storages(value: Any) -> frozenset[int]:
    """Identities of the memory that a value lies in."""
    return frozenset(_torch_compat.storage_id(t) for t in tensors(value) if t.layout is torch.strided)


def share_memory(a: fx.Node, b: fx.Node) -> bool:
    """Whether two values lie in one memory."""
    return not storages(a.meta.get("val")).isdisjoint(storages(b.meta.get("val")))


def same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are known to have the same dtype, device, sizes and strides; only for strided ones."""
    if (a.dtype, a.device, a.layout, a.dim()) != (b.dtype, b.device, b.layout, b.dim()):
        return False
    if a.layout is not torch.strided or (a.is_conj(), a.is_neg()) != (b.is_conj(), b.is_neg()):
        return False
    return _all_equal((*a.shape, *a.stride()), (*b.shape, *b.stride()))


def same_type(a: Any, b: Any) -> bool:
    """Whether two values are known to look the same: as :func:`same_layout`, and in their position in memory."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return same_layout(a, b) and _torch_compat.known_true(a.storage_offset() == b.storage_offset())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same_type(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, torch.Tensor | list | tuple) or isinstance(b, torch.Tensor | list | tuple):
        return False
    numbers = isinstance(a, int | float | torch.SymInt | torch.SymFloat) and type(a) is type(b)
    return _torch_compat.known_true(a == b) if numbers else a is b


def _all_equal(a: Any, b: Any) -> bool:
    return all(_torch_compat.known_true(m == n) for m, n in zip(a, b, strict=True))


def counts_from_storage(node: fx.Node) -> bool:
    """Whether an operator counts elements from the start of the memory that an argument lies in."""
    if isinstance(node.target, OpOverload):
        return node.target._schema.name.partition("::")[2] in _POSITIONAL
    return node.op == "call_function" and isinstance(node.target, HigherOrderOperator)


def readers_of_position(node: fx.Node) -> Iterator[fx.Node]:
    """Who counts elements from the start of the memory that a value lies in, or may: the value cannot be moved.

    ``as_strided`` does, and PyTorch's wrappers of operators that write (``auto_functionalized_v2`` describes arguments
    as views of a base by their position). Views of the value are followed.
    """
    for user in node.users:
        if user.op != "call_function":
            continue
        if counts_from_storage(user):
            yield user
        elif share_memory(user, node):
            yield from readers_of_position(user)
