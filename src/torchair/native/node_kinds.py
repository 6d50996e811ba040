"""What kinds of nodes there are for native programs: views, constants, lookups of sizes; and what values they take."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from torchair import _torch_compat
from torchair._torch_compat import OpOverload
from torchair.native.formulas import C_TYPES

__all__ = [
    "CREATIONS",
    "VIEWS",
    "has_effect",
    "is_known_late",
    "is_of_sizes",
    "maker_of",
    "tensors_of",
    "why_unusable",
    "writes",
]

aten = torch.ops.aten

VIEWS = frozenset(
    {
        aten.alias.default, aten.detach.default, aten.view.default, aten.reshape.default, aten._unsafe_view.default,
        aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.permute.default,
        aten.t.default, aten.transpose.int, aten.numpy_T.default, aten.expand.default, aten.slice.Tensor,
        aten.select.int, aten.split_with_sizes.default, aten.split.Tensor, aten.unbind.int, aten.diagonal.default,
    }
)  # fmt: skip
CREATIONS = frozenset(
    {aten.full.default, aten.full_like.default, aten.scalar_tensor.default, aten.zeros.default, aten.zeros_like.default,
     aten.ones.default, aten.ones_like.default, torch.ops.prims.iota.default}
)  # fmt: skip
_SIZES = frozenset(
    {aten.sym_size.int, aten.sym_stride.int, aten.sym_numel.default, aten.sym_storage_offset.default}
)  # fmt: skip


def maker_of(node: fx.Node) -> fx.Node:
    """The node; of one of several results, what made them."""
    return node.args[0] if node.target is operator.getitem else node  # type: ignore[return-value]


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in the value of a node."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_of(v)] if isinstance(value, list | tuple) else []


def why_unusable(node: fx.Node) -> str:
    """Why a value is none that native code can read or make; empty if it is."""
    if node.op == "get_attr" and "val" not in node.meta:
        return "nothing is known of a constant"
    for tensor in tensors_of(node.meta.get("val")):
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return "a tensor is not a dense one on the CPU"
        if _makes_memory(node) and _torch_compat.is_expanded(tensor):
            # Some fake kernels promise the strides of an expanded argument, which no kernel makes.
            return "it would be made in memory whose elements overlap"
        if tensor.dtype not in C_TYPES or tensor.is_quantized:
            return f"it has {tensor.dtype}"
        if tensor.is_conj() or tensor.is_neg():
            return "a tensor is conjugated"
        for size in (*tensor.shape, *tensor.stride()):
            if is_known_late(size):
                return "a size is known only at run time"
    return ""


def is_known_late(number: Any) -> bool:
    """Whether a (symbolic) integer is known only when an operator has run."""
    return isinstance(number, torch.SymInt) and any(map(_torch_compat.is_unbacked, number.node.expr.free_symbols))


def _makes_memory(node: fx.Node) -> bool:
    """Whether the results of an operator are no views of its arguments."""
    target = node.target
    return (
        isinstance(target, OpOverload) and target not in VIEWS and not any(r.alias_info for r in target._schema.returns)
    )


def has_effect(node: fx.Node) -> bool:
    """Whether a node may do more than make a value: those with effects keep their order."""
    if node.op != "call_function":
        return False
    if isinstance(node.target, OpOverload):
        return torch.Tag.nondeterministic_seeded in node.target.tags or node.target.namespace not in ("aten", "prims")
    return node.target is not operator.getitem and not _is_symbolic(node)


def _is_symbolic(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def is_of_sizes(node: fx.Node) -> bool:
    """Whether a node looks up a size or computes with numbers: no work that a program could take over."""
    return _is_symbolic(node) and (not isinstance(node.target, OpOverload) or node.target in _SIZES)


def writes(node: fx.Node) -> bool:
    """Whether a node writes its argument."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable
