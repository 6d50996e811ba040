"""Converters of padding and its gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from torchair.convert.arguments import argument, numbers_known
from torchair.convert.overloads import all_of, host_number, register
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.builder import current_builder
from torchair.opset.padding import PadV3, PadV3Grad
from torchair.opset.shape import StridedSliceV2


def _by_dimension(pad: Sequence[Any], rank: int) -> list[tuple[Any, Any]]:
    """torch's list, which starts with the last dimension, as before and after for each dimension."""
    numbers = [host_number(n) for n in pad]
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def _flat(pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
    return [n for pair in pairs for n in pair]


def _real_value(node: fx.Node) -> Rejection | None:
    if isinstance(argument(node, "value"), complex):
        return Rejection("the value is complex, and constant_values is a host number")
    return None


@register("constant_pad_nd.default", supports=all_of(numbers_known("value"), _real_value))
def constant_pad_nd(self: Value, pad: Sequence[Any], value: float = 0) -> Value:
    """aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"""
    pairs = _by_dimension(pad, self.rank)
    cropped = [d for d, pair in enumerate(pairs) if any(isinstance(n, int) and n < 0 for n in pair)]
    x = self
    if cropped:
        begin = [max(-pairs[d][0], 0) if isinstance(pairs[d][0], int) else 0 for d in cropped]
        cut = [min(pairs[d][1], 0) if isinstance(pairs[d][1], int) else 0 for d in cropped]
        end = [x.shape[d] + n for d, n in zip(cropped, cut, strict=True)]
        x = StridedSliceV2(x, begin, end, cropped, [1] * len(cropped))
    added = [max(n, 0) if isinstance(n, int) else n for n in _flat(pairs)]
    is_default = value == 0 and math.copysign(1, value) > 0
    return PadV3(x, added, None if is_default else current_builder().host(value, self.dtype))


def _padded(mode: str) -> Callable[..., Value]:
    def convert(self: Value, padding: Sequence[Any]) -> Value:
        """aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor"""
        return PadV3(self, _flat(_by_dimension(padding, self.rank)), mode=mode)

    return convert


def _gradient(mode: str) -> Callable[..., Value]:
    def convert(grad_output: Value, self: Value, padding: Sequence[Any]) -> Value:
        """aten::reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor"""
        return PadV3Grad(grad_output, _flat(_by_dimension(padding, self.rank)), mode=mode)

    return convert


for _n in (1, 2, 3):
    for _torch_name, _mode in (("reflection", "reflect"), ("replication", "edge")):
        register(f"{_torch_name}_pad{_n}d.default")(_padded(_mode))
        register(f"{_torch_name}_pad{_n}d_backward.default")(_gradient(_mode))
