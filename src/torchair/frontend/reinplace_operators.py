"""Which operators of a functional FX graph can write an operand instead of making a new tensor."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from torchair._torch_compat import OpOverload

__all__ = ["SCATTERS", "copies_much", "in_place_overload", "is_pointwise", "reads_only_type", "scattered_view"]

aten = torch.ops.aten

#: Operators that return a copy of a tensor in which one view of it is replaced, and how that view is made.
SCATTERS: Mapping[OpOverload, OpOverload] = {
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.select_scatter.default: aten.select.int,
    aten.diagonal_scatter.default: aten.diagonal.default,
    aten.as_strided_scatter.default: aten.as_strided.default,
}

#: They change few elements of their operand and copy all others; in place they do not.
_PARTIAL = frozenset(
    {
        *("index_put", "_unsafe_index_put", "_index_put_impl", "put"),
        *("index_copy", "index_add", "index_fill", "index_reduce"),
        *("scatter", "scatter_add", "scatter_reduce", "masked_fill", "masked_scatter"),
        *("scatter_update", "npu_scatter_nd_update", "npu_quant_scatter"),
    }
)

#: An underscore at their end means another thing than writing elements.
_OTHER = frozenset(
    {"set", "resize", "resize_as", "resize_as_sparse", "rename", "requires_grad", "detach", "retain_grad"}
)

#: Namespaces in which a name with an underscore is known to be the operator that writes its first argument.
_NAMESPACES = frozenset({"aten", "npu"})

_TYPE_READERS = frozenset(
    {
        *("sym_size", "sym_stride", "sym_numel", "sym_storage_offset"),
        *("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"),
        *("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided"),
    }
)


def _name(overload: OpOverload) -> str:
    return str(overload._schema.name).partition("::")[2]


@functools.cache
def in_place_overload(overload: OpOverload) -> OpOverload | None:
    """The overload that writes the first argument of ``overload``: ``aten.add_.Tensor`` for ``aten.add.Tensor``."""
    schema, name = overload._schema, _name(overload)
    if overload is aten._unsafe_index_put.default:
        return aten.index_put_.default  # the same but for the checks of indices
    if (
        overload.namespace not in _NAMESPACES
        or name in _OTHER
        or schema.is_mutable
        or len(schema.returns) != 1
        or torch.Tag.nondeterministic_seeded in overload.tags
    ):
        return None
    packet = getattr(getattr(torch.ops, overload.namespace), f"{name}_", None)
    found = getattr(packet, overload._overloadname, None)
    if not isinstance(found, OpOverload) or torch.Tag.inplace_view in found.tags:
        return None
    mine, theirs = schema.arguments, found._schema.arguments
    if [(a.name, str(a.type)) for a in mine] != [(a.name, str(a.type)) for a in theirs] or not theirs:
        return None
    writes = [a.alias_info is not None and a.alias_info.is_write for a in theirs]
    return found if writes[0] and not any(writes[1:]) and str(mine[0].type) == "Tensor" else None


@functools.cache
def copies_much(overload: OpOverload) -> bool:
    """Whether an operator copies its first argument but for a few elements."""
    return overload in SCATTERS or _name(overload) in _PARTIAL


@functools.cache
def is_pointwise(overload: OpOverload) -> bool:
    """Whether element ``i`` of the result depends on elements ``i`` of the operands only."""
    return torch.Tag.pointwise in overload.tags


def reads_only_type(node: fx.Node) -> bool:
    """Whether a node needs no element of its operands, only their sizes and the like."""
    return isinstance(node.target, OpOverload) and _name(node.target) in _TYPE_READERS


def scattered_view(node: fx.Node) -> tuple[fx.Node, fx.Node, OpOverload, tuple[Any, ...], dict[str, Any]] | None:
    """Taken apart: the tensor, what goes into it, and operator and further arguments of the view that it goes into."""
    if not isinstance(node.target, OpOverload) or node.target not in SCATTERS or len(node.args) < 2:
        return None
    base, source, *rest = node.args
    if not isinstance(base, fx.Node) or not isinstance(source, fx.Node):
        return None
    return base, source, SCATTERS[node.target], tuple(rest), dict(node.kwargs)
