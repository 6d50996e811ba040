"""Operators that take functions: refused by name in GE mode, and right in capture mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conformance.op_db import CAPTURE, backend
from tests.convert.conversion import reference_backend
from tests.errors.texts import text_of
from tests.pipeline.agreement import assert_agrees
from torchair.errors import UnconvertedOperatorsError


class Branches(nn.Module):
    """Branches that read a parameter, and write what they made."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        def one(x: Tensor) -> Tensor:
            y = self.linear(x)
            y.add_(1)
            return y

        return torch.cond(x.sum() > 0, one, lambda x: x.cos(), (x,)) * 2


def while_loop(x: Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    return while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v * 2 + i), (x.new_zeros(()), x.sin()))


def mapped(x: Tensor) -> Any:
    from torch._higher_order_ops.map import map as typed

    over_rows: Any = typed
    return over_rows(lambda row: row.sin() + 1, x)


def _inner(x: Tensor) -> Tensor:
    return x.sin() * 2


if hasattr(torch.compiler, "nested_compile_region"):
    _inner = torch.compiler.nested_compile_region(_inner)


def region(x: Tensor) -> Tensor:
    return _inner(_inner(x)) + 1


def printed(x: Tensor) -> Tensor:
    from torch._higher_order_ops.print import print as print_in_graph

    print_in_graph("the number {n}", n=3)
    return x + 1


REGIONS = pytest.mark.skipif(
    not hasattr(torch.compiler, "nested_compile_region"), reason="this PyTorch has no nested_compile_region"
)
PRINTS = pytest.mark.skipif(
    not hasattr(torch.ops.higher_order, "print"), reason="this PyTorch has no operator that prints"
)

#: Name of the operator -> program.
PROGRAMS = [
    pytest.param("cond", Branches, id="cond"),
    pytest.param("while_loop", lambda: while_loop, id="while_loop"),
    pytest.param("map_impl", lambda: mapped, id="map"),
    pytest.param("invoke_subgraph", lambda: region, id="invoke_subgraph", marks=REGIONS),
    pytest.param("with_effects", lambda: printed, id="print", marks=PRINTS),
]


@pytest.mark.parametrize(("name", "make"), PROGRAMS)
def test_ge_mode_names_what_it_refuses(name: str, make: Callable[[], Callable[..., Any]]) -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught, torch.no_grad():
        torch.compile(make(), backend=reference_backend(), fullgraph=True)(torch.ones(3, 3))
    error = caught.value.inner_exception
    assert isinstance(error, UnconvertedOperatorsError)
    assert error.why[0].startswith(f"{name}: it is a higher-order operator")
    assert "npugraph_ex" in text_of(error)
    assert "test_higher_order.py" in error.where[0]


@pytest.mark.parametrize(("name", "make"), PROGRAMS)
def test_capture_mode_agrees_with_eager(name: str, make: Callable[[], Callable[..., Any]]) -> None:
    used, function = backend(CAPTURE), make()
    compiled = torch.compile(function, backend=used, fullgraph=True)
    with torch.no_grad():
        for start in (0.5, -2.0, 1.5):
            assert_agrees(function, compiled, [torch.arange(9.0).reshape(3, 3) / 9 + start])
    (graph,) = used.graphs
    assert len(graph.captures) == 1
    assert not graph.fallbacks


@PRINTS
def test_a_print_is_repeated_in_each_replay(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = torch.compile(printed, backend="npugraph_ex", fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(2))
    assert capfd.readouterr().out.count("the number 3") == 3


def test_branches_train_in_capture_mode() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * x, (x,)).sum()

    compiled = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    for start in (1.0, -1.0):
        got, want = (torch.full((3,), start, requires_grad=True) for _ in range(2))
        compiled(got).backward()
        function(want).backward()
        torch.testing.assert_close(got.grad, want.grad)
