"""Values that share memory in a plan: pieces of a list, positions in a storage, static outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from tests.pipeline.agreement import assert_agrees
from torchair.capture.record import record

PIECES: dict[str, Callable[[Tensor], list[Tensor] | tuple[Tensor, ...]]] = {
    "unbind": lambda x: x.unbind(0),
    "chunk": lambda x: x.chunk(2),
    "split": lambda x: x.split(1),
    "split_with_sizes": lambda x: x.split([1, 3]),
    "tensor_split": lambda x: x.tensor_split(2),
}


def check(function: Callable[..., Any], *shape: int, **options: Any) -> None:
    """Three calls with fresh values agree with eager."""
    compiled = torch.compile(function, backend="npugraph_ex", fullgraph=True, options=options or None)
    with torch.no_grad():
        for call in range(3):
            torch.manual_seed(call)
            assert_agrees(function, compiled, [torch.randn(shape)], aliasing=not options)


@pytest.mark.parametrize("kind", PIECES)
def test_a_write_through_a_piece_of_a_value(kind: str) -> None:
    def function(x: Tensor) -> Tensor:
        y = x + x
        PIECES[kind](y)[0].add_(1)
        return y * 2

    check(function, 4, 3)


@pytest.mark.parametrize("options", [{}, {"device_semantics": True}, {"input_inplace_pass": False}], ids=str)
@pytest.mark.parametrize("kind", PIECES)
def test_a_write_through_a_piece_of_an_input(kind: str, options: dict[str, Any]) -> None:
    def function(x: Tensor) -> Tensor:
        PIECES[kind](x)[0].zero_()
        return x * 1

    check(function, 4, 3, **options)


def test_pieces_of_a_planned_value_are_made_ahead() -> None:
    def function(x: Tensor) -> Tensor:
        a, b = (x * 2).chunk(2)
        return a.sin() + b

    plan = record(make_fx(function, tracing_mode="fake")(torch.ones(4, 3)), {})
    assert len(plan.held_views) == 3  # the list, and its two pieces
    assert len(plan.steps) == 3


POSITIONS: dict[str, Callable[[Tensor], Any]] = {
    "read": lambda x: torch.as_strided((x * 3) * 2, (3,), (1,), 0) + 1,
    "scatter": lambda x: torch.as_strided_scatter((x * 3).sin(), x[:2] * 2, (2,), (1,), 1) + 0,
    "view of a view": lambda x: (x * 3).sin().view(2, 4).t().as_strided((2, 2), (1, 3), 2) * 2,
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_counted_from_the_value(name: str) -> None:
    check(POSITIONS[name], 8)


def test_a_write_at_a_position() -> None:
    def function(x: Tensor) -> Tensor:
        other = x * 2
        y = (x * 3).sin()
        y.as_strided((2, 2), (1, 2), 1).add_(5)
        return y + other

    check(function, 8)


@pytest.mark.parametrize(
    "step",
    [lambda h: h @ h, lambda h: h + h[0], lambda h: h.t().contiguous(), lambda h: torch.cat([h[3:], h[:3]])],
    ids=["mm", "add", "transpose", "cat"],
)
def test_static_outputs_that_are_given_back(step: Callable[[Tensor], Tensor]) -> None:
    compiled = torch.compile(step, backend="npugraph_ex", options={"clone_output": False})
    with torch.no_grad():
        ours = theirs = torch.randn(8, 8) / 4
        for _ in range(5):
            ours, theirs = compiled(ours), step(theirs)
            assert torch.equal(ours, theirs)
        x = torch.randn(8, 8)
        assert compiled(x).data_ptr() == compiled(x).data_ptr()
