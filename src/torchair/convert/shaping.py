"""Changes of shape that converters of several families make around an operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchair.convert.promotion import promote
from torchair.ir import DType, Value
from torchair.opset.creation import Fill
from torchair.opset.shape import BroadcastTo, Reshape, Squeeze, Unsqueeze

__all__ = ["broadcast", "filled", "pairs", "repeated", "reshape", "squeeze", "unsqueeze"]


def unsqueeze(x: Value, *axes: int) -> Value:
    """``x`` with dimensions of size 1 at ``axes`` of the result."""
    result: Value = Unsqueeze(x, axes=list(axes))
    return result


def squeeze(x: Value, *axes: int) -> Value:
    """``x`` without the dimensions ``axes``, which have size 1."""
    result: Value = Squeeze(x, axis=list(axes))
    return result


def reshape(x: Value, shape: Sequence[Any]) -> Value:
    """``x`` in another shape."""
    result: Value = x if x.shape == tuple(shape) else Reshape(x, list(shape))
    return result


def broadcast(x: Value, shape: Sequence[Any]) -> Value:
    """``x`` expanded to a shape."""
    result: Value = x if x.shape == tuple(shape) else BroadcastTo(x, list(shape))
    return result


def repeated(numbers: Sequence[int], count: int) -> list[int]:
    """One number for each dimension: torch lets one stand for all."""
    return list(numbers) * count if len(numbers) == 1 else list(numbers)


def pairs(numbers: Sequence[int]) -> list[int]:
    """Each number twice: torch pads both ends alike, Ascend operators name both."""
    return [n for n in numbers for _ in range(2)]


def filled(number: float, shape: Sequence[Any], dtype: DType) -> Value:
    """A tensor of one number."""
    result: Value = Fill(list(shape), promote(number, dtype))
    return result
