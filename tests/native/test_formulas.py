"""Positions as C++ text: what the text computes is what the expression is."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import pytest
import sympy
import torch

from tests.pipeline.agreement import assert_agrees
from torchair import _torch_compat
from torchair.ir.expressions import build_mod
from torchair.native.formulas import position_text

_SYMBOLS = sympy.symbols("a b c", integer=True, positive=True)

_SOURCE = """
#include <torchair_native/scalars.h>
extern "C" __attribute__((visibility("default"))) void positions(int64_t a, int64_t b, int64_t c, int64_t* out) {
BODY
}
"""


def _expression(rng: random.Random, depth: int) -> sympy.Expr:
    """What positions are made of. No result is negative, no divisor is 0, and of symbols up to 12 all is int64."""
    if not depth:
        return rng.choice([*_SYMBOLS, sympy.Integer(rng.randint(1, 5))])
    left, right = _expression(rng, rng.randrange(depth)), _expression(rng, rng.randrange(depth))
    kind = rng.choice(["add", "mul", "floor_div", "modular", "max", "pow", "difference", "ceil", "missing"])
    if kind == "add":
        return left + right
    if kind == "mul":
        return left * right
    if kind == "pow":
        return left**2
    if kind == "max":
        return sympy.Max(left, right)
    divisor = (right + rng.choice(_SYMBOLS)) * rng.choice([1, *_SYMBOLS])
    if kind == "difference":
        return _torch_compat.floor_div(left - right, divisor) + right
    if kind == "ceil":
        return -_torch_compat.floor_div(-left, divisor)
    if kind == "missing":
        return build_mod(-left, divisor)
    if kind == "floor_div":
        return _torch_compat.floor_div(left, divisor)
    return _torch_compat.modular_indexing(left, rng.choice([1, 2]), divisor)


def test_text_computes_the_expression(compiled) -> None:
    rng = random.Random(5)
    expressions = [_expression(rng, 4) for _ in range(150)]
    lines = [f"out[{i}] = {position_text(expression, str)};" for i, expression in enumerate(expressions)]
    function = compiled("torchair_test_positions", _SOURCE.replace("BODY", "\n".join(lines))).positions
    out = torch.empty(len(expressions), dtype=torch.int64)
    for _ in range(3):
        numbers = [rng.randint(1, 12) for _ in _SYMBOLS]
        function(*map(ctypes.c_int64, numbers), ctypes.c_void_p(out.data_ptr()))
        values = dict(zip(_SYMBOLS, numbers, strict=True))
        for expression, line, actual in zip(expressions, lines, out.tolist(), strict=True):
            assert actual == expression.subs(values), (line, values)


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


def _padded_to_a_multiple(x):
    missing = -x.shape[-1] % 4
    return torch.nn.functional.pad(x, (0, missing)).unflatten(-1, (-1, 4)).amax(-1) * missing


@pytest.mark.parametrize("backend", ["torchair", "npugraph_ex"])
@pytest.mark.parametrize("function", [_zeros_by_a_view, _broadcast_by_a_guard, _padded_to_a_multiple])
def test_sizes_that_are_quotients(function, backend) -> None:
    options: dict[str, Any] | None = {"static_kernel_compile": True} if backend == "npugraph_ex" else None
    compiled = torch.compile(function, backend=backend, options=options, dynamic=True)
    for size in (6, 12) if function is _zeros_by_a_view else (6, 7, 6):
        arguments = [torch.randn(size, size) for _ in range(function.__code__.co_argcount)]
        assert_agrees(function, compiled, arguments)
