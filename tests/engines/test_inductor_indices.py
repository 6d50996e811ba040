"""Indices out of range on the inductor engine: refused, or counted from the end, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.engines.test_inductor import compiled
from tests.pipeline.agreement import assert_agrees
from torchair.errors import ExecutionError

functional = torch.nn.functional

#: Eager takes no negative index.
STRICT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "embedding": lambda w, i: functional.embedding(i, w),
    "embedding_with_padding": lambda w, i: functional.embedding(i, w, padding_idx=1),
    "index_select": lambda w, i: w.index_select(0, i),
    "index_select_in_rows": lambda w, i: w.index_select(1, i),
    "index_add": lambda w, i: w.index_add(0, i, torch.ones(2, 3)),
    "index_copy": lambda w, i: w.index_copy(0, i, torch.ones(2, 3)),
    "gather": lambda w, i: w.gather(0, i.view(2, 1)),
    "scatter": lambda w, i: w.scatter(0, i.view(2, 1), 1.0),
    "scatter_add": lambda w, i: w.scatter_add(0, i.view(2, 1), torch.ones(2, 1)),
    "nll_loss": lambda w, i: functional.nll_loss(w[:2], i),
}
FROM_THE_END: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "getitem": lambda w, i: w[i],
    "take": lambda w, i: w.take(i),
    "index_fill": lambda w, i: w.index_fill(0, i, 1.0),
}


@pytest.mark.parametrize("name", STRICT)
def test_a_negative_index_is_refused(name: str) -> None:
    program = STRICT[name]
    weight = torch.randn(4, 3)
    run = compiled(program)
    assert_agrees(program, run, (weight, torch.tensor([2, 1])))
    for wrong in (torch.tensor([0, -1]), torch.tensor([9, 0])):
        with pytest.raises((IndexError, RuntimeError)):
            program(weight, wrong)
        with pytest.raises(ExecutionError):
            run(weight, wrong)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_indices_of_both_dtypes(dtype: torch.dtype) -> None:
    for name in ("embedding", "index_select"):
        program = STRICT[name]
        run = compiled(program, dynamic=True)
        for rows in (4, 6):
            assert_agrees(program, run, (torch.randn(rows, 3), torch.tensor([2, 3], dtype=dtype)))


@pytest.mark.parametrize("name", FROM_THE_END)
def test_a_negative_index_counts_from_the_end(name: str) -> None:
    program = FROM_THE_END[name]
    assert_agrees(program, compiled(program), (torch.randn(4, 3), torch.tensor([-1, 0])))
