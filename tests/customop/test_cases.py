"""``declare_supported``, its descriptors, and the harness that runs the cases."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchair
from tests.custom_operators import ops
from torchair import ge
from torchair._ge_concrete_graph.supported_declaration import (
    BF16,
    BOOL,
    C64,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    Support,
    T,
)
from torchair.convert import converters
from torchair.customop import run_cases
from torchair.errors import ArgumentError, ArgumentTypeError

#: Tests pass what annotations forbid.
declare_supported: Any = torchair.declare_supported


@pytest.fixture
def converter():
    @torchair.register_fx_node_ge_converter(ops.my_op.default)
    def convert_my_op(x, y, z, attr1, attr2):
        return ge.custom_op("MyOp", x, y, z, attr1, attr2)

    yield convert_my_op
    converters.forget(ops.my_op.default)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (F32, torch.float32),
        (F16, torch.float16),
        (BF16, torch.bfloat16),
        (F64, torch.float64),
        (I8, torch.int8),
        (I16, torch.int16),
        (I32, torch.int32),
        (I64, torch.int64),
        (U8, torch.uint8),
        (C64, torch.complex64),
        (BOOL, torch.bool),
    ],
)
def test_descriptors(kind, dtype) -> None:
    (tensor, number), kwargs = Support(kind(2, 3), 5, a=[kind(), "x"]).call()
    assert (tensor.dtype, tensor.shape, number) == (dtype, (2, 3), 5)
    assert kwargs["a"][0].shape == ()
    assert kwargs["a"][1] == "x"
    again = Support(kind(2, 3), 5).call()[0][0]
    assert torch.equal(tensor, again)
    assert repr(kind(2, 3)) == f"{str(dtype).removeprefix('torch.')}[2, 3]"


def test_values_in_a_range() -> None:
    (tensor,), _ = Support(F32(100, value_range=(2, 3))).call()
    assert 2 <= tensor.min() <= tensor.max() <= 3
    (tensor,), _ = Support(I32(100, value_range=[0, 2])).call()
    assert set(tensor.tolist()) == {0, 1}


def test_given_values() -> None:
    (tensor,), _ = Support(T([1, 2], dtype=torch.int64)).call()
    assert torch.equal(tensor, torch.tensor([1, 2]))
    assert Support(T(1.5)).call()[0][0].dtype is torch.float32
    assert repr(Support(T([1]), 2, a=F32(1))) == "Support(T([1], float32), 2, a=float32[1])"


def test_cases_are_run(converter) -> None:
    declared = torchair.declare_supported(
        [
            Support(F32(2, 3), None, [F32(2, 3)], 0.5, 2),
            Support(F16(2), F16(2), [], attr1=1.0, attr2=3),
            Support(F64(4), F64(4), [F64(4), F64(4)], 2.0, 1),
        ]
    )(converter)
    assert declared is converter
    results = run_cases(converter)
    assert [r.ok for r in results] == [True, True, True]
    assert str(results[0]) == "pass  Support(float32[2, 3], None, [float32[2, 3]], 0.5, 2)"


def test_cases_that_fail() -> None:
    @torchair.declare_supported([Support(F32(2, 3)), Support(F32(2, 3), 4)])
    @torchair.register_fx_node_ge_converter(ops.two.default)
    def convert_two(x):
        return ge.Add(x, x), ge.ReduceSum(x, [-1])

    try:
        results = run_cases(convert_two)
    finally:
        converters.forget(ops.two.default)
    assert [r.ok for r in results] == [False, False]
    assert "result 0 differs between GE mode and eager mode" in str(results[0])
    assert "eager mode: RuntimeError" in str(results[1])


def test_a_declaration_restricts_nothing(converter) -> None:
    torchair.declare_supported([Support(F32(2), None, [], 1.0, 1)])(converter)
    backend = torchair.get_npu_backend()
    compiled = torch.compile(lambda x: ops.my_op(x, x, [x], 2.0, 1), backend=backend, fullgraph=True)
    x = torch.ones(3, 4, dtype=torch.float64)
    assert torch.equal(compiled(x), ops.my_op(x, x, [x], 2.0, 1))


def test_a_converter_without_a_declaration_has_no_cases(converter) -> None:
    assert run_cases(converter) == ()
    with pytest.raises(ArgumentTypeError, match="run_cases takes a converter"):
        run_cases(lambda x: x)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Support(torch.ones(2, 3)), "it was given a tensor of torch.float32 [2, 3]"),
        (lambda: Support([torch.ones(2)]), "A Support describes tensors"),
        (lambda: Support(a=torch.ones(2)), "A Support describes tensors"),
        (lambda: F32(2, value_range=(1,)), "A value_range has two bounds"),
        (lambda: F32(2, value_range=3), "A value_range has two bounds"),
        (lambda: F32(-1), "The sizes of a tensor descriptor are ints"),
        (lambda: F32(1.5), "The sizes of a tensor descriptor are ints"),
        (lambda: declare_supported([3]), "it was given 3, a int"),
        (lambda: declare_supported(None), "it was given None, a NoneType"),
        (lambda: declare_supported(Support(F32(1))), "declare_supported takes a list of Support"),
        (lambda: declare_supported([])(lambda x: x), "declare_supported decorates a converter"),
    ],
)
def test_wrong_declarations(call, words) -> None:
    with pytest.raises(AssertionError) as caught:
        call()
    assert isinstance(caught.value, ArgumentError)
    assert words in str(caught.value)
