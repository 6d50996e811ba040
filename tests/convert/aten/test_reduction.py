"""Reductions agree with eager bit for bit, in the operators of Ascend IR."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from tests.convert.conversion import check, check_samples, converted_graphs, converted_ops
from tests.convert.operands import COMPLEX, FLOATS, INTEGERS, all_of, dtypes
from tests.convert.single_call import check_overload

Functions = dict[str, Callable[..., Any]]


def elements(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Random elements with equal ones among them, for ties."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-4, 5, shape, generator=generator)
    if dtype.is_complex:
        return torch.complex(x.double() / 2, torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)
    if dtype.is_floating_point:
        return (x / 2 + torch.randn(shape, generator=generator) * (x > 1)).to(dtype)
    return (x.abs() if dtype is torch.uint8 else x).to(dtype)


SUMS: Functions = {
    "sum": torch.sum,
    "sum(0)": lambda x: x.sum(0),
    "sum(-1, keepdim)": lambda x: x.sum(-1, keepdim=True),
    "sum(0, -1)": lambda x: x.sum((0, -1)),
    "sum()": lambda x: x.sum(()),
    "prod": torch.prod,
    "prod(1)": lambda x: x.prod(1),
    "prod(-2, keepdim)": lambda x: x.prod(-2, keepdim=True),
}
LOGICAL: Functions = {
    "any": torch.any,
    "any(-1)": lambda x: x.any(-1),
    "any(0, keepdim)": lambda x: x.any(0, keepdim=True),
    "any(0, 2)": lambda x: torch.any(x, (0, 2)),
    "any(())": lambda x: torch.any(x, ()),
    "all": torch.all,
    "all(1)": lambda x: x.all(1),
    "all(-1, keepdim)": lambda x: x.all(-1, keepdim=True),
    "all(0, 1)": lambda x: torch.all(x, (0, 1), keepdim=True),
    "all(())": lambda x: torch.all(x, ()),
}
MEANS: Functions = {
    "mean": torch.mean,
    "mean(1)": lambda x: x.mean(1),
    "mean(0, 2, keepdim)": lambda x: x.mean((0, 2), keepdim=True),
    "var": torch.var,
    "var(1, unbiased=False)": lambda x: x.var(1, unbiased=False),
    "var(0, 1, correction=3)": lambda x: torch.var(x, (0, 1), correction=3, keepdim=True),
    "std(-1)": lambda x: x.std(-1),
    "std(all)": lambda x: x.std((0, 1, 2)),
    "var_mean(0)": lambda x: torch.var_mean(x, 0),
    "std_mean": torch.std_mean,
    "norm": torch.linalg.vector_norm,
    "norm(1, dim=0)": lambda x: torch.linalg.vector_norm(x, 1, 0),
    "norm(inf)": lambda x: torch.linalg.vector_norm(x, math.inf, (0, 2), keepdim=True),
    "norm(-inf)": lambda x: torch.linalg.vector_norm(x, -math.inf, -1),
    "norm(0)": lambda x: torch.linalg.vector_norm(x, 0, 1),
    "norm(2.5)": lambda x: torch.linalg.vector_norm(x, 2.5, 1),
    "torch.norm": lambda x: torch.norm(x, 2, 1),
}
EXTREMA: Functions = {
    "amax": torch.amax,
    "amax(0, -1)": lambda x: x.amax((0, -1)),
    "amin(1, keepdim)": lambda x: x.amin(1, keepdim=True),
    "max": torch.max,
    "min": torch.min,
    "max(0)": lambda x: tuple(x.max(0)),
    "max(-1, keepdim)": lambda x: tuple(x.max(-1, keepdim=True)),
    "min(1)": lambda x: tuple(x.min(1)),
    "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)),
}
POSITIONS: Functions = {
    "argmax": torch.argmax,
    "argmax(0)": lambda x: x.argmax(0),
    "argmax(-1, keepdim)": lambda x: x.argmax(-1, keepdim=True),
    "argmin": lambda x: x.argmin(keepdim=True),
    "argmin(1)": lambda x: x.argmin(1),
}


def functions_of(dtype: torch.dtype) -> Functions:
    """The reductions that torch has for a dtype."""
    if dtype is torch.bool:
        return SUMS | LOGICAL | EXTREMA
    if dtype.is_complex:
        return SUMS | LOGICAL | MEANS
    if dtype.is_floating_point:
        return SUMS | LOGICAL | EXTREMA | POSITIONS | MEANS | {"logsumexp(0, 1)": lambda x: x.logsumexp((0, 1))}
    return SUMS | LOGICAL | EXTREMA | POSITIONS | {"logsumexp(-1)": lambda x: x.logsumexp(-1, keepdim=True)}


ALL_DTYPES = (*FLOATS, *INTEGERS, *COMPLEX, torch.bool)


@dtypes((torch.float32, torch.bfloat16, torch.int32, torch.uint8, torch.bool, torch.complex64), ALL_DTYPES)
def test_results_are_eagers(dtype: torch.dtype) -> None:
    functions = functions_of(dtype)
    check(lambda x: all_of(functions, x), elements(dtype, 3, 4, 5), unconverted_ops="error")


@dtypes((torch.float32,), FLOATS)
def test_nan_and_infinity(dtype: torch.dtype) -> None:
    x = elements(dtype, 3, 4, 5)
    x[0, 0, 0], x[1, 1, 1], x[1, 2, 2], x[2, 2, 3], x[2, 2, 4] = math.nan, math.inf, -math.inf, math.nan, math.nan
    check(lambda x: all_of(functions_of(dtype), x), x, unconverted_ops="error")


@dtypes((torch.float32, torch.int64), (torch.complex64, torch.bool))
def test_a_0d_tensor(dtype: torch.dtype) -> None:
    # The functions for one dimension, each named 0 or -1.
    one: Functions = {
        "sum": lambda x: (x.sum(), x.sum(0), x.sum(-1, keepdim=True)),
        "prod": lambda x: (x.prod(), x.prod(-1)),
        "any": lambda x: (x.any(), x.any(0), x.all(-1)),
    }
    if not dtype.is_complex:
        one["amax"] = lambda x: (x.amax(), x.amin(-1), x.max(), tuple(x.max(0)), tuple(x.min(-1, keepdim=True)))
    if dtype in (torch.float32, torch.int64):
        one["argmax"] = lambda x: (x.argmax(), x.argmin(0, keepdim=True))
        one["logsumexp"] = lambda x: x.logsumexp(0)
    if dtype.is_floating_point:
        one["mean"] = lambda x: (x.mean(), x.mean(0), torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 6, 0))
        one["var"] = lambda x: (x.var(correction=0), torch.var_mean(x, 0, correction=0))
    x = torch.tensor(-3 + 2j if dtype.is_complex else -3).to(dtype)
    check(lambda x: all_of(one, x), x, unconverted_ops="error")


def test_empty_tensors() -> None:
    functions: Functions = {
        "sum": lambda x: (x.sum(), x.sum(0), x.sum(1)),
        "prod": lambda x: (x.prod(), x.prod(0)),
        "mean": lambda x: (x.mean(), x.mean(0), x.mean(1)),
        "any": lambda x: (x.any(), x.all(), x.any(0), x.all(1)),
        "max": lambda x: (tuple(x.max(1)), x.amin(1), x.argmax(1)),
        "var": lambda x: (x.var(), x.std(0), torch.linalg.vector_norm(x), x.logsumexp(0)),
    }
    check(lambda x: all_of(functions, x), torch.empty(0, 3), unconverted_ops="error")


def test_the_dtype_of_a_result_can_be_chosen() -> None:
    def fn(half: torch.Tensor, single: torch.Tensor, whole: torch.Tensor) -> list[torch.Tensor]:
        return [
            half.sum(dtype=torch.float32),
            half.mean(1, dtype=torch.float64),
            single.sum(0, dtype=torch.bfloat16),
            single.mean(dtype=torch.bfloat16),
            whole.sum(1, dtype=torch.int32),
            whole.mean(dtype=torch.float32),
            whole.prod(dtype=torch.float64),
            half.prod(0, dtype=torch.float32),
            torch.linalg.vector_norm(half, dtype=torch.float32),
            torch.linalg.vector_norm(single, 3, 1, dtype=torch.float64),
        ]

    args = elements(torch.bfloat16, 40, 50), elements(torch.float32, 40, 50), elements(torch.int32, 3, 4)
    check(fn, *args, unconverted_ops="error")


def test_sizes_stay_symbolic() -> None:
    functions = functions_of(torch.float32)
    graphs = check(
        lambda x: all_of(functions, x), elements(torch.float32, 3, 4, 5), dynamic=True, unconverted_ops="error"
    )
    assert not graphs[0].inputs[-1].type.is_static


def test_strided_inputs() -> None:
    # Reducing nothing is left out: eager's strides of that are not those of its meta function.
    functions = {name: f for name, f in functions_of(torch.float32).items() if not name.endswith("(())")}
    x = elements(torch.float32, 5, 4, 3).permute(2, 0, 1)
    check(lambda x: all_of(functions, x), x, unconverted_ops="error")


def test_gradients() -> None:
    functions: Functions = {
        name: f
        for name, f in (SUMS | MEANS).items()
        if name in ("sum", "sum(0, -1)", "prod(1)", "mean(1)", "var", "std(-1)", "norm", "norm(1, dim=0)")
    } | {"amax": lambda x: x.amax(1), "max": lambda x: x.max(1).values, "logsumexp": lambda x: x.logsumexp(1)}
    x = torch.randn(3, 4, 5, requires_grad=True)
    check(lambda x: all_of(functions, x), x, backward=True, rtol=1e-5, atol=1e-6)


def test_the_ir_operators() -> None:
    x = torch.randn(3, 4)
    assert converted_ops(lambda x: x.sum(), x) == ["ReduceSum"]
    assert converted_ops(lambda x: x.sum(1), x.int()) == ["Cast", "ReduceSum"]
    assert converted_ops(lambda x: x.mean(1), x) == ["ReduceMean"]
    assert converted_ops(lambda x: x.prod(), x) == ["ReduceProdD"]
    assert converted_ops(lambda x: x.any(), x > 0) == ["ReduceAny"]
    assert converted_ops(lambda x: x.all(1), x) == ["Cast", "ReduceAll"]
    assert converted_ops(lambda x: x.max(0), x) == ["ArgMaxWithValue", "Cast"]
    assert converted_ops(lambda x: x.min(0).values, x) == ["ArgMinWithValue"]
    assert converted_ops(lambda x: x.argmax(1), x) == ["ArgMaxV2"]
    assert converted_ops(lambda x: x.argmin(), x) == ["Reshape", "ArgMin"]
    assert converted_ops(lambda x: x.std(1), x) == ["ReduceStdV2"]
    assert converted_ops(lambda x: x.var(1), x) == ["ReduceVar"]
    assert converted_ops(lambda x: x.norm(dim=1), x) == ["LpNormV2"]


def test_composite_overloads() -> None:
    x = torch.randn(3, 4, 5)
    assert check_overload(torch.ops.aten.var.dim, x, [0, -1], False, True) == ["ReduceVar"]
    assert check_overload(torch.ops.aten.std.dim, x, None) == ["ReduceStdV2"]


def test_a_fractional_correction_has_no_ascend_form() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.var(x, 1, correction=0.5)

    x = torch.randn(3, 4)
    check(fn, x)
    with pytest.raises(
        BackendCompilerFailed, match=r"correction is 0\.5, and the Ascend operator takes a whole number"
    ):
        converted_graphs(fn, x)


OP_INFOS = [
    "sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "var", "std", "var_mean", "std_mean",
    "logsumexp", "linalg.vector_norm", "norm", "aminmax", "count_nonzero", "nansum",
]  # fmt: skip


@pytest.mark.slow  # the first sample of every entry is among the conformance tests
@pytest.mark.parametrize("name", OP_INFOS)
def test_op_info_samples(name: str) -> None:
    check_samples(name, torch.float32)
