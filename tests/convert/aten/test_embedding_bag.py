from __future__ import annotations

import pytest
import torch
from torch.nn import functional as nnf

from tests.convert.conversion import check

TABLE = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
INDICES, OFFSETS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_equal_eager(mode):
    def f(table, indices, offsets):
        return nnf.embedding_bag(indices, table, offsets, mode=mode)

    check(f, TABLE, INDICES, OFFSETS, ops=["EmbeddingBag"], unconverted_ops="error")
    check(f, TABLE.bfloat16(), INDICES.int(), OFFSETS.int(), ops=["EmbeddingBag"], unconverted_ops="error")
    check(f, TABLE.clone().requires_grad_(), INDICES, OFFSETS, ops=["EmbeddingBag"], backward=True)


def test_weights_padding_and_the_last_offset():
    def f(table, indices, offsets, weights):
        return nnf.embedding_bag(indices, table, offsets, mode="sum", per_sample_weights=weights, padding_idx=2)

    check(f, TABLE, INDICES, OFFSETS, torch.rand(8), ops=["EmbeddingBag"], unconverted_ops="error")

    def g(table, indices, offsets):
        return nnf.embedding_bag(indices, table, offsets, include_last_offset=True)

    check(g, TABLE, INDICES, torch.tensor([0, 4, 8]), ops=["torch_call"])
    trained = TABLE.clone().requires_grad_()
    check(g, trained, INDICES, torch.tensor([0, 4, 8]), ops=["EmbeddingBag"], backward=True)


def test_indices_that_are_not_dense():
    def f(table, indices, offsets, weights):
        return nnf.embedding_bag(indices, table, offsets, mode="sum", per_sample_weights=weights)

    indices = INDICES.repeat_interleave(2)[1::2]
    offsets = OFFSETS.repeat_interleave(2)[::2]
    weights = torch.rand(16)[::2]
    check(f, TABLE, indices, offsets, weights.contiguous(), ops=["EmbeddingBag"], unconverted_ops="error")
    check(f, TABLE, indices, offsets, weights, ops=["torch_call"])
    check(f, TABLE.t().contiguous().t(), indices, offsets, weights.contiguous(), ops=["torch_call"])
