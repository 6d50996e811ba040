"""Operators about memory: constants, copies, views, writes through views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchair import _torch_compat
from torchair.ir import Dim, DType, TensorType, Value
from torchair.opset.operator import HostInts, ascend_op

__all__ = [
    "AsStrided",
    "Assign",
    "Identity",
    "Pack",
    "Shape",
    "TensorMove",
    "ViewCopy",
    "apart",
    "is_literal",
    "only",
    "writable",
]


def only(numbers: int | Sequence[int]) -> int:
    """The number of a host input that stands for one: given 0-d, or as a list of one."""
    return numbers[0] if isinstance(numbers, Sequence) else numbers


def is_literal(number: Any, value: int) -> bool:
    """True for a number that is ``value``; False for a symbolic one, which asking would specialize the graph on."""
    return isinstance(number, int) and number == value


def writable(x: Tensor) -> Tensor:
    """``x``, or a dense copy where several of its elements lie at one address (an expanded tensor).

    Lowerings that write an input begin with it.
    """
    return x.clone(memory_format=torch.contiguous_format) if _may_overlap(x) else x


def apart(source: Tensor, target: Tensor) -> Tensor:
    """``source``, copied where it lies in the storage of ``target``, which is about to be written while it is read."""
    same = source.layout is torch.strided and _torch_compat.storage_id(source) == _torch_compat.storage_id(target)
    return source.clone() if same else source


def _may_overlap(x: Tensor) -> bool:
    if not all(isinstance(number, int) for number in (*x.shape, *x.stride())):
        return _torch_compat.is_expanded(x)
    return _torch_compat.overlaps_itself(x.shape, x.stride())


@ascend_op(source="CANN op_proto: array_ops.h")
def Identity(x: Value) -> Value:
    """``x`` itself; keeps an ordering edge or a name.

    Shapes: ``x`` and the result are any, equal. dtypes: any. Where a node asks for the strides of ``x``
    (``Node.operand_strides``), the result is ``x`` if it has them, otherwise a copy that does.
    """
    raise NotImplementedError


@Identity.lower
def _(x: Tensor) -> Tensor:
    y: Tensor = torch.ops.aten.alias.default(x)
    return y


@Identity.content
def _(x: TensorType) -> tuple[Dim, ...] | None:
    return x.content


@ascend_op(source="CANN op_proto: array_ops.h")
def TensorMove(x: Value) -> Value:
    """A copy of ``x`` in memory of its own.

    Shapes: ``x`` and the result are any, equal. dtypes: any. Where a node asks for the strides of ``x``
    (``Node.operand_strides``) the copy has them too, so that views of it are made as of ``x``.
    """
    raise NotImplementedError


@TensorMove.lower
def _(x: Tensor) -> Tensor:
    return x.clone()


@TensorMove.lower_strided
def _(x: Tensor) -> Tensor:
    return clone_preserve_strides(x)


def clone_preserve_strides(x: Tensor) -> Tensor:
    """Clone the memory from a tensor's first to its last element, so that strides stay."""
    if x.layout is not torch.strided or x.is_contiguous():
        return x.clone()
    start: Any = x.storage_offset()
    length = _torch_compat.required_storage_length(x) - start
    buffer = torch.as_strided(x, (length,), (1,), start).clone()
    return torch.as_strided(buffer, x.size(), x.stride(), 0)


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

    Shapes: ``size`` and ``stride`` are ``[n]``, ``storage_offset`` is 0-d or ``[1]``, counted in elements from the
    first element of ``x`` (values of the IR are tensors of their own; where they begin in torch's storage is the
    engine's matter); the result has the shape ``size``. dtypes: any.
    """
    raise NotImplementedError


@AsStrided.lower
def _(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | Sequence[int]) -> Tensor:
    return torch.as_strided(x, size, stride, x.storage_offset() + only(storage_offset))


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

    The geometry is that of :data:`AsStrided`. Where ``src`` already is that view (an operator wrote through it),
    nothing is copied.
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
    view = torch.as_strided(dst, dst_size, dst_stride, dst.storage_offset() + only(dst_storage_offset))
    if not _same_memory(view, src):
        view.copy_(apart(src, dst))
    return dst


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return (
        _torch_compat.storage_id(a) == _torch_compat.storage_id(b)
        and a.storage_offset() == b.storage_offset()
        and a.shape == b.shape
        and a.stride() == b.stride()
    )


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
    return TensorType.of(DType(dtype), (x.rank,), content=x.shape)


@ascend_op(source="CANN op_proto: array_ops.h")
def Pack(x: Sequence[Value], *, axis: int = 0, N: int) -> Value:
    """Stack ``N`` tensors of one shape along a new dimension ``axis``.

    dtypes: any, all equal.
    """
    raise NotImplementedError


@Pack.lower
def _(x: list[Tensor], *, axis: int, N: int) -> Tensor:
    return torch.stack(list(x), axis)


@Pack.content
def _(x: Sequence[TensorType], *, axis: int, N: int) -> list[Dim] | None:
    if axis != 0 or any(t.rank or t.content is None for t in x):
        return None
    return [t.content[0] for t in x if t.content]
