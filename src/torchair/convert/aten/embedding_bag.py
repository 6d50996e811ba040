"""Converters of embedding bags."""

from __future__ import annotations

import torch

from torchair.convert.registry import register_fx_node_ge_converter
from torchair.ir import Value
from torchair.opset.embedding_bag import EMBEDDING_BAG_MODES, EmbeddingBag

aten = torch.ops.aten


@register_fx_node_ge_converter(aten._embedding_bag.default)
def embedding_bag(
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, Value, Value, Value]:
    """aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0,
    bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)
    -> (Tensor, Tensor, Tensor, Tensor)
    """
    return EmbeddingBag(  # type: ignore[no-any-return]
        weight,
        indices,
        offsets,
        per_sample_weights,
        mode=EMBEDDING_BAG_MODES[mode],
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
