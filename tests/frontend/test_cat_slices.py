"""Concatenation without copying."""
# ruff: noqa: E501  (graphs as text)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor

from tests.custom_operators import ops
from tests.frontend.fx_graphs import optimized, record, result, targets
from tests.passes.checking import logged
from torchair.config import Options
from torchair.config.options import CaptureOptions
from torchair.frontend import OptimizedFx

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
Y = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def sliced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> OptimizedFx:
    return optimized(function, *args, cats=True, **kwargs)


def rewrites(function: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    count: int = record(sliced(function, *args, **kwargs), "remove-cat-ops").rewrites
    return count


def test_operands_are_computed_in_slices() -> None:
    with logged("npugraph_ex") as messages:
        made = sliced(lambda x, y: torch.cat([x + y, x * y], 0), X, Y)
    assert_expected_inline(
        result(made),
        """\
empty_memory_format = aten.empty.memory_format([6, 4], dtype=torch.float32, layout=torch.strided, device=cpu, pin_memory=False)
slice_tensor = aten.slice.Tensor(empty_memory_format, 0, 0, 3)
add_out = aten.add.out(arg0_1, arg1_1, out=slice_tensor)
slice_tensor_1 = aten.slice.Tensor(empty_memory_format, 0, 3, 6)
mul_out = aten.mul.out(arg0_1, arg1_1, out=slice_tensor_1)
return [empty_memory_format]
""",
    )
    said = [m for m in messages if "cat" in m.partition("graph is")[0]]
    assert said[:3] == [
        "[remove_cat_ops] Found 1 cat node(s)",
        "Optimizing cat (2 inputs)",
        "remove_cat_ops: Optimized 1 cat node(s)",
    ]


def test_switched_off() -> None:
    options = Options(capture=CaptureOptions(remove_cat_ops=False))
    made = sliced(lambda x, y: torch.cat([x + y, x * y], 0), X, Y, options=options)
    assert "aten.cat" in result(made)
    assert record(made, "remove-cat-ops").skipped == "switched off: remove_cat_ops=False"


def test_other_readers_read_the_slice() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a = x @ y.t()
        b = (x @ x.t()).abs()
        return torch.cat([a, b]), a.t() * 2, b[1:].sum()

    assert rewrites(function, X, Y) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.cat([x @ y.t(), torch.softmax(x @ x.t(), -1)]),
        lambda x, y: torch.cat([x.sum(0, keepdim=True), torch.where(x > 0, x, y), x.mean(0, keepdim=True)]),
        lambda x, y: torch.cat([x[:0] * 2, x.sin(), y[:1].exp()]),
        lambda x, y: torch.cat([x.sum(1), y.amax(1)], -1),
        lambda x, y: torch.cat([x * 2, y - 1], -2),
        lambda x, y: torch.cat([torch.addmm(y[:, :3], x, y.t()), (x @ y.t()).cumsum(1)]),
        lambda x, y: torch.cat([(x.long() * 2), y.long() + x.long()]),
        lambda x, y: torch.cat([x > 0, x < y]),
        lambda x, y: torch.cat([x.bfloat16() * 3, y.bfloat16() / 3]),
        lambda x, y: torch.cat([torch.cat([x + 1, y + 2], 1) * 2, torch.cat([x, y], 1) + 1]),
    ],
)
def test_operators(function: Callable[..., Any]) -> None:
    assert rewrites(function, X, Y) == 1


def test_a_layout_that_is_not_row_major() -> None:
    image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    made = sliced(lambda x: torch.cat([x * 2, x + 1]), image)
    assert "empty_strided" in result(made)
    assert made.gm(image)[0].is_contiguous(memory_format=torch.channels_last)


def test_symbolic_sizes() -> None:
    made = sliced(lambda x, y: torch.cat([x + 1, y * 2, (x * 3)[0:].exp()]), X, torch.randn(5, 4), dynamic=True)
    assert targets(made) == [
        *("add", "add", "empty.memory_format", "slice.Tensor", "add.out", "slice.Tensor", "mul.out"),
        *("mul.Tensor", "slice.Tensor", "exp.out"),
    ]
    (buffer,) = made.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.empty.memory_format)
    rows, columns = buffer.meta["val"].shape
    assert len(rows.node.expr.free_symbols) == 2
    assert columns.node.expr.is_Symbol


def _returned(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    return torch.cat([a, y * 2]), a


def _view_returned(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    return torch.cat([a, y * 2]), a[1]


def _in_two(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    return torch.cat([a, y * 2]), torch.cat([y * 3, a])


def _written(x: Tensor, y: Tensor) -> Tensor:
    a = x + 1
    ops.accumulate(a, y)
    return torch.cat([a, y * 2])


def _counted(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a, b = x + 1, x * 2
    return torch.cat([a, b]), b.as_strided((2,), (1,), 0) + 1


def _opaque(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a, b = x + 1, x * 2
    z = torch.cat([a, b])
    ops.accumulate(b, y)
    return z, b.sum()


@pytest.mark.parametrize(
    "function, why",
    [
        (lambda x, y: torch.cat([x + 1, y * 2], 1), "along dimension 1"),
        (lambda x, y: torch.cat([x, y * 2]), "it is not computed by an operator"),
        (lambda x, y: torch.cat([(x + 1).t(), (y * 2).t()]), "aten.t.default has no overload"),
        (lambda x, y: torch.cat([(x + 1).double(), y * 2]), "has no overload that writes a given tensor"),
        (lambda x, y: torch.cat([x + 1, y.long() + 1]), "it is torch.int64, the result torch.float32"),
        (lambda x, y: torch.cat([x + 1, torch.rand(3, 4)]), "has no overload that writes a given tensor"),
        (lambda x, y: torch.cat([torch.zeros(0) + 1, y * 2]), "not laid out as a slice"),
        (lambda x, y: torch.cat([x.t() + 1, y.t() * 2, (x.t() + 1).contiguous() * 2]), "not laid out as a slice"),
        (lambda x, y: torch.cat([ops.my_op(x, None, [], 1.0, 2), y * 2]), "has no overload"),
        (lambda x, y: torch.cat([torch.topk(x, 2, 0)[0], y * 2]), "it is not computed by an operator"),
        (_returned, "the graph returns it"),
        (_view_returned, "the graph returns it"),
        (_in_two, "it is concatenated more than once"),
        (_written, "it is not computed by an operator"),
        (_counted, "counts elements from the start"),
        (_opaque, "counts elements from the start"),
    ],
)
def test_what_stays(function: Callable[..., Any], why: str) -> None:
    with logged("npugraph_ex") as messages:
        assert rewrites(function, X, Y) == 0
    assert any(why in m for m in messages if m.startswith("[remove_cat_ops]")), messages


def test_the_same_operand_twice() -> None:
    def function(x: Tensor) -> Tensor:
        a = x + 1
        return torch.cat([a, a])

    assert rewrites(function, X) == 0
