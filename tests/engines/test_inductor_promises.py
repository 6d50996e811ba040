"""The inductor engine with custom operators that break their promises, and with tensors that are not what they seem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import custom_operators
from tests.engines.test_inductor import backend, compiled
from tests.pipeline.agreement import assert_agrees
from torchair.errors import OperatorContractError, UnsupportedGraphError

ops = custom_operators.ops
later: list[bool] = []

custom_operators.define("promise_dtype(Tensor x) -> Tensor", lambda x: x.argsort(), torch.empty_like)
custom_operators.define("promise_size(Tensor x) -> Tensor", lambda x: x.new_ones(4, 3), torch.empty_like)
custom_operators.define("promise_rank(Tensor x) -> Tensor", lambda x: x.new_ones(()), torch.empty_like)
custom_operators.define("promise_strides(Tensor x) -> Tensor", lambda x: (x + 1).t(), torch.empty_like)
custom_operators.define(
    "promise_second(Tensor x) -> (Tensor, Tensor)",
    lambda x: (x + 1, x.int()),
    lambda x: (torch.empty_like(x), torch.empty_like(x)),
)
custom_operators.define(
    "promise_later(Tensor x) -> Tensor", lambda x: (x + 1).t() if later else x + 1, torch.empty_like
)


@pytest.mark.parametrize(
    "name, problem",
    [
        ("promise_dtype", "result 0 has dtype torch.int64, its fake kernel promises torch.float32"),
        ("promise_size", "result 0 has shape [4, 3], its fake kernel promises [3, 3]"),
        ("promise_rank", "result 0 has shape [], its fake kernel promises [3, 3]"),
        ("promise_strides", "result 0 has strides [1, 3], its fake kernel promises [3, 1]"),
        ("promise_second", "result 1 has dtype torch.int32, its fake kernel promises torch.float32"),
    ],
)
def test_a_result_of_another_type_than_promised(name: str, problem: str) -> None:
    op = getattr(ops, name)

    def program(x: Tensor) -> Any:
        results = op(x)
        return (results if isinstance(results, Tensor) else results[1]) + 1

    run = compiled(program)
    for _ in range(2):
        with pytest.raises(OperatorContractError) as caught:
            run(torch.randn(3, 3))
        assert caught.value.why == (f"custom_operators.{name}.default: {problem}",)
        assert "register_fake" in caught.value.fix
        assert caught.value.where[0].startswith(f"{__file__}:{program.__code__.co_firstlineno + 1}, in program")


def test_a_result_that_breaks_its_promise_in_a_later_call() -> None:
    run = compiled(lambda x: ops.promise_later(x) * 2)
    later.clear()
    run(torch.randn(3, 3))
    later.append(True)
    with pytest.raises(OperatorContractError) as caught:
        run(torch.randn(3, 3))
    (problem,) = caught.value.why
    assert problem.startswith(
        "custom_operators.promise_later.default: a result has another shape or other strides than its fake kernel "
        "promises (expected size 3==3, stride 1==3"
    )


# --- tensors that are not what they seem ---


def _negative() -> Tensor:
    result = torch.imag(torch.tensor([1 + 2j, 3 - 4j]).conj())
    assert result.is_neg()
    return result


def _conjugate() -> Tensor:
    return torch.tensor([1 + 2j, 3 - 4j]).conj()


def _doubled(x: Tensor) -> Any:
    return x * 2, x


def _written(x: Tensor) -> Any:
    x.add_(1)
    return x * 2


def _parts(x: Tensor) -> Any:
    return x.real * 2, x.imag + 1, (x * x.conj()).real


@pytest.mark.parametrize("first", [None, torch.ones(2)], ids=["compiled_for_it", "compiled_for_another"])
@pytest.mark.parametrize(
    "program, make", [(_doubled, _negative), (_written, _negative), (_doubled, _conjugate), (_written, _conjugate)]
)
def test_bits_for_negative_and_conjugate(
    program: Callable[..., Any], make: Callable[[], Tensor], first: Tensor | None
) -> None:
    run = compiled(program)
    if first is not None:
        run(first.to(make().dtype))
    # Not ``assert_agrees``, whose copies have no such bits.
    mine, theirs = make(), make()
    got, wanted = run(mine), program(theirs)
    for a, b in zip([*got, mine], [*wanted, theirs], strict=True):
        assert torch.equal(a, b)


def test_parts_of_a_conjugate() -> None:
    run = compiled(_parts)
    for given in (_conjugate(), _conjugate().resolve_conj(), _conjugate().expand(3, 2)):
        for got, wanted in zip(run(given), _parts(given), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("engine", ["auto", "inductor", "reference"])
def test_the_layout_mkldnn_is_refused(engine: str) -> None:
    run = torch.compile(lambda x: x * 2, backend=backend(engine))
    with pytest.raises(UnsupportedGraphError) as caught:
        run(torch.ones(2, 2).to_mkldnn())
    assert "input 0 (%arg0_1) is one" in str(caught.value)
    assert_agrees(lambda x: x * 2, run, (torch.ones(2, 2),))
