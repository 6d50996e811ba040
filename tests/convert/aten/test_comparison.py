"""Comparisons, logic, bits and choices agree with eager, in the operators of Ascend IR."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tests.convert.conversion import check, converted_ops
from tests.convert.operands import FLOATS, INTEGERS, all_of, dtypes, numbers

COMPARISONS: dict[str, Callable[..., Any]] = {
    name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
LOGIC: dict[str, Callable[..., Any]] = {
    "and": torch.logical_and,
    "or": torch.logical_or,
    "xor": torch.logical_xor,
    "not": lambda x, y: torch.logical_not(x),
}
BITS: dict[str, Callable[..., Any]] = {
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "not": lambda x, y: torch.bitwise_not(x),
}
SHIFTS: dict[str, Callable[..., Any]] = {"left": torch.bitwise_left_shift, "right": torch.bitwise_right_shift}


@dtypes((torch.float32, torch.bfloat16), (*FLOATS, *INTEGERS, torch.bool))
def test_comparisons(dtype: torch.dtype) -> None:
    x, y = numbers(dtype), numbers(dtype, 1)
    x[::3] = y[::3]
    functions = {
        f"{name}({kind})": functools.partial(lambda f, y, x: f(x, y), f, other)
        for name, f in COMPARISONS.items()
        for kind, other in {"tensor": y, "0-d": y[7], "number": 0.7123, "rows": y.reshape(71, 1)[:2]}.items()
    }
    check(functools.partial(all_of, functions), x, unconverted_ops="error")


def test_comparisons_promote() -> None:
    pairs = [
        (numbers(left), numbers(right, 1))
        for left, right in (
            (torch.float32, torch.int64),
            (torch.bfloat16, torch.float16),
            (torch.int8, torch.uint8),
            (torch.bool, torch.int32),
            (torch.float16, torch.float64),
        )
    ]

    def compare(pairs: Any) -> Any:
        return [(torch.eq(x, y), torch.lt(x, y), torch.lt(x, y[3]), torch.lt(x[3], y)) for x, y in pairs]

    check(compare, pairs, unconverted_ops="error")


def test_numbers_out_of_range_wrap_as_in_eager() -> None:
    x = torch.tensor([0, 1, 255], dtype=torch.uint8)
    check(lambda x: (x > -1, x < 300, x == 256, x & -1, x + -1, x * 300), x, unconverted_ops="error")


def test_comparisons_with_sizes_and_complex_numbers() -> None:
    z = numbers(torch.complex64)
    check(lambda x: (x > x.shape[0], x == x.shape[0] / 2), torch.arange(7.0), dynamic=True, unconverted_ops="error")
    check(lambda z: (z == z[3], z != z.flip(0), z == 1, torch.logical_and(z, z)), z, unconverted_ops="error")


@dtypes((torch.float32, torch.bool), (torch.bfloat16, torch.int64, torch.complex64))
def test_logic(dtype: torch.dtype) -> None:
    check(functools.partial(all_of, LOGIC), numbers(dtype), numbers(torch.bool, 1), unconverted_ops="error")
    check(functools.partial(all_of, LOGIC), numbers(torch.int32), numbers(dtype, 1), unconverted_ops="error")


@dtypes((torch.int64, torch.bool), INTEGERS)
def test_bits(dtype: torch.dtype) -> None:
    x, y = numbers(dtype), numbers(dtype, 1)
    check(functools.partial(all_of, BITS), x, y, unconverted_ops="error")
    check(functools.partial(all_of, BITS), x, 5 if dtype is not torch.bool else True, unconverted_ops="error")
    check(lambda x, y: (x & y, x ^ y), x, numbers(torch.int32), unconverted_ops="error")
    if dtype is not torch.bool:
        functions = SHIFTS | {"<<": lambda x, y: x << y, ">>": lambda x, y: x >> y}
        check(functools.partial(all_of, functions), x, y.abs() % 7, unconverted_ops="error")
        check(functools.partial(all_of, functions), x, 2, unconverted_ops="error")
        check(lambda x: (torch.bitwise_left_shift(1, x), torch.bitwise_right_shift(100, x)), x.abs() % 7)


@dtypes((torch.float32, torch.int64), (*FLOATS, *INTEGERS, torch.bool, torch.complex64))
def test_choices(dtype: torch.dtype) -> None:
    x, y, mask = numbers(dtype), numbers(dtype, 1), numbers(torch.bool)

    def choose(x: Any, y: Any, mask: Any) -> Any:
        return (
            torch.where(mask, x, y),
            torch.where(mask.reshape(71, 1)[:3], x, y[2]),
            torch.where(mask, x, 1),
            torch.where(mask, 0, y),
            x.masked_fill(mask, 1),
            x.masked_fill(mask, y[4]),
            x[:3].masked_fill(mask.reshape(71, 1), True),
        )

    check(choose, x, y, mask, unconverted_ops="error")


def test_choices_promote() -> None:
    x, mask = numbers(torch.float32), numbers(torch.bool)
    check(lambda x, m: (torch.where(m, x, x.to(torch.bfloat16)), torch.where(m, x.to(torch.int8), 1.5)), x, mask)
    check(lambda x, m: x.masked_fill_(m, float("-inf")), x, mask, unconverted_ops="error")


OPERATORS: list[tuple[Callable[..., Any], list[str]]] = [
    (lambda x: x == 1, ["Equal"]),
    (lambda x: x != x, ["NotEqual"]),
    (lambda x: (x < 1) | (x >= 2), ["Less", "GreaterEqual", "LogicalOr"]),
    (lambda x: x.isnan(), ["IsNan"]),
    (lambda x: x.masked_fill(x > 0, 1), ["Greater", "MaskedFill"]),
    (lambda x: torch.where(x <= 0, x, 1), ["LessEqual", "SelectV2"]),
    (lambda x: x.to(torch.int32) ^ 3, ["Cast", "BitwiseXor"]),
    (lambda x: ~(x > 1), ["Greater", "LogicalNot"]),
]


def test_operators() -> None:
    ops = converted_ops(lambda x: [function(x) for function, _ in OPERATORS], torch.rand(5))
    assert ops == [op for _, expected in OPERATORS for op in expected]
