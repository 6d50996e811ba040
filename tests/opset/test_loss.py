"""Losses by their names of reductions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from torchair.opset.loss import MseLoss, NLLLoss, SmoothL1LossV2


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_reductions(reduction: str) -> None:
    x, y, target = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 3, 1])
    assert_close(lowered(MseLoss, x, y, reduction=reduction), F.mse_loss(x, y, reduction=reduction))
    smooth = lowered(SmoothL1LossV2, x, y, sigma=0.5, reduction=reduction)
    assert_close(smooth, F.smooth_l1_loss(x, y, reduction=reduction, beta=0.5))
    loss, total = lowered(NLLLoss, x, target, None, reduction=reduction, ignore_index=3)
    assert_close(loss, F.nll_loss(x, target, reduction=reduction, ignore_index=3))
    assert total == (0 if reduction == "none" else 2)
