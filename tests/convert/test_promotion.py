"""dtype promotion as in eager."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from torchair.convert.promotion import (
    cast,
    compute_dtype,
    dtype_promote,
    from_real,
    is_number,
    promote,
    promoted_dtype,
    to_real,
)
from torchair.errors import ConversionError
from torchair.ir import DType, Graph, TensorType, Value
from torchair.opset.builder import GraphBuilder, building
from torchair.opset.torch_types import dtype_of

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.complex64,
)


@pytest.fixture
def builder() -> Iterator[GraphBuilder]:
    with building(GraphBuilder(Graph("g"))) as made:
        yield made


def tensor(builder: GraphBuilder, dtype: torch.dtype, rank: int = 1) -> Value:
    return builder.graph.add_input(TensorType.of(dtype_of(dtype), (3,) * rank), "x")


def test_common_dtype_is_eagers(builder: GraphBuilder) -> None:
    operands: list[tuple[Any, Any]] = [
        *((tensor(builder, d, rank), torch.zeros((1,) * rank, dtype=d)) for d in DTYPES for rank in (0, 1)),
        *((n, n) for n in (True, 2, 2.5, 1j)),
    ]
    for (ours, theirs), (ours2, theirs2) in itertools.combinations_with_replacement(operands, 2):
        assert promoted_dtype(ours, ours2) == dtype_of(torch.result_type(theirs, theirs2)), (theirs, theirs2)


def test_three_operands(builder: GraphBuilder) -> None:
    assert promoted_dtype(tensor(builder, torch.int8), tensor(builder, torch.int64, 0), 2.5) is DType.DT_FLOAT
    assert promoted_dtype(tensor(builder, torch.int8), tensor(builder, torch.bfloat16, 0), 2.5) is DType.DT_BF16
    assert promoted_dtype(tensor(builder, torch.int8), tensor(builder, torch.int64, 0), 2) is DType.DT_INT8


def test_symbolic_numbers_promote_like_python_numbers(builder: GraphBuilder) -> None:
    import sympy

    size = builder.host(sympy.Symbol("s0", integer=True))
    ratio = builder.host(sympy.Symbol("zf0", real=True), DType.DT_DOUBLE)
    assert is_number(size)
    assert not is_number(builder.const(torch.tensor(2)))
    assert promoted_dtype(tensor(builder, torch.int8), size) is DType.DT_INT8
    assert promoted_dtype(tensor(builder, torch.int8), ratio) is DType.DT_FLOAT
    assert promoted_dtype(tensor(builder, torch.bfloat16), ratio) is DType.DT_BF16


def constant(value: Value) -> Any:
    assert value.producer is not None
    return value.producer.attrs["value"][0]


def test_numbers_become_constants_of_the_dtype(builder: GraphBuilder) -> None:
    assert constant(promote(0.1, DType.DT_DOUBLE)) == 0.1
    assert constant(promote(0.1, DType.DT_FLOAT)) == torch.tensor(0.1).item()
    assert constant(promote(-1, DType.DT_UINT8)) == 255
    assert constant(promote(300, DType.DT_UINT8)) == 44
    assert constant(promote(True, DType.DT_INT64)) == 1
    x = tensor(builder, torch.float32)
    assert promote(x, DType.DT_FLOAT) is x
    assert promote(x, DType.DT_BF16).dtype is DType.DT_BF16
    assert cast(x, DType.DT_FLOAT) is x


@pytest.mark.parametrize(("number", "dtype"), [(300, DType.DT_UINT8), (1e30, DType.DT_FLOAT16), (1j, DType.DT_FLOAT)])
def test_numbers_that_do_not_fit_are_refused(builder: GraphBuilder, number: Any, dtype: DType) -> None:
    with pytest.raises(ConversionError) as error:
        promote(number, dtype, checked=True)
    assert str(error.value) == (
        "A number does not fit into the dtype of the tensor that it fills or bounds [TA203]\n"
        "  why:\n"
        f"    value cannot be converted to type {dtype.short_name} without overflow: {number!r}\n"
        "  fix:\n"
        "    Use a number that the dtype can hold, or convert the tensor to a wider dtype first."
    )


def test_infinities_fit(builder: GraphBuilder) -> None:
    assert constant(promote(float("-inf"), DType.DT_FLOAT16, checked=True)) == float("-inf")


def test_half_precision_computes_in_float32_where_a_number_would_lose_digits(builder: GraphBuilder) -> None:
    x = tensor(builder, torch.bfloat16)
    assert compute_dtype((x, 0.5), DType.DT_BF16) is DType.DT_BF16
    assert compute_dtype((x, 0.1), DType.DT_BF16) is DType.DT_FLOAT
    assert compute_dtype((0.1, x), DType.DT_BF16) is DType.DT_BF16
    assert compute_dtype((x, 0.1), DType.DT_BF16, "accelerator") is DType.DT_BF16
    assert compute_dtype((x, 0.1), DType.DT_BF16, "never") is DType.DT_BF16
    assert compute_dtype((x, 0.1), DType.DT_FLOAT) is DType.DT_FLOAT
    assert compute_dtype((x, tensor(builder, torch.float32, 0)), DType.DT_BF16) is DType.DT_FLOAT
    assert compute_dtype((x, tensor(builder, torch.bool, 0)), DType.DT_BF16) is DType.DT_BF16
    builder.device = "cuda:0"
    assert compute_dtype((0.1, x), DType.DT_BF16, "accelerator") is DType.DT_FLOAT


def test_dtype_promote(builder: GraphBuilder) -> None:
    x, y = dtype_promote(tensor(builder, torch.int8), 2, target_dtype=torch.float32)
    assert (x.dtype, y.dtype) == (DType.DT_FLOAT, DType.DT_FLOAT)
    assert dtype_promote(tensor(builder, torch.int8), target_dtype=DType.DT_BF16).dtype is DType.DT_BF16


def test_parts_of_complex_dtypes() -> None:
    assert to_real(DType.DT_COMPLEX128) is DType.DT_DOUBLE
    assert from_real(DType.DT_FLOAT) is DType.DT_COMPLEX64
