"""Between torch and the IR: dtypes, symbolic sizes, and the types of (fake) tensors."""

from __future__ import annotations

from typing import Any

import sympy
import torch

from torchair.ir import Dim, DType, TensorType, as_dim

__all__ = ["dim_of", "dtype_of", "host_dtype", "host_type", "tensor_type", "torch_dtype"]

_FROM_TORCH: dict[torch.dtype, DType] = {
    dtype: member
    for member in DType
    if member.torch_name is not None and isinstance(dtype := getattr(torch, member.torch_name, None), torch.dtype)
}
_TO_TORCH: dict[DType, torch.dtype] = {member: dtype for dtype, member in _FROM_TORCH.items()}


def dtype_of(dtype: torch.dtype) -> DType:
    """The IR dtype of a torch dtype.

    Raises:
        RuntimeError: Ascend IR has no such dtype.
    """
    try:
        return _FROM_TORCH[dtype]
    except KeyError:
        raise RuntimeError(f"Unsupported convert torch type {dtype} to ge type") from None


def torch_dtype(dtype: DType) -> torch.dtype:
    """The torch dtype of an IR dtype.

    Raises:
        RuntimeError: This torch has no such dtype.
    """
    try:
        return _TO_TORCH[DType(dtype)]
    except KeyError:
        raise RuntimeError(f"Unsupported convert ge type {DType(dtype).name} to torch type") from None


def dim_of(value: int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool) -> Dim:
    """A size or host number of torch as the IR writes it."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        expr: sympy.Basic = value.node.expr
        return as_dim(expr)
    return value


def host_dtype(value: Any) -> DType:
    """dtype of a host number: int64, float64 or bool."""
    if isinstance(value, bool | torch.SymBool):
        return DType.DT_BOOL
    return DType.DT_DOUBLE if isinstance(value, float | torch.SymFloat) else DType.DT_INT64


def host_type(value: int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool) -> TensorType:
    """Type of a 0-d host number whose content is known."""
    return TensorType.of(host_dtype(value), (), content=[dim_of(value)])


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """Type of a real or fake tensor."""
    return TensorType.of(dtype_of(tensor.dtype), [dim_of(s) for s in tensor.shape], device=str(tensor.device))
