from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as nnf

from tests.convert.conversion import check, converted_graphs, only
from tests.convert.operands import dtypes
from torchair import _torch_compat

FLOAT, HALF = torch.float32, torch.bfloat16
attention = nnf.scaled_dot_product_attention
ATTENTION, GRADIENT = "FusedInferAttentionScore", "FlashAttentionScoreGrad"


def made(dtype=FLOAT, grad=False, heads=4, kv_heads=4):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, heads, 5, 8), (2, kv_heads, 7, 8), (2, kv_heads, 7, 8))
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_(grad) for s in shapes]


def boolean_mask(*shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[..., 2, :] = False  # a row that attends to nothing
    return mask


#: name -> function of query, key, value and a mask; the mask.
CASES = {
    "plain": (lambda q, k, v, m: attention(q, k, v), None),
    "causal": (lambda q, k, v, m: attention(q, k, v, is_causal=True), None),
    "causal tall": (lambda q, k, v, m: attention(k, q, q, is_causal=True, scale=0.3), None),
    "boolean": (lambda q, k, v, m: attention(q, k, v, m), boolean_mask(2, 1, 5, 7)),
    "boolean 2-D": (lambda q, k, v, m: attention(q, k, v, m), boolean_mask(5, 7)),
    "boolean heads": (lambda q, k, v, m: attention(q, k, v, m), boolean_mask(2, 4, 5, 7)),
    "boolean keys": (
        lambda q, k, v, m: attention(q, k, v, m[:, :, :1]),
        boolean_mask(2, 1, 5, 7),
    ),
    "additive": (lambda q, k, v, m: attention(q, k, v, m.to(q.dtype)), torch.randn(2, 1, 5, 7)),
    "additive 2-D": (lambda q, k, v, m: attention(q, k, v, m.to(q.dtype)), torch.randn(5, 7)),
}


@dtypes((FLOAT, HALF), slow=(torch.float64, torch.float16))
@pytest.mark.parametrize("name", CASES)
def test_attention_equals_eager(name, dtype):
    f, mask = CASES[name]
    check(f, *made(dtype), mask, ops=[ATTENTION], unconverted_ops="error")


@dtypes((FLOAT,), slow=(HALF, torch.float64))
@pytest.mark.parametrize("name", ["plain", "causal", "boolean", "additive"])
def test_gradients_equal_eager(name, dtype):
    f, mask = CASES[name]
    check(f, *made(dtype, grad=True), mask, backward=True, ops=[ATTENTION, GRADIENT], unconverted_ops="error")


def test_grouped_queries():
    def f(q, k, v):
        return attention(q, k, v, enable_gqa=True)

    # Where the kernel takes no groups, PyTorch composes attention from its parts.
    ops = [ATTENTION] if _torch_compat.flash_attention_groups_heads() else ["SoftmaxV2"]
    check(f, *made(kv_heads=2), ops=ops, unconverted_ops="error")


def test_a_boolean_mask_is_inverted_for_the_operator():
    f, mask = CASES["boolean"]
    (graph,) = converted_graphs(f, *made(), mask)
    node = only(graph, ATTENTION)
    query, (key,), (value,), pse_shift, atten_mask, *rest = node.inputs
    assert [x.shape for x in (query, key, value)] == [(2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)]
    assert pse_shift is None
    assert atten_mask.producer.op == "LogicalNot"
    assert atten_mask.producer.inputs[0] in graph.inputs
    assert not any(rest)
    assert node.attrs["scale"] == 1 / math.sqrt(8)
    assert (node.attrs["num_heads"], node.attrs["num_key_value_heads"]) == (4, 4)
    assert (node.attrs["input_layout"], node.attrs["sparse_mode"]) == ("BNSD", 0)


def test_an_additive_mask_has_the_heads_that_the_operator_wants():
    f, mask = CASES["additive"]
    (graph,) = converted_graphs(f, *made(), mask)
    node = only(graph, ATTENTION)
    assert node.inputs[3].shape == (2, 4, 5, 7)
    assert node.inputs[4] is None


def test_causal_masks_share_one_constant():
    def f(q, k, v):
        y = attention(q, k, v, is_causal=True)
        return attention(y, k, v, is_causal=True)

    (graph,) = converted_graphs(f, *made())
    nodes: list[Any] = [node for node in graph if node.op == ATTENTION]
    assert [node.attrs["sparse_mode"] for node in nodes] == [2, 2]
    assert nodes[0].inputs[4] is nodes[1].inputs[4]
    assert nodes[0].inputs[4].shape == (2048, 2048)
    check(f, *made(), unconverted_ops="error")


def test_dropout_and_symbolic_heads_stay_torch_operators():
    check(lambda q, k, v: attention(q, k, v, dropout_p=0.5), *made(), seed=3)
    f, mask = CASES["boolean"]
    check(f, *made(), mask, dynamic=True, ops=["torch_call"])


def test_symbolic_lengths():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(32, 96)

        def forward(self, x, mask):
            q, k, v = self.qkv(x).view(x.shape[0], -1, 3, 4, 8).permute(2, 0, 3, 1, 4)
            return attention(q, k, v, mask), attention(q, k, v, is_causal=True)

    x = torch.randn(2, 5, 32)
    with torch.no_grad():
        check(Attention(), x, boolean_mask(2, 1, 5, 5), dynamic=True, ops=[ATTENTION], unconverted_ops="error")


def test_queries_that_are_views():
    def f(q, k, v):
        return attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))

    q, k, v = (x.transpose(1, 2).contiguous() for x in made())
    check(f, q, k, v, ops=[ATTENTION], unconverted_ops="error")


def test_rows_that_are_not_dense():
    def f(q, k, v):
        # Copies keep the strides of what they copy, and the kernel wants dense rows.
        q, k, v = (x.transpose(2, 3).contiguous() for x in (q, k, v))
        return attention(q, k, v).transpose(2, 3).contiguous() * 2

    transposed = [x.detach().transpose(2, 3).contiguous().requires_grad_() for x in made()]
    check(f, *transposed, backward=True, rtol=1e-6, atol=1e-6, ops=[ATTENTION, GRADIENT], unconverted_ops="error")
