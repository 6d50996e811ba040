"""The text of functions: three small ones as a whole, and what holds for all of them."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from expecttest import assert_expected_inline
from torch import Tensor

from tests.native.graphs import check, lowered, native, traced
from torchair.native.emit import Kernel
from torchair.native.library import _source
from torchair.native.support import Support

pytestmark = pytest.mark.usefixtures("support")


def _kernels(function: Callable[..., Any], *arguments: Tensor) -> list[Kernel]:
    _, record = lowered(function, *arguments)
    return [k for p in record.programs for k in p.kernels]


def _text(function: Callable[..., Any], *arguments: Tensor) -> str:
    (kernel,) = _kernels(function, *arguments)
    return "\n".join([*(f"// {line}" for line in kernel.comment), kernel.body])


def test_text_of_operators_over_the_same_elements() -> None:
    assert_expected_inline(
        _text(lambda x, y: (torch.relu(x * 2) + y,), torch.randn(300, 301), torch.randn(301)),
        """\
// add: float32[300, 301] = aten.add.Tensor(relu, y_1)
  const float* in0 = static_cast<const float*>(p[0]);
  const float* in1 = static_cast<const float*>(p[1]);
  float* out2 = static_cast<float*>(p[2]);
  const tair::Range mine = tair::share(300, worker, workers, 1);
  for (int64_t row = mine.begin; row < mine.end; ++row) {
    const int64_t i2 = row;
#pragma omp simd
    for (int64_t i1 = 0; i1 < 301; ++i1) {
      const float v3 = in0[i2 * 301 + i1];
      const float v4 = v3 * 2.0f;
      const float v5 = tair::maximum(0.0f, v4);
      const float v6 = in1[i1];
      const float v7 = v5 + v6;
      out2[i2 * 301 + i1] = v7;
    }
  }""",
    )


def test_text_of_a_softmax() -> None:
    assert_expected_inline(
        _text(lambda x: (torch.softmax(x, -1),), torch.randn(6, 33)),
        """\
// amax: float32[6, 1] = aten.amax.default(x_1, [-1], True)
// sum_1: float32[6, 1] = aten.sum.dim_IntList(exp, [-1], True)
// div: float32[6, 33] = aten.div.Tensor(exp, sum_1)
  const float* in0 = static_cast<const float*>(p[0]);
  float* out1 = static_cast<float*>(p[1]);
  alignas(64) float kept3[33];
  const tair::Range mine = tair::share(6, worker, workers);
  for (int64_t row = mine.begin; row < mine.end; ++row) {
    const int64_t i4 = row;
    float a5 = -__builtin_inff();
    int32_t a5_nan = 0;
    {
      float a5_part = -__builtin_inff();
#pragma omp simd reduction(max:a5_part) reduction(|:a5_nan)
      for (int64_t i6 = 0; i6 < 33; ++i6) {
        const float v7 = in0[i4 * 33 + i6];
        a5_part = v7 > a5_part ? v7 : a5_part;
        a5_nan |= v7 != v7 ? 1 : 0;
      }
      a5 = a5_part > a5 ? a5_part : a5;
    }
    const float r1 = tair::cast<float>((a5_nan ? __builtin_nanf("") : a5));
    double a8 = 0.0f;
    {
      float a8_part = 0.0f;
#pragma omp simd reduction(+:a8_part)
      for (int64_t i9 = 0; i9 < 33; ++i9) {
        const float v10 = in0[i4 * 33 + i9];
        const float v11 = v10 - r1;
        const float v12 = tair::exp(v11);
        a8_part += v12;
        kept3[i9] = v12;
      }
      a8 += a8_part;
    }
    const float r2 = tair::cast<float>(static_cast<float>(a8));
    const float v14 = 1.0f / r2;
#pragma omp simd
    for (int64_t i13 = 0; i13 < 33; ++i13) {
      const float v15 = kept3[i13] * v14;
      out1[i4 * 33 + i13] = v15;
    }
  }""",
    )


def test_text_of_a_product_and_what_is_done_to_it() -> None:
    assert_expected_inline(
        _text(
            lambda x, w, b: (torch.tanh(torch.addmm(b, x, w)),),
            torch.randn(2, 16), torch.randn(16, 40), torch.randn(40),
        ),
        """\
// addmm: float32[2, 40] = aten.addmm.default(b_1, x_1, w_1)
// tanh: float32[2, 40] = aten.tanh.default(addmm)
  const float* in0 = static_cast<const float*>(p[0]);
  const float* in1 = static_cast<const float*>(p[1]);
  const float* in2 = static_cast<const float*>(p[2]);
  float* out3 = static_cast<float*>(p[3]);
  const tair::Range mine = tair::share(40, worker, workers, 32);
  float sums0[64];
  for (int64_t first = mine.begin; first < mine.end; first += 32) {
    const int64_t last = tair::minimum<int64_t>(first + 32, mine.end);
    tair::dot_columns(in0, 16, 2, in1 + first, 40, 16, last - first, sums0, 32);
    for (int64_t i1 = 0; i1 < 2; ++i1) {
#pragma omp simd
      for (int64_t i2 = first; i2 < last; ++i2) {
        const float v3 = in2[i2];
        const float v4 = sums0[i1 * 32 + i2 - first] + v3;
        const float v5 = tair::tanh(v4);
        out3[i1 * 40 + i2] = v5;
      }
    }
  }""",
    )  # fmt: skip


def test_sizes_that_are_symbols_are_arguments() -> None:
    _, record = native(traced(lambda x: (x * 2,), [torch.randn(3, 4)], mode="symbolic"))
    (kernel,) = record.programs[0].kernels
    assert_expected_inline(
        kernel.body,
        """\
  const float* in0 = static_cast<const float*>(p[0]);
  float* out1 = static_cast<float*>(p[1]);
  const int64_t n0 = s[0];
  const int64_t n1 = s[1];
  const tair::Range mine = tair::share(n0 * n1, worker, workers, 64);
#pragma omp simd
  for (int64_t i1 = mine.begin; i1 < mine.end; ++i1) {
    const float v2 = in0[i1];
    const float v3 = v2 * 2.0f;
    out1[i1] = v3;
  }""",
    )


# --- of all functions ---


def _everything() -> list[Kernel]:
    """Functions of each kind."""
    x, w, i = torch.randn(6, 40), torch.randn(40, 40), torch.tensor([1, 2])
    q = torch.randn(1, 2, 4, 16)
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    found = [
        _kernels(lambda x: (torch.softmax(x.double() * 2, -1), x.sum(0), x.to(torch.bfloat16)), x),
        _kernels(lambda x: (x.argmax(1),), x),
        _kernels(lambda x, w: (torch.nn.functional.gelu(x @ w), x.to(torch.float16).exp()), x, w),
        _kernels(lambda x, i: (x.index_put_((i,), x[:2] * 2), x[i].prod(1)), x, i),
        _kernels(lambda q, k, v: (attention(q, k, v)[0],), q, q.clone(), q.clone()),
    ]
    return list(itertools.chain.from_iterable(found))


def test_functions_of_each_kind_are_looked_at() -> None:
    text = "".join(k.body for k in _everything())
    for part in ("dot_columns", "tair::attention", "reduction(max", "bad |=", "columns_per_row"):
        assert part in text


def test_each_function_stands_under_the_operators_that_it_computes() -> None:
    kernels = _everything()
    for kernel in kernels:
        assert kernel.comment
        for line in kernel.comment:
            assert re.fullmatch(r"\w+: (\w+\[.*\])? = (aten|prims)\.\w+\.\w+\(.*\)", line), line
    text = _source([k.body for k in kernels], {k.body: k.comment for k in kernels}).text
    functions = re.findall(r'((?:// .*\n)+)extern "C" .* void (k\d+)\(', text)
    assert [name for _, name in functions] == [f"k{i}" for i in range(len(kernels))]
    assert functions[0][0] == "".join(f"// {line}\n" for line in kernels[0].comment)


def test_text_is_indented_and_lines_are_not_long() -> None:
    for kernel in _everything():
        depth = 1
        for line in kernel.body.splitlines():
            assert len(line) <= 160, line
            if line.startswith("#pragma") or "tair::attention" in kernel.body:  # one call with braces for its operands
                continue
            text = line.strip()
            depth -= text.startswith("}")
            assert line == "  " * depth + text
            depth += text.endswith("{")
        assert depth == 1


def test_no_header_of_torch_is_included(support: Support, tmp_path: Path) -> None:
    """Neither by what is generated nor by what that includes: the compiler lists all files."""
    kernels = _everything()
    source = tmp_path / "kernels.cpp"
    text = _source([k.body for k in kernels], {k.body: k.comment for k in kernels}).text
    source.write_text(text)
    assert set(re.findall(r"#include <(\w+)/", text)) == {"torchair_native"}
    flags = [f for f in support.flags if not f.startswith("-Wl,") and not f.endswith(".so")]
    done = subprocess.run(
        [*support.compiler.command, *flags, "-M", str(source)], capture_output=True, text=True, check=True
    )
    files = done.stdout.split()
    assert any(f.endswith("torchair_native/matvec.h") for f in files)
    folder = str(Path(torch.__file__).parent)
    assert not [f for f in files if f.startswith(folder) or re.search(r"/(ATen|c10|torch|pybind11)/", f)]
    assert not [f for f in files if "Python.h" in f]
    assert "throw" not in text
    assert "new " not in "".join(k.body for k in kernels)


def test_text_of_a_sum_in_streams() -> None:
    assert_expected_inline(
        _text(lambda x: (x.sum(1),), torch.randn(3, 600)),
        """\
// sum_1: float32[3] = aten.sum.dim_IntList(x_1, [1])
  const float* in0 = static_cast<const float*>(p[0]);
  float* out1 = static_cast<float*>(p[1]);
  const tair::Range mine = tair::share(3, worker, workers);
  for (int64_t row = mine.begin; row < mine.end; ++row) {
    const int64_t i2 = row;
    double a3 = 0.0f;
    {
      float a3_part = 0.0f, a3_part1 = 0.0f, a3_part2 = 0.0f, a3_part3 = 0.0f;
#pragma omp simd reduction(+:a3_part, a3_part1, a3_part2, a3_part3)
      for (int64_t i6 = 0; i6 < 128; ++i6) {
        {
          const int64_t i4 = i6;
          const float v5 = in0[i2 * 600 + i4];
          a3_part += v5;
        }
        {
          const int64_t i4 = 128 + i6;
          const float v5 = in0[i2 * 600 + i4];
          a3_part1 += v5;
        }
        {
          const int64_t i4 = 256 + i6;
          const float v5 = in0[i2 * 600 + i4];
          a3_part2 += v5;
        }
        {
          const int64_t i4 = 384 + i6;
          const float v5 = in0[i2 * 600 + i4];
          a3_part3 += v5;
        }
      }
#pragma omp simd reduction(+:a3_part)
      for (int64_t i4 = 512; i4 < 600; ++i4) {
        const float v5 = in0[i2 * 600 + i4];
        a3_part += v5;
      }
      a3 += a3_part;
      a3 += a3_part1;
      a3 += a3_part2;
      a3 += a3_part3;
    }
    const float r1 = tair::cast<float>(static_cast<float>(a3));
    out1[i2] = r1;
  }""",
    )


def test_text_of_a_sum_in_streams_of_a_block() -> None:
    text = _text(lambda x: (x.amax(1),), torch.randn(3, 2100))
    assert "for (int64_t begin = 0; begin < 2100; begin += 1024)" in text
    assert "/ 256 * 64;" in text, "the last block is shorter"


_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(1),
    "amax": lambda x: x.amax(1),
    "prod": lambda x: (x * 0.01 + 1).prod(1),
    "var": lambda x: x.var(1, correction=0),
    "any": lambda x: (x > 2.5).any(1),
    "int": lambda x: x.to(torch.int32).sum(1),
}


def test_reductions_in_streams() -> None:
    lengths = (1, 63, 255, 256, 257, 300, 511, 1023, 1024, 1025, 1280, 2048, 2100, 5000)

    def program(*xs: Tensor) -> list[Tensor]:
        return [function(x) for x in xs for function in _REDUCTIONS.values()]

    check(program, *(torch.randn(3, n) for n in lengths))


def test_nan_in_every_stream() -> None:
    rows = torch.randn(7, 600)
    places = [0, 100, 300, 511, 512, 599]
    rows[range(6), places] = torch.nan
    check(lambda x: (x.amax(1), x.amin(1), x.sum(1)), rows)


def test_the_next_row_is_asked_for() -> None:
    text = _text(lambda x: (torch.softmax(x, 1),), torch.randn(20, 1024))
    (line,) = [line for line in text.splitlines() if "prefetch" in line]
    assert re.fullmatch(r" *tair::prefetch\(in0 \+ i\d+ \* 1024 \+ 1024, 1024\);", line)
    assert "prefetch" not in _text(lambda x: (torch.softmax(x, 1),), torch.randn(20, 64)), "too short"
    assert "prefetch" not in _text(lambda x: (x.sum(1),), torch.randn(20, 1024)), "every loop reads memory"


def test_places_of_extremes() -> None:
    def program(x: Tensor, n: Tensor) -> list[Tensor]:
        both = x.max(1)
        found = [x.argmax(1), (x * 2).argmin(1), both.values, both.indices, x.sum(1), x.argmin(0), x.argmax()]
        return [*found, n.argmax(1), n.min(1).indices, (n > 0).int().argmax(1), x.amax(1) + x.argmax(1)]

    for length in (1, 2, 63, 64, 65, 300):
        x = torch.randn(6, length)
        x[1] = 7  # equal ones
        x[2, -1] = 100
        x[3, length // 2] = torch.nan
        x[3, -1] = torch.nan
        x[4] = -torch.inf
        check(program, x, torch.randint(-3, 4, (6, length)))
    text = _text(lambda x: (x.argmax(1),), torch.randn(3, 300))
    assert "const int64_t a3_at = tair::argmax_over<float>(300, [&](int64_t i4) {" in text


_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def test_loops_of_all_floats_are_vectorized(support: Support, tmp_path: Path) -> None:
    if "clang" in support.compiler.identity.lower():
        pytest.skip("Clang tells otherwise which loops it vectorized")
    functions: dict[str, Callable[[Tensor, Tensor], Any]] = {
        "pointwise": lambda x, y: torch.relu(x * y + 1) - y,
        "functions": lambda x, y: torch.nn.functional.silu(x) + torch.nn.functional.gelu(y) + torch.tanh(x),
        "select": lambda x, y: torch.where(x > y, x, y).clamp(-1, 1),
        "copy": lambda x, y: torch.cat([x, y], 1),
        "rows": lambda x, y: torch.softmax(x + y, 1),
        "norm": lambda x, y: x * torch.rsqrt(x.float().pow(2).mean(1, keepdim=True) + 1e-5).to(x.dtype),
        "halves": lambda x, y: x.chunk(2, 1)[0] * x.chunk(2, 1)[1],
        "columns": lambda x, y: torch.softmax(x, 0),
        "turned": lambda x, y: torch.cat([-x[:, 256:], x[:, :256]], 1) * y,
        "casts": lambda x, y: x.to(torch.float32) + y.to(torch.int32),
    }
    scalar = []
    # AVX2 loads elements of 32 and 64 bits under a mask, but none of 16.
    no_masks = {"copy", "turned"} if torch.backends.cpu.get_cpu_capability() == "AVX2" else set()
    for dtype in _FLOATS:
        for name, function in functions.items():
            if dtype.itemsize == 2 and name in no_masks:
                continue
            kernels = _kernels(lambda *xs, f=function: (f(*xs),), torch.randn(64, 512, dtype=dtype).to(dtype),
                               torch.randn(64, 512).to(dtype))  # fmt: skip
            text = _source([k.body for k in kernels], {k.body: k.comment for k in kernels}).text
            source = tmp_path / "vectors.cpp"
            source.write_text(text)
            flags = [f for f in support.flags if not f.startswith("-Wl,") and not f.endswith(".so")]
            command = [*support.compiler.command, *flags, "-fopt-info-vec-optimized", "-c", str(source)]
            ran = subprocess.run([*command, "-o", str(tmp_path / "vectors.o")], capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
            found = [int(n) for n in re.findall(r"vectors\.cpp:(\d+):.*loop vectorized", ran.stderr)]
            lines = text.splitlines()
            for at, line in enumerate(lines):
                if line.startswith("#pragma omp simd"):
                    indent = lines[at + 1][: -len(lines[at + 1].lstrip())]
                    end = next(i for i in range(at + 2, len(lines)) if lines[i].startswith(indent + "}"))
                    if not any(at + 2 <= n <= end + 1 for n in found):
                        scalar.append((dtype, name, "\n".join(lines[at : end + 1])))
    assert scalar == []


def test_text_of_a_transposed_copy() -> None:
    """In tiles, and without a step that would make GCC load all that lies between narrow elements."""
    assert_expected_inline(
        _text(lambda x: (x.t().contiguous(),), torch.randn(100, 70).to(torch.bfloat16)),
        """\
// clone: bfloat16[70, 100] = aten.clone.default(permute)
  const tair::bfloat16* in0 = static_cast<const tair::bfloat16*>(p[0]);
  tair::bfloat16* out1 = static_cast<tair::bfloat16*>(p[1]);
  const int64_t step70 = tair::unknown(70);
  const tair::Range mine = tair::share(70, worker, workers, 16);
  for (int64_t top = mine.begin; top < mine.end; top += 16) {
    const int64_t bottom = tair::minimum<int64_t>(top + 16, mine.end);
    for (int64_t first = 0; first < 100; first += 64) {
      const int64_t last = tair::minimum<int64_t>(first + 64, 100);
      for (int64_t row = top; row < bottom; ++row) {
        const int64_t i2 = row;
#pragma omp simd
        for (int64_t i1 = first; i1 < last; ++i1) {
          const tair::bfloat16_bits v3 = in0[i2 + i1 * step70].bits;
          out1[i2 * 100 + i1].bits = v3;
        }
      }
    }
  }""",
    )
    assert "step" not in _text(lambda x: (x.t().contiguous(),), torch.randn(100, 70))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool], ids=str)
def test_values_in_another_order(dtype: torch.dtype) -> None:
    def program(x: Tensor, y: Tensor) -> list[Tensor]:
        turned = [x.t().contiguous(), (x.t() == y), torch.where(x.t() > 0, x.t(), y)]
        return [*turned, x.reshape(10, 10, 70).permute(2, 0, 1).clone(), x.t()[:, 3:60].contiguous(), (y.t() != x)]

    x, y = torch.randint(-2, 3, (100, 70)).to(dtype), torch.randint(-2, 3, (70, 100)).to(dtype)
    check(program, x, y)
    check(lambda x: (x.t().contiguous(), x[::3].t().clone()), torch.randint(-2, 3, (37, 131)).to(dtype))


def test_a_cast_there_and_back_is_none() -> None:
    x = torch.randn(50).to(torch.bfloat16)
    assert "tair::cast" not in _text(lambda x: (x.float().to(torch.bfloat16)[1:].clone(),), x)
    assert "tair::cast" in _text(lambda x: (x.to(torch.bfloat16).float(),), x.float())
