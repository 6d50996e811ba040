"""Converters of Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from torchair.convert.registry import register_fx_node_ge_converter
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.fft import FFT, FFT2D
from torchair.opset.shape import Transpose

aten = torch.ops.aten


def _plain_forward(node: fx.Node) -> Rejection | None:
    _, dim, normalization, forward = node.args
    if len(dim) not in (1, 2):  # type: ignore[arg-type]
        return Rejection("Ascend IR transforms one or two dimensions")
    if not forward:
        return Rejection("Ascend IR has no inverse transform")
    if normalization != 0:
        return Rejection("Ascend IR transforms without a factor, which torch applies inside")
    return None


@register_fx_node_ge_converter(aten._fft_c2c.default, supports=_plain_forward)
def fft_c2c(self: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    """aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    axes = [d % self.rank for d in dim]
    last = sorted(axes) if sorted(axes) == list(range(self.rank - len(axes), self.rank)) else axes
    order = [d for d in range(self.rank) if d not in axes] + last
    transform = FFT if len(axes) == 1 else FFT2D
    if order == list(range(self.rank)):
        return transform(self)
    back = [order.index(d) for d in range(self.rank)]
    return Transpose(transform(Transpose(self, order)), back)
