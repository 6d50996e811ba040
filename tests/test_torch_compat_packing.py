"""Packed weights of oneDNN and MKL."""

from __future__ import annotations

import pytest
import torch

from torchair import _torch_compat


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_with_a_packed_weight(dtype: torch.dtype, bias: bool) -> None:
    pack = _torch_compat.linear_packer(dtype, 16)
    if pack is None:
        pytest.skip("PyTorch cannot pack this dtype on this machine")
    x, weight = torch.randn(16, 8, dtype=dtype), torch.randn(4, 8, dtype=dtype)
    added = torch.randn(4, dtype=dtype) if bias else None
    with torch.no_grad():
        result = pack(weight)(x, added)
        torch.testing.assert_close(result, torch.nn.functional.linear(x, weight, added), rtol=2e-2, atol=2e-2)


def test_what_is_not_packed() -> None:
    assert _torch_compat.linear_packer(torch.float32, None) is None
    assert _torch_compat.linear_packer(torch.float64, 16) is None
    assert _torch_compat.linear_packer(torch.int8, 16) is None


def test_the_tensors_that_dynamo_was_given() -> None:
    seen = []

    def backend(gm: torch.fx.GraphModule, inputs: object) -> object:
        seen.extend(_torch_compat.tensors_given(gm))
        return gm

    layer, x = torch.nn.Linear(2, 2), torch.randn(1, 2)
    torch.compile(layer, backend=backend)(x)
    assert any(tensor is layer.weight for tensor in seen)
    assert any(tensor is x for tensor in seen)
