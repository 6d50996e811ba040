"""Long loop bodies that become several short loops."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.native.graphs import native, traced
from torchair.native.strips import strip_loops


def _chain(length: int) -> list[str]:
    lines = ["const float v0 = in0[i];", "const float w = in1[i];"]
    for n in range(length):
        lines += [f"const float v{2 * n + 1} = v{2 * n} * w;", f"const float v{2 * n + 2} = tair::tanh(v{2 * n + 1});"]
    return [*lines, f"out2[i] = v{2 * length};"]


def test_short_bodies_stay_one_loop() -> None:
    assert strip_loops(_chain(4), "i", "0", "n", "#pragma omp simd") is None


def test_values_are_handed_on_and_inputs_read_again() -> None:
    found = strip_loops(_chain(6), "i", "0", "n", "#pragma omp simd")
    assert found is not None
    assert (
        "\n".join(found)
        == """\
alignas(64) float kept_v4[256];
alignas(64) float kept_v8[256];
for (int64_t strip = 0; strip < n; strip += 256) {
  const int64_t strip_end = tair::minimum<int64_t>(strip + 256, n);
#pragma omp simd
  for (int64_t i = strip; i < strip_end; ++i) {
    const float v0 = in0[i];
    const float w = in1[i];
    const float v1 = v0 * w;
    const float v2 = tair::tanh(v1);
    const float v3 = v2 * w;
    const float v4 = tair::tanh(v3);
    kept_v4[i - strip] = v4;
  }
#pragma omp simd
  for (int64_t i = strip; i < strip_end; ++i) {
    const float w = in1[i];
    const float v4 = kept_v4[i - strip];
    const float v5 = v4 * w;
    const float v6 = tair::tanh(v5);
    const float v7 = v6 * w;
    const float v8 = tair::tanh(v7);
    kept_v8[i - strip] = v8;
  }
#pragma omp simd
  for (int64_t i = strip; i < strip_end; ++i) {
    const float w = in1[i];
    const float v8 = kept_v8[i - strip];
    const float v9 = v8 * w;
    const float v10 = tair::tanh(v9);
    const float v11 = v10 * w;
    const float v12 = tair::tanh(v11);
    out2[i] = v12;
  }
}"""
    )


def test_other_statements_keep_one_loop() -> None:
    assert strip_loops([*_chain(9), "bad |= !v5 ? 1 : 0;"], "i", "0", "n", "#pragma omp simd") is None


@pytest.mark.parametrize("sizes", [(7, 300), (300, 7), (1, 4097), (0, 5)])
def test_a_long_chain_is_right(sizes: tuple[int, int]) -> None:
    def chain(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        first = x
        for _ in range(7):
            x = torch.tanh(x * w + first)
        return x, x > 0.5

    x, w = torch.randn(*sizes), torch.randn(sizes[1])
    module, record = native(traced(chain, (x, w)))
    (program,) = record.programs
    assert all("strip" in kernel.body for kernel in program.kernels)
    got, want = module(x, w), chain(x, w)
    torch.testing.assert_close(got[0], want[0], rtol=1e-5, atol=1e-6)
    assert torch.equal(got[1], got[0] > 0.5)


def test_expensive_values_are_kept_from_loop_to_loop() -> None:
    def softmax(x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    x = torch.randn(5, 100)
    module, record = native(traced(softmax, (x,)))
    (kernel,) = record.programs[0].kernels
    assert kernel.body.count("tair::exp") == 1
    assert "[100];" in kernel.body
    torch.testing.assert_close(module(x), softmax(x))
