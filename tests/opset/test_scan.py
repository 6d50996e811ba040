"""Exclusive and reversed scans, which no converter makes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from tests.opset.test_matrix import lowered
from torchair.opset.operator import AscendOp
from torchair.opset.scan import Cumprod, Cumsum, CumulativeLogsumexp


def expected(op: AscendOp, row: list[float], exclusive: bool, reverse: bool) -> list[float]:
    """The definition, for one row."""
    start, step = {
        "Cumsum": (0.0, lambda a, b: a + b),
        "Cumprod": (1.0, lambda a, b: a * b),
        "CumulativeLogsumexp": (-math.inf, lambda a, b: math.log(math.exp(a) + math.exp(b))),
    }[op.name]
    row = row[::-1] if reverse else row
    sums = list(itertools.accumulate(row, step, initial=start))
    result = sums[:-1] if exclusive else sums[1:]
    return result[::-1] if reverse else result


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("op", [Cumsum, Cumprod, CumulativeLogsumexp], ids=lambda op: op.name)
def test_scans(op: AscendOp, exclusive: bool, reverse: bool) -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for axis in (1, [-1]):
        y = lowered(op, x, axis, exclusive=exclusive, reverse=reverse)
        rows = [expected(op, row, exclusive, reverse) for row in x.tolist()]
        assert_close(y, torch.tensor(rows, dtype=torch.float64))


@pytest.mark.parametrize("op", [Cumsum, Cumprod], ids=lambda op: op.name)
def test_empty_rows(op: AscendOp) -> None:
    assert lowered(op, torch.empty(2, 0), 1, exclusive=True, reverse=True).shape == (2, 0)


@pytest.mark.parametrize("op", [Cumsum, Cumprod], ids=lambda op: op.name)
def test_small_integers_keep_their_dtype(op: AscendOp) -> None:
    x = torch.tensor([100, 100], dtype=torch.int8)
    y = lowered(op, x, 0, exclusive=False, reverse=False)
    assert y.dtype is torch.int8
    assert y[1] == {"Cumsum": -56, "Cumprod": 16}[op.name]  # modulo 256
