"""Python bools beside integers are numbers, as in eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytestmark = pytest.mark.usefixtures("support")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + True,
        lambda x: x * False,
        lambda x: x == True,  # noqa: E712
        lambda x: x.clamp(min=True),
        lambda x: torch.where(x > 0, True, x),
        lambda x: torch.full_like(x, True) + x,
    ],
)
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("mode", ["torchair", "npugraph_ex"])
def test_bools_beside_integers(function, dtype, mode) -> None:
    options: Any = {"static_kernel_compile": True} if mode == "npugraph_ex" else None
    x = torch.arange(-2, 3, dtype=dtype)
    got, want = torch.compile(function, backend=mode, options=options)(x), function(x)
    assert got.dtype == want.dtype
    assert torch.equal(got, want)
