"""Converters of what addresses memory by strides, and of copies of views."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from torchair.convert.aten import shape
from torchair.convert.overloads import host_number, register, sizes_known
from torchair.convert.promotion import cast
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.memory import AsStrided, TensorMove, ViewCopy, is_literal

# --- memory by strides ---


def _dense_from_start(node: fx.Node) -> Rejection | None:
    """``supports=``: positions count from the start of a storage.

    Only that of a dense tensor that the graph makes begins with its first element; for an argument the caller decides.
    """
    source: Any = node.args[0]
    x = source.meta["val"]
    if source.op != "placeholder" and x.is_contiguous() and is_literal(x.storage_offset(), 0):
        return None
    return Rejection(
        "it counts positions from the start of the storage of a tensor that may begin elsewhere",
        fix="Make a dense copy first with clone().",
    )


def _require_dense(x: Value, operand: int, consumer: Value) -> None:
    """Have an engine that keeps strides of its own pass operand ``operand`` of the producer of ``consumer`` dense."""
    node = consumer.producer
    assert node is not None
    strides: list[Any] = [1] * x.rank
    for d in reversed(range(x.rank - 1)):
        strides[d] = strides[d + 1] * x.shape[d + 1]
    node.operand_strides = tuple(tuple(strides) if i == operand else None for i in range(len(node.operands)))


def _offset(storage_offset: Any) -> Any:
    return 0 if storage_offset is None else host_number(storage_offset)


@register("as_strided.default", supports=_dense_from_start)
def as_strided(self: Value, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None) -> Value:
    """aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)"""
    y: Value = AsStrided(self, size, stride, _offset(storage_offset))
    _require_dense(self, 0, y)
    return y


@register("as_strided_scatter.default", supports=_dense_from_start)
def as_strided_scatter(
    self: Value, src: Value, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> Value:
    """aten::as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)"""
    copy: Value = TensorMove(self)
    _require_dense(self, 0, copy)
    at = _offset(storage_offset)
    return ViewCopy(copy, size, stride, at, cast(src, self.dtype), size, stride, at)


# --- copies of views ---


def _copied(view: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(view)
    def convert(*args: Any, **kwargs: Any) -> Any:
        result = view(*args, **kwargs)
        return [TensorMove(part) for part in result] if isinstance(result, list) else TensorMove(result)

    return convert


def _itself(self: Value) -> Value:
    """aten::alias(Tensor(a) self) -> Tensor(a)"""
    return self


for _name, _view, _supports in (
    ("view_copy.default", shape.view, None),
    ("_reshape_copy.default", shape.view, None),
    ("view_copy.dtype", shape.view_dtype, None),
    ("permute_copy.default", shape.permute, None),
    ("slice_copy.Tensor", shape.slice_, sizes_known),
    ("select_copy.int", shape.select, sizes_known),
    ("split_copy.Tensor", shape.split, sizes_known),
    ("unbind_copy.int", shape.unbind, None),
    ("alias_copy.default", _itself, None),
    ("detach_copy.default", _itself, None),
    ("as_strided_copy.default", as_strided, _dense_from_start),
    ("view_as_real_copy.default", shape.view_as_real, shape.not_conjugated),
    ("view_as_complex_copy.default", shape.view_as_real, shape.not_conjugated),
):
    register(_name, supports=_supports)(_copied(_view))
