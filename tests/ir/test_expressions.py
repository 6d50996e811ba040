"""Symbolic sizes as text and back."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy
from hypothesis import given, strategies as st
from tests.ir.random_graphs import dims, symbols
from torch.utils._sympy import functions as fn

from torchair.errors import IRError, IRTextError
from torchair.ir.expressions import FUNCTIONS, dim_text
from torchair.ir.graph import Graph
from torchair.ir.text import from_text, to_text
from torchair.ir.types import DType, TensorType, as_dim

s0 = sympy.Symbol("s0", positive=True, integer=True)
s1 = sympy.Symbol("s1", positive=True, integer=True)
u0 = sympy.Symbol("u0", integer=True)
zf0 = sympy.Symbol("zf0", real=True)


def _read(text: str) -> Any:
    return from_text(f"graph g(%x: int64[{text}]): return").inputs[0].shape[0]


def _written_and_read(dim: Any) -> Any:
    graph = Graph()
    graph.add_input(TensorType(DType.DT_INT64, (), content=(dim,)), "x")
    (content,) = from_text(to_text(graph)).inputs[0].type.content or ()
    return content


@pytest.mark.parametrize(
    "dim, text",
    [
        (7, "7"),
        (-3, "-3"),
        (True, "True"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (s0, "s0"),
        (s0 + 1, "s0 + 1"),
        (1 - s0, "-s0 + 1"),
        (s0 - 2 * u0, "s0 - 2*u0"),
        (2 * s0 * u0, "2*s0*u0"),
        (2 * s0 * (u0 + 1), "2*s0*(u0 + 1)"),
        (-s0 * (u0 + 1), "-s0*(u0 + 1)"),
        (s0 / 2, "s0/2"),
        (-3 * s0 / 2, "-3*s0/2"),
        (s0**2, "s0**2"),
        (2**s0, "2**s0"),
        (s0 / u0, "s0*u0**-1"),
        (fn.FloorDiv(s0, 2), "s0//2"),
        (fn.FloorDiv(s0 + 1, u0), "(s0 + 1)//u0"),
        (3 * fn.FloorDiv(s0, 2) + 1, "3*(s0//2) + 1"),
        (fn.Mod(s0, 3), "s0 % 3"),
        (fn.PythonMod(u0, 3), "u0 % 3"),
        (fn.PythonMod(s0, s1), "PythonMod(s0, s1)"),
        (fn.CleanDiv(s0, 3), "CleanDiv(s0, 3)"),
        (fn.Max(s0, u0), "Max(s0, u0)"),
        (0.5 * fn.ToFloat(s0), "0.5*ToFloat(s0)"),
        (fn.TruncToInt(-0.5 * fn.ToFloat(s0)), "TruncToInt(-0.5*ToFloat(s0))"),
        (fn.Where(sympy.Eq(u0, 1), s0, 4), "Where(Eq(u0, 1), s0, 4)"),
        (sympy.And(s0 > u0, u0 < 3), "And(Gt(s0, u0), Lt(u0, 3))"),
        (sympy.Mul(2, s0 + 1, evaluate=False), "@Mul(2, s0 + 1)"),
        (fn.FloorDiv(4, 2, evaluate=False), "@FloorDiv(4, 2)"),
        (sympy.Piecewise((1, u0 < 0), (s0, True)), "Piecewise(1, Lt(u0, 0), s0, True)"),
        (sympy.oo, "oo"),
        (-sympy.oo, "-oo"),
        (sympy.Symbol("a b", integer=True, positive=True), '"a b"'),
        (sympy.Symbol("Max", integer=True, positive=True), '"Max"'),
    ],
)
def test_text(dim: Any, text: str) -> None:
    assert dim_text(dim) == text
    back = _written_and_read(dim)
    assert (type(back), repr(back)) == (type(as_dim(dim)), repr(as_dim(dim)))
    assert back == as_dim(dim)


def test_nan() -> None:
    back = _written_and_read(math.nan)
    assert isinstance(back, float)
    assert math.isnan(back)


def test_reading_simplifies_as_torch_does() -> None:
    assert _read("s0 + s0") == 2 * s0
    assert _read("(4*s0)//2") == 2 * s0
    assert _read("s0*u0//u0") == fn.FloorDiv(s0 * u0, u0)
    assert _read("7 // 2") == 3
    assert _read("2**3**2") == 512
    assert _read("-2**2") == -4
    assert isinstance(_read("s0 % 4"), fn.Mod)
    assert isinstance(_read("u0 % 4"), fn.PythonMod)


@pytest.mark.parametrize(
    "name, assumptions",
    [("s7", {"integer": True, "positive": True}), ("u7", {"integer": True}), ("zf7", {"real": True}), ("zuf7", {})],
)
def test_symbols_have_the_assumptions_that_their_name_tells(name: str, assumptions: dict[str, bool]) -> None:
    assert _read(name) == sympy.Symbol(name, **assumptions)


@pytest.mark.parametrize(
    "assumptions, line",
    [
        ({"integer": True}, "symbols s0: integer"),
        ({}, "symbols s0: any"),
        ({"integer": True, "nonnegative": True}, "symbols s0: integer nonnegative"),
        ({"integer": True, "negative": True}, None),
    ],
)
def test_other_assumptions_are_declared(assumptions: dict[str, bool], line: str | None) -> None:
    symbol = sympy.Symbol("s0", **assumptions)
    graph = Graph()
    graph.add_input(TensorType(DType.DT_INT64, (symbol,)), "x")
    text = to_text(graph)
    assert from_text(text).inputs[0].shape == (symbol,)
    if line is not None:
        assert text.splitlines()[0] == line


def test_two_symbols_of_one_name_are_refused() -> None:
    graph = Graph()
    graph.add_input(TensorType(DType.DT_INT64, (s0, sympy.Symbol("s0", integer=True))), "x")
    with pytest.raises(IRError) as raised:
        to_text(graph)
    assert str(raised.value) == (
        "Two symbols of a graph have one name [TA301]\n"
        "  why:\n"
        "    s0 is integer, and integer positive\n"
        "  fix:\n"
        "    Make sizes from the symbols of one ShapeEnv."
    )


def test_an_unknown_function_is_shown_and_not_read() -> None:
    assert dim_text(2 * sympy.gamma(s0) + 1) == "2*gamma(s0) + 1"
    with pytest.raises(IRTextError, match="'gamma' is not a function"):
        _read("2*gamma(s0) + 1")


@pytest.mark.parametrize(
    "text, why",
    [
        ("Foo(s0)", "line 1, column 19: 'Foo' is not a function"),
        ("s0//0", "line 1, column 19: this cannot be computed: division by zero"),
        ("FloorDiv(s0)", "line 1, column 19: this cannot be computed: FloorDiv takes exactly 2 arguments (1 given)"),
        (
            "Piecewise(s0)",
            "line 1, column 19: this cannot be computed: Piecewise takes pairs of a number and a condition",
        ),
        ("Max", "line 1, column 19: Max is not a symbol"),
        ("nan + 1", "line 1, column 19: nan is not a symbol"),
        ("s0 +", "line 1, column 23: found ']', expected '(', '-', '@', a name, a number, a quoted string"),
        (
            "__import__('os')",
            """line 1, column 30: found "'", expected '(', ')', '-', '@', a name, a number, a quoted string""",
        ),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, why: str) -> None:
    with pytest.raises(IRTextError) as raised:
        _read(text)
    assert raised.value.why == (why,)


@given(dims())
def test_any_expression_reads_back(dim: Any) -> None:
    back = _written_and_read(dim)
    assert (type(back), back) == (type(as_dim(dim)), as_dim(dim))


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(symbols(), min_size=1, max_size=4))
def test_every_function_of_the_table_reads_back(name: str, args: list[sympy.Symbol]) -> None:
    try:
        made = FUNCTIONS[name](*args)
    except (TypeError, AssertionError):
        return  # it takes another number of arguments
    except AttributeError:
        return  # it takes conditions, not numbers
    if isinstance(made, sympy.Basic):
        assert _written_and_read(made) == as_dim(made)
