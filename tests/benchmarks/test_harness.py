"""What becomes of variants that are right, wrong, missing or broken. No compiler runs here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from benchmarks.harness import Case, Unavailable, Variant, Workload, measure, own_code, warm_up
from benchmarks.results import Row
from tests.benchmarks.fakes import TICK, FakeClock
from torchair.errors import UnavailableFeatureError

CPU = torch.device("cpu")
EAGER = Variant("eager", "", lambda function: function, peer=True)


class Counter(nn.Module):
    """Adds to a buffer, but the same for the same arguments: the last argument is what is there after the call."""

    last: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.last.copy_(x)
        return x * 2


def double(x: Tensor) -> Tensor:
    return x * 2


def inputs(seed: int) -> tuple[Tensor, ...]:
    return (torch.arange(3.0) + seed,)


def case(function: Callable[[], Callable[..., Any]] = lambda: double, **more: Any) -> Case:
    return Case("doubling", "doubles", lambda _: Workload(function(), inputs), **more)


def row(variant: Variant, of: Case | None = None) -> Row:
    """The row of ``variant``, timed beside eager, which must be right."""
    clock = FakeClock()

    def taking(v: Variant) -> Variant:
        def compile_(function: Callable[..., Any]) -> Callable[..., Any]:
            compiled = v.compile(function)

            def call(*args: Any) -> Any:
                return clock.taking(TICK, lambda: compiled(*args))()

            return call

        return Variant(v.name, v.what, compile_, v.peer, v.require)

    (result,) = measure(of or case(), [taking(EAGER), taking(variant)], CPU, clock.timing())
    eager, found = result.rows
    assert eager.status == "ok"
    assert eager.times == (TICK,) * 4
    return found


def test_right_variant_is_timed() -> None:
    found = row(Variant("ours", "", lambda function: lambda x: function(x) + 1e-6))
    assert found.status == "ok"
    assert found.times == (TICK,) * 4
    assert found.compile_seconds == TICK
    assert found.largest_error == pytest.approx(1e-6, rel=0.5)
    assert not found.peer


def test_wrong_numbers_are_not_timed() -> None:
    found = row(Variant("ours", "", lambda function: lambda x: function(x) + 1))
    assert found.status == "wrong"
    assert found.times == ()
    assert found.reason.startswith("argument set 0: Tensor-likes are not close!; Greatest absolute difference: 1.0")


@pytest.mark.parametrize(
    "change",
    [lambda y: y.double(), lambda y: y[None], lambda y: (y, y), lambda y: None],
    ids=["dtype", "shape", "number of outputs", "no tensor"],
)
def test_other_outputs_are_wrong(change: Callable[[Tensor], Any]) -> None:
    assert row(Variant("ours", "", lambda function: lambda x: change(function(x)))).status == "wrong"


def test_value_of_the_first_call_returned_again_is_wrong() -> None:
    def stale(function: Callable[..., Any]) -> Callable[..., Any]:
        first: list[Tensor] = []

        def call(x: Tensor) -> Tensor:
            first.append(function(x))
            return first[0]

        return call

    found = row(Variant("ours", "", stale))
    assert found.status == "wrong"
    assert found.reason.startswith("argument set 1: ")


def test_going_wrong_while_it_is_timed_shows() -> None:
    def tiring(function: Callable[..., Any]) -> Callable[..., Any]:
        calls: list[None] = []

        def call(x: Tensor) -> Tensor:
            calls.append(None)
            return function(x) + (len(calls) > 10)

        return call

    found = row(Variant("ours", "", tiring))
    assert found.status == "wrong"
    assert found.reason.startswith("after timing: argument set 3: ")
    assert found.times == ()


def test_buffer_that_is_not_written_is_wrong() -> None:
    of = case(Counter)
    assert row(Variant("ours", "", lambda function: function), of).status == "ok"
    assert row(Variant("ours", "", lambda _: double), of).status == "wrong"


def test_argument_that_is_written_is_wrong() -> None:
    assert row(Variant("ours", "", lambda _: lambda x: x.mul_(2))).status == "wrong"


def test_tolerance_is_the_case_s() -> None:
    off = Variant("ours", "", lambda function: lambda x: function(x) + 0.01)
    assert row(off).status == "wrong"
    assert row(off, case(atol=0.02)).status == "ok"


def fail(error: Exception, _: Any) -> Any:
    raise error


def test_exception_is_a_row_without_paths() -> None:
    error = RuntimeError("cannot open /home/somebody/cache-1/kernel.so: no such file\nmore")
    found = row(Variant("ours", "", functools.partial(fail, error)))
    assert (found.status, found.reason) == ("failed", "RuntimeError: cannot open kernel.so: no such file")


def test_exception_under_torch_compile_is_shown_by_its_cause() -> None:
    def backend(_: fx.GraphModule, __: Sequence[Tensor]) -> Any:
        raise ValueError("no such thing")

    found = row(Variant("ours", "", lambda function: torch.compile(function, backend=backend)))
    assert (found.status, found.reason) == ("failed", "ValueError: no such thing")


def test_missing_parts_are_no_failure() -> None:
    missing = Unavailable("there is no C++ compiler")
    found = row(Variant("ours", "", lambda function: function, require=functools.partial(fail, missing)))
    assert (found.status, found.reason) == ("not available", "there is no C++ compiler")
    later = UnavailableFeatureError("A feature is not in this version", why="not yet")
    assert row(Variant("ours", "", functools.partial(fail, later))).status == "not available"


def test_case_that_cannot_run() -> None:
    def need() -> None:
        raise Unavailable("transformers is not installed")

    clock = FakeClock()
    (found,) = measure(case(require=need), [EAGER], CPU, clock.timing())
    assert found.rows == (Row("eager", "not available", "transformers is not installed", peer=True),)
    assert found.best_peer is None


def test_eager_compiles_nothing() -> None:
    clock = FakeClock()
    of = case(lambda: lambda x: clock.taking(TICK, lambda: x * 2)())
    (result,) = measure(of, [EAGER], CPU, clock.timing())
    (found,) = result.rows
    assert found.compile_seconds is None
    assert found.times == (TICK,) * 4


def test_warm_up_swallows_failures() -> None:
    compiled: list[Any] = []

    def remember(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled.append(function)
        return function

    variants = [
        Variant("broken", "", functools.partial(fail, RuntimeError("no"))),
        Variant("missing", "", lambda function: function, require=functools.partial(fail, Unavailable("no"))),
        Variant("good", "", remember),
    ]
    warm_up(variants, CPU)
    assert len(compiled) == 1


# ---------------------------------------------------------------- copies of code


class Base(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Derived(Base):
    def forward(self, x: Tensor, *, factor: float = 3.0) -> Tensor:
        return super().forward(x) * factor


def test_copied_function_keeps_closure_and_defaults() -> None:
    offset = 5.0

    def function(x: float, a: float = 1.0, *, b: float = 2.0) -> float:
        return x + a + b + offset

    copied, again = own_code(function, "one"), own_code(function, "two")
    assert copied(10.0) == again(10.0) == 18.0
    codes = [f.__code__ for f in (function, copied, again)]
    assert len(set(codes)) == 3


def test_copied_module_is_the_same_module_with_another_class() -> None:
    module = Derived()
    assert own_code(module, "ours") is module
    assert isinstance(module, Derived)
    assert type(module).forward.__code__ != Derived.forward.__code__
    assert module(torch.ones(2)).tolist() == [6.0, 6.0]


@pytest.mark.parametrize("kind", ["function", "module"])
def test_copies_do_not_share_dynamo_caches(kind: str) -> None:
    """More copies than Dynamo compiles for one code object; calling them in turn compiles nothing again."""
    compiled: list[str] = []
    calls = []
    for i in range(12):

        def backend(gm: fx.GraphModule, _: Sequence[Any], i: int = i) -> Any:
            compiled.append(str(i))
            return gm

        function = own_code(double if kind == "function" else Counter(), f"copy {i}")
        calls.append(torch.compile(function, backend=backend, fullgraph=True))
    for _ in range(3):
        for call in calls:
            assert call(torch.ones(3)).tolist() == [2.0] * 3
    assert compiled == [str(i) for i in range(12)]
