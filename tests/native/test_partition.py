"""Which parts of a graph become native programs, and in which order programs and calls run."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from tests.native.graphs import assert_close, check, lowered, native, traced
from torchair.native import NativeProgram

pytestmark = pytest.mark.usefixtures("support")


def _calls(module: fx.GraphModule) -> list[str]:
    """What the graph calls, in order."""
    return [
        "native" if isinstance(n.target, NativeProgram) else str(n.target)
        for n in module.graph.nodes
        if n.op == "call_function" and n.target is not operator.getitem
    ]


# --- views ---


def test_a_view_of_an_argument_is_an_index_map() -> None:
    module, _ = lowered(lambda x: (x.t()[1:].unsqueeze(0) * 2,), torch.randn(4, 5))
    assert _calls(module) == ["native"]
    check(lambda x: (x.t()[1:].unsqueeze(0) * 2,), torch.randn(4, 5))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((x * 2).t(), (x * 2)[1:]),
        lambda x: (x.tanh().view(20)[3:7],),
        lambda x: tuple(x.exp().unbind(0)),
        lambda x: (x.t(), x.t().relu()),
        lambda x: (x.sum(0).expand(3, 5),),
        lambda x: (x.diagonal() * 2, (x * 2).diagonal()),
    ],
    ids=["base and views", "slice", "unbind", "argument", "expanded", "diagonal"],
)
def test_views_that_are_returned_are_those_of_eager(function: Callable[..., Any]) -> None:
    check(function, torch.randn(4, 5))


def test_results_that_were_views_of_one_value_share_memory() -> None:
    """As in eager mode: who writes one of them changes the other."""
    module, _ = lowered(lambda x: (y := x * 2, y.t()), torch.randn(4, 5))
    base, view = module(torch.ones(4, 5))
    base[0, 1] = 7
    assert view[1, 0] == 7


def test_views_between_two_programs() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = (x * 2).t()
        z = torch.linalg.matrix_exp(y[:4])  # a call
        return z.t() + y[:4], y[4:].exp()

    module, record = lowered(function, torch.randn(4, 6) / 4)
    calls = _calls(module)
    assert [c for c in calls if c in ("native", "aten.linalg_matrix_exp.default")] == [
        "native",
        "aten.linalg_matrix_exp.default",
        "native",
    ]
    assert len(record.programs) == 2
    check(function, torch.randn(4, 6) / 4)


def test_views_of_what_a_call_returns() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        values, index = x.sort(-1)
        return values.t()[1:] * 2, index.flatten() + 1

    module, _ = lowered(function, torch.randn(4, 5))
    assert _calls(module) == ["aten.sort.default", "native"]
    check(function, torch.randn(4, 5))


def test_a_written_view_changes_its_base() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        y.t()[1].add_(5)
        x[2:].mul_(y[2:])
        return y, y.sum(0), x[1:3] + 1

    check(function, torch.randn(4, 5))


# --- the order of writes ---


def test_a_call_between_programs_sees_what_was_written_before_it_only() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.mul_(2)
        a = torch.linalg.matrix_exp(x)
        x.add_(y)
        b = torch.linalg.matrix_exp(x)
        x.zero_()
        return a, b, a - b

    check(function, torch.rand(3, 3), torch.rand(3, 3))


def test_a_call_that_writes_stands_between_readers() -> None:
    gm = fx.Graph()
    x, y = gm.placeholder("x"), gm.placeholder("y")
    aten = torch.ops.aten
    before = gm.call_function(aten.mul.Tensor, (x, 2))
    gm.call_function(aten.addbmm_.default, (x, y, y))  # there is no code for it
    after = gm.call_function(aten.mul.Tensor, (x, 2))
    view = gm.call_function(aten.permute.default, (x, [1, 0]))
    gm.output((before, after, gm.call_function(aten.add.Tensor, (view, 1))))
    given = [torch.randn(3, 3), torch.randn(2, 3, 3)]
    with torch._subclasses.FakeTensorMode() as mode:
        for node in gm.nodes:
            args = fx.map_arg(node.args, lambda n: n.meta["val"])
            if node.op == "placeholder":
                node.meta["val"] = mode.from_tensor(given[0] if node is x else given[1])
            elif node.op == "call_function":
                node.meta["val"] = node.target(*args)
    graph = fx.GraphModule(torch.nn.Module(), gm)
    module, record = native(graph)
    assert _calls(module) == ["native", "aten.addbmm_.default", "native"]
    assert len(record.programs) == 2
    mine, theirs = [[t.clone() for t in given] for _ in range(2)]
    assert_close([*module(*mine), *mine], [*graph(*theirs), *theirs])


_seen: list[str] = []


@torch.library.custom_op("partition_tests::note", mutates_args=())
def _note(x: Tensor, text: str) -> Tensor:
    _seen.append(text)
    return x.clone()


@_note.register_fake
def _(x: Tensor, text: str) -> Tensor:
    return torch.empty_like(x)


def test_side_effects_keep_their_order() -> None:
    """Each waits for another program: run as soon as they can, the second and the third would come first."""
    note = torch.ops.partition_tests.note

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a = note(torch.softmax(note(torch.softmax(x, -1), "one") * 2, -1), "two")
        b = note(y, "three")
        c = note(b.relu(), "four")
        d = note(x, "five")
        return a + 1, b + c, d

    module, record = lowered(function, torch.randn(4, 5), torch.randn(4, 5))
    assert record.programs
    _seen.clear()
    module(torch.randn(4, 5), torch.randn(4, 5))
    assert _seen == ["one", "two", "three", "four", "five"]


def test_random_numbers_are_drawn_in_order() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        a = torch.softmax(torch.bernoulli(x.sigmoid()) + x, -1)
        b = torch.bernoulli(x.abs() * 0 + 0.5)
        c = torch.bernoulli(a)
        return a, b * 2, c

    x = torch.randn(20, 30)
    module, record = lowered(function, x)
    assert record.programs
    torch.manual_seed(3)
    got = module(x)
    torch.manual_seed(3)
    assert_close(got, function(x))


# --- numbers ---


def test_a_size_is_a_number_that_programs_take() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (x * x.shape[0] + x.shape[1] * 2,)

    module, record = native(traced(function, [torch.randn(3, 4)], mode="symbolic"))
    assert [c for c in _calls(module) if "sym_size" not in c and "mul" not in c] == ["native"]
    assert not record.left  # nor is what looks up a size a call that is left
    for shape in ((3, 4), (7, 2)):
        x = torch.randn(shape)
        assert_close(module(x), function(x))


def test_a_number_that_decides_no_size_stays_out_of_programs() -> None:
    """A program is bound once for given sizes; such a number may be another one at each call."""

    def function(x: Tensor, n: int) -> tuple[Tensor, ...]:
        return (torch.softmax(x, -1) * n + 1,)

    module, record = native(traced(function, [torch.randn(3, 4), 5], mode="symbolic"))
    assert list(record.left) == ["aten.mul.Tensor"]
    assert "which decides no size" in record.left["aten.mul.Tensor"]
    assert _calls(module) == ["native", "aten.mul.Tensor", "native"]
    x = torch.randn(3, 4)
    for n in (5, 7, 1000):
        assert_close(module(x, n), function(x, n))
    assert [len(p._bound) for p in record.programs] == [1, 1]


def test_a_number_that_decides_a_size_is_part_of_what_a_program_is_bound_for() -> None:
    def function(x: Tensor, n: int) -> tuple[Tensor, ...]:
        return (x.new_full((n, 4), 2.0) * x[0] + n,)

    module, record = native(traced(function, [torch.randn(3, 4), 5], mode="symbolic"))
    assert len(record.programs) == 1
    x = torch.randn(3, 4)
    for n in (5, 7):
        assert_close(module(x, n), function(x, n))


# --- what is no program ---


def test_a_graph_without_work_has_no_program() -> None:
    module, record = lowered(lambda x: (x.t(), torch.zeros(3)), torch.randn(4, 5))
    assert not record.programs
    assert_close(module(torch.ones(4, 5)), [torch.ones(4, 5).t(), torch.zeros(3)])


def test_the_reason_for_each_operator_that_stays_a_call() -> None:
    def function(x: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return x @ x.t(), x.cumsum(0), c * 2, x + 1

    module, record = lowered(function, torch.randn(20, 20), torch.randn(4, dtype=torch.complex64))
    assert record.left == {
        "aten.mm.default": "its left operand has 20 rows, and code is for up to 8",
        "aten.cumsum.default": "there is no code for it",
        "aten.mul.Tensor": "it has torch.complex64",
    }
    assert "native" in _calls(module)


def test_the_graph_that_is_given_stays_as_it_is() -> None:
    gm = traced(lambda x: (torch.softmax(x, -1).t() * 2,), [torch.randn(4, 5)])
    before = gm.code
    module, _ = native(gm)
    assert gm.code == before
    assert module.code != before
