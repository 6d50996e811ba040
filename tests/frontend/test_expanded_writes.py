"""Writes into expanded tensors: PyTorch loses them when it makes a graph functional, so they are refused by name."""

from __future__ import annotations

import pytest
import torch

from tests.conformance.op_db import backend


def _zero(x: torch.Tensor) -> torch.Tensor:
    wide = x.unsqueeze(0).expand(3, 4)
    wide.zero_()
    return x


def _fill(x: torch.Tensor) -> torch.Tensor:
    wide = (x * 2).expand(2, 4)
    wide.fill_(1.0)
    return wide


@pytest.mark.parametrize(("function", "written"), [(_zero, "zero_ writes 'wide"), (_fill, "fill_ writes 'wide")])
def test_refused_with_the_name(function, written: str) -> None:
    compiled = torch.compile(function, backend=backend("reference"))
    with pytest.raises(Exception, match=written) as info:
        compiled(torch.ones(4))
    assert "TA212" in str(info.value)
    assert "several of its elements share one place in memory" in str(info.value)


def test_a_copy_may_be_written() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        wide = x.expand(3, 4).clone()
        wide.zero_()
        x.unsqueeze(0)[:, 1:].fill_(2.0)
        return wide + x

    compiled = torch.compile(function, backend=backend("reference"), fullgraph=True)
    assert torch.equal(compiled(torch.ones(4)), function(torch.ones(4)))
