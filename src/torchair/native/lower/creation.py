"""Tensors made of numbers."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx

from torchair.native.lower.pointwise import number_expr
from torchair.native.lower.registry import arguments, lowers
from torchair.native.region import LoopValue, Region, compute_dtype, sympy_shape

aten = torch.ops.aten
prims = torch.ops.prims


@lowers(aten.full.default, aten.full_like.default, aten.scalar_tensor.default)
def _full(region: Region, node: fx.Node) -> LoopValue:
    given = arguments(node)
    return filled(region, node, given["s"] if "s" in given else given["fill_value"])


@lowers(aten.zeros.default, aten.zeros_like.default)
def _zeros(region: Region, node: fx.Node) -> LoopValue:
    return filled(region, node, 0)


@lowers(aten.ones.default, aten.ones_like.default)
def _ones(region: Region, node: fx.Node) -> LoopValue:
    return filled(region, node, 1)


def filled(region: Region, node: fx.Node, number: Any) -> LoopValue:
    """A tensor of one number."""
    tensor: torch.Tensor = node.meta["val"]
    dtype = tensor.dtype
    found = region.builder.cast(number_expr(region, number, compute_dtype(dtype)), dtype)
    return LoopValue(sympy_shape(tensor.shape), dtype, lambda index, mask: found)


@lowers(prims.iota.default)
def _iota(region: Region, node: fx.Node) -> LoopValue:
    tensor: torch.Tensor = node.meta["val"]
    start, step = (
        sympy.sympify(v.meta["val"] if isinstance(v, fx.Node) else v)
        for v in (node.kwargs["start"], node.kwargs["step"])
    )
    builder, dtype = region.builder, tensor.dtype
    return LoopValue(
        sympy_shape(tensor.shape),
        dtype,
        lambda index, mask: builder.cast(builder.index(start + index[0] * step), dtype),
    )
