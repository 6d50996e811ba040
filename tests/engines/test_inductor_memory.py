"""The inductor engine on programs where a copy and the copied memory are used side by side, against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import custom_operators
from tests.engines.test_inductor import backend, compiled
from tests.pipeline.agreement import assert_agrees

ops = custom_operators.ops
addresses: list[int] = []


def _add_row_by_row(x: Tensor, y: Tensor) -> None:
    """Writes ``x`` while it reads ``y``: wrong where they share memory."""
    addresses.append(x.data_ptr())
    for row in x:
        row.add_(y.sum())


def _write_both(x: Tensor, y: Tensor) -> None:
    for row in x:
        row.add_(y.sum())
        y.mul_(2)


custom_operators.define("memory_add(Tensor(a!) x, Tensor y) -> ()", _add_row_by_row, lambda x, y: None)
custom_operators.define("memory_both(Tensor(a!) x, Tensor(b!) y) -> ()", _write_both, lambda x, y: None)

add = ops.memory_add


def _index() -> Tensor:
    return torch.tensor([1, 0, 2])


WRITES: dict[str, Callable[[Tensor], Any]] = {
    "clone": lambda x: add(x, x.clone()),
    "to": lambda x: add(x, x.to(x.dtype, copy=True)),
    "there_and_back": lambda x: add(x, x.double().float()),
    "view_of_clone": lambda x: add(x, x.clone().view(-1)),
    "part_of_clone": lambda x: add(x, x.clone().reshape(-1)[1:]),
    "strided_clone": lambda x: add(x, x.clone().as_strided((3,), (1,))),
    "clone_of_view": lambda x: add(x, x.t().clone()),
    "rows": lambda x: add(x[1:], x[:2].clone()),
    "row": lambda x: add(x[0], x[0].clone()),
    "cat": lambda x: add(x, torch.cat([x])),
    "stack": lambda x: add(x, torch.stack([x])[0]),
    "repeat": lambda x: add(x, x.repeat(1, 1)),
    "pad": lambda x: add(x, torch.nn.functional.pad(x, (0, 0))),
    "slice_scatter": lambda x: add(x, torch.slice_scatter(torch.zeros_like(x), x)),
    "copy": lambda x: add(x, torch.empty_like(x).copy_(x)),
    "times_one": lambda x: add(x, x * 1),
    "both_written": lambda x: ops.memory_both(x, x.clone()),
    "index_put": lambda x: x.index_put_((_index(),), x.clone()),
    "index_copy": lambda x: x.index_copy_(0, _index(), x.clone()),
    "index_add": lambda x: x.index_add_(0, _index(), x.clone()),
    "scatter": lambda x: x.scatter_(0, _index().view(3, 1).expand(3, 3), x.clone()),
    "transposed": lambda x: x.copy_(x.t().clone()),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_copy_does_not_see_a_later_write(name: str) -> None:
    def program(x: Tensor) -> Tensor:
        WRITES[name](x)
        return x * 2

    assert_agrees(program, compiled(program), (torch.arange(1.0, 10).view(3, 3),))


def test_copies_of_results_and_of_what_was_written() -> None:
    def program(x: Tensor) -> Any:
        result = x + 1
        copy = result.clone()
        ops.memory_both(result, copy)
        add(x, x[0])
        again = x.clone()
        add(x, again)
        other = x.clone()
        add(other, x)
        return result, copy * 1, again, other

    assert_agrees(program, compiled(program), (torch.arange(1.0, 10).view(3, 3),))


@pytest.mark.parametrize("dynamic", [None, True])
def test_an_argument_that_is_only_written_is_written_in_place(dynamic: bool | None) -> None:
    def program(cache: Tensor, y: Tensor) -> Tensor:
        add(cache, y + 1)
        return cache.sum()

    run = compiled(program, dynamic=dynamic)
    cache = torch.zeros(4, 5)
    for value in (1.0, 2.0):
        addresses.clear()
        run(cache, torch.full((3,), value))
        assert addresses == [cache.data_ptr()]
    assert cache.tolist() == [[15.0] * 5] * 4


@pytest.mark.parametrize("engine", ["auto", "inductor", "reference"])
def test_overlapping_arguments_of_which_one_is_written(engine: str) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        add(x[0], y * 1)
        return x * 2 + y.sum()

    base = torch.arange(12.0).view(4, 3)
    run = torch.compile(program, backend=backend(engine), fullgraph=True)
    assert_agrees(program, run, (base[:2], base[1:3]))
