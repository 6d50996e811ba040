"""Scopes on engines: super kernels are single launches, core limits are the number of workers, results stay."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from torchair import scope
from torchair.config import PROCESS_OPTIONS
from torchair.errors import Rejection
from torchair.native import NativeProgram
from torchair.native.support import load_support

_Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _compiler() -> None:
    if isinstance(loaded := load_support(), Rejection):
        pytest.skip(loaded.reason)
    torch._dynamo.reset()


@pytest.fixture
def _new_process() -> Iterator[None]:
    """Options of the process can be others than those of the tests before."""
    PROCESS_OPTIONS.reset()
    yield
    PROCESS_OPTIONS.reset()


def _compiled(function: _Function, *, engine: str = "native", dynamic: bool | None = None, **ge: Any) -> Any:
    config = torchair.CompilerConfig()
    config.engine = engine
    for name, value in ge.items():
        setattr(config.ge_config, name, value)
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)


def _check(function: _Function, *arguments: Tensor, **options: Any) -> Any:
    """Run, compare with eager mode; what was explained of the only graph's native code."""
    compiled = _compiled(function, **options)
    torch.testing.assert_close(compiled(*arguments), function(*arguments), rtol=1e-4, atol=1e-5)
    found = torchair.explain(compiled).native
    return found[0] if found else None


def _programs(monkeypatch: pytest.MonkeyPatch) -> list[NativeProgram]:
    """The programs that are made from here on."""
    made: list[NativeProgram] = []
    plain = NativeProgram.__init__

    def noted(self: NativeProgram, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(NativeProgram, "__init__", noted)
    return made


# --- super kernels ---


def _layer(x: Tensor, w: Tensor) -> Tensor:
    x = x.sin()
    with scope.super_kernel("layer"):
        x = torch.softmax(x * 3 + 1, -1) @ w
        x = x.relu() + 0.5
    return x.exp()


def test_a_scope_is_one_launch() -> None:
    code = _check(_layer, torch.randn(4, 8), torch.randn(8, 8))
    assert code.programs == 3
    (kernel,) = code.super_kernels
    assert (kernel.scope, kernel.operators, kernel.after) == ("layer", 6, "")
    assert str(kernel) == "sk_layer_start_Mul_end_Add_1: 6 operators"
    assert not code.left


def test_a_scope_of_any_size_is_one_launch() -> None:
    def function(x: Tensor) -> Tensor:
        x = x.sin()
        with scope.super_kernel("layer"):
            x = torch.softmax(x * 3 + 1, -1).t() + x.shape[0]
        return x.exp()

    compiled = _compiled(function, dynamic=True)
    for shape in ((4, 8), (5, 7)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-5)
    (code,) = torchair.explain(compiled).native
    assert [k.scope for k in code.super_kernels] == ["layer"]


@pytest.mark.parametrize("engine", ["inductor", "reference", "auto"])
def test_other_engines_compute_the_same(engine: str) -> None:
    _check(_layer, torch.randn(4, 8), torch.randn(8, 8), engine=engine)


@pytest.mark.usefixtures("_new_process")
def test_other_engines_say_that_they_do_not_act(caplog, monkeypatch) -> None:
    monkeypatch.setattr("torchair.logs._said", set())
    monkeypatch.setattr(torchair.logger, "propagate", True)

    def function(x: Tensor) -> Tensor:
        with scope.super_kernel("a"), scope.limit_core_num(1, 1):
            return x.sin() + 1

    with caplog.at_level(logging.INFO, logger="torchair"):
        _check(function, torch.randn(3), engine="reference", aicore_num="1|1")
    assert {m for m in caplog.messages if "no effect" in m} == {
        f"{name}: recorded, no effect on the reference engine; the native engine acts on it"
        for name in ("torchair.scope.super_kernel", "torchair.scope.limit_core_num", "config.ge_config.aicore_num")
    }


def test_an_operator_without_code_splits() -> None:
    def function(x: Tensor) -> Tensor:
        with scope.super_kernel("sk"):
            return (x.cos() + 1).cumsum(0).relu() * 2

    code = _check(function, torch.randn(5, 6))
    first, second = code.super_kernels
    assert (first.name, first.after) == ("sk_sk_start_Cos_end_Add", "")
    assert (second.name, second.after) == (
        "sk_sk_start_Relu_end_Mul",
        "aten.cumsum.default: there is no code for it",
    )
    assert "sk_sk_start_Relu_end_Mul: 2 operators, split by aten.cumsum.default" in str(code)


def test_none_takes_operators_out() -> None:
    def function(x: Tensor) -> Tensor:
        with scope.super_kernel("sk"):
            x = x.cos()
            with scope.super_kernel(None):
                x = x.exp()
            return x.sin()

    code = _check(function, torch.randn(5, 6))
    assert [k.operators for k in code.super_kernels] == [1, 1]
    assert code.super_kernels[1].after == "aten.exp.default: it is outside of the scope"


def test_what_is_independent_does_not_split() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        with scope.super_kernel("sk"):
            x = x.cos()
        y = y.cumsum(0)
        with scope.super_kernel("sk"):
            return x * y

    code = _check(function, torch.randn(5, 6), torch.randn(5, 6))
    assert [k.operators for k in code.super_kernels] == [2]


def test_scopes_share_constants_and_views() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        two = torch.full((6,), 2.0)
        y = (x * two).t()
        with scope.super_kernel("a"):
            a = (y.t()[1:] * two + two).t()
        with scope.super_kernel("b"):
            b = a.t() * two + y[:, 1:].t()
        return a, b, y.t() * two

    _check(function, torch.randn(5, 6))


def test_super_kernels_that_wait_for_each_other() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with scope.super_kernel("a"):
            p = x.sin()
        with scope.super_kernel("b"):
            q = y.cos()
            r = p.exp()
        with scope.super_kernel("a"):
            s = q.tanh()
        return r, s

    code = _check(function, torch.randn(5), torch.randn(5))
    assert [(k.scope, k.operators) for k in code.super_kernels] == [("a", 1), ("b", 2), ("a", 1)]
    assert "waits" in code.super_kernels[2].after


def test_writes_keep_their_order() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        old = x * 2
        with scope.super_kernel("a"):
            x.add_(y)
            z = x * y
        with scope.super_kernel("b"):
            x.mul_(3)
            x[1:].copy_(old[1:])
        return z + x

    compiled = _compiled(function)
    x, y = torch.randn(5, 6), torch.randn(5, 6)
    mine, theirs = x.clone(), x.clone()
    torch.testing.assert_close(compiled(mine, y), function(theirs, y))
    torch.testing.assert_close(mine, theirs)


def test_backward_graphs() -> None:
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    compiled = _compiled(_layer)
    mine = torch.autograd.grad(compiled(x, w).sum(), (x, w))
    torch.testing.assert_close(mine, torch.autograd.grad(_layer(x, w).sum(), (x, w)), rtol=1e-4, atol=1e-5)


# --- options ---


def _scan(options: str) -> _Function:
    def function(x: Tensor) -> Tensor:
        with scope.super_kernel("scan", options):
            return x.cos().cumsum(0).relu()

    return function


def test_bypass_gives_a_split_scope_up(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchair.logger, "propagate", True)
    with caplog.at_level(logging.WARNING, logger="torchair"):
        code = _check(_scan("strict-scope-check=bypass"), torch.randn(5, 6))
    assert code.super_kernels == ()
    assert code.programs == 2
    (line,) = {m for m in caplog.messages if "super_kernel_scope" in m}
    assert line == ("super_kernel_scope 'scan' is not one super kernel: aten.cumsum.default: there is no code for it")


def test_abort_fails() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        _compiled(_scan("strict-scope-check=abort"))(torch.randn(5, 6))
    assert isinstance(caught.value.inner_exception, RuntimeError)
    text, _, where = str(caught.value.inner_exception).partition("  where:\n")
    assert (
        text
        == """\
A super kernel is not one launch [TA407]
  why:
    super_kernel_scope 'scan' has strict-scope-check=abort
    aten.cumsum.default: there is no code for it
  fix:
    Take these operators out of the scope, or leave the option out.
"""
    )
    line = re.escape("in function: return x.cos().cumsum(0).relu()")
    assert re.fullmatch(rf"    \S*test_native_scopes\.py:\d+, {line}", where)


def test_abort_fails_where_nothing_has_code() -> None:
    def function(x: Tensor) -> Tensor:
        with scope.super_kernel("scan", "strict-scope-check=abort"):
            return x.cumsum(0)

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="is not one launch"):
        _compiled(function)(torch.randn(5, 6))


def test_a_scope_that_is_one_launch_passes_the_check() -> None:
    def function(x: Tensor) -> Tensor:
        with scope.super_kernel("sk", "strict-scope-check=abort"):
            return (x.t() * 2).sum(0) + x.shape[0]

    code = _check(function, torch.randn(5, 6), dynamic=True)
    assert len(code.super_kernels) == 1


def _tuned(options: str, cores: tuple[int, int] | None = None) -> _Function:
    def function(x: Tensor) -> Tensor:
        with scope.super_kernel("sk", options):
            if cores is None:
                return x.cos().sum(-1)
            with scope.limit_core_num(*cores):
                return x.cos().sum(-1)

    return function


@pytest.mark.parametrize(
    ("options", "cores", "workers"),
    [
        ("debug-aiv-num=3", None, 3),
        ("debug-aic-num=5", None, 5),
        ("debug-aic-num=5:debug-aiv-num=10", None, 10),
        ("debug-aiv-num=3", (4, 4), 3),
        ("", (4, 6), 6),
        ("", None, 0),
    ],
)
def test_launch_on_so_many_cores(monkeypatch, options, cores, workers) -> None:
    programs = _programs(monkeypatch)
    _check(_tuned(options, cores), torch.randn(200, 300))
    assert [g.workers for p in programs for g in p.groups] == [workers]


@pytest.mark.parametrize(
    ("options", "cores", "words"),
    [
        ("debug-aic-num=4:debug-aiv-num=6", None, "debug-aic-num:debug-aiv-num = 4:6; allowed ratios are"),
        ("debug-aic-num=25", None, "debug-aic-num = 25 is more than 24, the number of cores"),
        ("debug-aiv-num=5", (4, 4), "debug-aiv-num = 5 is more than 4, the core limit of its operators"),
    ],
)
def test_launch_on_cores_that_it_cannot_have(options, cores, words) -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        _compiled(_tuned(options, cores))(torch.randn(200, 300))
    assert isinstance(caught.value.inner_exception, ValueError)
    assert words in str(caught.value.inner_exception)


def test_an_error_names_every_number_that_is_wrong() -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        _compiled(_tuned("debug-aic-num=25:debug-aiv-num=49"))(torch.randn(4, 3))
    assert (
        str(caught.value.inner_exception)
        == """\
A super kernel cannot be launched on so many cores [TA101] ERR03005
  why:
    super_kernel('sk'): debug-aic-num:debug-aiv-num = 25:49; allowed ratios are 1:0, 0:1, 1:1 and 1:2
    super_kernel('sk'): debug-aic-num = 25 is more than 24, the number of cores
    super_kernel('sk'): debug-aiv-num = 49 is more than 48, the number of cores
  fix:
    Give smaller numbers, or leave them out."""
    )


def test_options_without_effect_are_logged(caplog, monkeypatch) -> None:
    monkeypatch.setattr("torchair.logs._said", set())
    monkeypatch.setattr(torchair.logger, "propagate", True)
    with caplog.at_level(logging.INFO, logger="torchair"):
        _check(_tuned("feed-sync-all=1:dcci-disable-on-kernel=Cos:stream-fusion=1"), torch.randn(4, 3))
    assert {m for m in caplog.messages if "no effect" in m} == {
        f"super_kernel('sk'): option {name} is recorded, no effect on any device yet"
        for name in ("feed-sync-all", "dcci-disable-on-kernel")
    }


# --- core limits ---


def _limited(x: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    free = x.sin().sum(-1)
    with scope.limit_core_num(2, 3):
        return free, x.cos().sum(-1), v @ w, (v @ w.t()).relu()


def _workers(programs: list[NativeProgram]) -> list[tuple[str, bool, int]]:
    return sorted((g.kind, bool(g.members), g.workers) for p in programs for g in p.groups)


_ARGUMENTS = (torch.randn(200, 300), torch.randn(300, 300), torch.randn(1, 300))


def test_limits_by_kind(monkeypatch) -> None:
    programs = _programs(monkeypatch)
    _check(_limited, *_ARGUMENTS)
    assert _workers(programs) == [("product", False, 2), ("product", True, 3), ("rows", True, 0), ("rows", True, 3)]


@pytest.mark.usefixtures("_new_process")
def test_an_operators_limit_comes_before_that_of_the_process(monkeypatch) -> None:
    programs = _programs(monkeypatch)
    _check(_limited, *_ARGUMENTS, aicore_num="1|2")
    assert _workers(programs) == [("product", False, 2), ("product", True, 3), ("rows", True, 2), ("rows", True, 3)]


@pytest.mark.usefixtures("_new_process")
@pytest.mark.parametrize(("text", "workers"), [("24|100", 48), ("|5", 5), ("100|", 48), (None, 0)])
def test_the_limit_of_the_process_is_clipped(monkeypatch, text, workers) -> None:
    programs = _programs(monkeypatch)
    _check(lambda x: x.cos().sum(-1), torch.randn(200, 300), aicore_num=text)
    assert [g.workers for p in programs for g in p.groups] == [workers]


def test_more_threads_do_not_run(monkeypatch) -> None:
    """What the runner says of how many threads ran it, with four to choose from."""
    support = load_support()
    assert not isinstance(support, Rejection)
    programs = _programs(monkeypatch)
    x = torch.randn(200, 300)

    def function(x: Tensor) -> Tensor:
        with scope.limit_core_num(1, 2):
            return x.cos().sum(-1)

    _check(function, x)
    (program,) = programs
    bound = program.bind({})
    result = torch.zeros(200)
    workspace = torch.zeros(bound.workspace + 64, dtype=torch.uint8)
    bases = {(0, 0): x.data_ptr(), (1, 0): result.data_ptr()}
    table = [workspace.data_ptr() + n if kind == 2 else bases[kind, n] for kind, n in bound.pointers]
    pointers = (ctypes.c_void_p * len(table))(*table)
    ran = support.handle.torchair_run_program(bound.stages, len(program.groups), pointers, bound.sizes, 4)
    assert 1 <= ran <= 2
    torch.testing.assert_close(result, x.cos().sum(-1))


def test_more_cores_than_there_are() -> None:
    def function(x: Tensor) -> Tensor:
        with scope.limit_core_num(25, 48):
            return x.cos()

    for engine in ("native", "reference"):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
            _compiled(function, engine=engine)(torch.randn(3))
        assert isinstance(caught.value.inner_exception, ValueError)
        assert "op_aicore_num=25; here it is from 1 to 24" in str(caught.value.inner_exception)
