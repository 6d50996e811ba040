"""Converters of fused attention as AOTAutograd leaves it on a CPU."""

from __future__ import annotations

import functools
import math

import torch
from torch import fx

from torchair import _torch_compat
from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.shaping import broadcast, squeeze, unsqueeze
from torchair.errors import Rejection
from torchair.ir import Blob, DType, Value
from torchair.opset.attention import FlashAttentionScoreGrad, FusedInferAttentionScore
from torchair.opset.builder import current_builder
from torchair.opset.operator import operators

aten = torch.ops.aten

#: A device wants the causal mask of any size as the upper triangle of a matrix of this size.
_CAUSAL_SIZE = 2048
#: Maximum and sum of a row are repeated as often.
_ROW_REPEATS = 8


def _attention(node: fx.Node) -> Rejection | None:
    from torchair.convert.torch_calls import schema_arguments

    given = {a.name: v for a, v in schema_arguments(node.target, node.args, node.kwargs)}  # type: ignore[arg-type]
    if given["dropout_p"]:
        return Rejection("attention with dropout draws random numbers, which no Ascend IR operator draws as eager does")
    if given["is_causal"] and given["attn_mask"] is not None:
        return Rejection("attention is both causal and masked")
    for name in ("query", "key"):
        _, heads, _, size = given[name].meta["val"].shape
        if not isinstance(heads, int) or not isinstance(size, int):
            return Rejection(
                f"the number or size of the heads of the {name} is symbolic, and Ascend IR has it as attribute"
            )
    return None


def _scale(query: Value, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)


@functools.cache
def _upper_triangle() -> torch.Tensor:
    with _torch_compat.no_dispatch_modes():
        return torch.ones(_CAUSAL_SIZE, _CAUSAL_SIZE, dtype=torch.bool).triu(1)


def _causal_mask() -> Value:
    """The constant of that size, one for a graph."""
    builder = current_builder()
    triangle = _upper_triangle()
    for node in builder.graph:
        blob = node.attrs.get("value") if node.op == "Const" else None
        if isinstance(blob, Blob):
            if _torch_compat.storage_id(builder.graph.blobs[blob.name]) == _torch_compat.storage_id(triangle):
                return node.output
    return builder.const(triangle)


def _boolean_mask(mask: Value) -> Value | None:
    """The boolean mask from which PyTorch made an additive one: ``where(attended, 0, -inf)``."""
    producer = mask.producer
    if producer is None or producer.op != "SelectV2":
        return None
    attended, zero, hidden = producer.values
    if _number(zero) == 0 and _number(hidden) == -math.inf and attended.dtype is DType.DT_BOOL:
        return attended if attended.rank in (2, 4) else None
    return None


def _number(value: Value) -> float | None:
    """The number that a constant holds."""
    producer = value.producer
    while producer is not None and producer.op in ("Cast", "BroadcastTo", "Fill"):
        source = producer.values[-1 if producer.op == "Fill" else 0]
        producer = source.producer
    if producer is None or producer.op != "Const" or not isinstance(producer.attrs["value"], tuple):
        return None
    numbers = producer.attrs["value"]
    return numbers[0] if len(numbers) == 1 else None


def _masks(
    query: Value, key: Value, attn_mask: Value | None, is_causal: bool
) -> tuple[Value | None, Value | None, int]:
    """``pse_shift``, ``atten_mask`` and ``sparse_mode``."""
    if is_causal:
        return None, _causal_mask(), 2
    if attn_mask is None:
        return None, None, 0
    attended = _boolean_mask(attn_mask)
    _, heads, length, _ = query.shape
    sizes = (length, key.shape[2])
    if attended is not None and (attended.rank == 2 or attended.shape[1] == 1):
        shape = sizes if attended.rank == 2 else (attended.shape[0], 1, *sizes)
        return None, operators["LogicalNot"](broadcast(attended, shape)), 0
    batches = attn_mask.shape[0] if attn_mask.rank == 4 else 1
    return broadcast(attn_mask, (batches, heads, *sizes)), None, 0


@register_fx_node_ge_converter(aten._scaled_dot_product_flash_attention_for_cpu.default, supports=_attention)
def flash_attention(
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.,
    bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)
    """
    pse_shift, atten_mask, sparse_mode = _masks(query, key, attn_mask, is_causal)
    y, lse = FusedInferAttentionScore(
        query,
        [key],
        [value],
        pse_shift,
        atten_mask,
        num_heads=query.shape[1],
        num_key_value_heads=key.shape[1],
        scale=_scale(query, scale),
        input_layout="BNSD",
        sparse_mode=sparse_mode,
        softmax_lse_flag=True,
    )
    return y, squeeze(lse, 3)


@register_fx_node_ge_converter(aten._scaled_dot_product_flash_attention_for_cpu_backward.default, supports=_attention)
def flash_attention_backward(
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    """aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor
    value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None)
    -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)
    """
    pse_shift, atten_mask, sparse_mode = _masks(query, key, attn_mask, is_causal)
    rows = (*logsumexp.shape, _ROW_REPEATS)
    # exp(s - lse) / 1 is the softmax, as exp(s - max) / sum is.
    largest = broadcast(unsqueeze(logsumexp, 3), rows)
    one = current_builder().const(1.0, logsumexp.dtype)
    dq, dk, dv, _ = FlashAttentionScoreGrad(
        query,
        key,
        value,
        grad_out,
        pse_shift,
        atten_mask=atten_mask,
        softmax_max=largest,
        softmax_sum=broadcast(one, rows),
        attention_in=out,
        scale_value=_scale(query, scale),
        head_num=query.shape[1],
        input_layout="BNSD",
        sparse_mode=sparse_mode,
    )
    return dq, dk, dv
