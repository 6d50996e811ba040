"""Writes into expanded tensors: PyTorch loses them when it makes a graph functional, so they are refused by name."""

from __future__ import annotations

from collections.abc import Callable

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


def _masked_fill(x: torch.Tensor) -> torch.Tensor:
    wide = x.expand(2, 4)
    wide.masked_fill_(wide > 0, 3.0)
    return x


def _foreach(x: torch.Tensor) -> torch.Tensor:
    wide = x.expand(2, 4)
    torch._foreach_zero_([x.clone(), wide])
    return x


def _assign(x: torch.Tensor) -> torch.Tensor:
    wide = x.expand(2, 4)
    wide[1:] = 3.0
    return x


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (_zero, "zero_ writes 'wide"),
        (_fill, "fill_ writes 'wide"),
        (_masked_fill, "masked_fill_ writes 'wide"),
        (_foreach, "_foreach_zero_ writes 'wide"),
        (_assign, "an assignment to elements writes 'wide"),
    ],
)
def test_refused_with_the_name(function, written: str) -> None:
    compiled = torch.compile(function, backend=backend("reference"))
    with pytest.raises(Exception, match=written) as info:
        compiled(torch.ones(4))
    assert "TA212" in str(info.value)
    assert "several of its elements share one place in memory" in str(info.value)


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.index_fill_(0, torch.tensor([1]), 2),
        lambda w: w.index_put_((torch.tensor([1]),), torch.ones(1)),
        lambda w: w[0].zero_(),
        lambda w: w.unsqueeze_(0),
    ],
    ids=["index_fill_", "index_put_", "a part that is not expanded", "sizes only"],
)
def test_other_writes_are_kept(write: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        wide = x.expand(3, 4)
        write(wide)
        return wide + 1

    compiled = torch.compile(function, backend=backend("reference"), fullgraph=True)
    x, expected = torch.rand(4), torch.zeros(4)
    expected.copy_(x)
    assert torch.equal(compiled(x), function(expected))
    assert torch.equal(x, expected)


@pytest.mark.parametrize("write", [lambda w: w.masked_fill_(w > 0, 3.0), lambda w: torch._foreach_zero_([w])])
def test_an_argument_of_the_graph_is_refused_by_its_name(write: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def function(wide: torch.Tensor) -> torch.Tensor:
        write(wide)
        return wide + 1

    with pytest.raises(Exception, match="TA212"):
        torch.compile(function, backend=backend("reference"), fullgraph=True)(torch.rand(4).expand(3, 4))


def test_a_copy_may_be_written() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        wide = x.expand(3, 4).clone()
        wide.zero_()
        x.unsqueeze(0)[:, 1:].fill_(2.0)
        return wide + x

    compiled = torch.compile(function, backend=backend("reference"), fullgraph=True)
    assert torch.equal(compiled(torch.ones(4)), function(torch.ones(4)))
