"""dtype promotion: ATen operators mix dtypes and Python numbers, Ascend IR operators want one dtype.

What eager computes has to stay: a Python number, or a 0-d tensor of a wider type, enters a bfloat16 or float16 computation unrounded
(TensorIterator computes these in float32 and rounds once at the end).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchair.convert.results import TensorSpec
from torchair.ir import DType, Value
from torchair.opset.builder import current_builder
from torchair.opset.cast import Cast
from torchair.opset.torch_types import torch_dtype

__all__ = ["cast", "compute_dtype", "dtype_promote", "pointwise", "promote"]

_HALF = (DType.DT_BF16, DType.DT_FLOAT16)


def cast(x: Value, dtype: DType) -> Value:
    """``x`` in another dtype; ``x`` itself where it has it."""
    result: Value = x if x.dtype == dtype else Cast(x, dst_type=dtype)
    return result


def promote(arg: Any, dtype: DType) -> Value:
    """A tensor cast to a dtype, or a constant of it for a Python number."""
    if isinstance(arg, Value):
        return cast(arg, dtype)
    return current_builder().const(torch.tensor(arg, dtype=torch_dtype(dtype)))


def compute_dtype(args: tuple[Any, ...], result: DType) -> DType:
    """The dtype in which eager computes an elementwise operator whose result has the dtype ``result``.

    float32 for half precision when a Python number or a 0-d tensor of a wider type takes part that half precision cannot hold.
    """
    if result not in _HALF:
        return result
    for arg in args:
        if isinstance(arg, Value):
            if arg.rank == 0 and arg.dtype.is_floating_point and arg.dtype != result:
                return DType.DT_FLOAT
        elif isinstance(arg, int | float) and not _exact(arg, result):
            return DType.DT_FLOAT
    return result


def _exact(number: float, dtype: DType) -> bool:
    rounded = torch.tensor(number, dtype=torch.float64).to(torch_dtype(dtype)).item()
    return rounded == number or number != number


def pointwise(
    op: Callable[..., Any], *args: Any, meta_outputs: TensorSpec, dtype: DType | None = None, **attrs: Any
) -> Value:
    """Apply an elementwise operator with eager's promotion.

    Args:
        args: Tensors and Python numbers.
        meta_outputs: Tells the dtype of the result.
        dtype: The common dtype of the operands where it is not the result's (comparisons).
    """
    common = compute_dtype(args, dtype if dtype is not None else meta_outputs.dtype)
    y = op(*(promote(a, common) for a in args), **attrs)
    return y if dtype is not None else cast(y, meta_outputs.dtype)


def dtype_promote(*args: Any, target_dtype: DType | int | torch.dtype) -> Any:
    """Cast tensors and numbers to one dtype (a name that converters of upstream's guide use)."""
    from torchair.opset.torch_types import dtype_of

    dtype = dtype_of(target_dtype) if isinstance(target_dtype, torch.dtype) else DType(target_dtype)
    results = tuple(promote(a, dtype) for a in args)
    return results[0] if len(results) == 1 else results
