"""Fused attention: the softmax of scaled products of queries and keys, times values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchair import _torch_compat
from torchair.ir import Value
from torchair.opset.operator import ascend_op

__all__ = ["FlashAttentionScoreGrad", "FusedInferAttentionScore"]

aten = torch.ops.aten

_MAX = 2147483647


def _heads_first(x: Tensor, layout: str, heads: int) -> Tensor:
    """``x`` as ``[batch, heads, sequence, size]``.

    Raises:
        ValueError: An unknown layout.
    """
    match layout:
        case "BNSD":
            return x
        case "BSND":
            return x.transpose(1, 2)
        case "BSH":
            return torch.unflatten(x, -1, (heads, -1)).transpose(1, 2)
    raise ValueError(f"input_layout {layout} is not supported, BNSD, BSND and BSH are")


def _dense_rows(x: Tensor) -> Tensor:
    """``x`` with elements of a row side by side: the kernel reads them so, whatever the strides say."""
    stride: Any = x.stride(-1)
    return x if type(stride) is int and stride == 1 else x.contiguous()


def _as_layout(y: Tensor, layout: str) -> Tensor:
    """The opposite of :func:`_heads_first`."""
    if layout == "BNSD":
        return y
    return y.transpose(1, 2) if layout == "BSND" else y.transpose(1, 2).flatten(2)


def _additive_mask(
    query: Tensor, keys: Tensor, pse_shift: Tensor | None, atten_mask: Tensor | None, sparse_mode: int
) -> tuple[Tensor | None, bool]:
    """What is added to the scaled products, and whether the rest is the causal mask that torch knows by itself.

    Raises:
        ValueError: A combination that has no meaning here.
    """
    if sparse_mode == 2:
        if pse_shift is not None:
            raise ValueError("sparse_mode 2 with pse_shift is not supported")
        return None, True
    if sparse_mode == 3:
        rows, columns = query.shape[-2], keys.shape[-2]
        atten_mask = torch.ones(rows, columns, dtype=torch.bool, device=query.device).triu(columns - rows + 1)
    elif sparse_mode not in (0, 1):
        raise ValueError(f"sparse_mode {sparse_mode} is not supported, 0 to 3 are")
    elif sparse_mode == 1 and atten_mask is None:
        raise ValueError("sparse_mode 1 needs atten_mask")
    if atten_mask is None:
        return pse_shift, False
    hidden = atten_mask.unsqueeze(1) if atten_mask.dim() == 3 else atten_mask
    zero = torch.zeros((), dtype=query.dtype, device=query.device)
    shift = torch.where(hidden.to(torch.bool), torch.full_like(zero, -torch.inf), zero)
    return (shift if pse_shift is None else shift + pse_shift), False


def _only_plain(names: Sequence[str], values: Sequence[object], neutral: Sequence[object]) -> None:
    """Refuse arguments without a meaning here.

    Raises:
        ValueError: Names them.
    """
    used = [name for name, value, default in zip(names, values, neutral, strict=True) if value != default]
    if used:
        raise ValueError(f"not supported: {', '.join(used)}")


@ascend_op(outputs=("attention_out", "softmax_lse"), source="CANN op_proto: fusion_ops.h")
def FusedInferAttentionScore(
    query: Value,
    key: Sequence[Value],
    value: Sequence[Value],
    pse_shift: Value | None = None,
    atten_mask: Value | None = None,
    actual_seq_lengths: Value | None = None,
    actual_seq_lengths_kv: Value | None = None,
    dequant_scale1: Value | None = None,
    quant_scale1: Value | None = None,
    dequant_scale2: Value | None = None,
    quant_scale2: Value | None = None,
    quant_offset2: Value | None = None,
    antiquant_scale: Value | None = None,
    antiquant_offset: Value | None = None,
    block_table: Value | None = None,
    query_padding_size: Value | None = None,
    kv_padding_size: Value | None = None,
    key_antiquant_scale: Value | None = None,
    key_antiquant_offset: Value | None = None,
    value_antiquant_scale: Value | None = None,
    value_antiquant_offset: Value | None = None,
    key_shared_prefix: Value | None = None,
    value_shared_prefix: Value | None = None,
    actual_shared_prefix_len: Value | None = None,
    query_rope: Value | None = None,
    key_rope: Value | None = None,
    key_rope_antiquant_scale: Value | None = None,
    dequant_scale_query: Value | None = None,
    learnable_sink: Value | None = None,
    q_start_idx: Value | None = None,
    kv_start_idx: Value | None = None,
    *,
    num_heads: int,
    scale: float = 1.0,
    pre_tokens: int = _MAX,
    next_tokens: int = _MAX,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    inner_precise: int = 0,
    block_size: int = 0,
    antiquant_mode: int = 0,
    softmax_lse_flag: bool = False,
    key_antiquant_mode: int = 0,
    value_antiquant_mode: int = 0,
    query_quant_mode: int = 0,
    pse_type: int = 0,
    out_dtype: int = 0,
) -> tuple[Value, Value]:
    """``softmax(scale * query @ key.T + pse_shift, masked by atten_mask) @ value``; and the logarithms of the sums.

    ``atten_mask`` is true where a key is *not* attended. ``sparse_mode`` 0 and 1 use it as it is; 2 is causal from the
    top left, 3 from the bottom right: there a device takes a constant ``[2048, 2048]`` upper triangle as
    ``atten_mask``, which is not read here. ``inner_precise`` chooses between speed and precision of a device. One key
    and one value, without lengths, blocks, quantization, prefix, rope and sink.

    Shapes: ``query`` is ``[b, n, s, d]`` (``BNSD``), ``[b, s, n, d]`` (``BSND``) or ``[b, s, n * d]`` (``BSH``);
    ``key`` and ``value`` likewise with their own ``s`` and ``num_key_value_heads`` heads (0: as many as ``num_heads``);
    ``pse_shift`` is ``[b or 1, n, s, s_kv]``, ``atten_mask`` ``[s, s_kv]``, ``[b, s, s_kv]`` or ``[b or 1, 1, s,
    s_kv]``; ``softmax_lse`` is ``[b, n, s, 1]``, or ``[0]`` without ``softmax_lse_flag``. dtypes: floating point,
    equal; ``atten_mask`` is bool, int8 or uint8; ``softmax_lse`` is float32 (float64 for float64).
    """
    raise NotImplementedError


@FusedInferAttentionScore.lower
def _(
    query: Tensor,
    key: Sequence[Tensor],
    value: Sequence[Tensor],
    pse_shift: Tensor | None,
    atten_mask: Tensor | None,
    *others: Tensor | None,
    num_heads: int,
    scale: float,
    pre_tokens: int,
    next_tokens: int,
    input_layout: str,
    num_key_value_heads: int,
    sparse_mode: int,
    inner_precise: int,
    block_size: int,
    softmax_lse_flag: bool,
    pse_type: int,
    **modes: int,
) -> tuple[Tensor, Tensor]:
    if len(key) != 1 or len(value) != 1 or any(o is not None for o in others):
        raise ValueError("one key and one value are supported, without any input after atten_mask")
    _only_plain(
        ["pre_tokens", "next_tokens", "block_size", "pse_type", *modes],
        [pre_tokens, next_tokens, block_size, pse_type, *modes.values()],
        [_MAX, _MAX, 0, 0, *(0 for _ in modes)],
    )
    q = _heads_first(query, input_layout, num_heads)
    k, v = (_heads_first(x, input_layout, num_key_value_heads or num_heads) for x in (key[0], value[0]))
    if q.shape[1] != k.shape[1] and not _torch_compat.flash_attention_groups_heads():
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    q, k, v = (_dense_rows(x) for x in (q, k, v))
    mask, causal = _additive_mask(q, k, pse_shift, atten_mask, sparse_mode)
    y, lse = aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
    return _as_layout(y, input_layout), lse.unsqueeze(-1) if softmax_lse_flag else lse.new_empty([0])


@ascend_op(outputs=("dq", "dk", "dv", "dpse"), source="CANN op_proto: fusion_ops.h")
def FlashAttentionScoreGrad(
    query: Value,
    key: Value,
    value: Value,
    dy: Value,
    pse_shift: Value | None = None,
    drop_mask: Value | None = None,
    padding_mask: Value | None = None,
    atten_mask: Value | None = None,
    softmax_max: Value | None = None,
    softmax_sum: Value | None = None,
    softmax_in: Value | None = None,
    attention_in: Value | None = None,
    prefix: Value | None = None,
    actual_seq_qlen: Value | None = None,
    actual_seq_kvlen: Value | None = None,
    q_start_idx: Value | None = None,
    kv_start_idx: Value | None = None,
    *,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 65536,
    next_tockens: int = 65536,
    head_num: int,
    input_layout: str,
    inner_precise: int = 1,
    sparse_mode: int = 0,
) -> tuple[Value, Value, Value, Value]:
    """Gradients of attention with respect to query, key and value; ``dpse`` is not computed here (``[0]``).

    ``softmax_max`` and ``softmax_sum`` are the maximum and the sum of exponentials of each row, repeated eight times:
    only ``softmax_max + log(softmax_sum)`` counts. ``attention_in`` is the result of the attention. Masks, shapes and
    limits are those of ``FusedInferAttentionScore``; no dropout.

    Shapes: ``dy`` and ``attention_in`` have the shape of ``query``; ``softmax_max`` and ``softmax_sum`` are ``[b, n, s,
    8]``. dtypes: floating point, equal; ``softmax_max`` and ``softmax_sum`` are float32 (float64 for float64).
    """
    raise NotImplementedError


@FlashAttentionScoreGrad.lower
def _(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    pse_shift: Tensor | None,
    drop_mask: Tensor | None,
    padding_mask: Tensor | None,
    atten_mask: Tensor | None,
    softmax_max: Tensor | None,
    softmax_sum: Tensor | None,
    softmax_in: Tensor | None,
    attention_in: Tensor | None,
    *others: Tensor | None,
    scale_value: float,
    keep_prob: float,
    pre_tockens: int,
    next_tockens: int,
    head_num: int,
    input_layout: str,
    inner_precise: int,
    sparse_mode: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if softmax_max is None or softmax_sum is None or attention_in is None:
        raise ValueError("softmax_max, softmax_sum and attention_in are needed")
    if any(o is not None for o in (drop_mask, padding_mask, softmax_in, *others)) or keep_prob != 1.0:
        raise ValueError("dropout, padding_mask, softmax_in, prefix and lengths are not supported")
    if input_layout != "BNSD" or pre_tockens < 65536 or next_tockens < 65536:
        raise ValueError("layout BNSD is supported, without a band")
    query, key, value, dy, attention_in = (_dense_rows(x) for x in (query, key, value, dy, attention_in))
    mask, causal = _additive_mask(query, key, pse_shift, atten_mask, sparse_mode)
    lse = (softmax_max + softmax_sum.log())[..., 0]
    gradients = aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
        dy, query, key, value, attention_in, lse, 0.0, causal, attn_mask=mask, scale=scale_value
    )
    return *gradients, query.new_empty([0])
