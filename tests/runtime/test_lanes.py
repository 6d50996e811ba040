"""Plans of several lanes run as their steps in program order would, in every interleaving; on both runtimes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from tests.runtime.lane_graphs import Builder, clones, random_graphs, two_branches
from tests.runtime.test_instance import python_runtime, runtime  # noqa: F401  fixtures
from torchair.capture.record import record
from torchair.errors import ExecutionError
from torchair.runtime.extension import load_extension
from torchair.runtime.instance import Instance, new_arena

aten = torch.ops.aten
X = torch.rand(8, 8)


@torch.library.custom_op("lane_tests::call", mutates_args=())
def _call(x: torch.Tensor, number: int) -> torch.Tensor:
    """Whatever a test wants."""
    return _functions[number](x)


@_call.register_fake
def _(x: torch.Tensor, number: int) -> torch.Tensor:
    return torch.empty_like(x)


_functions: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {}


@pytest.fixture
def calling() -> Any:
    """Numbers for functions that :func:`_call` calls."""

    def number(function: Callable[[torch.Tensor], torch.Tensor]) -> int:
        _functions[len(_functions)] = function
        return len(_functions) - 1

    yield number
    _functions.clear()


def _assert_equal(got: list[torch.Tensor], expected: Any) -> None:
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.usefixtures("runtime")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(random_graphs())
def test_random_plans_agree_with_eager_in_many_interleavings(made: Any) -> None:
    gm, inputs = made
    expected_inputs = clones(inputs)
    torch.manual_seed(0)
    expected = gm(*expected_inputs)
    instance = Instance(record(gm, {}), new_arena())
    for seed in range(6):
        instance.core.delay_steps(seed, 0 if seed == 0 else 150)
        given_inputs = clones(inputs)
        torch.manual_seed(0)
        _assert_equal(instance.run(list(given_inputs)), expected)
        _assert_equal(given_inputs, expected_inputs)


@pytest.mark.usefixtures("runtime")
def test_lanes_run_at_the_same_time(calling: Any) -> None:
    meeting = threading.Barrier(2, timeout=300)

    def meet(x: torch.Tensor) -> torch.Tensor:
        meeting.wait()
        return x + 1

    b = Builder(X)
    (x,) = b.inputs
    number = calling(meet)
    one, other = (b.call(torch.ops.lane_tests.call.default, x, number, stream=s) for s in ("", "side"))
    plan = b.plan(b.call(aten.add.Tensor, one, other))
    instance = Instance(plan, new_arena())
    for _ in range(3):
        _assert_equal(instance.run([X]), [2 * (X + 1)])


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_plan_of_several_lanes_runs_in_one_thread(calling: Any, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def note(x: torch.Tensor) -> torch.Tensor:
        threads.append(threading.get_ident())
        return x + 1

    number = calling(note)
    b = Builder(X)
    (x,) = b.inputs
    results = [b.call(torch.ops.lane_tests.call.default, x, number, stream=s) for s in ("", "a", "b")]
    plan = b.plan(*results)
    assert plan.lanes == ("", "a", "b")
    Instance(plan, new_arena()).run([X])
    assert len(set(threads)) == 3
    threads.clear()
    if how == "environment":
        monkeypatch.setenv("TORCHAIR_SINGLE_LANE", "1")
    Instance(plan, new_arena(), one_lane=how == "argument").run([X])
    assert set(threads) == {threading.get_ident()}


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("slow_first", [False, True])
def test_the_error_is_the_one_of_a_serial_run(calling: Any, slow_first: bool) -> None:
    ran = []

    def early(x: torch.Tensor) -> torch.Tensor:
        if slow_first:
            time.sleep(0.05)
        if x[0, 0] == 7:
            raise ValueError("the first one")
        return x + 1

    def late(x: torch.Tensor) -> torch.Tensor:
        if not slow_first:
            time.sleep(0.05)
        if x[0, 0] == 7:
            raise IndexError("the second one")
        return x + 1

    def never(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x.clone()

    first, second, third = calling(early), calling(late), calling(never)
    b = Builder(X)
    (x,) = b.inputs
    call = torch.ops.lane_tests.call.default
    a = b.call(call, x, first, stream="a")
    c = b.call(call, b.call(aten.neg.default, b.call(call, x, second, stream="b"), stream="b"), third, stream="b")
    instance = Instance(b.plan(b.call(aten.add.Tensor, a, c)), new_arena())
    seven = torch.full((8, 8), 7.0)
    for _ in range(3):
        with pytest.raises(ExecutionError, match=r"lane_tests\.call\.default \(node call_default\)") as caught:
            instance.run([seven])
        assert isinstance(caught.value, ValueError)
        assert str(caught.value.__cause__) == "the first one"
        assert "model.py:2" in str(caught.value)
        assert ran == []
        _assert_equal(instance.run([X]), [(X + 1) + -(X + 1)])
        assert ran == [1]
        ran.clear()


@pytest.mark.usefixtures("runtime")
def test_an_error_reaches_a_lane_that_sleeps(calling: Any) -> None:
    def fail(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)  # longer than others look before they sleep
        raise ValueError("late")

    b = Builder(X)
    (x,) = b.inputs
    failed = b.call(torch.ops.lane_tests.call.default, x, calling(fail), stream="a")
    middle = b.call(aten.sin.default, failed, stream="b")
    instance = Instance(b.plan(b.call(aten.sin.default, middle)), new_arena())
    with pytest.raises(ExecutionError, match=r"lane_tests\.call"):
        instance.run([X])


@pytest.mark.usefixtures("runtime")
def test_lanes_have_the_state_of_the_caller(calling: Any) -> None:
    seen: list[Any] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")))
        return x + 1

    number = calling(note)
    b = Builder(X)
    results = [b.call(torch.ops.lane_tests.call.default, b.inputs[0], number, stream=s) for s in ("", "a")]
    instance = Instance(b.plan(*results), new_arena())
    for inference in (False, True):
        with torch.inference_mode(inference), torch.autocast("cpu"):
            instance.run([X])
        assert seen == [(False, inference, False)] * 2
        seen.clear()


def _needs_cpp() -> None:
    if not isinstance(load_extension(), ModuleType):
        pytest.skip("the C++ runtime cannot be built here")


def test_cores_are_shared_and_given_back(calling: Any) -> None:
    _needs_cpp()
    seen: dict[str, int] = {}

    def note(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
        def function(x: torch.Tensor) -> torch.Tensor:
            seen[name] = torch.get_num_threads()
            return x + 1

        return function

    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        b = Builder(X)
        (x,) = b.inputs
        call = torch.ops.lane_tests.call.default
        one, other = (b.call(call, x, calling(note(s)), stream=s) for s in ("", "a"))
        both = b.call(aten.add.Tensor, one, other)
        plan = b.plan(b.call(call, both, calling(note("end"))))
        assert [step.cores for step in plan.steps] == [2, 2, 0, 0]
        instance = Instance(plan, new_arena())
        for _ in range(2):
            instance.run([X])
            assert seen == {"": 2, "a": 2, "end": 4}
            assert torch.get_num_threads() == 4
        Instance(plan, new_arena(), one_lane=True).run([X])
        assert seen == {"": 4, "a": 4, "end": 4}
        torch.set_num_threads(1)
        instance.run([X])
        assert seen == {"": 1, "a": 1, "end": 1}
    finally:
        torch.set_num_threads(before)


def test_warnings_of_lanes_reach_the_caller() -> None:
    _needs_cpp()
    b = Builder(torch.rand(4), torch.empty(2))
    x, out = b.inputs
    # A result in memory of another size is warned about.
    b.call(aten.sin.out, x, out=out, stream="a")
    plan = b.plan(b.call(aten.neg.default, x))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Instance(plan, new_arena()).run([torch.rand(4), torch.empty(2)])
    assert any("An output with one or more elements was resized" in str(w.message) for w in caught)


@pytest.mark.usefixtures("runtime")
def test_a_callback_may_run_another_plan(calling: Any) -> None:
    inner = Instance(record(two_branches(X), {}), new_arena())

    def nested(x: torch.Tensor) -> torch.Tensor:
        return inner_of[threading.get_ident()].run([x])[0]

    inner_of: Any = _OwnInstances(lambda: Instance(record(two_branches(X), {}), new_arena()))
    b = Builder(X)
    (x,) = b.inputs
    number = calling(nested)
    results = [b.call(torch.ops.lane_tests.call.default, x, number, stream=s) for s in ("", "a", "b")]
    instance = Instance(b.plan(*results), new_arena())
    expected = inner.run([X])
    for _ in range(5):
        _assert_equal(instance.run([X]), expected * 3)


class _OwnInstances(dict[int, Instance]):
    def __init__(self, make: Callable[[], Instance]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: int) -> Instance:
        self[key] = self._make()
        return self[key]


@pytest.mark.usefixtures("runtime")
def test_several_threads_run_plans_of_several_lanes() -> None:
    gm = two_branches(X, 6)
    plan = record(gm, {})
    expected = gm(X)
    problems: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            instance = Instance(plan, new_arena())
            instance.core.delay_steps(seed, 50)
            for _ in range(20):
                _assert_equal(instance.run([X]), expected)
        except BaseException as error:  # noqa: BLE001 (shown below)
            problems.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    assert problems == []


def test_threads_are_used_again() -> None:
    extension = load_extension()
    if not isinstance(extension, ModuleType):
        pytest.skip("the C++ runtime cannot be built here")
    instance = Instance(record(two_branches(X), {}), new_arena())
    instance.run([X])
    before = extension.lane_threads()
    for _ in range(50):
        instance.run([X])
    assert extension.lane_threads() == before


@pytest.mark.usefixtures("runtime")
def test_a_dispatch_mode_sees_every_operator_in_its_thread() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((str(func), threading.get_ident()))
            return func(*args, **(kwargs or {}))

    instance = Instance(record(two_branches(X, 2), {}), new_arena())
    with Mode():
        instance.run([X])
    assert [name for name, _ in seen] == ["aten.mm.out", "aten.mm.out", "aten.mm.out", "aten.mm.out", "aten.add.Tensor"]
    assert {thread for _, thread in seen} == {threading.get_ident()}


@pytest.mark.usefixtures("runtime")
def test_times_of_steps_are_in_order() -> None:
    instance = Instance(record(two_branches(X, 3), {}), new_arena())
    results, times = instance.timed_run([X])
    assert len(times) == len(instance.plan.steps)
    _assert_equal(results, instance.run([X]))
    for step, (begin, end) in zip(instance.plan.steps, times, strict=True):
        assert 0 <= begin <= end
        assert all(times[a][1] <= begin for a in step.after)


_CHILD = """
import os, sys, threading, time
import torch
from tests.runtime.lane_graphs import two_branches
from torchair.capture.record import record
from torchair.runtime.instance import Instance, new_arena

torch.set_num_threads(1)
x = torch.rand(8, 8)
gm = two_branches(x)
instance = Instance(record(gm, {}), new_arena())
assert torch.equal(instance.run([x])[0], gm(x)[0])
"""


def _run_child(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_child_makes_threads_of_its_own() -> None:
    assert (
        _run_child(
            """
            pid = os.fork()
            if pid == 0:
                ok = all(torch.equal(instance.run([x])[0], gm(x)[0]) for _ in range(10))
                os._exit(0 if ok else 3)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert torch.equal(instance.run([x])[0], gm(x)[0])
            print("both")
            """
        )
        == "both\n"
    )


def test_the_interpreter_exits_while_lanes_rest() -> None:
    for rest in (0, 0.2):  # they look for work, they sleep
        assert _run_child(f'instance.run([x])\ntime.sleep({rest})\nprint("end")\n') == "end\n"
