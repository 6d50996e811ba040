"""Operators on lists of tensors agree with eager; lists of one dtype become one operator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tests.convert.conversion import check, converted_ops
from tests.convert.operands import FLOATS, all_of, dtypes, nonzero, numbers

aten = torch.ops.aten

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
COMPOSED = ("frac", "lgamma", "neg", "reciprocal", "rsqrt", "sign", "sqrt")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow")


def foreach(name: str) -> Any:
    return getattr(torch, f"_foreach_{name}")


def lists(dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    x = nonzero(numbers(dtype, seed))
    return [x, x[:12].reshape(3, 4), x[5]]


@dtypes((torch.float32,), FLOATS)
def test_one_list(dtype: torch.dtype) -> None:
    functions = {name: foreach(name) for name in UNARY}
    (graph,) = check(functools.partial(all_of, functions), lists(dtype), unconverted_ops="error")
    rounding = ["ceil", "floor", "round", "trunc"]
    ops = [n.op for n in graph]
    assert ops.count("ForeachRoundOffNumber") == len(rounding)
    assert {f"Foreach{n.capitalize()}" for n in UNARY if n not in (*COMPOSED, *rounding)} <= set(ops)


@dtypes((torch.float32,), (*FLOATS, torch.int32, torch.int64))
def test_two_operands(dtype: torch.dtype) -> None:
    exact = dtype.is_floating_point
    functions: dict[str, Callable[..., Any]] = {}
    for name in BINARY:
        f = foreach(name)
        functions[f"{name}(list)"] = f if name != "pow" else lambda x, y: torch._foreach_pow(x, [t.abs() for t in y])
        functions[f"{name}(number)"] = lambda x, y, f=f: f(x, 0.7123 if exact else 3)
        functions[f"{name}(int)"] = lambda x, y, f=f: f(x, 2)
        functions[f"{name}(numbers)"] = lambda x, y, f=f: f(x, [0.5, 2.0, 1.7] if exact else [1, 2, 3])
    functions["add(alpha)"] = lambda x, y: torch._foreach_add(x, y, alpha=0.3 if exact else 3)
    functions["sub(alpha)"] = lambda x, y: torch._foreach_sub(x, y, alpha=0.3 if exact else 3)
    functions["pow(number, list)"] = lambda x, y: torch._foreach_pow(1.5 if exact else 2, [t.abs() for t in x])
    check(functools.partial(all_of, functions), lists(dtype), lists(dtype, 1), unconverted_ops="error")


@dtypes((torch.float32, torch.bfloat16), FLOATS)
def test_three_operands(dtype: torch.dtype) -> None:
    x, y, z = lists(dtype), lists(dtype, 1), lists(dtype, 2)

    def combine(x: Any, y: Any, z: Any) -> Any:
        return (
            torch._foreach_addcmul(x, y, z, value=0.3),
            torch._foreach_addcmul(x, y, z, scalars=[0.3, 1.0, 2.0]),
            torch._foreach_addcdiv(x, y, z, value=0.3),
            torch._foreach_addcdiv(x, y, z),
            torch._foreach_addcdiv(x, y, z, scalars=[0.3, 1.0, 2.0]),
            torch._foreach_lerp(x, y, 0.3),
            torch._foreach_lerp(x, y, z),
        )

    check(combine, x, y, z, rtol=0 if dtype is not torch.float64 else 1e-15)


def test_norms() -> None:
    x = [torch.randn(7), torch.randn(3, 4)]
    check(lambda x: (torch._foreach_norm(x), torch._foreach_norm(x, 1), torch._foreach_norm(x, float("inf"))), x)
    check(lambda x: (torch._foreach_norm([t.bfloat16() for t in x], 2, dtype=torch.float32),), x)


def test_lists_that_mix_or_change_dtypes() -> None:
    x = [numbers(torch.float32), numbers(torch.int64), numbers(torch.bfloat16)]
    check(
        lambda x: (torch._foreach_add(x, 1.5), torch._foreach_mul(x, x), torch._foreach_exp(x)),
        x,
        unconverted_ops="error",
    )
    i = [nonzero(numbers(torch.int64)), nonzero(numbers(torch.int64, 1))]
    check(lambda x: (torch._foreach_div(x, x), torch._foreach_sqrt([t.abs() for t in x])), i, unconverted_ops="error")
    c = [numbers(torch.complex64), numbers(torch.complex64, 1)]
    check(lambda x: (torch._foreach_mul(x, 1j), torch._foreach_abs(x)), c, unconverted_ops="error")
    b = [numbers(torch.bool)]
    check(lambda x: torch._foreach_add(x, True), b, unconverted_ops="error")


def test_in_place_and_dynamic() -> None:
    x = [torch.randn(5), torch.randn(2, 3)]
    check(lambda x: torch._foreach_mul_(x, 2.0), x, unconverted_ops="error")
    check(lambda x: torch._foreach_add(x, x[0].shape[0]), x, dynamic=True, unconverted_ops="error")


def test_operators() -> None:
    def combine(x: Any) -> Any:
        return (
            torch._foreach_add(x, x, alpha=2),
            torch._foreach_add(x, 2),
            torch._foreach_sub(x, [1.0, 2.0]),
            torch._foreach_maximum(x, 0.5),
            torch._foreach_pow(2.0, x),
            torch._foreach_addcmul(x, x, x, value=2),
            torch._foreach_lerp(x, x, 0.5),
            torch._foreach_norm(x, 2),
        )

    assert converted_ops(combine, [torch.rand(3), torch.rand(2)]) == [
        "ForeachAddList",
        "ForeachAddScalar",
        "ForeachSubScalarList",
        "ForeachMaximumScalar",
        "ForeachPowScalarAndTensor",
        "ForeachAddcmulScalar",
        "ForeachLerpScalar",
        "ForeachNorm",
    ]
