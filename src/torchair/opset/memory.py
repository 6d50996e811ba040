"""Operators about memory: constants, copies, views, writes through views."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchair import _torch_compat
from torchair.ir import TensorType, Value
from torchair.opset.operator import HostInts, ascend_op

__all__ = ["AsStrided", "Assign", "Identity", "Pack", "Shape", "TensorMove", "ViewCopy"]


@ascend_op(source="CANN op_proto: array_ops.h")
def Identity(x: Value) -> Value:
    """``x`` itself; keeps an ordering edge or a name.

    Shapes: ``x`` and the result are any, equal. dtypes: any.
    """
    raise NotImplementedError


@Identity.lower
def _(x: Tensor) -> Tensor:
    return torch.ops.aten.alias.default(x)


@ascend_op(source="CANN op_proto: array_ops.h")
def TensorMove(x: Value) -> Value:
    """A copy of ``x`` in memory of its own, with the same strides and offset (views of it can be made as of ``x``).

    Shapes: ``x`` and the result are any, equal. dtypes: any.
    """
    raise NotImplementedError


@TensorMove.lower
def _(x: Tensor) -> Tensor:
    return clone_preserve_strides(x)


def clone_preserve_strides(x: Tensor) -> Tensor:
    """Clone the memory below a tensor up to its last element, so that strides and storage offset stay."""
    if x.layout is not torch.strided or (x.is_contiguous() and _is_zero(x.storage_offset())):
        return x.clone()
    needed = _torch_compat.required_storage_length(x)
    buffer = torch.as_strided(x, (needed,), (1,), 0).clone()
    return torch.as_strided(buffer, x.size(), x.stride(), x.storage_offset())


def _is_zero(offset: int) -> bool:
    return isinstance(offset, int) and offset == 0


@ascend_op(outputs=("ref",), source="CANN op_proto: state_ops.h")
def Assign(ref: Value, value: Value, *, validate_shape: bool = True, use_locking: bool = False) -> Value:
    """Write ``value`` into ``ref``.

    Shapes: ``ref`` and ``value`` are equal. dtypes: equal.
    """
    raise NotImplementedError


@Assign.lower
def _(ref: Tensor, value: Tensor, *, validate_shape: bool, use_locking: bool) -> Tensor:
    return ref.copy_(value)


@ascend_op(size=HostInts, stride=HostInts, storage_offset=HostInts, source="CANN op_proto: transformation_ops.h")
def AsStrided(x: Value, size: Value, stride: Value, storage_offset: Value) -> Value:
    """A view of the memory of ``x``: element ``i`` lies at ``storage_offset + sum(i * stride)``.

    Shapes: ``size`` and ``stride`` are ``[n]``, ``storage_offset`` is 0-d or ``[1]``, counted in elements from the start of the
    storage; the result has the shape ``size``. dtypes: any.
    """
    raise NotImplementedError


@AsStrided.lower
def _(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | Sequence[int]) -> Tensor:
    return torch.as_strided(x, size, stride, _first(storage_offset))


def _first(number: int | Sequence[int]) -> int:
    return number[0] if isinstance(number, Sequence) else number


@ascend_op(
    outputs=("dst",),
    dst_size=HostInts,
    dst_stride=HostInts,
    dst_storage_offset=HostInts,
    src_size=HostInts,
    src_stride=HostInts,
    src_storage_offset=HostInts,
    source="CANN op_proto: transformation_ops.h",
)
def ViewCopy(
    dst: Value,
    dst_size: Value,
    dst_stride: Value,
    dst_storage_offset: Value,
    src: Value,
    src_size: Value,
    src_stride: Value,
    src_storage_offset: Value,
) -> Value:
    """Write ``src`` into the view of ``dst`` that the first geometry describes; the result is all of ``dst``.

    Where ``src`` already is that view (an operator wrote through it), nothing is copied.
    """
    raise NotImplementedError


@ViewCopy.lower
def _(
    dst: Tensor,
    dst_size: Sequence[int],
    dst_stride: Sequence[int],
    dst_storage_offset: int | Sequence[int],
    src: Tensor,
    src_size: Sequence[int],
    src_stride: Sequence[int],
    src_storage_offset: int | Sequence[int],
) -> Tensor:
    if _torch_compat.storage_id(dst) != _torch_compat.storage_id(src):
        torch.as_strided(dst, dst_size, dst_stride, _first(dst_storage_offset)).copy_(src)
    return dst


@ascend_op(source="CANN op_proto: array_ops.h")
def Shape(x: Value, *, dtype: int = 3) -> Value:
    """The sizes of ``x`` as host integers.

    Shapes: ``x`` is any, the result ``[rank]``. dtypes: the result is int32, or int64 by ``dtype``.
    """
    raise NotImplementedError


@Shape.lower
def _(x: Tensor, *, dtype: int) -> Tensor:
    return torch.tensor(list(x.shape), dtype=torch.int64 if dtype == 9 else torch.int32)


@Shape.infer
def _(x: TensorType, *, dtype: int) -> TensorType:
    from torchair.ir import DType

    return TensorType.of(DType(dtype), (x.rank,), content=x.shape)


@ascend_op(source="CANN op_proto: array_ops.h")
def Pack(x: Sequence[Value], *, axis: int = 0, N: int = 1) -> Value:
    """Stack ``N`` tensors of one shape along a new dimension ``axis``.

    dtypes: any, all equal.
    """
    raise NotImplementedError


@Pack.lower
def _(x: list[Tensor], *, axis: int, N: int) -> Tensor:
    return torch.stack([t if isinstance(t, Tensor) else torch.tensor(t) for t in x], axis)


@Pack.content
def _(x: Sequence[TensorType], *, axis: int, N: int) -> list[object] | None:
    if axis != 0 or any(t.rank or t.content is None for t in x):
        return None
    return [t.content[0] for t in x if t.content]
