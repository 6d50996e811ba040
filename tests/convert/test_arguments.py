"""The usual refusals of converters."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tests.convert.conversion import check
from torchair.convert.arguments import argument, numbers_known, positions_fit_int32
from torchair.errors import Rejection

aten = torch.ops.aten


def call(overload: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A call whose tensors are placeholders."""
    graph = fx.Graph()

    def stand_in(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        node = graph.placeholder("x")
        node.meta["val"] = value
        return node

    return graph.call_function(overload, tuple(map(stand_in, args)), kwargs)


def test_arguments_by_name() -> None:
    node = call(aten.topk.default, torch.empty(3), 2, largest=False)
    assert [argument(node, name) for name in ("k", "dim", "largest", "sorted")] == [2, -1, False, True]
    keyword_only = call(aten.var.correction, torch.empty(3), [0], correction=3)
    assert argument(keyword_only, "correction") == 3


def test_a_symbolic_number_cannot_be_an_attribute() -> None:
    supports = numbers_known("k")
    assert supports(call(aten.topk.default, torch.empty(3), 2)) is None
    symbolic = call(aten.topk.default, torch.empty(3), torch.empty(()))
    assert supports(symbolic) == Rejection("k is symbolic, and becomes an attribute", fix="Pass k as a constant.")


def test_a_call_with_a_symbolic_attribute_stays_a_torch_call() -> None:
    def fn(x: torch.Tensor, target: torch.Tensor, ignored: int) -> torch.Tensor:
        return torch.nn.functional.nll_loss(x, target, ignore_index=ignored)

    (graph,) = check(fn, torch.randn(3, 6), torch.tensor([0, 2, 1]), 2, dynamic=True)
    assert "torch_call" in {node.op for node in graph}


def test_positions_of_very_long_dimensions() -> None:
    short = torch.empty(2**31, dtype=torch.int8, device="meta")
    long = torch.empty(2**31 + 1, dtype=torch.int8, device="meta")
    assert positions_fit_int32(call(aten.sort.default, short)) is None
    rejection = positions_fit_int32(call(aten.sort.default, long))
    assert rejection is not None
    assert rejection.reason == ("the Ascend operator returns positions as int32, and a dimension is longer than that")
