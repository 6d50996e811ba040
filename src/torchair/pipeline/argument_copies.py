"""Copies of the arguments of a call, and memory that arguments share without PyTorch's knowledge.

PyTorch knows that two tensors share memory by their storage. Tensors that came by another way (``torch.from_numpy``,
DLPack, a tensor over an address) may lie in one memory with a storage each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch

from torchair import _torch_compat

__all__ = ["ArgumentCopies", "unseen_sharing"]

aten = torch.ops.aten


class ArgumentCopies:
    """The arguments of a call as they were, with their strides, and with which of them share a storage."""

    def __init__(self, args: Sequence[Any]) -> None:
        self._args = _copy(args)

    def fresh(self) -> list[Any]:
        """Copies to run with."""
        return _copy(self._args)


def _copy(args: Sequence[Any]) -> list[Any]:
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach()
        if not _has_memory(value):
            return value.clone()
        key = _torch_compat.storage_id(value)
        if key not in storages:
            storages[key] = _torch_compat.storage_copy(value)
        made = torch.empty(0, dtype=value.dtype, device=value.device)
        made.set_(storages[key], value.storage_offset(), value.shape, value.stride())
        made = aten._conj.default(made) if value.is_conj() else made
        return aten._neg_view.default(made) if value.is_neg() else made

    with torch.no_grad(), torch.inference_mode(mode=False):
        return [copied(a) for a in args]


def _has_memory(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized


def unseen_sharing(args: Sequence[Any], written: Collection[int]) -> Iterator[tuple[int, int]]:
    """Pairs of arguments with elements in one place, the first of them written, that have a storage each.

    PyTorch takes them for independent, so in which order a graph writes the one and reads the other is left open.

    Args:
        args: The flat arguments of a call.
        written: Positions of those that the graph writes.
    """
    tensors = {i: a for i, a in enumerate(args) if _has_memory(a) and a.numel()}
    for i in sorted(tensors.keys() & set(written)):
        for j, other in tensors.items():
            if j in written and j <= i:
                continue
            if _torch_compat.storage_id(tensors[i]) != _torch_compat.storage_id(other) and _meet(tensors[i], other):
                yield i, j


def _meet(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have a byte in common."""
    first, last = max(a.data_ptr(), b.data_ptr()), min(_end(a), _end(b))
    if a.device != b.device or first >= last:
        return False
    start = min(a.data_ptr(), b.data_ptr())
    marks = torch.zeros(max(_end(a), _end(b)) - start, dtype=torch.bool)

    def at(tensor: torch.Tensor) -> torch.Tensor:
        size = tensor.dtype.itemsize
        strides = [*(s * size for s in tensor.stride()), 1]
        return marks.as_strided([*tensor.shape, size], strides, tensor.data_ptr() - start)

    at(a).fill_(True)
    return bool(at(b).any())


def _end(tensor: torch.Tensor) -> int:
    """The address behind the last element."""
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (reach + 1) * tensor.dtype.itemsize
