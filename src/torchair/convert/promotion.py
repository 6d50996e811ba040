"""dtype promotion: ATen operators mix dtypes and Python numbers, Ascend IR operators want one dtype.

What eager computes has to stay. For half precision eager's kernels differ in whether a Python number (or a one-element
tensor of another dtype) takes part unrounded, in float32, or is rounded first; :data:`WideScalar` says which.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch

from torchair.convert.results import TensorSpec
from torchair.convert.torch_calls import is_host
from torchair.errors import ConversionError
from torchair.ir import DType, Value
from torchair.opset.builder import current_builder
from torchair.opset.cast import Cast
from torchair.opset.torch_types import dtype_of, torch_dtype

__all__ = [
    "HALF", "WideScalar", "cast", "compute_dtype", "dtype_promote", "fits", "from_real", "is_number", "pointwise",
    "promote", "promoted_dtype", "to_real",
]  # fmt: skip

HALF = (DType.DT_BF16, DType.DT_FLOAT16)

#: Where an operator takes a number unrounded into a half-precision computation. ``"second"``: its CPU kernel does so
#: for the second operand (multiplication, division); ``"accelerator"``: only those of accelerators do (addition). They
#: do so in both cases, for any operand. For CPU observed with torch 2.13, for CUDA read in PyTorch's kernels.
WideScalar: TypeAlias = Literal["never", "accelerator", "second"]

_REAL_OF = {
    DType.DT_COMPLEX32: DType.DT_FLOAT16,
    DType.DT_COMPLEX64: DType.DT_FLOAT,
    DType.DT_COMPLEX128: DType.DT_DOUBLE,
}
_COMPLEX_OF = {real: whole for whole, real in _REAL_OF.items()}


def to_real(dtype: DType) -> DType:
    """dtype of the parts of a complex dtype."""
    return _REAL_OF[dtype]


def from_real(dtype: DType) -> DType:
    """The complex dtype whose parts have a float dtype."""
    return _COMPLEX_OF[dtype]


def is_number(arg: Any) -> bool:
    """True for Python numbers and for values that stand for a (symbolic) number of FX, which promote alike."""
    return is_host(arg) if isinstance(arg, Value) else isinstance(arg, bool | int | float | complex)


def cast(x: Value, dtype: DType) -> Value:
    """``x`` in another dtype; ``x`` itself where it has it."""
    return x if x.dtype == dtype else Cast(x, dst_type=dtype)


def promote(arg: Any, dtype: DType, *, checked: bool = False) -> Value:
    """A tensor cast to a dtype, or a 0-d constant of it for a Python number.

    Args:
        checked: Refuse a number that the dtype cannot hold, as operators that fill or clamp do; else it wraps around,
            as it does in arithmetic.

    Raises:
        ConversionError: ``checked``, and the dtype cannot hold the number.
    """
    if isinstance(arg, Value):
        return cast(arg, dtype)
    return current_builder().const((_checked_tensor if checked else _wrapped_tensor)(arg, torch_dtype(dtype)))


def fits(number: Any, dtype: torch.dtype) -> bool:
    """Whether a dtype can hold a number; as in eager, unsigned integers negative ones, and floats infinities."""
    try:
        made = torch.full((), number, dtype=dtype)
    except RuntimeError:
        return False
    return not dtype.is_floating_point or math.isinf(number) or not math.isinf(made)


def _checked_tensor(number: Any, dtype: torch.dtype) -> torch.Tensor:
    if not fits(number, dtype):
        raise ConversionError(
            "A number does not fit into the dtype of the tensor that it fills or bounds",
            why=f"value cannot be converted to type {str(dtype).removeprefix('torch.')} without overflow: {number!r}",
            fix="Use a number that the dtype can hold, or convert the tensor to a wider dtype first.",
        )
    return torch.full((), number, dtype=dtype)


def _wrapped_tensor(number: Any, dtype: torch.dtype) -> torch.Tensor:
    return _number_tensor(number).to(dtype)


def _number_tensor(number: Any) -> torch.Tensor:
    """A 0-d tensor that holds a Python number exactly."""
    wide = torch.complex128 if isinstance(number, complex) else torch.float64 if isinstance(number, float) else None
    return torch.tensor(number, dtype=wide)


def promoted_dtype(*args: Any) -> DType:
    """The dtype in which eager compares: that of tensors with dimensions wins over 0-d tensors, these over numbers."""
    dims: list[torch.dtype] = []
    zeros: list[torch.dtype] = []
    numbers: list[torch.dtype] = []
    for arg in args:
        if is_number(arg):
            numbers.append(_number_dtype(arg))
        else:
            (dims if arg.rank else zeros).append(torch_dtype(arg.dtype))
    groups = [functools.reduce(torch.promote_types, group) for group in (dims, zeros, numbers) if group]
    common = groups.pop()
    while groups:
        common = torch.result_type(torch.empty(1, dtype=groups.pop()), torch.empty((), dtype=common))
    return dtype_of(common)


def _number_dtype(arg: Any) -> torch.dtype:
    """dtype of a number on its own: the default dtypes for floats and complex numbers."""
    if isinstance(arg, Value):
        arg = False if arg.dtype is DType.DT_BOOL else 0.0 if arg.dtype.is_floating_point else 0
    return torch.result_type(arg, arg)


def compute_dtype(args: tuple[Any, ...], result: DType, wide_scalar: WideScalar = "second") -> DType:
    """The dtype in which eager computes an elementwise operator whose result has the dtype ``result``.

    float32 for half precision when a number takes part unrounded that half precision cannot hold.
    """
    if result not in HALF or wide_scalar == "never":
        return result
    on_cpu = current_builder().device == "cpu"
    if on_cpu and wide_scalar == "accelerator":
        return result
    taken_wide = args[1:2] if on_cpu else args
    return DType.DT_FLOAT if any(_loses_digits(arg, result) for arg in taken_wide) else result


def _loses_digits(arg: Any, dtype: DType) -> bool:
    if isinstance(arg, Value):
        return arg.dtype not in (dtype, DType.DT_BOOL) and all(size == 1 for size in arg.shape)
    return bool(_wrapped_tensor(arg, torch_dtype(dtype)).item() != arg)


def pointwise(
    op: Callable[..., Any],
    *args: Any,
    meta_outputs: TensorSpec,
    dtype: DType | None = None,
    wide_scalar: WideScalar = "never",
    **attrs: Any,
) -> Value:
    """Apply an elementwise operator with eager's promotion.

    Args:
        args: Tensors and Python numbers.
        meta_outputs: Tells the dtype of the result.
        dtype: The common dtype of the operands where it is not the result's (comparisons).
        wide_scalar: See :data:`WideScalar`.
        attrs: Attributes of the operator.
    """
    common = compute_dtype(args, meta_outputs.dtype if dtype is None else dtype, wide_scalar)
    y = op(*(promote(a, common) for a in args), **attrs)
    return cast(y, meta_outputs.dtype)


def dtype_promote(*args: Any, target_dtype: DType | int | torch.dtype) -> Any:
    """Cast tensors and numbers to one dtype (a name that converters of upstream's guide use)."""
    dtype = dtype_of(target_dtype) if isinstance(target_dtype, torch.dtype) else DType(target_dtype)
    results = tuple(promote(a, dtype) for a in args)
    return results[0] if len(results) == 1 else results
