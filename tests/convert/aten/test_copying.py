"""Copies, conversions and fills agree with eager, also in memory and strides."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx

from tests.convert.conversion import check, converted_graphs, converted_ops, reference_backend
from tests.convert.operands import COMPLEX, FLOATS, INTEGERS, dtypes, numbers
from torchair.convert.driver import convert_graph
from torchair.convert.registry import converters
from torchair.pipeline.builtin import load_converters

EVERY = (*FLOATS, *INTEGERS, torch.bool, *COMPLEX)


@dtypes((torch.float32, torch.int64), EVERY)
@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_conversions(dtype: torch.dtype) -> None:
    x = torch.nan_to_num(numbers(dtype), 0.0, 9.0, -9.0)
    if dtype.is_floating_point:
        x = x.clamp(0, 50)  # what a float outside the integer's range becomes depends on the processor

    def convert(x: torch.Tensor) -> list[torch.Tensor]:
        return [x.to(target) for target in EVERY]

    check(convert, x, unconverted_ops="error")


def test_conversion_of_special_values() -> None:
    x = numbers(torch.float64)
    check(lambda x: (x.bool(), x.half(), x.bfloat16(), x.float(), x.to(torch.complex64)), x, unconverted_ops="error")


@pytest.mark.parametrize("dynamic", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_copies_keep_strides(dynamic: bool) -> None:
    x = torch.randn(2, 3, 4, 5)

    def copies(x: torch.Tensor) -> Any:
        t = x.transpose(1, 2)
        return (
            t.clone(),
            t.contiguous(),
            t.clone(memory_format=torch.contiguous_format),
            x.clone(memory_format=torch.channels_last),
            x.to(memory_format=torch.channels_last),
            t.to(torch.float64),
            x.to(torch.bfloat16, memory_format=torch.channels_last),
            x[:, :1].expand(2, 3, 4, 5).clone(),
            torch.empty_like(t).copy_(x[0, 0, 0]),
            t.detach() + 1,
        )

    check(copies, x, dynamic=dynamic)
    check(lambda x: x.clone(), x[:, ::2].transpose(0, 3), dynamic=dynamic, unconverted_ops="error")


def test_a_clone_does_not_see_later_writes() -> None:
    def write_later(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = x.clone()
        same = x.to(x.dtype, copy=True)
        x.add_(1)
        middle = torch.zeros_like(x).copy_(x)
        x.mul_(2)
        return before, same, middle

    check(write_later, torch.arange(6.0), unconverted_ops="error")


def test_outputs_have_memory_of_their_own() -> None:
    def copies(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.clone(), torch.empty_like(x).copy_(x), x.to(torch.float32, copy=True), torch.empty(2, 3).copy_(x)

    x = torch.arange(3.0)
    expected = [r.clone() for r in copies(x)]
    results = torch.compile(copies, backend=reference_backend(), fullgraph=True)(x)
    x.fill_(9)
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


@dtypes((torch.float32, torch.int64), (torch.bfloat16, torch.bool, torch.uint8, torch.complex64))
def test_fills_and_copies_into(dtype: torch.dtype) -> None:
    x, y = numbers(dtype), numbers(torch.float32, 1)
    if not dtype.is_floating_point:
        y = torch.arange(71.0)

    def fill(x: torch.Tensor, y: torch.Tensor) -> Any:
        a, b, c = x.clone(), x.clone(), x.clone()
        a[::2].copy_(y[:36])
        b.fill_(1)
        c.fill_(y[5])
        return a, b, c, torch.fill(x, 0), torch.fill(x.reshape(71, 1), y[7])

    check(fill, x, y)
    check(lambda x, y: x.copy_(y[3]), x, y)


def test_fill_on_dynamic_sizes() -> None:
    check(lambda x: torch.fill(x, x.shape[0]), torch.zeros(5, 3), dynamic=True, unconverted_ops="error")


def test_dropout_without_training() -> None:
    x = torch.randn(4, 5)
    check(lambda x: torch.native_dropout(x, 0.5, False), x, unconverted_ops="error")
    check(lambda x: torch.nn.functional.dropout(x, 0.5, training=True), x, seed=3)
    with pytest.raises(BackendCompilerFailed, match="draws random numbers"):
        converted_ops(lambda x: torch.native_dropout(x, 0.5, True), x)


def test_operators() -> None:
    x = torch.randn(3, 4)
    assert converted_ops(lambda x: x.clone(), x) == ["TensorMove"]
    assert converted_ops(lambda x: x.to(torch.float16), x) == ["Cast"]
    assert converted_ops(lambda x: torch.fill(x, 2), x) == ["Fill"]
    (graph,) = converted_graphs(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]), x)
    assert [n.op for n in graph if n.op != "TensorMove"] == ["Const", "Add"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fill(x, 300),
        lambda x: x.masked_fill(x > 0, 300),
        lambda x: torch.clamp(x, max=300),
    ],
)
def test_numbers_that_the_dtype_cannot_hold(function: Any) -> None:
    x = torch.zeros(3, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="without overflow"):
        function(x)
    with pytest.raises(BackendCompilerFailed, match="value cannot be converted to type uint8 without overflow: 300"):
        converted_ops(function, x)


def test_aliases() -> None:
    """Dynamo leaves no aliases in its graphs; other tracers do."""
    aten = torch.ops.aten
    gm = make_fx(lambda x: [aten.alias.default(aten.detach.default(x)) + 1], tracing_mode="fake")(torch.randn(3))
    load_converters()
    graph = convert_graph(gm, converters.snapshot()).graph
    assert {node.op for node in graph} == {"Identity", "Const", "Add"}
