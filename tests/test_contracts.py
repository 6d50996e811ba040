"""Kernels against what their fake kernels and schemas promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torchair
from tests.custom_operators import define, ops
from torchair.config import CompilerConfig
from torchair.contracts import check_call
from torchair.errors import OperatorContractError, OutputCheckError


def numbers(*shape: int) -> Tensor:
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)


def like(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


def _write(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


define("honest(Tensor x) -> Tensor", lambda x: x + 1, like)
define("no_fake(Tensor x) -> Tensor", lambda x: x + 1)
define("broken_fake(Tensor x) -> Tensor", lambda x: x + 1, lambda x: torch.empty(x.nosuch))
define("wrong_dtype(Tensor x) -> Tensor", lambda x: x.double(), like)
define("wrong_shape(Tensor x) -> Tensor", lambda x: x.sum(0), like)
define("wrong_rank(Tensor x) -> Tensor", lambda x: x[None] + 1, like)
define("wrong_strides(Tensor x) -> Tensor", lambda x: x.t().contiguous().t(), like)
define("wrong_count(Tensor x) -> Tensor[]", lambda x: [x + 1], lambda x: [like(x), like(x)])
define("aliases(Tensor x) -> Tensor", lambda x: x.view(-1), lambda x: x.new_empty(x.numel()))
define("promises_alias(Tensor x) -> Tensor", lambda x: x + 1, lambda x: x.view(x.shape))
define(
    "results_alias(Tensor x) -> (Tensor, Tensor)",
    lambda x: (y := x + 1, y.view(-1)),
    lambda x: (like(x), x.new_empty(x.numel())),
)
define("writes(Tensor x) -> Tensor", _write, like)
define("writes_list(Tensor[] xs) -> Tensor", lambda xs: _write(xs[1]), lambda xs: like(xs[0]))
define("announced(Tensor(a!) x) -> Tensor", _write, like)
define("nans(Tensor x) -> Tensor", lambda x: x * 1, like)
define(
    "sized_by_data(Tensor x) -> Tensor",
    lambda x: x[x > 0],
    lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()),
)


@pytest.mark.parametrize(
    ("overload", "problem"),
    [
        (ops.honest.default, None),
        (ops.announced.default, None),
        (ops.sized_by_data.default, None),
        (ops.no_fake.default, "it has no fake kernel (meta function)"),
        (
            ops.broken_fake.default,
            "its fake kernel raised AttributeError: 'FakeTensor' object has no attribute 'nosuch'",
        ),
        (ops.wrong_dtype.default, "result 0 has dtype torch.float64, its fake kernel promises torch.float32"),
        (ops.wrong_shape.default, "result 0 has shape [3], its fake kernel promises [2, 3]"),
        (ops.wrong_rank.default, "result 0 has shape [1, 2, 3], its fake kernel promises [2, 3]"),
        (ops.wrong_strides.default, "result 0 has strides [1, 2], its fake kernel promises [3, 1]"),
        (ops.wrong_count.default, "it returned 1 result, its fake kernel promises 2 results"),
        (
            ops.aliases.default,
            "result 0 lies in the memory of tensor argument 0, and its fake kernel makes a tensor of its own",
        ),
        (
            ops.promises_alias.default,
            "result 0 is a tensor of its own, and its fake kernel returns the memory of tensor argument 0",
        ),
        (
            ops.results_alias.default,
            "result 1 lies in the memory of result 0, and its fake kernel makes a tensor of its own",
        ),
        (ops.writes.default, "it writes the argument 'x', and its schema does not say so: Tensor(a!)"),
    ],
)
def test_one_call(overload, problem) -> None:
    checked = check_call(overload, (numbers(2, 3),), {})
    assert checked.problems == (() if problem is None else (problem,))
    assert checked.has_fake == (overload is not ops.no_fake.default)


def test_the_result_is_that_of_the_kernel() -> None:
    x = numbers(2, 3)
    assert torch.equal(check_call(ops.announced.default, (x,), {}).result, (numbers(2, 3) + 1) * 2)
    assert torch.equal(x, numbers(2, 3) + 1)


def test_what_is_written_is_named_in_lists_too() -> None:
    checked = check_call(ops.writes_list.default, ([numbers(3), numbers(3)],), {})
    assert checked.problems == ("it writes the argument 'xs', and its schema does not say so: Tensor(a!)",)


def test_nans_are_no_change() -> None:
    x = torch.full((2, 3), float("nan")).t()
    assert check_call(ops.nans.default, (x,), {}).problems == ()


def test_empty_tensors_and_one_element() -> None:
    for shape in ((0, 3), (1, 1), ()):
        assert check_call(ops.honest.default, (torch.zeros(shape),), {}).problems == ()


# --- config.debug.verify_custom_ops ---


def compiled(program: Callable[..., Any], *, verify: bool, engine: str = "reference") -> Any:
    config = CompilerConfig()
    config.engine = engine
    config.debug.verify_custom_ops = verify
    return torch.compile(program, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)


@pytest.mark.parametrize("engine", ["reference", pytest.param("inductor", marks=pytest.mark.slow)])
def test_the_first_run_is_checked(engine) -> None:
    run = compiled(lambda x: ops.aliases(x) + 1, verify=True, engine=engine)
    with torch.no_grad(), pytest.raises(OperatorContractError) as caught:
        run(numbers(2, 3))
    (why,) = caught.value.why
    assert why.startswith("custom_operators.aliases.default: result 0 lies in the memory of tensor argument 0, and its")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("wrong_dtype", "result 0 has dtype torch.float64, its fake kernel promises torch.float32"),
        ("wrong_shape", "result 0 has shape [3], its fake kernel promises [2, 3]"),
        ("wrong_strides", "result 0 has strides [1, 2], its fake kernel promises [3, 1]"),
    ],
)
def test_the_first_replay_of_a_capture_is_checked(name: str, problem: str) -> None:
    overload = getattr(ops, name).default
    run = torch.compile(lambda x: (overload(x) * 2).sigmoid() + 1, backend="npugraph_ex", fullgraph=True)
    with torch.no_grad(), pytest.raises(OperatorContractError, match=r"test_contracts\.py") as caught:
        run(numbers(2, 3))
    assert caught.value.why == (f"{overload}: {problem}",)


def test_later_runs_are_not() -> None:
    calls: list[int] = []

    def kernel(x: Tensor) -> Tensor:
        calls.append(1)
        return x + 1 if len(calls) < 2 else x

    define("changing(Tensor x) -> Tensor", kernel, like)
    run = compiled(lambda x: ops.changing(x) * 2, verify=True)
    with torch.no_grad():
        assert torch.equal(run(numbers(3)), (numbers(3) + 1) * 2)
        assert torch.equal(run(numbers(3)), numbers(3) * 2)
    assert len(calls) == 2


def test_honest_operators_pass() -> None:
    run = compiled(lambda x: (ops.honest(x), ops.announced(x), x + 1), verify=True)
    with torch.no_grad():
        run(numbers(2, 3))


# --- the check of results in the first run (specification, F-69) ---


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            lambda x: ops.wrong_shape(x),
            "The dim of Ascend GE graph NetOutput: [3] is not equal to FX graph NetOutput: [2, 3]. (output 0)",
        ),
        (
            lambda x: (x + 1, ops.wrong_dtype(x)),
            (
                "The dtype in num[1] net output of Ascend output: [torch.float64] is not equal to FX graph NetOutput: "
                "[torch.float32]."
            ),
        ),
    ],
)
def test_graph_outputs(program, words) -> None:
    with torch.no_grad(), pytest.raises(OutputCheckError) as caught:
        compiled(program, verify=False)(numbers(2, 3))
    assert isinstance(caught.value, RuntimeError)
    assert words in caught.value.why
    assert "test_contracts.py" in caught.value.where[0]


def test_results_in_the_middle() -> None:
    with torch.no_grad(), pytest.raises(OutputCheckError) as caught:
        compiled(lambda x: ops.wrong_shape(x) + x, verify=False)(numbers(2, 3))
    assert caught.value.why == (
        "WrongShape (node WrongShape), result %wrong_shape: torch.float32 [3], promised torch.float32 [2, 3]",
    )
