"""Sorting and searching agree with eager, positions of equal elements included."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.convert.conversion import check, check_samples, converted_graphs, converted_ops
from tests.convert.operands import FLOATS, INTEGERS, dtypes


def elements(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Random elements, many of them equal."""
    x = torch.randint(0, 6, shape, generator=torch.Generator().manual_seed(0)).to(dtype)
    if dtype.is_floating_point:
        x[0, 0], x[0, 1], x[1, 2], x[2, 2] = math.nan, math.nan, math.inf, -math.inf
    return x


def sorts(x: torch.Tensor) -> list[Any]:
    results: list[Any] = [
        tuple(x.sort()),
        tuple(x.sort(0, descending=True)),
        tuple(x.sort(stable=True, dim=1, descending=True)),
        x.argsort(-1),
        x.msort(),
    ]
    if x.dtype is not torch.bool:
        results += [tuple(x.topk(2)), tuple(x.topk(3, 0, largest=False)), tuple(x.topk(1, -1, sorted=False))]
    return results


@dtypes((torch.float32, torch.bfloat16, torch.int32, torch.bool), (*FLOATS, *INTEGERS))
def test_results_are_eagers(dtype: torch.dtype) -> None:
    check(sorts, elements(dtype, 5, 7), unconverted_ops="error")


@pytest.mark.parametrize("x", [torch.tensor(2.0), torch.empty(0, 3), torch.randn(2, 1)], ids=["0d", "empty", "one"])
def test_small_tensors(x: torch.Tensor) -> None:
    def fn(x: torch.Tensor) -> list[Any]:
        return [tuple(x.sort(-1)), tuple(x.sort(dim=0, stable=True)), tuple(x.topk(1)), tuple(x.topk(0))]

    check(fn, x, unconverted_ops="error")


def test_the_number_of_elements_may_be_symbolic() -> None:
    def fn(x: torch.Tensor) -> tuple[Any, ...]:
        return tuple(x.topk(x.shape[0] - 2, 1))

    (graph,) = check(fn, elements(torch.float32, 5, 7), dynamic=True, unconverted_ops="error", ops=["TopKV2"])
    (node,) = [n for n in graph if n.op == "TopKV2"]
    assert not node.outputs[0].type.is_static


def searches(sequence: torch.Tensor, values: torch.Tensor) -> list[torch.Tensor]:
    descending = sequence.flip(-1)
    sorter = torch.arange(sequence.shape[-1] - 1, -1, -1)
    return [
        torch.searchsorted(sequence, values),
        torch.searchsorted(sequence, values, right=True, out_int32=True),
        torch.searchsorted(sequence, values, side="right"),
        torch.searchsorted(descending, values, sorter=sorter),
        torch.searchsorted(sequence, 2),
        torch.searchsorted(sequence, 2.5, right=True),
        torch.bucketize(values, sequence),
        torch.bucketize(values, sequence, right=True, out_int32=True),
        torch.bucketize(2.5, sequence),
    ]


@dtypes((torch.float32, torch.int64), FLOATS)
def test_searches(dtype: torch.dtype) -> None:
    sequence = torch.tensor([0, 1, 2, 2, 3, 5, 8]).to(dtype)
    values = torch.tensor([[-1, 0, 2], [4, 8, 9]]).to(dtype)
    check(searches, sequence, values)
    check(searches, sequence, values, dynamic=True)


def test_searches_in_rows() -> None:
    sequence, values = torch.randn(3, 9).sort().values, torch.randn(3, 4)
    check(lambda s, v: torch.searchsorted(s, v), sequence, values, unconverted_ops="error", ops=["SearchSorted"])


def test_gradients() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    check(lambda x: [x.sort(0).values, x.topk(2, -1).values], x, backward=True)


def test_the_ir_operators() -> None:
    x = torch.randn(3, 4)
    assert converted_ops(lambda x: x.sort(1), x) == ["Sort", "Cast"]
    assert converted_ops(lambda x: x.topk(2), x) == ["TopKV2", "Cast"]
    assert converted_ops(lambda x: torch.bucketize(x, x[0]), x)[-1] == "SearchSorted"
    (graph,) = converted_graphs(lambda x: x.sort(dim=1, stable=True, descending=True).values, x)
    (node,) = [n for n in graph if n.op == "Sort"]
    assert node.attrs == {"axis": 1, "descending": True, "stable": True}


NAMES = ["sort", "topk", "argsort", "msort", "searchsorted", "bucketize", "kthvalue", "median", "mode"]


@pytest.mark.slow  # the first sample of every entry is among the conformance tests
@pytest.mark.parametrize("name", NAMES)
def test_op_info_samples(name: str) -> None:
    check_samples(name, torch.float32)
