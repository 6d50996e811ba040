"""Operators that make tensors from numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchair.ir import Dim, DType, TensorType, Value
from torchair.opset.memory import only
from torchair.opset.operator import HostInts, ascend_op
from torchair.opset.torch_types import torch_dtype

__all__ = ["Empty", "Fill", "LinSpace", "OnesLike", "Range", "ZerosLike"]

_ARRAY = "CANN op_proto: array_ops.h"

#: Fill results of at most this many elements carry their content.
_SMALL = 64


@ascend_op(dims=HostInts, source=_ARRAY)
def Fill(dims: Value, value: Value) -> Value:
    """A tensor of one value.

    Shapes: ``dims`` is ``[n]`` of host integers, ``value`` is 0-d (or has one element); the result has the shape
    ``dims``.
    dtypes: that of ``value``, any.
    """
    raise NotImplementedError


@Fill.lower
def _(dims: Sequence[int], value: Tensor) -> Tensor:
    # A 0-d constant is on the CPU whatever the device of the graph, which is torch's default device while it runs.
    device = None if value.device.type == "cpu" else value.device
    return torch.empty(tuple(dims), dtype=value.dtype, device=device).fill_(value.reshape(()))


@Fill.content
def _(dims: TensorType, value: TensorType) -> Sequence[Dim] | None:
    if value.content is None or len(value.content) != 1 or dims.content is None or len(dims.content) > 1:
        return None
    count = dims.content[0] if dims.content else 1
    return list(value.content) * count if isinstance(count, int) and count <= _SMALL else None


@ascend_op(shape=HostInts, source=_ARRAY)
def Empty(shape: Value, *, dtype: DType = DType.DT_INT32, init: bool = False) -> Value:
    """Memory whose elements are not set, or are 0 with ``init``.

    Shapes: ``shape`` is ``[n]`` of host integers, which the result has. dtypes: ``dtype``.
    """
    raise NotImplementedError


@Empty.lower
def _(shape: Sequence[int], *, dtype: DType, init: bool) -> Tensor:
    make = torch.zeros if init else torch.empty
    return make(tuple(shape), dtype=torch_dtype(dtype))


@ascend_op(source=_ARRAY)
def ZerosLike(x: Value) -> Value:
    """Zeros in the shape and dtype of ``x``.

    Shapes: ``x`` and the result are any, equal. dtypes: any.
    """
    raise NotImplementedError


@ZerosLike.lower
def _(x: Tensor) -> Tensor:
    return torch.zeros_like(x, memory_format=torch.contiguous_format)


@ascend_op(source=_ARRAY)
def OnesLike(x: Value) -> Value:
    """Ones in the shape and dtype of ``x``.

    Shapes: ``x`` and the result are any, equal. dtypes: any.
    """
    raise NotImplementedError


@OnesLike.lower
def _(x: Tensor) -> Tensor:
    return torch.ones_like(x, memory_format=torch.contiguous_format)


@ascend_op(start=HostInts, limit=HostInts, delta=HostInts, source="CANN op_proto: math_ops.h")
def Range(start: Value, limit: Value, delta: Value) -> Value:
    """``start``, ``start + delta``, ... before ``limit``.

    Shapes: the inputs are 0-d host numbers; the result is ``[ceil((limit - start) / delta)]``. dtypes: int64 where all
    three are integers, else float64.
    """
    raise NotImplementedError


@Range.lower
def _(start: float, limit: float, delta: float) -> Tensor:
    integers = all(isinstance(n, int | torch.SymInt) for n in (start, limit, delta))
    return torch.arange(start, limit, delta, dtype=torch.int64 if integers else torch.float64)


@Range.content
def _(start: TensorType, limit: TensorType, delta: TensorType) -> Sequence[Dim] | None:
    numbers = [t.content[0] if t.content else None for t in (start, limit, delta)]
    if not all(isinstance(n, int) for n in numbers) or not numbers[2]:
        return None
    content = range(*numbers)  # type: ignore[arg-type]
    return list(content) if len(content) <= _SMALL else None


@ascend_op(outputs=("output",), start=HostInts, stop=HostInts, num=HostInts, source="CANN op_proto: math_ops.h")
def LinSpace(start: Value, stop: Value, num: Value) -> Value:
    """``num`` numbers at equal distances, the first ``start`` and the last ``stop``.

    Shapes: the inputs are 0-d host numbers; the result is ``[num]``. dtypes: float32.
    """
    raise NotImplementedError


@LinSpace.lower
def _(start: float, stop: float, num: int | Sequence[int]) -> Tensor:
    return torch.linspace(start, stop, only(num), dtype=torch.float32)
