"""Converters of what makes tensors from numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from torchair.convert.overloads import register
from torchair.convert.promotion import cast, promote
from torchair.convert.results import TensorSpec
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.builder import current_builder
from torchair.opset.creation import Empty, Fill, OnesLike, Range, ZerosLike
from torchair.opset.memory import Identity
from torchair.opset.operator import AscendOp
from torchair.opset.torch_types import torch_dtype

_LAYOUT = Rejection("the result is not a dense strided tensor in pageable memory")


def _plain(node: fx.Node) -> Rejection | None:
    """``supports=``: a dense tensor in pageable memory."""
    dense = node.meta["val"].layout is torch.strided
    return None if dense and not node.kwargs.get("pin_memory") else _LAYOUT


# --- one value ---


def _full(index: int) -> Callable[..., Value]:
    """A converter that fills with argument number ``index``."""

    def convert(*args: Any, meta_outputs: TensorSpec, **_: Any) -> Value:
        """aten::full(SymInt[] size, Scalar fill_value, ...) -> Tensor"""
        return Fill(meta_outputs.type.shape, promote(args[index], meta_outputs.dtype, checked=True))

    return convert


for _name, _index in {"full": 1, "full_like": 1, "new_full": 2}.items():
    register(f"{_name}.default", supports=_plain)(_full(_index))


def _constant(number: int, like: AscendOp) -> Callable[..., Value]:
    """A converter that fills with ``number``, by ``like`` where the first argument has the type of the result."""

    def convert(*args: Any, meta_outputs: TensorSpec, **_: Any) -> Value:
        """aten::zeros(SymInt[] size, ...) -> Tensor"""
        shape, dtype = meta_outputs.type.shape, meta_outputs.dtype
        if isinstance(args[0], Value) and args[0].dtype == dtype and args[0].shape == shape:
            same: Value = like(args[0])
            return same
        return Fill(shape, promote(number, dtype))

    return convert


for _number, _like, _names in (
    (0, ZerosLike, ("zeros", "zeros_like", "new_zeros", "zero")),
    (1, OnesLike, ("ones", "ones_like", "new_ones")),
):
    for _name in _names:
        register(f"{_name}.default", supports=_plain)(_constant(_number, _like))


def _apart(node: fx.Node) -> Rejection | None:
    """``supports=``: each element has a place of its own; symbolic strides are taken to give it one."""
    made = node.meta["val"]
    numbers = (*made.shape, *made.stride())
    if all(isinstance(n, int) for n in numbers) and 0 not in made.shape:
        place = 0
        for stride, size in sorted(zip(made.stride(), made.shape, strict=True)):
            if size > 1 and stride <= place:
                return Rejection(f"strides {tuple(made.stride())} let elements overlap, and Empty has a place for each")
            place += (size - 1) * stride
    return _plain(node)


@register("empty_strided.default", "new_empty_strided.default", supports=_apart)
def empty_strided(*args: Any, meta_outputs: TensorSpec, **_: Any) -> Value:
    """aten::empty_strided(SymInt[] size, SymInt[] stride, ...) -> Tensor"""
    return Empty(meta_outputs.type.shape, dtype=meta_outputs.dtype)


@register(
    "empty.memory_format",
    "empty_like.default",
    "empty_permuted.default",
    "new_empty.default",
    supports=_plain,
)
def empty(*args: Any, meta_outputs: TensorSpec, **_: Any) -> Value:
    """aten::empty.memory_format(SymInt[] size, ...) -> Tensor"""
    return Empty(meta_outputs.type.shape, dtype=meta_outputs.dtype)


@register("scalar_tensor.default", supports=_plain)
def scalar_tensor(s: Any, *, meta_outputs: TensorSpec, **_: Any) -> Value:
    """aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, ...) -> Tensor"""
    # Eager refuses integers that do not fit, and rounds floats to infinity.
    made = promote(s, meta_outputs.dtype, checked=not meta_outputs.dtype.is_floating_point)
    # A tensor promotes otherwise than the number that it is made from.
    return Identity(made) if made is s else made


# --- sequences ---


def _is_symbolic(number: Any) -> bool:
    return isinstance(number, fx.Node | torch.SymInt | torch.SymFloat)


def _countable(node: fx.Node) -> Rejection | None:
    """``supports=``: what is not known now must be an integer, so that every element is exact."""
    numbers = [a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args]
    if any(map(_is_symbolic, node.args)) and not all(isinstance(n, int | torch.SymInt) for n in numbers):
        return Rejection("Range counts in integers, and a number is symbolic while one is not an integer")
    return _plain(node)


def _arange(start: Any, end: Any, step: Any, meta_outputs: TensorSpec) -> Value:
    numbers = (start, end, step)
    if all(isinstance(n, int | Value) for n in numbers):
        return cast(Range(*numbers), meta_outputs.dtype)
    return current_builder().const(torch.arange(start, end, step, dtype=torch_dtype(meta_outputs.dtype)))


@register("arange.default", supports=_countable)
def arange(end: Any, *, meta_outputs: TensorSpec, **_: Any) -> Value:
    """aten::arange(Scalar end, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _arange(0, end, 1, meta_outputs)


@register("arange.start", "arange.start_step", supports=_countable)
def arange_start(start: Any, end: Any, step: Any = 1, *, meta_outputs: TensorSpec, **_: Any) -> Value:
    """aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, ...) -> Tensor"""
    return _arange(start, end, step, meta_outputs)


def _all_known(node: fx.Node) -> Rejection | None:
    if any(map(_is_symbolic, node.args)):
        return Rejection("a number is symbolic, and the elements are computed when the graph is built")
    return _plain(node)


def _computed_now(function: Callable[..., torch.Tensor]) -> Callable[..., Value]:
    """A converter to the constant that torch computes."""

    def convert(*args: Any, meta_outputs: TensorSpec, **_: Any) -> Value:
        """aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, ...) -> Tensor"""
        return current_builder().const(function(*args, dtype=torch_dtype(meta_outputs.dtype)))

    return convert


_FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "linspace": torch.linspace,
    "logspace": torch.logspace,
    "tril_indices": torch.tril_indices,
    "triu_indices": torch.triu_indices,
}
for _name, _function in _FUNCTIONS.items():
    register(f"{_name}.default", supports=_all_known)(_computed_now(_function))
