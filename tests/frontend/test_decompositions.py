from __future__ import annotations

import pytest
import torch

from tests.convert.conversion import check
from torchair import get_npu_backend
from torchair.convert.registry import converters
from torchair.frontend import converted_kept_whole, decomposition_table
from torchair.pipeline.builtin import load_converters

aten = torch.ops.aten


def test_converted_and_random_operators_are_not_decomposed():
    load_converters()
    table = decomposition_table(converters.snapshot(), {})
    # Those that are in it all the same compute normalizations of mixed dtypes.
    assert not [op for op in table if converters.get(op) is not None and "norm" not in str(op)]
    assert aten.bernoulli.default not in table
    assert aten.im2col.default in table


def test_custom_decompositions_win():
    def add(a: torch.Tensor, b: torch.Tensor, alpha: float = 1) -> torch.Tensor:
        return b * alpha + a

    assert decomposition_table({aten.add.Tensor}, {aten.add.Tensor: add})[aten.add.Tensor] is add

    def resize(x: torch.Tensor, size: list[int], *scales: float) -> torch.Tensor:
        return x.new_zeros(*x.shape[:2], *size)

    backend = get_npu_backend(custom_decompositions={aten.upsample_nearest2d.vec: resize})
    f = torch.compile(lambda x: torch.nn.functional.interpolate(x, size=(4, 4)), backend=backend)
    assert torch.equal(f(torch.ones(1, 1, 2, 2)), torch.zeros(1, 1, 4, 4))


def test_python_kernels_come_back():
    ops = (aten.upsample_nearest2d.default, aten.upsample_nearest2d.vec)
    before = [dict(op.py_kernels) for op in ops]

    def fail():
        assert [dict(op.py_kernels) for op in ops] != before
        raise KeyError

    with pytest.raises(KeyError), converted_kept_whole([ops[0]], {}):
        fail()
    assert [dict(op.py_kernels) for op in ops] == before
    check(lambda x: torch.nn.functional.interpolate(x, scale_factor=2), torch.rand(1, 1, 2, 2))
    assert [dict(op.py_kernels) for op in ops] == before
