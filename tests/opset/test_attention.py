"""Layouts and masks that no converter makes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as nnf

from tests.opset.test_matrix import lowered
from torchair.opset.attention import FlashAttentionScoreGrad, FusedInferAttentionScore

Q, K, V = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
HEADS: dict[str, Any] = {"num_heads": 4, "num_key_value_heads": 2, "scale": 0.3}


def attention(mask: torch.Tensor | None = None, **options: Any) -> torch.Tensor:
    return nnf.scaled_dot_product_attention(Q, K, V, mask, scale=0.3, enable_gqa=True, **options)


def run(*masks: torch.Tensor | None, **attrs: Any) -> Any:
    return lowered(FusedInferAttentionScore, Q, [K], [V], *masks, **{"input_layout": "BNSD", **HEADS, **attrs})


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH"])
def test_layouts(layout):
    def arranged(x: torch.Tensor) -> torch.Tensor:
        if layout == "BNSD":
            return x
        return x.transpose(1, 2) if layout == "BSND" else x.transpose(1, 2).flatten(2)

    y, lse = lowered(FusedInferAttentionScore, arranged(Q), [arranged(K)], [arranged(V)], input_layout=layout, **HEADS)
    torch.testing.assert_close(y, arranged(attention()))
    assert lse.shape == (0,)


def test_logarithm_of_the_sums():
    _, lse = run(softmax_lse_flag=True)
    scores = 0.3 * Q @ K.repeat_interleave(2, 1).mT
    torch.testing.assert_close(lse, scores.logsumexp(-1, keepdim=True))
    assert lse.dtype is torch.float32


@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 7), (2, 1, 5, 7)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.uint8])
def test_true_is_not_attended(shape, dtype):
    hidden = torch.rand(shape) > 0.6
    hidden[..., 0] = False
    attended = ~(hidden.unsqueeze(1) if hidden.dim() == 3 else hidden)
    for mode in (0, 1):
        torch.testing.assert_close(run(None, hidden.to(dtype), sparse_mode=mode)[0], attention(attended))


def test_both_masks():
    hidden, shift = torch.rand(2, 1, 5, 7) > 0.6, torch.randn(2, 4, 5, 7)
    torch.testing.assert_close(run(shift, hidden)[0], attention(shift.masked_fill(hidden, -torch.inf)))


def test_causal_from_either_corner():
    triangle = torch.ones(2048, 2048, dtype=torch.bool).triu(1)
    torch.testing.assert_close(run(None, triangle, sparse_mode=2)[0], attention(is_causal=True))
    bottom_right = torch.ones(5, 7, dtype=torch.bool).tril(2)
    torch.testing.assert_close(run(None, triangle, sparse_mode=3)[0], attention(bottom_right))


def test_gradients_take_the_maximum_and_the_sum():
    q, k, v = (x.clone().requires_grad_() for x in (Q, K.repeat_interleave(2, 1), V.repeat_interleave(2, 1)))
    y = nnf.scaled_dot_product_attention(q, k, v, scale=0.3)
    dy = torch.randn_like(y)
    scores = 0.3 * q @ k.mT
    largest = scores.amax(-1, keepdim=True)
    total = (scores - largest).exp().sum(-1, keepdim=True)
    rows = [x.detach().expand(2, 4, 5, 8) for x in (largest, total)]
    dq, dk, dv, dpse = lowered(
        FlashAttentionScoreGrad,
        *(x.detach() for x in (q, k, v)),
        dy,
        *[None] * 4,
        *rows,
        None,
        y.detach(),
        scale_value=0.3,
        head_num=4,
        input_layout="BNSD",
    )
    torch.testing.assert_close((dq, dk, dv), torch.autograd.grad(y, (q, k, v), dy), rtol=1e-4, atol=1e-5)
    assert dpse.shape == (0,)


def test_what_is_not_supported_is_refused():
    with pytest.raises(ValueError, match="input_layout TND is not supported"):
        run(input_layout="TND")
    with pytest.raises(ValueError, match="sparse_mode 4 is not supported"):
        run(sparse_mode=4)
    with pytest.raises(ValueError, match="sparse_mode 1 needs atten_mask"):
        run(sparse_mode=1)
    with pytest.raises(ValueError, match="sparse_mode 2 with pse_shift"):
        run(torch.zeros(2, 4, 5, 7), sparse_mode=2)
    with pytest.raises(ValueError, match="not supported: pre_tokens"):
        run(pre_tokens=3)
    with pytest.raises(ValueError, match="without any input after atten_mask"):
        run(None, None, torch.tensor([3, 4]))
