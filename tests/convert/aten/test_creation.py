"""Tensors made from numbers agree with eager, in the operators of Ascend IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.convert.conversion import check, check_samples, converted_ops, reference_backend
from tests.convert.operands import all_of, dtypes

Functions = dict[str, Callable[..., Any]]

FILLS: Functions = {
    "full": lambda x: (torch.full((2, 3), 1.5), torch.full((), 7), torch.full((0,), True), torch.full((2,), -0.0)),
    "full of a dtype": lambda x: (torch.full((2,), 3.7, dtype=torch.int32), torch.full((2,), 2, dtype=torch.bool)),
    "like": lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 1), torch.full_like(x, 2)),
    "like of a dtype": lambda x: (
        torch.zeros_like(x, dtype=torch.int16),
        torch.ones_like(x, dtype=torch.float64),
        torch.full_like(x, 3, dtype=torch.float16),
    ),
    "zeros": lambda x: (torch.zeros(2, 3), torch.ones(3, dtype=torch.int64), torch.zeros(()), torch.ones(0, 2)),
    "new": lambda x: (x.new_zeros(2), x.new_ones(2, 1), x.new_full((3,), 1), x.new_full((), 2, dtype=torch.float32)),
    "written": lambda x: (x.clone().zero_(), x.clone().fill_(1)),
    "strides": lambda x: (
        torch.zeros_like(x.mT),
        torch.empty_like(x.mT).fill_(1),
        x.new_empty_strided((2, 3), (1, 2)).fill_(1),
    ),
}
SEQUENCES: Functions = {
    "arange": lambda: (torch.arange(5), torch.arange(2, 9), torch.arange(9, 2, -3), torch.arange(0)),
    "arange of floats": lambda: (torch.arange(0.5, 3), torch.arange(0, 1, 0.1), torch.arange(1, 0, -0.3)),
    "arange of a dtype": lambda: tuple(
        torch.arange(1, 7, 2, dtype=d) for d in (torch.int32, torch.uint8, torch.float32, torch.float64, torch.bfloat16)
    ),
    "arange of floats as integers": lambda: torch.arange(0.5, 5, 1.5, dtype=torch.int64),
    "linspace": lambda: (
        torch.linspace(0, 1, 7),
        torch.linspace(3, -3, 5, dtype=torch.float64),
        torch.linspace(1, 2, 1),
    ),
    "logspace": lambda: torch.logspace(0, 1, 4, 2),
    "indices": lambda: (torch.tril_indices(3, 4, 1), torch.triu_indices(4, 3)),
    "eye": lambda: (torch.eye(3), torch.eye(2, 4, dtype=torch.int64)),
    "tensors": lambda: (torch.tensor([1, 2, 3]), torch.tensor(2.5), torch.scalar_tensor(3), torch.tensor([[True]])),
}


@dtypes((torch.float32, torch.int64), (torch.bool, torch.bfloat16, torch.uint8, torch.complex64))
@pytest.mark.parametrize("dynamic", [False, True])
def test_fills_equal_eager(dtype, dynamic):
    x = torch.ones(2, 3).to(dtype)
    check(lambda x: all_of(FILLS, x), x, dynamic=dynamic, unconverted_ops="error")


def test_sequences_equal_eager():
    check(lambda: all_of(SEQUENCES), unconverted_ops="error")


def test_symbolic_ends():
    def fn(x, n):
        rows, columns = x.shape
        return (
            torch.arange(rows),
            torch.arange(1, columns + 1, dtype=torch.float32),
            torch.arange(rows * columns, 0, -n, dtype=torch.int32),
            torch.arange(n, rows + columns, n, dtype=torch.bfloat16),
            torch.full((n, rows), 2.0),
            torch.full((2,), rows),
            torch.full((2,), n, dtype=torch.float32),
            torch.tensor(columns) + torch.scalar_tensor(rows),
            torch.scalar_tensor(rows, dtype=torch.int64) + 2**40 > torch.tensor(columns, dtype=torch.int32),
            x.new_zeros(columns, rows),
        )

    check(fn, torch.randn(4, 7), 3, dynamic=True, unconverted_ops="error")


def test_a_tensor_of_a_symbolic_number_is_no_number():
    def fn(x):
        return torch.gcd(x, torch.scalar_tensor(x.shape[0], dtype=torch.int64))

    check(fn, torch.arange(6), dynamic=True, ops=["torch_call"])


def test_elements_computed_now_need_known_numbers():
    (graph,) = check(lambda x: torch.linspace(0, x.shape[0], 7), torch.ones(3), dynamic=True)
    assert [node.call.target for node in graph if node.call is not None] == ["aten::linspace.default"]


def test_memory_that_is_not_set_has_the_right_type():
    def fn(x):
        made = (
            torch.empty(2, 3),
            torch.empty_like(x, dtype=torch.int32),
            x.new_empty(4),
            torch.empty_strided((2, 3), (1, 2)),
        )
        return [(m * 0 + 1) if m.dtype is torch.int32 else torch.zeros_like(m) for m in made]

    check(fn, torch.ones(2, 2), unconverted_ops="error", ops=["Empty"])


CONSTANTS: Functions = {
    "arange": lambda x: torch.arange(3.0),
    "view": lambda x: torch.linspace(0, 1, 6).view(2, 3),
    "tensor": lambda x: torch.tensor([1, 2, 3]),
    "scalar": lambda x: torch.scalar_tensor(2.0),
    "range": lambda x: torch.arange(5),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_the_same_in_the_next_run(name):
    compiled = torch.compile(CONSTANTS[name], backend=reference_backend(), fullgraph=True)
    first = compiled(torch.ones(1))
    expected = first.clone()
    first.add_(100)
    assert torch.equal(compiled(torch.ones(1)), expected)


def test_the_ir_operators():
    x = torch.ones(2, 3)
    assert converted_ops(lambda x: torch.full((2,), 3.0), x) == ["Fill"]
    assert converted_ops(lambda x: torch.zeros_like(x), x) == ["ZerosLike"]
    assert converted_ops(lambda x: torch.ones_like(x), x) == ["OnesLike"]
    assert converted_ops(lambda x: torch.arange(100), x) == ["Range"]
    assert converted_ops(lambda x: torch.arange(100, dtype=torch.int32), x) == ["Range", "Cast"]


def test_a_number_too_large_is_refused():
    with pytest.raises(Exception, match="without overflow"):
        check(lambda x: torch.full_like(x, 300), torch.ones(2, dtype=torch.int8))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["full", "full_like", "new_full", "zeros", "ones_like", "arange", "linspace"])
def test_samples(name):
    check_samples(name, torch.float32)
