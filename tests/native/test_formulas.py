"""Positions as C++ text: what the text computes is what the expression is."""

from __future__ import annotations

import random
from typing import Any

import hypothesis
import pytest
import sympy
import torch
from hypothesis import given, strategies as st

from tests.pipeline.agreement import assert_agrees
from torchair import _torch_compat
from torchair.native.formulas import position_text

_SYMBOLS = sympy.symbols("a b c", integer=True, positive=True)


def _expression(rng: random.Random, depth: int) -> sympy.Expr:
    """What positions are made of; nothing in it is negative."""
    if not depth:
        return rng.choice([*_SYMBOLS, sympy.Integer(rng.randint(1, 5))])
    left, right = _expression(rng, rng.randrange(depth)), _expression(rng, rng.randrange(depth))
    kind = rng.choice(["add", "mul", "floor_div", "modular", "max", "pow"])
    if kind == "add":
        return left + right
    if kind == "mul":
        return left * right
    if kind == "pow":
        return left**2
    if kind == "max":
        return sympy.Max(left, right)
    divisor = right * rng.choice([*_SYMBOLS, 3]) + rng.choice([0, 1])
    if kind == "floor_div":
        return _torch_compat.floor_div(left, divisor)
    return _torch_compat.modular_indexing(left, rng.choice([1, 2]), divisor)


def _value(expression: sympy.Expr, numbers: tuple[int, ...]) -> int:
    return int(expression.subs(dict(zip(_SYMBOLS, numbers, strict=True))))


@given(st.integers(0, 2**32))
def test_text_computes_the_expression(seed) -> None:
    rng = random.Random(seed)
    try:
        expression = _expression(rng, 4)
    except ZeroDivisionError:
        hypothesis.reject()
    text = position_text(expression, str)
    # Of numbers that are not negative, C++ has the precedence and the results of these in Python.
    python = text.replace("tair::maximum<int64_t>", "max").replace("tair::minimum<int64_t>", "min").replace("/", "//")
    for _ in range(3):
        numbers = tuple(rng.randint(1, 30) for _ in _SYMBOLS)
        names = {"max": max, "min": min, **dict(zip("abc", numbers, strict=True))}
        try:
            expected, actual = _value(expression, numbers), eval(python, names)  # noqa: S307  # our own text
        except ZeroDivisionError:
            continue  # no loop with such a size is entered
        assert actual == expected, text


def test_a_divisor_that_is_a_product_with_a_quotient() -> None:
    a, b, _ = _SYMBOLS
    quotient = _torch_compat.floor_div(b, 6)
    assert position_text(_torch_compat.floor_div(a, quotient * 3), str) == "(a / ((b / 6) * 3))"


def _zeros_by_a_view(x):
    row = x.view(-1)[::3]
    row.view(2, 3, -1).zero_()
    return row


def _broadcast_by_a_guard(x, y):
    return x * 2 - y[:, 3::4]  # one column for sizes from 4 to 7


@pytest.mark.parametrize("backend", ["torchair", "npugraph_ex"])
@pytest.mark.parametrize("function", [_zeros_by_a_view, _broadcast_by_a_guard])
def test_sizes_that_are_quotients(function, backend) -> None:
    options: dict[str, Any] | None = {"static_kernel_compile": True} if backend == "npugraph_ex" else None
    compiled = torch.compile(function, backend=backend, options=options, dynamic=True)
    for size in (6, 12) if function is _zeros_by_a_view else (6, 7):
        arguments = [torch.randn(size, size) for _ in range(function.__code__.co_argcount)]
        assert_agrees(function, compiled, arguments)
