"""``get_compiler`` with graphs that do not come from AOTAutograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

import torchair
from tests.custom_operators import define, ops
from torchair.errors import MissingFakeKernelError, MutationError
from torchair.frontend.functional import functional_graph


def numbers(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def compiler() -> Callable[..., Any]:
    config = torchair.CompilerConfig()
    config.engine = "reference"
    return torchair.get_compiler(config)


def writing(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    ops.accumulate(x[1], y)
    z = x + 1
    x.mul_(2)
    return z, x[0], ops.my_inplace(x[2], y)


def reading(x: Tensor, y: Tensor) -> Tensor:
    return ops.my_op(x, None, [x, x * 2], 1.0, 2) + y


TRACERS: dict[str, Callable[..., fx.GraphModule]] = {
    "real": lambda f, *args: make_fx(f)(*[a.clone() for a in args]),
    "fake": lambda f, *args: make_fx(f, tracing_mode="fake")(*[a.clone() for a in args]),
    "symbolic": lambda f, *args: make_fx(f, tracing_mode="symbolic")(*[a.clone() for a in args]),
    "symbolic_trace": lambda f, *args: fx.symbolic_trace(f),
}


@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("program", [writing, reading])
def test_raw_graphs(program, tracer) -> None:
    args = (numbers(4, 3), numbers(3))
    gm = TRACERS[tracer](program, *args)
    run = compiler()(gm, [a.clone() for a in args])
    for _ in range(2):
        expected_args, actual_args = [a.clone() for a in args], [a.clone() for a in args]
        expected = program(*expected_args)
        actual = run(*actual_args)
        expected = expected if isinstance(expected, tuple) else (expected,)
        assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))
        assert all(torch.equal(a, b) for a, b in zip(actual_args, expected_args, strict=True))


def test_modules_with_parameters() -> None:
    module: Any = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = numbers(2, 3)
    with torch.no_grad():
        run = compiler()(fx.symbolic_trace(module), [x])
        torch.testing.assert_close(run(x)[0], module(x))
        module[0].weight.mul_(2)  # parameters are read when the graph runs
        torch.testing.assert_close(run(x)[0], module(x))


def test_functional_graphs_stay_as_they_are() -> None:
    gm: Any = make_fx(reading, tracing_mode="fake")(numbers(4, 3), numbers(3))
    gm.graph.output_node().args = ((gm.graph.output_node().args[0],),)
    assert functional_graph(gm, []) == (gm, ())


class _Counting(torch.nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x)
        return x + self.seen


def test_what_the_graph_holds_is_written() -> None:
    gm: Any = fx.symbolic_trace(_Counting())
    run = compiler()(gm, [numbers(3)])
    for calls in (1, 2):
        (y,) = run(numbers(3))
        assert torch.equal(y, numbers(3) * (calls + 1))
        assert torch.equal(gm.seen, numbers(3) * calls)


def test_an_operator_without_a_fake_kernel() -> None:
    define("no_meta(Tensor x, int n) -> Tensor", lambda x, n: x + n)
    with pytest.raises(MissingFakeKernelError) as caught:
        compiler()(fx.symbolic_trace(lambda x: ops.no_meta(x, 3)), [numbers(3)])
    assert str(caught.value) == (
        "An operator has no fake kernel (meta function) [TA214]\n"
        "  why:\n"
        "    custom_operators::no_meta was reached with fake tensors, and nothing tells the shapes and dtypes of its "
        "results\n"
        "  fix:\n"
        '    @torch.library.register_fake("custom_operators::no_meta")\n'
        "    def _(x, n):\n"
        "        return torch.empty_like(x)  # the shapes and dtypes of the results"
    )


def test_a_node_that_fails() -> None:
    define("strict(Tensor x) -> Tensor", lambda x: x, lambda x: x.nothing)
    with pytest.raises(MutationError, match="A graph cannot be made functional") as caught:
        compiler()(fx.symbolic_trace(lambda x: ops.strict(x)), [numbers(3)])
    assert "AttributeError" in str(caught.value)
