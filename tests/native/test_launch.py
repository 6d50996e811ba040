"""Native programs as launches of plans: the same results as their Python calls, memory, errors, versions."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.native.graphs import assert_close, copies, lowered, native, traced
from tests.native.random_graphs import random_case
from torchair.capture import pools
from torchair.capture.record import record as record_plan
from torchair.errors import ExecutionError, Rejection
from torchair.native.program import compile_programs
from torchair.runtime import instance as instances
from torchair.runtime.extension import load_extension
from torchair.runtime.instance import Instance, new_arena
from torchair.runtime.plan import Native, Plan

pytestmark = pytest.mark.usefixtures("support")


@pytest.fixture(params=["native", "python"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The C++ one, and the one of machines that have no compiler when it is to be built."""
    if request.param == "python":
        monkeypatch.setattr(instances, "load_extension", lambda: Rejection("no compiler", "install one"))
        monkeypatch.setattr(pools, "_named", weakref.WeakValueDictionary())
    elif not isinstance(load_extension(), ModuleType):
        pytest.skip("the C++ runtime cannot be built here")
    return str(request.param)


def _plan(function: Callable[..., Any], *arguments: Tensor, **options: Any) -> tuple[Any, Plan]:
    """The graph with native programs, and its plan."""
    module, found = lowered(function, *arguments)
    compile_programs(found.programs)
    return module, record_plan(module, {}, **options)


def _launches(plan: Plan) -> list[Native]:
    return [s.launch for s in plan.steps if isinstance(s.launch, Native)]


def _two_programs(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = torch.softmax(x @ y, -1)
    b = torch.linalg.matrix_exp(a @ a.t())  # a call between two programs
    x.add_(1)
    return b.sum(0) + x[:, :4], a.t() * 2


def _arguments() -> list[Tensor]:
    return [torch.randn(4, 6), torch.randn(6, 30)]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("static_outputs", [False, True])
def test_a_replay_agrees_with_the_python_call(static_outputs: bool) -> None:
    module, plan = _plan(_two_programs, *_arguments(), static_outputs=static_outputs)
    assert len(_launches(plan)) == 2
    made = Instance(plan, new_arena())
    for _ in range(3):
        given = _arguments()
        replayed, called = copies(given), copies(given)
        got, want = made.run(list(replayed)), module(*called)
        for g, w in zip([*got, *replayed], [*want, *called], strict=True):
            assert torch.equal(g, w)  # the same functions: not one bit differs
            assert g.stride() == w.stride()


def test_replays_of_random_graphs_agree_with_their_calls() -> None:
    ready = []
    for seed in range(7000, 7015):
        case = random_case(seed, writes=True)
        try:
            module, _ = lowered(case.function, *case.fresh())
            module(*case.fresh())
            plan = record_plan(module, {})
        except Exception:  # noqa: BLE001, S112 (whatever PyTorch says about a graph that was made at random)
            continue
        ready.append((seed, case, module, plan))
    assert len(ready) > 5
    for seed, case, module, plan in ready:
        replayed, called = case.fresh(), case.fresh()
        got, want = Instance(plan, new_arena()).run(list(replayed)), module(*called)
        for g, w in zip([*got, *replayed], [*want, *called], strict=True):
            torch.testing.assert_close(g, w, rtol=0, atol=0, equal_nan=True, msg=f"seed {seed}")


@pytest.mark.usefixtures("runtime")
def test_results_of_two_runs_lie_in_memory_of_their_own() -> None:
    made = Instance(_plan(lambda x: (torch.softmax(x, -1),), torch.randn(4, 5))[1], new_arena())
    x = torch.randn(4, 5)
    (first,), (second,) = made.run([x]), made.run([x * 2])
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    assert_close([first, second], [torch.softmax(x, -1), torch.softmax(x * 2, -1)])


# --- memory ---


def _square(x: Tensor) -> Tensor:
    """A matrix product as sums, each of which lies in the workspace."""
    return (x[:, :, None] * x).sum(1)


def test_workspaces_of_programs_that_follow_each_other_share_memory() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        for _ in range(4):
            y = _square(x)
            x = torch.linalg.matrix_exp((y + y.t()).tanh() / 80)
        return (x,)

    x = torch.randn(40, 40) / 40
    module, plan = _plan(function, x)
    launches = _launches(plan)
    assert len(launches) == 4
    slots = {b.slot: b for b in plan.buffers}
    places = [slots[launch.workspace] for launch in launches]
    assert min(p.sizes[0] for p in places) >= 40 * 40 * 4
    assert plan.arena_bytes < 2.5 * max(p.sizes[0] for p in places)
    (got,), (called,) = Instance(plan, new_arena()).run([x]), module(x)
    assert torch.equal(got, called)
    assert_close([got], function(x))


def test_intermediate_values_of_a_program_share_memory() -> None:
    """Twenty values in a row, each of which is read at another place than where it is made."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        for _ in range(20):
            y = _square(x)
            x = (y + y.t()).sin()
        return (x,)

    x = torch.randn(40, 40) / 40
    module, found = lowered(function, x)
    (program,) = found.programs
    bound = program.bind({})
    values = sum(g.kind != "elements" for g in program.groups)
    assert values >= 20
    assert 40 * 40 * 4 < bound.workspace < 4 * 40 * 40 * 4
    assert_close(module(x), function(x))


def test_a_workspace_lies_at_a_multiple_of_64_bytes() -> None:
    _, plan = _plan(_two_programs, *_arguments())
    slots = {b.slot: b for b in plan.buffers}
    assert all(slots[launch.workspace].offset % 64 == 0 for launch in _launches(plan))


# --- errors ---


def test_an_index_out_of_range_names_the_operator_and_the_plan_runs_again(runtime: str) -> None:
    def function(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return (torch.softmax(x, -1)[i] * 2,)

    x, good, bad = torch.randn(4, 5), torch.tensor([0, 3]), torch.tensor([0, 4])
    module, plan = _plan(function, x, good)
    made = Instance(plan, new_arena())
    for _ in range(2):
        assert_close(made.run([x, good]), function(x, good))
        with pytest.raises(ExecutionError, match=r"an index is out of range in .*aten\.index\.Tensor") as caught:
            made.run([x, bad])
        assert isinstance(caught.value, IndexError)
        with pytest.raises(IndexError, match=r"an index is out of range in .*aten\.index\.Tensor"):
            module(x, bad)
    assert_close(made.run([x, good]), function(x, good))


def test_the_first_of_two_errors_is_shown() -> None:
    def function(x: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, ...]:
        return torch.softmax(x, -1)[i], torch.softmax(x.t(), -1).gather(0, j)

    x = torch.randn(4, 4)
    module, plan = _plan(function, x, torch.tensor([0]), torch.zeros(1, 4, dtype=torch.int64))
    given = [x, torch.tensor([9]), torch.full((1, 4), 9)]
    messages = []
    for run in (lambda: module(*given), lambda: Instance(plan, new_arena()).run(list(given))):
        with pytest.raises(IndexError) as caught:
            run()
        messages.append(next(line for line in str(caught.value).splitlines() if "out of range" in line).strip())
    assert messages[0] == messages[1].removeprefix("IndexError: ")


# --- versions ---


def _writes_one(x: Tensor, y: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    x.index_put_((i,), y)
    return (x * y,)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("fails", [False, True])
def test_arguments_that_are_written_have_new_versions(fails: bool) -> None:
    """When an index is out of range, too: other elements are written by then."""
    x, y, good = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([2, 1, 0])
    module, plan = _plan(_writes_one, x, y, good)
    made = Instance(plan, new_arena())
    index = torch.tensor([2, 1, 9]) if fails else good
    for run in (lambda a, b: module(a, b, index), lambda a, b: made.run([a, b, index])):
        a, b = x.clone(), y.clone()
        before = a._version, b._version
        if fails:
            with pytest.raises(IndexError):
                run(a, b)
        else:
            run(a, b)
        assert a._version > before[0]
        assert b._version == before[1]


@pytest.mark.usefixtures("runtime")
def test_autograd_notices_that_a_saved_tensor_was_written() -> None:
    x, y, index = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([2, 1, 0])
    module, plan = _plan(_writes_one, x, y, index)
    made = Instance(plan, new_arena())
    for run in (lambda a: module(a, y, index), lambda a: made.run([a, y, index])):
        a, leaf = x.clone(), torch.randn(3, 4, requires_grad=True)
        loss = (a * leaf).sum()  # saves `a`
        run(a)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


# --- tensors that are not what was promised ---


def _adds(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x.add_(y)
    return (torch.softmax(x * y, -1),)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("promised", [(7, 1), (1, 5), (0, 1), (1, 0)], ids=str)
def test_a_tensor_in_other_strides_than_promised_is_read_and_written_where_it_lies(promised: tuple[int, int]) -> None:
    read = torch.randn(35).as_strided((5, 7), promised)
    module, _ = native(traced(_adds, [torch.zeros(5, 7), read]), in_place=True)
    made = Instance(record_plan(module, {}), new_arena())
    for layout in ((7, 1), (1, 5), (14, 2)):
        for run in (module, lambda *given: made.run(list(given))):
            x, y = (torch.empty_strided((5, 7), layout).copy_(t) for t in (torch.randn(5, 7), read))
            after = x.clone()
            want = _adds(after, y)
            torch.testing.assert_close(run(x, y), want, check_stride=False)
            torch.testing.assert_close(x, after)


@pytest.mark.usefixtures("runtime")
def test_a_tensor_of_another_size_or_dtype_than_promised_is_an_error() -> None:
    module, plan = _plan(_adds, torch.zeros(5, 7), torch.zeros(5, 7))
    made = Instance(plan, new_arena())
    for other in (torch.zeros(7), torch.zeros(5, 7, dtype=torch.float64)):
        for run in (module, lambda *given: made.run(list(given))):
            with pytest.raises(RuntimeError, match="promised"):
                run(torch.zeros(5, 7), other)
    made.run([torch.zeros(5, 7), torch.zeros(5, 7)])
