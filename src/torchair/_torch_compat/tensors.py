"""Tensors and their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torchair._torch_compat.symbols import known_true

__all__ = [
    "copy_all",
    "is_expanded",
    "overlaps_itself",
    "promoted_dtype",
    "required_storage_length",
    "storage_copy",
    "storage_id",
    "storage_over",
]


def storage_copy(tensor: torch.Tensor) -> torch.UntypedStorage:
    """A copy of all the memory that a tensor is a view of."""
    copy: torch.UntypedStorage = tensor.detach().untyped_storage().clone()  # type: ignore[no-untyped-call]
    return copy


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage, also of fake tensors (which have no data pointer)."""
    identity: int = tensor.untyped_storage()._cdata
    return identity


def required_storage_length(tensor: torch.Tensor) -> Any:
    """Elements of storage from its start to the tensor's last element (an int, or a ``SymInt`` for symbolic sizes)."""
    from torch._prims_common import compute_required_storage_length

    offset: Any = tensor.storage_offset()
    return compute_required_storage_length(tensor.size(), tensor.stride(), offset)


def is_expanded(tensor: torch.Tensor) -> bool:
    """Whether an axis shows one element several times: its stride is 0, and its size may be more than 1.

    Also of fake tensors with symbolic sizes; adds no guard.
    """
    if tensor.layout is not torch.strided:
        return False
    axes: Any = zip(tensor.shape, tensor.stride(), strict=True)
    return any(known_true(stride == 0) and not known_true(size <= 1) for size, stride in axes)


def overlaps_itself(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may lie at one place, as in an expanded tensor. True where it is hard to say."""
    covered = 0
    for stride, size in sorted((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1):
        if stride <= covered:
            return True
        covered += (size - 1) * stride
    return False


def copy_all(into: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> None:
    """Copy tensors into others of the same sizes, in as few launches as the device allows, without waiting for it."""
    torch._foreach_copy_(list(into), list(values), non_blocking=True)


def storage_over(address: int, nbytes: int, device: torch.device) -> torch.UntypedStorage:
    """A storage over memory that somebody else owns; nothing keeps that memory alive.

    Raises:
        RuntimeError: This version of PyTorch cannot do it.
    """
    construct = getattr(torch._C, "_construct_storage_from_data_pointer", None)
    if construct is None:
        raise RuntimeError("This version of PyTorch cannot make a tensor over an address")
    storage: torch.UntypedStorage = construct(address, device, nbytes)
    return storage


def promoted_dtype(operands: Sequence[Any]) -> torch.dtype:
    """The dtype that tensors and (symbolic) numbers are promoted to together."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    result: torch.dtype = elementwise_dtypes(*operands, type_promotion_kind=kind)[1]
    return result
