"""Replacements that cannot be registered, and passes over FX graphs that fail."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor, fx
from torch._subclasses import FakeTensorMode

import torchair
from tests.errors.texts import compile_error, raised
from torchair.errors import ArgumentTypeError, PassError, ReplacementError
from torchair.frontend.replacement import replacements

#: Tests pass what annotations forbid.
register: Any = torchair.register_replacement

with FakeTensorMode():
    X, Y = torch.empty(2, 2), torch.empty(2, 2)


@pytest.fixture(autouse=True)
def _registry():
    saved = dict(replacements["ge"]._replacements)
    yield
    replacements["ge"]._replacements = saved


def search(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x + y)


def replace(x: Tensor, y: Tensor) -> Tensor:
    return torch.clamp_min(y + x, 0)


def refused(*args: Any, kind: type[Any] = ReplacementError, **kwargs: Any) -> str:
    return re.sub(r"\.py:\d+\)", ".py:LINE)", raised(lambda: register(*args, **kwargs), kind))


def test_arguments_of_the_wrong_type() -> None:
    text = refused("relu", replace, X, extra_check=1, trace_fn=2, scalar_workaround=[1], kind=ArgumentTypeError)
    assert_expected_inline(
        text,
        """\
An argument of register_replacement is of the wrong type [TA217]
  why:
    search_fn is a str, not a function
    extra_check is a int, not a function
    trace_fn is a int, not a function
    example_inputs is a FakeTensor, not a list or tuple
    scalar_workaround is a list, not a dictionary of names to numbers
  fix:
    register_replacement(search_fn, replace_fn, [x, y], scalar_workaround={'eps': 1e-6})""",
    )


def test_too_few_example_inputs() -> None:
    assert_expected_inline(
        refused(search, replace, [X]),
        """\
A replacement of a pattern cannot be registered [TA216]
  why:
    search (test_fx_pass_errors.py:LINE) takes 2 tensors (x, y), and example_inputs has 1
  fix:
    Give one example input for each parameter that is not in scalar_workaround.""",
    )
    assert issubclass(ReplacementError, RuntimeError)


def test_example_inputs_of_two_modes() -> None:
    with FakeTensorMode():
        other = torch.empty(2, 2)
    assert "several FakeTensorModes" in refused(search, replace, [X, other])


def test_scalars() -> None:
    assert_expected_inline(
        refused(search, replace, [X, Y], scalar_workaround={"eps": 1e-6}),
        """\
A replacement of a pattern cannot be registered [TA216]
  why:
    scalar_workaround names eps; search (test_fx_pass_errors.py:LINE) takes x, y""",
    )
    text = refused(lambda x, a, b: x * a + b, replace, [X], scalar_workaround={"a": 0.5, "b": 0.5})
    assert "has a value twice, so they cannot be told apart" in text


def test_a_duplicate() -> None:
    register(search, replace, [X, Y])
    assert_expected_inline(
        refused(search, replace, [X, Y]),
        """\
A replacement of a pattern cannot be registered [TA216]
  why:
    the same pattern is registered already, with replace (test_fx_pass_errors.py:LINE) in its place: Duplicate pattern
  fix:
    Register it once, or say skip_duplicates=True.""",
    )


def test_functions_that_cannot_be_traced() -> None:
    text = refused(search, lambda x, y: x @ y[0, :1], [X, Y])
    assert "replace_fn <lambda> (test_fx_pass_errors.py:LINE) cannot be traced with the example inputs" in text
    text = refused(lambda x, y: torch.relu(x + y.foo), replace, [X, Y])
    assert "search_fn <lambda> (test_fx_pass_errors.py:LINE) cannot be traced with the example inputs" in text
    assert "AttributeError" in text


def test_patterns_that_can_never_match() -> None:
    assert_expected_inline(
        refused(lambda x, y, z: torch.relu(x + y), lambda x, y, z: replace(x, y), [X, Y, Y]),
        """\
A replacement of a pattern cannot be registered [TA216]
  why:
    the arguments z of <lambda> (test_fx_pass_errors.py:LINE) do not occur in what it computes, so a match does not tell what they are
  fix:
    Leave them out; numbers go into scalar_workaround={name: a number that occurs nowhere else}.""",
    )
    assert "calls no operator" in refused(lambda x: x, lambda x: x, [X])
    assert "returns one of its arguments" in refused(lambda x: (x * 2, x), lambda x: (x + x, x), [X])


def test_other_results() -> None:
    assert_expected_inline(
        refused(search, lambda x, y: replace(x, y).double(), [X, Y]),
        """\
A replacement of a pattern cannot be registered [TA216]
  why:
    search (test_fx_pass_errors.py:LINE) returns float32[2, 2]
    <lambda> (test_fx_pass_errors.py:LINE) returns float64[2, 2]
  fix:
    Return as many tensors of the same dtypes and shapes, in the same order.""",
    )


def test_a_custom_pass_that_raises() -> None:
    def custom(gm: fx.GraphModule, inputs: Any, config: Any) -> None:
        if gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            raise KeyError("missing")

    def configure(config: torchair.CompilerConfig) -> None:
        config.post_grad_custom_pre_pass = custom

    text = compile_error(lambda x: x.sin(), torch.ones(2), kind=PassError, configure=configure)
    assert_expected_inline(
        text,
        """\
A pass over the FX graph failed [TA305]
  why:
    post_grad_custom_pre_pass: KeyError: 'missing'
  fix:
    This is your function: it must leave a graph that computes the same.""",
    )


def test_a_custom_pass_that_makes_a_wrong_call() -> None:
    def custom(gm: fx.GraphModule, inputs: Any, config: Any) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.mm.default

    def configure(config: torchair.CompilerConfig) -> None:
        config.post_grad_custom_post_pass = custom

    text = compile_error(lambda x: x.sin() + 1, torch.ones(2), kind=PassError, configure=configure)
    assert "post_grad_custom_post_pass: node sin, aten.mm.default: " in text
    assert "test_fx_pass_errors.py:LINE, in <lambda>: CODE" in text
