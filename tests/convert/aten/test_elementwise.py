"""Arithmetic and mathematical functions agree with eager bit for bit, in the operators of Ascend IR."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.convert.conversion import check, converted_graphs, converted_ops, reference_backend
from tests.convert.operands import COMPLEX, FLOATS, INTEGERS, all_of, dtypes, nonzero, numbers

Functions = dict[str, Callable[..., Any]]

UNARY: Functions = {
    name: getattr(torch, name)
    for name in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "digamma", "erf",
        "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2",
        "neg", "reciprocal", "round", "rsqrt", "sgn", "sign", "sin", "sinh", "sqrt", "tan", "trunc", "isnan",
        "isinf", "isfinite", "nan_to_num", "square",
    )
} | {
    "nan_to_num(values)": lambda x: torch.nan_to_num(x, 1.5, 2.0, -3.0),
    "round(2)": lambda x: torch.round(x, decimals=2),
    "round(-1)": lambda x: torch.round(x, decimals=-1),
    "round(0)": lambda x: torch.round(x, decimals=0),
    "signbit": torch.signbit,
    "copysign(-0.0)": lambda x: torch.copysign(x, -0.0),
    "copysign(2)": lambda x: torch.copysign(x, 2),
    "copysign": lambda x: torch.copysign(x, x.flip(0)),
    "angle": torch.angle,
    "logit": lambda x: torch.logit(x / 7),
    "logit(0.1)": lambda x: torch.logit(x / 7, 0.1),
}  # fmt: skip
INTEGER_UNARY = {n: f for n, f in UNARY.items() if n not in ("frac", "round(2)", "round(-1)", "round(0)")}
BOOL_UNARY = {n: f for n, f in INTEGER_UNARY.items() if n not in ("abs", "ceil", "floor", "neg", "round", "trunc")}
COMPLEX_UNARY = {
    n: UNARY[n]
    for n in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "log",
        "log10", "log1p", "log2", "neg", "reciprocal", "rsqrt", "sgn", "sin", "sinh", "sqrt", "tan", "isnan",
        "isinf", "isfinite", "square",
    )
}  # fmt: skip


def tolerance(dtype: torch.dtype) -> float:
    """0, except for complex numbers: eager's own products of them vary in the last bit by the place in the vector."""
    return {torch.complex64: 1e-6, torch.complex128: 1e-14}.get(dtype, 0.0)


@dtypes((torch.float32, torch.bfloat16, torch.int64), (*FLOATS, torch.int32, torch.uint8, torch.bool, *COMPLEX))
def test_functions_of_one_operand(dtype: torch.dtype) -> None:
    functions = (
        UNARY if dtype.is_floating_point
        else COMPLEX_UNARY if dtype.is_complex
        else BOOL_UNARY if dtype is torch.bool
        else INTEGER_UNARY
    )  # fmt: skip
    check(functools.partial(all_of, functions), numbers(dtype), unconverted_ops="error", rtol=tolerance(dtype))


ARITHMETIC: Functions = {
    "add": torch.add,
    "add(alpha)": lambda x, y: torch.add(x, y, alpha=3),
    "sub": torch.sub,
    "sub(alpha)": lambda x, y: torch.sub(x, y, alpha=3),
    "mul": torch.mul,
    "div": torch.div,
}
DIVISIONS: Functions = {
    "div(trunc)": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "div(floor)": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}
OF_TENSORS: Functions = {
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "atan2": torch.atan2,
    "clamp(min)": lambda x, y: torch.clamp(x, min=y),
    "clamp(max)": lambda x, y: torch.clamp(x, max=y),
    "pow": lambda x, y: torch.pow(x, y.abs()),
}


@dtypes((torch.float32, torch.bfloat16, torch.int64), (*FLOATS, *INTEGERS, torch.complex64))
def test_functions_of_two_tensors(dtype: torch.dtype) -> None:
    functions = ARITHMETIC if dtype.is_complex else ARITHMETIC | DIVISIONS | OF_TENSORS
    x, y = numbers(dtype), nonzero(numbers(dtype, 1)).flip(0)
    check(functools.partial(all_of, functions), x, y, unconverted_ops="error", rtol=tolerance(dtype))


@dtypes((torch.float32,), (torch.bfloat16, torch.int64))
def test_broadcasting(dtype: torch.dtype) -> None:
    x, y = numbers(dtype), nonzero(numbers(dtype, 1))
    for pair in ((x.reshape(71, 1)[::5], y[::10]), (x[3], y)):
        check(functools.partial(all_of, ARITHMETIC | OF_TENSORS), *pair, unconverted_ops="error")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.bfloat16, torch.float32),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                (torch.float16, torch.int64),
                (torch.float32, torch.int64),
                (torch.bfloat16, torch.float16),
                (torch.float64, torch.bfloat16),
                (torch.int8, torch.uint8),
                (torch.int64, torch.int32),
            )
        ),
    ],
    ids=str,
)
def test_promotion_of_two_tensors(left: torch.dtype, right: torch.dtype) -> None:
    functions = ARITHMETIC | DIVISIONS | OF_TENSORS
    x, y = numbers(left), nonzero(numbers(right, 1))
    for pair in ((x, y), (x, y[5]), (x, y[5:6]), (x[4], y)):
        check(functools.partial(all_of, functions), *pair, unconverted_ops="error")


def test_bool_is_a_number() -> None:
    functions = {n: (ARITHMETIC | OF_TENSORS)[n] for n in ("add", "mul", "maximum", "minimum")}
    x, y = numbers(torch.bool), numbers(torch.bool, 1)
    for pair in ((x, y), (x, numbers(torch.int16)), (x, numbers(torch.float32)), (x, y[3])):
        check(functools.partial(all_of, functions), *pair, unconverted_ops="error")
    check(lambda x, y: (x / True, torch.add(x, y, alpha=True), torch.add(x, y, alpha=False)), x, y)


@dtypes((torch.float32, torch.bfloat16, torch.int64), (*FLOATS, *INTEGERS, torch.complex64))
@pytest.mark.parametrize("number", [0.7123, pytest.param(-3, marks=pytest.mark.slow)], ids=str)
def test_tensor_and_number(dtype: torch.dtype, number: float) -> None:
    functions = dict(ARITHMETIC) if dtype.is_complex else ARITHMETIC | DIVISIONS
    if not dtype.is_complex:
        functions |= {
            "clamp(min)": lambda x, n: torch.clamp(x, min=n),
            "clamp(max)": lambda x, n: torch.clamp(x, max=n),
            "clamp(both)": lambda x, n: torch.clamp(x, n, 5),
            "number - x": lambda x, n: n - x,
            "number / x": lambda x, n: n / x,
            "number % x": lambda x, n: torch.remainder(n, x),
            "rsub(alpha)": lambda x, n: torch.rsub(x, n, alpha=2),
        }
    if dtype.is_floating_point:
        functions["hardtanh"] = lambda x, n: functional.hardtanh(x, -abs(n), abs(n))
    check(functools.partial(all_of, functions), nonzero(numbers(dtype)), number, dynamic=False, unconverted_ops="error")


@dtypes((torch.float32, torch.bfloat16), FLOATS)
def test_rounding_once(dtype: torch.dtype) -> None:
    """Numbers that half precision cannot hold enter where eager lets them; results are rounded where eager rounds."""
    x, y, z = (numbers(dtype, seed) for seed in range(3))

    def combine(x: Any, y: Any, z: Any) -> Any:
        return (
            torch.add(x, y, alpha=0.7123),
            torch.sub(x, y, alpha=0.7123),
            torch.add(x, 0.7123, alpha=0.3),
            torch.addcmul(x, y, z),
            torch.addcmul(x, y, z, value=0.7123),
            torch.addcdiv(x, y, z),
            torch.ops.aten.addcdiv(x, y, z, value=0.7123),
            torch.lerp(x, y, 0.7123),
            torch.lerp(x, y, 0.3),
            torch.lerp(x, y, z),
        )

    check(combine, x, y, z, unconverted_ops="error")


@dtypes((torch.float32, torch.bfloat16, torch.float16), (torch.float64, *COMPLEX))
def test_powers(dtype: torch.dtype) -> None:
    exact = (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.0)
    check(lambda x: [torch.pow(x, n) for n in exact], numbers(dtype), unconverted_ops="error", rtol=tolerance(dtype))
    # Other powers: eager computes the end of a vector with another function than the rest.
    rtol = tolerance(dtype) or (1e-6 if dtype is torch.float32 else 1e-15 if dtype is torch.float64 else 0)
    others = (1.7, -2.3, 5, -3, 4)
    check(lambda x: [torch.pow(x, n) for n in others], numbers(dtype), unconverted_ops="error", rtol=rtol)
    check(lambda x: [torch.pow(n, x) for n in (2, 1, 0.5, 3.3, 10)], numbers(dtype), unconverted_ops="error", rtol=rtol)


def test_powers_of_integers() -> None:
    x = numbers(torch.int64)
    check(lambda x: [torch.pow(x, n) for n in (0, 1, 2, 3, 5, 0.5, 2.0)], x, unconverted_ops="error", rtol=1e-6)
    check(
        lambda x: [torch.pow(2, x.abs() % 9), torch.pow(x, x % 5), torch.pow(2.5, x)],
        x,
        unconverted_ops="error",
        rtol=1e-6,
    )


def test_clamp_keeps_nan_and_the_sign_of_zero() -> None:
    nan = float("nan")
    x = torch.tensor([-0.0, 0.0, nan, float("inf"), -float("inf"), 1, -1] * 5)

    def clamps(x: torch.Tensor) -> Any:
        results = [torch.clamp(x, *b) for b in ((0.0, None), (None, 0.0), (nan, None), (2.0, 1.0), (nan, 1.0))]
        return results, [torch.signbit(torch.nan_to_num(r)) for r in results]

    check(clamps, x, ops=["ClipByValueV2"])


def test_sizes_as_numbers() -> None:
    def combine(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x + n, x * n, n - x, x / n, torch.add(x, x, alpha=n), torch.clamp(x, max=n), torch.pow(x, n), x * (n / 3)

    check(combine, torch.rand(7) + 1, dynamic=True, unconverted_ops="error", rtol=1e-6)
    check(combine, torch.rand(7).bfloat16(), dynamic=True, unconverted_ops="error", rtol=1e-2)
    check(
        lambda x: (x + x.shape[0], x * x.shape[0], x // x.shape[0]),
        torch.arange(7),
        dynamic=True,
        unconverted_ops="error",
    )


@pytest.mark.parametrize("shape", [(0,), (3, 0), (1,), ()])
def test_empty_and_single(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    check(lambda x: (x * 2 + x, x.exp(), torch.clamp(x, 0, 1), x**2, x - x.bfloat16(), torch.add(x, x, alpha=2)), x)


def test_strides_of_results() -> None:
    x, y = torch.randn(3, 4, 5).transpose(0, 2), torch.randn(5, 4, 3)
    check(lambda x, y: (x + y, x * 2, x.exp(), y - x, x[:, :1] + y), x, y, unconverted_ops="error")
    check(lambda x: (x + 1, x.sin()), torch.randn(4, 1).expand(4, 5), unconverted_ops="error")


OPERATORS: list[tuple[Callable[..., Any], list[str]]] = [
    (lambda x: x + 1, ["Add"]),
    (lambda x: torch.add(x, x, alpha=2), ["Axpy"]),
    (lambda x: torch.add(x.int(), x.int(), alpha=2), ["Cast", "AxpyV2"]),
    (lambda x: x - 1, ["Sub"]),
    (lambda x: x * 0.1, ["Mul"]),
    (lambda x: x / 3, ["RealDiv"]),
    (lambda x: x // 3, ["FloorDiv"]),
    (lambda x: torch.div(x, 3, rounding_mode="trunc"), ["TruncateDiv"]),
    (lambda x: x % 3, ["FloorMod"]),
    (lambda x: torch.fmod(x, 3), ["Mod"]),
    (lambda x: x**2, ["Mul"]),
    (lambda x: x**0.5, ["Sqrt"]),
    (lambda x: x**1.5, ["Pow"]),
    (lambda x: torch.log2(x), ["Log"]),
    (lambda x: torch.clamp(x, 0, 1), ["ClipByValueV2"]),
    (lambda x: torch.addcmul(x, x, x, value=2), ["Addcmul"]),
    (lambda x: torch.lerp(x, x, 0.5), ["Lerp"]),
    (lambda x: torch.atan2(x, x), ["Atan2"]),
    (lambda x: torch.round(x, decimals=1), ["Mul", "Round", "RealDiv"]),
    (lambda x: torch.floor(x.long()) + 1, ["Cast", "Add"]),
    (lambda x: x.bfloat16() * 0.1, ["Cast", "Cast", "Mul", "Cast"]),
    (lambda x: x.half() * 0.5, ["Cast", "Mul"]),
]


def test_operators() -> None:
    ops = converted_ops(lambda x: [function(x) for function, _ in OPERATORS], torch.rand(5))
    assert ops == [op for _, expected in OPERATORS for op in expected]


def test_attributes() -> None:
    (graph,) = converted_graphs(lambda x: torch.sub(torch.exp2(torch.log10(x)), x, alpha=0.5), torch.rand(4))
    attrs = {node.op: dict(node.attrs) for node in graph}
    assert attrs["Log"]["base"] == 10.0
    assert attrs["Exp"]["base"] == 2.0
    assert attrs["Axpy"] == {"alpha": -0.5}


BOOLS, WHOLE, REAL = torch.tensor([True, False]), torch.tensor([1, 2]), torch.tensor([1.0, -2.0])
COMPLEX_ONES = torch.tensor([1 + 2j])
REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "bool - int": (lambda x: x - 2, (BOOLS,)),
    "int - bool": (lambda x: 1 - x, (BOOLS,)),
    "float - True": (lambda x: x - True, (REAL,)),
    "bool - tensor": (torch.sub, (BOOLS, WHOLE)),
    "rsub": (torch.rsub, (BOOLS, REAL)),
    "add(alpha=True)": (lambda x: torch.add(x, x, alpha=True), (REAL,)),
    "floor(bool)": (torch.floor, (BOOLS,)),
    "ceil(bool)": (torch.ceil, (BOOLS,)),
    "round(bool)": (torch.round, (BOOLS,)),
    "trunc(complex)": (torch.trunc, (COMPLEX_ONES,)),
    "frac(int)": (torch.frac, (WHOLE,)),
    "round(int, 1)": (lambda x: torch.round(x, decimals=1), (WHOLE,)),
    "sign(complex)": (torch.sign, (COMPLEX_ONES,)),
    "xlogy(complex)": (torch.xlogy, (COMPLEX_ONES, COMPLEX_ONES)),
    "logaddexp(int)": (lambda x: torch.logaddexp(x, x), (WHOLE,)),
    "logaddexp2(int)": (lambda x: torch.logaddexp2(x, x), (WHOLE,)),
    "heaviside(float, int)": (torch.heaviside, (REAL, WHOLE)),
    "int ** -1": (lambda x: x**-1, (WHOLE,)),
    "int32 ** -1": (lambda x: x**-1, (WHOLE.int(),)),
    "uint8 ** -2": (lambda x: x**-2, (WHOLE.to(torch.uint8),)),
    "uint8 ** 300": (lambda x: x**300, (WHOLE.to(torch.uint8),)),
    "bool ** bool": (torch.pow, (BOOLS, BOOLS)),
    "True ** bool": (lambda x: torch.pow(True, x), (BOOLS,)),
    "float16 ** 2**40": (lambda x: x ** (2**40), (REAL.half(),)),
    "bfloat16 ** 1e300": (lambda x: x**1e300, (REAL.bfloat16(),)),
    "threshold(bool)": (lambda x: functional.threshold(x, 1, 1), (BOOLS,)),
    "threshold(1e300)": (lambda x: functional.threshold(x, 1e300, 1), (REAL,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_eager_refuses_is_refused(name: str) -> None:
    fn, args = REFUSED[name]
    with pytest.raises((RuntimeError, NotImplementedError)) as refused:
        fn(*args)
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=reference_backend(), fullgraph=True)
    with pytest.raises(Exception, match=re.escape(str(refused.value).splitlines()[0][:60])):
        compiled(*args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool, torch.uint8])
@pytest.mark.parametrize("number", [1e300, 2**40, 2, True])
def test_xlogy_with_numbers(dtype: torch.dtype, number: float) -> None:
    x = torch.tensor([0, 1, 3]).to(dtype)
    if dtype.is_floating_point:
        x = torch.cat([x, torch.tensor([-1.0, torch.inf, torch.nan], dtype=dtype)])
    check(lambda x: (torch.xlogy(x, number), torch.xlogy(number, x)), x, ops=["Xlogy"], unconverted_ops="error")


def test_powers_that_are_one() -> None:
    x = torch.tensor([complex(torch.inf, torch.nan), 0j, 1 + 2j])
    check(lambda x: (x**0, x**0.0, x**0j, 1**x, torch.float_power(x, 0)), x, unconverted_ops="error")
    nans = torch.tensor([torch.nan, 0.0])
    check(lambda x, n: (x**0, 1**x, n**0, n**False), nans, WHOLE, unconverted_ops="error")


def test_bool_powers_of_bools() -> None:
    check(lambda x: (x**True, x**False), BOOLS)


def test_a_number_beyond_half_precision_becomes_infinite() -> None:
    check(lambda x: torch.where(x > 0, x, 1e300), REAL.half(), unconverted_ops="error")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_logarithms_of_sums(dtype: torch.dtype) -> None:
    x = torch.cat([numbers(dtype), torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0], dtype=dtype)])
    rtol = {torch.float32: 2e-7, torch.float64: 4e-16}.get(dtype, 0.0)
    functions: Functions = {"logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2}
    for y in (x, x.flip(0), x[3]):
        # What cancels out in float32 (log2(1/2 + 1/2)) depends on which products and sums the compiler fused.
        check(functools.partial(all_of, functions), x, y, unconverted_ops="error", rtol=rtol, atol=rtol or 2e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_heaviside(dtype: torch.dtype) -> None:
    x = numbers(dtype)
    check(torch.heaviside, x, x.flip(0), unconverted_ops="error")
    check(torch.heaviside, x, x[1], unconverted_ops="error")
