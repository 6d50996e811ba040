"""Operators of 16-bit floats are rounded once, as in eager mode."""

from __future__ import annotations

import pytest
import torch

import torchair


def _compiled(function, mode):
    if mode == "npugraph_ex-static":
        return torch.compile(function, backend="npugraph_ex", options={"static_kernel_compile": True})
    config = torchair.CompilerConfig()
    config.engine = mode
    return torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["native", "inductor", "reference", "npugraph_ex-static"])
def test_lerp(mode, dtype):
    torch.manual_seed(0)
    start, end, weight = (torch.randn(64, 64).mul(50).to(dtype) for _ in range(3))
    with torch.no_grad():
        for scale in (0.3, 0.8, weight.div(100)):
            compiled = _compiled(lambda a, b, w=scale: torch.lerp(a, b, w), mode)
            expected, got = torch.lerp(start, end, scale), compiled(start, end)
            assert got.dtype == dtype
            exact = torch.lerp(start.double(), end.double(), scale if isinstance(scale, float) else scale.double())
            ours, theirs = (float((t.double() - exact).square().mean().sqrt()) for t in (got, expected))
            assert ours <= 1.1 * theirs
            torch.compiler.reset()
