"""Instances of plans: the C++ one and the one in Python behave the same."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.conformance.op_db import CAPTURE, backend
from tests.pipeline.agreement import assert_agrees
from tests.pipeline.programs import PROGRAMS
from torchair.capture import pools
from torchair.capture.record import record
from torchair.errors import ExecutionError, Rejection
from torchair.runtime import instance as instances
from torchair.runtime.extension import load_extension
from torchair.runtime.instance import Instance, new_arena

CASES = [(name, dynamic) for name, program in PROGRAMS.items() for dynamic in program.dynamic]


@pytest.fixture
def python_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a compiler."""
    monkeypatch.setattr(instances, "load_extension", lambda: Rejection("no compiler", "install one"))
    monkeypatch.setattr(pools, "_named", weakref.WeakValueDictionary())  # arenas of one runtime are not for the other


@pytest.fixture(params=["native", "python"])
def runtime(request: pytest.FixtureRequest) -> str:
    if request.param == "python":
        request.getfixturevalue("python_runtime")
    elif not isinstance(load_extension(), ModuleType):
        pytest.skip("the C++ runtime cannot be built here")
    return str(request.param)


def _instance(function: Any, *inputs: torch.Tensor, **options: Any) -> Instance:
    return Instance(record(make_fx(function, tracing_mode="fake")(*inputs), {}, **options), new_arena())


@pytest.mark.usefixtures("python_runtime")
@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_programs_without_a_compiler(name: str, dynamic: bool | None) -> None:
    program = PROGRAMS[name]
    compiled = torch.compile(program.function, backend=backend(CAPTURE), fullgraph=program.fullgraph, dynamic=dynamic)
    for args in program.calls():
        with torch.inference_mode(program.inference_mode):
            assert_agrees(program.function, compiled, args, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("runtime")
def test_inputs_are_taken_out_of_the_list_and_outputs_are_fresh() -> None:
    made = _instance(lambda x: (x + 1).sin() * 2, torch.ones(4))
    given = [torch.arange(4.0)]
    (first,) = made.run(given)
    assert given == []
    (second,) = made.run([torch.zeros(4)])
    assert torch.equal(first, (torch.arange(4.0) + 1).sin() * 2)
    assert torch.equal(second, torch.ones(4).sin() * 2)


@pytest.mark.usefixtures("runtime")
def test_an_arena_that_grows_keeps_older_plans_right() -> None:
    small, arena = torch.ones(4), new_arena()

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).reshape(2, -1).t().sin() * 2

    first = Instance(record(make_fx(function, tracing_mode="fake")(small), {}), arena)
    assert torch.equal(first.run([small])[0], function(small))
    before = arena.nbytes
    large = torch.ones(100_000)
    second = Instance(record(make_fx(function, tracing_mode="fake")(large), {}), arena)
    assert arena.nbytes > before
    for x, made in ((small * 2, first), (large, second), (small * 3, first)):
        assert torch.equal(made.run([x])[0], function(x))


@torch.library.custom_op("instance_tests::refuse_large", mutates_args=())
def _refuse_large(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 100:
        raise ValueError("too large")
    return x + 1


@_refuse_large.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_a_failure_names_the_operator_and_the_line_and_the_plan_runs_again(runtime: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.ops.instance_tests.refuse_large(y) + 1  # the line

    compiled = torch.compile(function, backend=backend(CAPTURE), fullgraph=True)
    x = torch.ones(4)
    assert torch.equal(compiled(x), x * 4)
    with pytest.raises(ExecutionError, match=r"instance_tests.refuse_large") as caught:
        compiled(x * 100)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value.__cause__) == "too large"
    assert "# the line" in str(caught.value)
    assert torch.equal(compiled(x * 2), x * 6)


@pytest.mark.usefixtures("runtime")
def test_a_failure_of_a_built_in_operator_is_of_eager_s_class() -> None:
    made = _instance(lambda x, i: (x * 2)[i], torch.ones(3), torch.tensor([0]))
    with pytest.raises(IndexError, match=r"index 5 is out of bounds"):
        made.run([torch.ones(3), torch.tensor([5])])
    assert torch.equal(made.run([torch.ones(3), torch.tensor([1])])[0], torch.tensor([2.0]))


_library = torch.library.Library("instance_tests", "FRAGMENT")
_library.define("same(Tensor x) -> Tensor")
_library.impl("same", lambda x: x, "CPU")
_library.impl("same", lambda x: torch.empty_like(x), "Meta")


@pytest.mark.usefixtures("runtime")
def test_an_operator_that_returns_its_argument_hands_out_no_memory_of_the_arena() -> None:
    made = _instance(lambda x: torch.ops.instance_tests.same(x + 1), torch.ones(4))
    (first,) = made.run([torch.ones(4)])
    made.run([torch.full((4,), 9.0)])
    assert torch.equal(first, torch.full((4,), 2.0))


@pytest.mark.usefixtures("runtime")
def test_views_of_parameters_follow_other_memory() -> None:
    made = _instance(lambda w, x: x @ w.t(), torch.ones(3, 4), torch.ones(2, 4), static_inputs=[0])
    w, x = torch.nn.Parameter(torch.rand(3, 4)), torch.rand(2, 4)
    with torch.no_grad():
        for change in range(5):
            assert torch.equal(made.run([w, x])[0], x @ w.t())
            if change == 0:
                w.add_(1)
            elif change == 1:
                w.data = torch.rand(3, 4)
            elif change == 2:
                w = torch.nn.Parameter(torch.rand(3, 4))
            else:
                torch.Tensor.set_(w, torch.rand(30).untyped_storage(), 4, (3, 4), (4, 1))


@pytest.mark.usefixtures("runtime")
def test_static_outputs_are_the_same_memory_each_run() -> None:
    made = _instance(lambda x: (x + 1) * 2, torch.ones(4), static_outputs=True)
    (first,) = made.run([torch.ones(4)])
    (second,) = made.run([torch.zeros(4)])
    assert first.data_ptr() == second.data_ptr()
    assert torch.equal(first, torch.full((4,), 2.0))


@pytest.mark.usefixtures("runtime")
def test_operators_run_outside_autocast() -> None:
    made = _instance(lambda x: x @ x, torch.ones(4, 4))
    with torch.autocast("cpu"):
        assert made.run([torch.ones(4, 4)])[0].dtype is torch.float32


def test_warnings_of_operators_are_python_warnings(runtime: str) -> None:
    if runtime == "python":
        pytest.skip("torch.ops prints the warnings of operators")
    made = _instance(lambda x: torch.ops.aten.std.correction(x + 1, [0], correction=4), torch.ones(3))
    with pytest.warns(UserWarning, match="degrees of freedom"):
        made.run([torch.ones(3)])


@pytest.mark.usefixtures("runtime")
def test_the_wrong_number_of_inputs_is_refused() -> None:
    made = _instance(lambda x: x + 1, torch.ones(3))
    with pytest.raises(RuntimeError, match="takes 1 inputs, not 2"):
        made.run([torch.ones(3), torch.ones(3)])


@pytest.mark.usefixtures("runtime")
def test_static_memory_that_grows_keeps_older_plans_right() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * 2

    def made(x: torch.Tensor, static: Any) -> Instance:
        plan = record(make_fx(function, tracing_mode="fake")(x), {}, static_outputs=True)
        return Instance(plan, new_arena(), static)

    static = new_arena()
    small, large = torch.ones(4), torch.ones(100_000)
    first = made(small, static)
    assert torch.equal(first.run([small])[0], function(small))
    second = made(large, static)
    assert torch.equal(second.run([large * 3])[0], function(large * 3))
    assert torch.equal(first.run([small * 5])[0], function(small * 5))
