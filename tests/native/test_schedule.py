"""Which operators become one function, and where workers wait."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor

from tests.native.graphs import check, native, traced
from tests.native.random_graphs import random_case
from torchair.native import NativeProgram, PartitionRecord
from torchair.native.emit import Kernel
from torchair.native.operations import Update
from torchair.native.schedule import Group

pytestmark = pytest.mark.usefixtures("support")

#: Rows and columns that are work enough for several workers.
LARGE = (300, 301)


def _functions(record: PartitionRecord) -> list[tuple[str, tuple[str, ...], bool]]:
    """Of each function: its kind, its operators, and whether workers wait before it."""
    return [
        (g.kind, tuple(line.partition(":")[0] for line in k.comment), g.barrier)
        for p in record.programs
        for g, k in zip(p.groups, p.kernels, strict=True)
    ]


def _shapes(function: Callable[..., Any], *arguments: Tensor) -> list[tuple[str, bool]]:
    return [(kind, barrier) for kind, _, barrier in _functions(check(function, *arguments))]


# --- what is one function ---


def test_operators_over_the_same_elements_are_one_function() -> None:
    x, row, column = torch.randn(LARGE), torch.randn(301), torch.randn(300, 1)
    assert _shapes(lambda x, r, c: (torch.relu(x * 2) + r, x.tanh() * c), x, row, column) == [("elements", False)]


def test_operators_over_other_elements_are_functions_of_their_own() -> None:
    assert _shapes(lambda x, y: (x * 2, y * 2), torch.randn(LARGE), torch.randn(70, 80)) == [("elements", False)] * 2


def test_views_are_part_of_the_function_that_reads_through_them() -> None:
    x = torch.randn(4, 6, 50)
    record = check(lambda x: (x.tanh().transpose(0, 1).reshape(6, 200)[1:] * 2,), x)
    assert [kind for kind, _, _ in _functions(record)] == ["elements"]


def test_what_is_done_to_a_product_is_part_of_it() -> None:
    x, w, b, y = torch.randn(4, 64), torch.randn(64, 96), torch.randn(96), torch.randn(4, 96)
    record = check(lambda x, w, b, y: (torch.nn.functional.silu(torch.addmm(b, x, w)) * y,), x, w, b, y)
    assert [kind for kind, _, _ in _functions(record)] == ["product"]


def test_products_of_one_left_operand_share_a_loop() -> None:
    x, weights = torch.randn(2, 64), [torch.randn(96, 64) for _ in range(3)]
    record = check(lambda x, a, b, c: (x @ a.t(), x @ b.t(), torch.relu(x @ c.t())), x, *weights)
    (program,) = record.programs
    assert [len(g.products) for g in program.groups] == [3]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, w, v: (x @ w, y @ w),  # other left operands
        lambda x, y, w, v: (x @ w, x @ v[:, :90]),  # other widths
        lambda x, y, w, v: (x @ w @ v.t(), x),  # one after the other
    ],
    ids=["left operands", "widths", "chain"],
)
def test_other_products_are_functions_of_their_own(function: Callable[..., Any]) -> None:
    arguments = [torch.randn(2, 64), torch.randn(2, 64), torch.randn(64, 96), torch.randn(64, 96)]
    assert [kind for kind, _ in _shapes(function, *arguments)] == ["product", "product"]


def test_normalization_is_one_function() -> None:
    def function(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (torch.nn.functional.layer_norm(x, (301,), w, b) * 2,)

    assert _shapes(function, torch.randn(LARGE), torch.randn(301), torch.randn(301)) == [("rows", False)]


def test_what_is_read_at_another_place_is_made_by_an_earlier_function() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.softmax(x, -1)
        return (y + y.t(),)

    assert _shapes(function, torch.randn(300, 300)) == [("rows", False), ("elements", True)]


def test_nothing_joins_a_function_across_one_that_it_depends_on() -> None:
    """The last operator passes over the same elements as the first, but needs what stands between them."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        a = torch.softmax(x, -1)
        b = a.sum(0)
        return a, b, y * b

    functions = _functions(check(function, torch.randn(LARGE), torch.randn(LARGE)))
    assert [operators for _, operators, _ in functions] == [("amax", "sum_1", "div"), ("sum_2",), ("mul",)]


def test_an_independent_operator_joins_an_earlier_function() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x + 1, y.sum(1), x * 3

    functions = _functions(check(function, torch.randn(LARGE), torch.randn(200, 205)))
    assert [operators for _, operators, _ in functions] == [("sum_1",), ("add", "mul")]


def test_functions_stay_small() -> None:
    record = check(lambda x: tuple(x + i for i in range(60)), torch.randn(LARGE))
    (program,) = record.programs
    assert sum(len(g.members) for g in program.groups) == 60
    assert max(len(g.members) for g in program.groups) == 24
    assert not any(g.barrier for g in program.groups)


# --- writes ---


def test_a_write_at_the_same_place_is_part_of_the_function() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.mul_(2).add_(y)
        return (x.tanh(),)

    assert _shapes(function, torch.randn(LARGE), torch.randn(LARGE)) == [("elements", False)]


def test_what_is_overwritten_is_read_everywhere_before() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        x.copy_(x.t() * 1)
        return (x * 2,)

    shapes = _shapes(function, torch.randn(300, 300))
    assert len(shapes) > 1
    assert shapes[-1] == ("elements", True)


def test_writes_where_data_says_are_one_workers() -> None:
    def function(x: Tensor, i: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.index_put_((i,), y, accumulate=True)
        return (x.relu(),)

    x, i = torch.randn(LARGE), torch.randint(0, 300, (400,))
    (program,) = check(function, x, i, torch.randn(400, 301)).programs
    (scatter,) = [g for g in program.groups if any(isinstance(m.operation, Update) for m in g.members)]
    assert scatter.workers == 1
    assert len(scatter.members) == 1


def test_parts_of_a_concatenation_do_not_wait_for_each_other() -> None:
    parts = [torch.randn(n, 301) for n in (100, 200, 50)]
    assert not any(barrier for _, barrier in _shapes(lambda a, b, c: (torch.cat([a * 2, b, c.exp()]),), *parts))


# --- who works, who waits ---


def test_little_work_is_one_workers_and_waits_for_nobody() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.softmax(x, -1)
        return (y + y.t(),)

    (program,) = check(function, torch.randn(6, 6)).programs
    assert [(g.workers, g.barrier) for g in program.groups] == [(1, False)] * 2


def test_sizes_that_change_may_be_much_work() -> None:
    _, record = native(traced(lambda x: (x * 2,), [torch.randn(3, 4)], mode="symbolic"))
    (program,) = record.programs
    assert [g.workers for g in program.groups] == [0]


def _accesses(kernel: Kernel) -> dict[Any, bool]:
    """Buffers of a function, as its text has them: whether it writes."""
    declared = re.findall(r"(const )?[\w:]+\* (in|out|errors)\d+ = static_cast", kernel.body)
    assert len(declared) == len(kernel.pointers)
    return {b: not const for b, (const, kind) in zip(kernel.pointers, declared, strict=True) if kind != "errors"}


def _disjoint(group: Group) -> set[Any]:
    return {m.out for m in group.members if isinstance(m.operation, Update) and m.operation.disjoint}


def _unordered(program: NativeProgram) -> Iterator[tuple[str, str, str]]:
    """Pairs of functions that may run at the same time although one of them writes what the other one uses."""
    stages = list(zip(program.groups, program.kernels, strict=True))
    for (i, (a, ka)), (j, (b, kb)) in itertools.combinations(enumerate(stages), 2):
        if a.workers == b.workers == 1 or any(program.groups[n].barrier for n in range(i + 1, j + 1)):
            continue
        first, second = _accesses(ka), _accesses(kb)
        for buffer in first.keys() & second.keys():
            if (first[buffer] or second[buffer]) and buffer not in _disjoint(a) & _disjoint(b):
                yield (buffer.name, ka.body, kb.body)


def _overlapping(program: NativeProgram) -> Iterator[tuple[str, str]]:
    """Intermediate values that lie in the same memory while both may be in use."""
    program._addresses = [0] * len(program.kernels)  # nothing runs
    sizes: Any = {symbol: 5 for _, _, symbol in program.symbols}
    bound = program.bind({s: sympy.Integer(n) for s, n in sizes.items()})
    places: dict[Any, int] = {}
    uses: dict[Any, list[int]] = {}
    pointers = iter(bound.pointers)
    for stage, kernel in enumerate(program.kernels):
        for buffer, (kind, offset) in zip(
            kernel.pointers, itertools.islice(pointers, len(kernel.pointers)), strict=True
        ):
            if kind == 2 and buffer.role != "errors":
                places[buffer] = offset
                uses.setdefault(buffer, []).append(stage)
    for a, b in itertools.combinations(places, 2):
        (x, m), (y, n) = ((places[c], _bytes(c, sizes)) for c in (a, b))
        early, late = sorted((a, b), key=lambda c: uses[c][0])
        apart = any(program.groups[k].barrier for k in range(uses[early][-1] + 1, uses[late][0] + 1))
        if x < y + n and y < x + m and not apart:
            yield (a.name, b.name)


def _bytes(buffer: Any, sizes: Any) -> int:
    count = 1
    for n in buffer.shape:
        count *= int(n.subs(sizes))
    return max(count, 1) * int(buffer.dtype.itemsize)


@pytest.mark.parametrize(("mode", "writes"), [("fake", False), ("symbolic", False), ("fake", True)])
def test_what_runs_at_the_same_time_uses_other_memory(mode: str, writes: bool) -> None:
    """Checked with the pointers in the text of functions, without what the schedule knows."""
    seen = 0
    for seed in range(5000, 5025):
        case = random_case(seed, writes=writes)
        try:
            gm = traced(case.function, case.fresh(), mode=mode)
        except Exception:  # noqa: BLE001, S112 (whatever PyTorch says about a graph that was made at random)
            continue
        _, record = native(gm, in_place=writes)
        for program in record.programs:
            seen += len(program.groups) > 1
            assert not list(_unordered(program)), f"seed {seed}"
            assert not list(_overlapping(program)), f"seed {seed}"
    assert seen > 5


def test_the_check_above_finds_a_missing_barrier() -> None:
    _, record = native(traced(lambda x: ((x.sum(1, keepdim=True) * x).sum(0),), [torch.rand(LARGE)]))
    (program,) = record.programs
    assert not list(_unordered(program))
    assert any(g.barrier for g in program.groups)
    for g in program.groups:
        g.barrier = False
    assert list(_unordered(program))
