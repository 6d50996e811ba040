"""``create_npu_tensors``."""

from __future__ import annotations

import pytest
import torch

from torchair.errors import ArgumentError, ArgumentTypeError, ForeignMemoryError
from torchair.llm_datadist import create_npu_tensors
from torchair.runtime.foreign_memory import _DTYPES


@pytest.mark.parametrize("dtype", _DTYPES, ids=str)
def test_tensors_lie_at_the_addresses(dtype) -> None:
    owners = [torch.ones(2, 3, dtype=dtype), torch.zeros(2, 3, dtype=dtype)]
    tensors = create_npu_tensors([2, 3], dtype, [t.data_ptr() for t in owners])
    for tensor, owner in zip(tensors, owners, strict=True):
        assert torch.equal(tensor, owner)
        assert tensor.data_ptr() == owner.data_ptr()
        tensor.fill_(1)
        assert torch.equal(owner, torch.ones(2, 3, dtype=dtype))


def test_shapes() -> None:
    owner = torch.arange(6.0)
    (scalar,) = create_npu_tensors([], torch.float32, [owner.data_ptr()])
    assert scalar.item() == 0.0
    (second,) = create_npu_tensors((2,), torch.float32, (owner.data_ptr() + 8,))
    assert second.tolist() == [2.0, 3.0]
    (empty,) = create_npu_tensors([0, 3], torch.float32, [0])
    assert empty.shape == (0, 3)
    assert create_npu_tensors([2], torch.float32, []) == []


def test_memory_is_neither_copied_nor_freed() -> None:
    owner = torch.zeros(1000)
    tensors = create_npu_tensors([1000], torch.float32, [owner.data_ptr()])
    tensors[0][5] = 7
    del tensors
    assert owner[5] == 7


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ((3, torch.float32, [0]), ArgumentTypeError, "shape is 3"),
        (([2.0], torch.float32, [0]), ArgumentTypeError, "2.0 is a float"),
        (([True], torch.float32, [0]), ArgumentTypeError, "True is a bool"),
        (([2], torch.float32, 5), ArgumentTypeError, "addresses is 5"),
        (([2], torch.float32, ["x"]), ArgumentTypeError, "'x' is a str"),
        (([2], "float32", [0]), ArgumentTypeError, "dtype is 'float32'"),
        (([2], torch.complex32, [0]), ArgumentError, "supported are bool, uint8, int8, int16, int32, int64, bfloat16"),
        (([-1], torch.float32, [8]), ArgumentError, "shape is [-1]"),
        (([2], torch.float32, [0]), ForeignMemoryError, "0x0 is no address"),
        (([2], torch.float32, [-8]), ForeignMemoryError, "is no address"),
        (([2], torch.float32, [9]), ForeignMemoryError, "0x9 is not a multiple of 4 bytes"),
    ],
)
def test_wrong_arguments(arguments, kind, words) -> None:
    with pytest.raises(kind) as caught:
        create_npu_tensors(*arguments)
    assert words in str(caught.value)
    base = {ArgumentTypeError: TypeError, ArgumentError: ValueError, ForeignMemoryError: RuntimeError}[kind]
    assert isinstance(caught.value, base)
