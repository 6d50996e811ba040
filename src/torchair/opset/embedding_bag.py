"""Rows of a table, reduced in bags."""

from __future__ import annotations

import torch
from torch import Tensor

from torchair.ir import Value
from torchair.opset.operator import ascend_op

__all__ = ["EMBEDDING_BAG_MODES", "EmbeddingBag"]

#: torch's numbers of the modes are their positions.
EMBEDDING_BAG_MODES = ("sum", "mean", "max")


@ascend_op(outputs=("y", "offset2bag", "bag_size", "max_indices"), source="CANN op_proto: nn_norm_ops.h")
def EmbeddingBag(
    weight: Value,
    indices: Value,
    offsets: Value | None = None,
    per_sample_weights: Value | None = None,
    *,
    mode: str = "mean",
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, Value, Value, Value]:
    """The sum, mean or maximum of the rows of a table in each bag of indices; and, for the gradient, what went where.

    Shapes: ``weight`` is ``[rows, d]``, ``indices`` ``[n]``, ``offsets`` ``[bags]`` (``[bags + 1]`` with
    ``include_last_offset``), ``per_sample_weights`` ``[n]`` (with mode sum); ``y`` is ``[bags, d]``, ``offset2bag``
    ``[n]``, ``bag_size`` ``[bags]``, ``max_indices`` ``[bags, d]`` with mode max (the auxiliary ones may be empty where
    no gradient needs them). dtypes: ``weight`` floating point, ``indices`` and ``offsets`` int32 or int64.
    """
    raise NotImplementedError


@EmbeddingBag.lower
def _(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor | None,
    per_sample_weights: Tensor | None,
    *,
    mode: str,
    scale_grad_by_freq: bool,
    sparse: bool,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if offsets is None:
        raise ValueError("offsets are needed")
    # The kernel reads these as if they were dense.
    results: tuple[Tensor, Tensor, Tensor, Tensor] = torch.ops.aten._embedding_bag.default(
        weight,
        indices.contiguous(),
        offsets.contiguous(),
        scale_grad_by_freq,
        EMBEDDING_BAG_MODES.index(mode),
        sparse,
        per_sample_weights if per_sample_weights is None else per_sample_weights.contiguous(),
        include_last_offset,
        padding_idx,
    )
    return results
