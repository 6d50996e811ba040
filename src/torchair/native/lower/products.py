"""Matrix products of few rows, and attention of few queries; all others are library calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from torchair.native.lower.pointwise import broadcast_element
from torchair.native.lower.registry import arguments, lowers
from torchair.native.lower.views import strided, view_of
from torchair.native.operations import Attention, Product, Strided
from torchair.native.region import LoopValue, Region, Unsupported, compute_dtype, sympy_shape

aten = torch.ops.aten

#: Products of more rows are left to the library, which reads the matrix once for all of them.
MOST_ROWS = 8
#: Attention of more queries likewise.
MOST_QUERIES = 8
#: ``attention_depth`` of attention.h, which keeps rows of queries on the stack.
MOST_DEPTH = 512

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@lowers(aten.mm.default)
def _mm(region: Region, node: fx.Node) -> LoopValue:
    found, builder = _product(region, node, node.args[0], node.args[1]), region.builder
    dtype: torch.dtype = node.meta["val"].dtype
    if found.dtype is dtype:
        return found
    return LoopValue(
        found.shape, dtype, lambda index, mask: builder.cast(found.element(index, mask), dtype), reads=found.reads
    )


@lowers(aten.addmm.default)
def _addmm(region: Region, node: fx.Node) -> LoopValue:
    given = arguments(node)
    if given["alpha"] != 1 or given["beta"] != 1:
        raise Unsupported("it is scaled")
    found = _product(region, node, given["mat1"], given["mat2"])
    bias, builder = region.value(given["self"]), region.builder
    shape, dtype = found.shape, found.dtype
    result: torch.dtype = node.meta["val"].dtype

    def element(index: Any, mask: Any) -> Any:
        added = builder.cast(broadcast_element(bias, index, shape, mask), dtype)
        # Rounded once, after the sum, as the library does.
        return builder.cast(builder.op("add", found.element(index, mask), added, dtype=dtype), result)

    return LoopValue(shape, result, element, reads=found.reads | bias.reads, depth=1, cost=1 + bias.cost)


def _product(region: Region, node: fx.Node, left: Any, right: Any) -> LoopValue:
    """The product, not rounded to 16 bits."""
    a, b = region.value(left), region.value(right)
    rows = a.shape[0]
    if not rows.is_Integer or not 1 <= rows <= MOST_ROWS:
        raise Unsupported(f"its left operand has {rows} rows, and code is for up to {MOST_ROWS}")
    if a.dtype not in _FLOATS or a.dtype != b.dtype:
        raise Unsupported(f"it multiplies {a.dtype}")
    one = _operand(region, left, a)
    two = _operand(region, right, b)
    if 1 not in (two.strides[0], two.strides[1]):
        raise Unsupported("its matrix does not lie in order")
    if one.strides[1] != 1:
        one = _ready(region, region.realize(a.computed()))
    out = region.new_buffer((a.shape[0], b.shape[1]), compute_dtype(a.dtype))
    region.barriers.add(out)
    region.operations.append(Product(out, one, two, (int(rows), a.shape[1], b.shape[1]), region.label))
    return region.from_buffer(out)


def _operand(region: Region, node: fx.Node, value: LoopValue) -> Strided:
    found = strided(region, value)
    if found is not None:
        return found
    value = region.values[node] = region.realize(value)
    return _ready(region, value)


def _ready(region: Region, value: LoopValue) -> Strided:
    found = strided(region, value)
    assert found is not None
    return found


@lowers(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _attention(region: Region, node: fx.Node) -> tuple[LoopValue | None, None]:
    given = arguments(node)
    query, key, value = (region.value(given[n]) for n in ("query", "key", "value"))
    if any(user.args[1] != 0 for user in node.users):
        raise Unsupported("its logsumexp is used")
    rows = query.shape[2]
    if not rows.is_Integer or not 1 <= rows <= MOST_QUERIES:
        raise Unsupported(f"it has {rows} queries, and code is for up to {MOST_QUERIES}")
    depth = query.shape[3]
    if not depth.is_Integer or depth > MOST_DEPTH:
        raise Unsupported(f"its heads have {depth} elements, and code is for up to {MOST_DEPTH}")
    if given["dropout_p"] or query.dtype not in _FLOATS or value.shape[3] != query.shape[3]:
        raise Unsupported("it has dropout, a dtype or sizes that are left to the library")
    mask = region.value(given["attn_mask"]) if given["attn_mask"] is not None else None
    scores = (query.shape[0], query.shape[1], rows, key.shape[2])
    mask_operand = None
    if mask is not None:
        wide = mask
        if mask.buffer is None and strided(region, mask) is None:
            wide = region.values[given["attn_mask"]] = region.realize(mask)
        mask_operand = _ready(
            region,
            view_of(
                wide,
                scores,
                lambda index: [
                    0 * i if size == 1 else i for i, size in zip(index[4 - len(wide.shape) :], wide.shape, strict=True)
                ],
            ),
        )
    tensor: torch.Tensor = node.meta["val"][0]
    out = region.new_buffer(sympy_shape(tensor.shape), tensor.dtype, sympy_shape(tensor.stride()))
    scale = given["scale"]
    q, k, v = (_operand(region, given[n], o) for n, o in (("query", query), ("key", key), ("value", value)))
    if any(o.strides[3] != 1 for o in (q, k, v)):
        raise Unsupported("its operands do not lie in order")
    region.barriers.add(out)
    region.operations.append(
        Attention(
            out,
            q,
            k,
            v,
            mask_operand,
            (query.shape[0], query.shape[1], key.shape[1], rows, key.shape[2], depth),
            float(scale) if scale is not None else int(depth) ** -0.5,
            bool(given["is_causal"]),
            region.label,
        )
    )
    return region.from_buffer(out), None
