"""Tensors over memory that somebody else owns (specification, F-88)."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch

from torchair.errors import ArgumentError, ArgumentTypeError, ForeignMemoryError

__all__ = ["create_npu_tensors"]

#: Source: feature specification, F-88.
_DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
)


def create_npu_tensors(shape: Sequence[int], dtype: torch.dtype, addresses: Sequence[int]) -> list[torch.Tensor]:
    """One tensor for each address, over the memory there, which is neither copied nor freed.

    Here the addresses are those of host memory. Whoever owns it must keep it as long as the tensors are used.

    Args:
        shape: Sizes of each tensor, which is contiguous.
        dtype: bool, an integer of up to 64 bits (unsigned: 8), a float or complex64 or complex128.
        addresses: Addresses in bytes.

    Raises:
        ArgumentTypeError: An argument is of another type.
        ArgumentError: The dtype is not supported, or a size is negative.
        ForeignMemoryError: An address is no address, or is not aligned for the dtype.
    """
    _check_ints("shape", shape)
    _check_ints("addresses", addresses)
    if not isinstance(dtype, torch.dtype):
        raise ArgumentTypeError(
            "create_npu_tensors takes a torch.dtype",
            why=f"dtype is {dtype!r}, a {type(dtype).__name__}",
            fix="torch.float16",
        )
    if dtype not in _DTYPES:
        raise ArgumentError(
            "create_npu_tensors does not support this dtype",
            why=f"dtype is {dtype}; supported are {', '.join(str(d).removeprefix('torch.') for d in _DTYPES)}",
            fix="Use one of these; an 8-bit float is torch.uint8 in memory.",
        )
    if any(size < 0 for size in shape):
        raise ArgumentError("A size is negative", why=f"shape is {list(shape)}", fix="Give sizes of at least 0.")
    return [_tensor_at(address, list(shape), dtype) for address in addresses]


def _tensor_at(address: int, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    count = math.prod(shape)
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    alignment = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if address <= 0 or address % alignment:
        reason = "is no address" if address <= 0 else f"is not a multiple of {alignment} bytes, which {dtype} needs"
        raise ForeignMemoryError(
            "A tensor cannot be made over an address",
            why=f"{address:#x} {reason}",
            fix="Pass addresses as data_ptr() gives them.",
        )
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=dtype, count=count).view(shape)


def _check_ints(name: str, value: Any) -> None:
    wrong = value
    if isinstance(value, list | tuple):
        wrong = next((v for v in value if not isinstance(v, int) or isinstance(v, bool)), None)
        if wrong is None:
            return
    raise ArgumentTypeError(
        "create_npu_tensors takes lists of ints",
        why=f"{name} is {value!r}, where {wrong!r} is a {type(wrong).__name__}",
        fix="create_npu_tensors([2, 3], torch.float16, [address])",
    )
