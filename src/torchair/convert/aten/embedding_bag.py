"""Converters of embedding bags."""

from __future__ import annotations

import torch
from torch import fx

from torchair.convert.registry import register_fx_node_ge_converter
from torchair.convert.torch_calls import schema_arguments
from torchair.errors import Rejection
from torchair.ir import Value
from torchair.opset.embedding_bag import EMBEDDING_BAG_MODES, EmbeddingBag

aten = torch.ops.aten


def _embedding_bag(
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
    return EmbeddingBag(
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


def _dense(node: fx.Node) -> Rejection | None:
    given = {a.name: v for a, v in schema_arguments(node.target, node.args, node.kwargs)}  # type: ignore[arg-type]
    for name in ("weight", "per_sample_weights"):
        if given[name] is not None and not given[name].meta["val"].is_contiguous():
            return Rejection(f"the sizes of eager's results depend on the strides of {name}, which is not contiguous")
    if given["include_last_offset"] and node.target is aten._embedding_bag_forward_only.default:
        return Rejection("without a gradient and with the last offset, bag_size has another size than EmbeddingBag's")
    return None


for _overload in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default):
    register_fx_node_ge_converter(_overload, supports=_dense)(_embedding_bag)
