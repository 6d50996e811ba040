"""Converters that cannot be registered, raise, or return something else than the operator."""
# The texts are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline

import torchair
from tests.custom_operators import ops
from tests.errors.texts import compile_error, converter, raised
from torchair import ge
from torchair.errors import (
    ArgumentError,
    ConversionError,
    ConverterRegistrationError,
    ConverterResultError,
    NoGraphError,
    TypeRuleError,
)

X = torch.ones(2, 3)

#: Tests pass what annotations forbid.
register: Any = torchair.register_fx_node_ge_converter


# --- registration ---


def test_a_packet() -> None:
    text = raised(lambda: register(torch.ops.aten.relu), ConverterRegistrationError)
    assert_expected_inline(
        text,
        """\
A converter is registered for one overload, not for all overloads of an operator [TA202]
  why:
    aten.relu has the overloads:
      torch.ops.aten.relu.default
      torch.ops.aten.relu.out
  fix:
    @torchair.register_fx_node_ge_converter(torch.ops.aten.relu.default)""",
    )
    assert issubclass(ConverterRegistrationError, TypeError)


@pytest.mark.parametrize("target", [torch.sin, "aten::sin", 3])
def test_what_is_no_operator(target) -> None:
    with pytest.raises(TypeError, match="A converter is registered for an operator overload"):
        torchair.register_fx_node_ge_converter(target)


def test_a_function_of_torch() -> None:
    text = raised(lambda: register("aten::sin"), ConverterRegistrationError)
    assert_expected_inline(
        text,
        """\
A converter is registered for an operator overload [TA202]
  why:
    'aten::sin' is a str
  fix:
    @torchair.register_fx_node_ge_converter(torch.ops.my_namespace.my_op.default)""",
    )


def test_what_is_no_function() -> None:
    text = raised(
        lambda: torchair.register_fx_node_ge_converter(torch.ops.aten.sin.default)(3), ConverterRegistrationError
    )
    assert_expected_inline(
        text,
        """\
A converter is a function [TA202]
  why:
    3 is a int
  fix:
    Decorate a function.""",
    )


def test_none_registers_nothing() -> None:
    assert torchair.register_fx_node_ge_converter(None)(test_none_registers_nothing) is test_none_registers_nothing


# --- a converter that raises ---


def test_an_exception() -> None:
    def convert(x):
        raise KeyError("scale")

    with converter(ops.two.default, convert):
        text = compile_error(lambda x: ops.two(x), X, kind=ConversionError)
    assert_expected_inline(
        text,
        """\
A converter raised an exception [TA203]
  why:
    converter of custom_operators.two.default for FX node two(Tensor(%arg0_1: float32[2, 3]))
    KeyError: 'scale'
    at test_converter_errors.py:LINE, in convert: CODE
  fix:
    Correct the converter.
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_the_cause_is_kept() -> None:
    def convert(x):
        raise KeyError("scale")

    with converter(ops.two.default, convert), pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(lambda x: ops.two(x), backend=torchair.get_npu_backend(), fullgraph=True)(X)
    assert isinstance(caught.value.inner_exception.__cause__, KeyError)


def test_a_stub() -> None:
    def convert(x):
        raise NotImplementedError("torch.ops.custom_operators.two.default ge_converter is not implemented!")

    with converter(ops.two.default, convert):
        text = compile_error(lambda x: ops.two(x), X, kind=ConversionError)
    assert_expected_inline(
        text,
        """\
A converter raised an exception [TA203]
  why:
    converter of custom_operators.two.default for FX node two(Tensor(%arg0_1: float32[2, 3]))
    NotImplementedError: torch.ops.custom_operators.two.default ge_converter is not implemented!
    at test_converter_errors.py:LINE, in convert: CODE
  fix:
    Correct the converter.
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_a_stub_without_words_is_not_implemented() -> None:
    def convert(x):
        raise NotImplementedError

    with converter(ops.two.default, convert), pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        torch.compile(lambda x: ops.two(x), backend=torchair.get_npu_backend(), fullgraph=True)(X)
    error = caught.value.inner_exception
    assert isinstance(error, NotImplementedError)
    assert "ge_converter is not implemented!" in str(error)


def test_other_parameters_than_the_operator_has() -> None:
    def convert(x):
        return x

    text = raised(lambda: register(ops.scaled.default)(convert), ConverterRegistrationError)
    assert_expected_inline(
        text,
        """\
A converter has other parameters than its operator [TA202]
  why:
    operator:  custom_operators::scaled(Tensor x, Scalar factor) -> Tensor
    converter: convert(x)
    at test_converter_errors.py:LINE, in convert: CODE
  fix:
    def convert(x, factor):""",
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i, f, b, s, li, lf, lb, *, oi=None, d=1.5: x,
        lambda x, i, f, b, s, li, lf, lb, *, meta_outputs: x,
        lambda x, i, f, b, s, li, lf, lb, oi, d, meta_outputs=None: x,
        lambda *args, **kwargs: args[0],
        lambda self, *rest, d: self,
    ],
)
def test_parameters_that_some_call_fits(function) -> None:
    with converter(ops.attributes.default, function):
        pass


@pytest.mark.parametrize(
    "function",
    [lambda x: x, lambda x, i, f, b, s, li, lf, lb, more: x, lambda *args, unknown, **kwargs: args[0], lambda: None],
)
def test_parameters_that_no_call_fits(function) -> None:
    with pytest.raises(ConverterRegistrationError, match="has other parameters than its operator"):
        register(ops.attributes.default)(function)


def test_a_call_that_does_not_fit() -> None:
    """A default of the operator that the converter lacks."""

    def convert(x, i, f, b, s, li, lf, lb, *, d):
        return x

    with converter(ops.attributes.default, convert):
        text = compile_error(
            lambda x: ops.attributes(x, 1, 2.0, True, "a", [1], [1.0], [True]), X, kind=ConversionError
        )
    assert_expected_inline(
        text,
        """\
A converter raised an exception [TA203]
  why:
    converter of custom_operators.attributes.default for FX node attributes(Tensor(%arg0_1: float32[2, 3]), 1, 2.0, True, 'a', [1], [1.0], [True])
    TypeError: test_a_call_that_does_not_fit.<locals>.convert() missing 1 required keyword-only argument: 'd'
    at test_converter_errors.py:LINE, in convert: CODE
  fix:
    Give it the parameters of the operator:

    def convert(x, i, f, b, s, li, lf, lb, *, oi=None, d=1.5):
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_python_operators_on_tensors_of_the_graph() -> None:
    with converter(ops.scaled.default, lambda x, factor: x * factor):
        text = compile_error(lambda x: ops.scaled(x, 2.0), X, kind=ConversionError)
    assert_expected_inline(
        text,
        """\
A converter raised an exception [TA203]
  why:
    converter of custom_operators.scaled.default for FX node scaled(Tensor(%arg0_1: float32[2, 3]), 2.0)
    TypeError: unsupported operand type(s) for *: 'Value' and 'float'
    at test_converter_errors.py:LINE, in <lambda>: CODE
  fix:
    A converter builds nodes from tensors of the graph, which Python and torch cannot compute with: use torchair.ge.Mul(x, y).
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


@pytest.mark.parametrize(
    ("function", "fix"),
    [
        (lambda x, f: torch.mul(x, f), "use torchair.ge.Mul(x, y)."),
        (lambda x, f: f + x, "use torchair.ge.Add(x, y)."),
        (lambda x, f: -x, "use torchair.ge.Neg(x)."),
        (lambda x, f: x > f, "use torchair.ge.Greater(x, y)."),
        (lambda x, f: x @ x, "use torchair.ge.MatMul(x, y)."),
        (lambda x, f: torch.special.erfcx(x), "use a function of torchair.ge, such as torchair.ge.Mul(x, y)."),
    ],
)
def test_what_stands_for_python_operators(function, fix) -> None:
    with converter(ops.scaled.default, function):
        text = compile_error(lambda x: ops.scaled(x, 2.0), X, kind=ConversionError)
    assert fix in text


def test_a_name_that_is_misspelt() -> None:
    with converter(ops.scaled.default, lambda x, factor: ge.Mull(x, factor)):
        text = compile_error(lambda x: ops.scaled(x, 2.0), X, kind=ConversionError)
    assert_expected_inline(
        text,
        """\
A converter raised an exception [TA203]
  why:
    converter of custom_operators.scaled.default for FX node scaled(Tensor(%arg0_1: float32[2, 3]), 2.0)
    AttributeError: module 'torchair.ge' has no attribute 'Mull' (did you mean 'Mul'?); an operator that is not built in is made with torchair.ge.custom_op
    at test_converter_errors.py:LINE, in <lambda>: CODE
  fix:
    Correct the converter.
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_an_error_of_ours_gets_the_line() -> None:
    with converter(ops.two.default, lambda x: ge.Const(x)):
        text = compile_error(lambda x: ops.two(x), X, kind=ArgumentError)
    assert_expected_inline(
        text,
        """\
A constant cannot be made from a tensor of the graph [TA210]
  why:
    Const was given Tensor(%arg0_1: float32[2, 3])
    at test_converter_errors.py:LINE, in <lambda>: CODE
  fix:
    Use the tensor itself, or torchair.ge.Identity(x).
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_a_built_in_operator_refuses_its_inputs() -> None:
    with converter(ops.two.default, lambda x: ge.Add(x, ge.Const([1.0, 2.0]))):
        text = compile_error(lambda x: ops.two(x), X, kind=TypeRuleError)
    assert_expected_inline(
        text,
        """\
An Ascend IR operator refuses its inputs [TA303]
  why:
    Add(float32[2, 3], float64[2])
    RuntimeError: Attempting to broadcast a dimension of length 2 at -1! Mismatching argument at index 1 had torch.Size([2]); but expected shape should be broadcastable to [2, 3]
    at test_converter_errors.py:LINE, in <lambda>: CODE
  fix:
    Check the arguments that the converter passes to it.
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_sizes_of_symbolic_results() -> None:
    with converter(ops.scaled.default, lambda x, factor, *, meta_outputs: meta_outputs.size):
        text = compile_error(lambda x: ops.scaled(x, 2.0), X, kind=ArgumentError, dynamic=True)
    assert_expected_inline(
        text,
        """\
The size of a result is symbolic [TA210]
  why:
    meta_outputs.size was read, and the result has the shape [sN, sN]
    at test_converter_errors.py:LINE, in <lambda>: CODE
  fix:
    Use rank and dtype, or compute sizes in the graph with torchair.ge.Shape(x).
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_outside_a_converter() -> None:
    assert_expected_inline(
        raised(lambda: ge.custom_op("MyOp"), NoGraphError),
        """\
Ascend IR functions work only inside a converter [TA211]
  why:
    custom_op adds a node to the graph under construction, and there is none
  fix:
    Call it from a function registered with torchair.register_fx_node_ge_converter,
    which runs when torch.compile converts a graph.""",
    )


# --- results ---


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x, "it returned 1 result, custom_operators.two.default has 2"),
        (lambda x: None, "it returned no result, custom_operators.two.default has 2"),
        (lambda x: (x, x, x), "it returned 3 results, custom_operators.two.default has 2"),
        (lambda x: (x, "x"), "result 1 is a str, not a torchair.ge.Tensor"),
        (lambda x: (x, torch.ones(2)), "result 1 is a Tensor, not a torchair.ge.Tensor"),
        (lambda x: (x, x), "result 1 is float32[2, 3], promised float32[2]"),
        (
            lambda x: (ge.Cast(x, dst_type=torch.int32), ge.ReduceSum(x, [-1])),
            "result 0 is int32[2, 3], promised float32[2, 3]",
        ),
    ],
)
def test_wrong_results(function, words) -> None:
    with converter(ops.two.default, function):
        text = compile_error(lambda x: ops.two(x), X, kind=ConverterResultError)
    assert words in text
    assert issubclass(ConverterResultError, RuntimeError)


def test_all_wrong_results_at_once() -> None:
    with converter(ops.two.default, lambda x: (ge.Cast(x, dst_type=torch.int32), x)):
        text = compile_error(lambda x: ops.two(x), X, kind=ConverterResultError)
    assert_expected_inline(
        text,
        """\
The results of a converter are not those of the operator [TA204]
  why:
    converter of custom_operators.two.default (FX node two): result 0 is int32[2, 3], promised float32[2, 3]
    converter of custom_operators.two.default (FX node two): result 1 is float32[2, 3], promised float32[2]
    at test_converter_errors.py:LINE, in <lambda>: CODE
  fix:
    Return one tensor for each result of the operator, with its dtype and shape; cast with
    torchair.ge.Cast(y, dst_type=meta_outputs.dtype), with meta_outputs a parameter of the converter.
    If the converter is right, the operator's meta function is wrong.
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_another_number_of_results() -> None:
    with converter(ops.two.default, lambda x: x):
        text = compile_error(lambda x: ops.two(x), X, kind=ConverterResultError)
    assert_expected_inline(
        text,
        """\
The results of a converter are not those of the operator [TA204]
  why:
    converter of custom_operators.two.default (FX node two): it returned 1 result, custom_operators.two.default has 2
    at test_converter_errors.py:LINE, in <lambda>: CODE
  fix:
    Return the results of custom_operators::two(Tensor x) -> (Tensor, Tensor): return out0, out1
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_a_written_argument_that_is_returned() -> None:
    def convert(x, y):
        return torchair.ge.custom_op("MyInplace", inputs={"x": x, "y": y}, outputs=["x", "out"])

    with converter(ops.my_inplace.default, convert):
        text = compile_error(lambda x, y: ops.my_inplace(x, y), X.clone(), X, kind=ConverterResultError)
    assert_expected_inline(
        text,
        """\
The results of a converter are not those of the operator [TA204]
  why:
    converter of custom_operators.my_inplace.default (FX node auto_functionalized_v2): it returned 2 results, custom_operators.my_inplace.default has 1
    at test_converter_errors.py:LINE, in convert: CODE
  fix:
    Return the results of custom_operators::my_inplace(Tensor(a!) x, Tensor y) -> Tensor: return out0
    Do not return the written 'x': the graph takes a new value from the output of the IR operator that has the name of the input.
  where:
    test_converter_errors.py:LINE, in <lambda>: CODE""",
    )


def test_numbers_stand_for_0_d_results() -> None:
    with converter(ops.write_some.default, lambda x, y, ys: 3):
        compiled = torch.compile(lambda y: ops.write_some(None, y, []), backend=torchair.get_npu_backend())
        assert compiled(torch.ones(3)).item() == 3.0
