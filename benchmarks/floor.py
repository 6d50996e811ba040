"""How fast this machine could be: the time to read given bytes once, and to do given float32 operations.

Both are measured. Bytes are read by as many threads as PyTorch uses, from a buffer of the size in question that was
read just before, so that it comes from where it would come in the case: a cache, if it is small enough, or memory.
Operations are those of a matrix product of PyTorch.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import progress
from benchmarks.results import Work
from torchair.build import find_compiler
from torchair.errors import BuildError, Rejection

__all__ = ["MachineFloor"]

#: A smaller buffer than this tells nothing: handing work to threads takes longer.
_SMALLEST = 1 << 20

_SOURCE = r"""
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

// Reads of `bytes` at `data` by `threads` threads, `passes` times; the shortest pass in seconds.
extern "C" double stream(const float* data, int64_t bytes, int threads, int passes) {
  const int64_t chunk = bytes / int64_t(sizeof(float)) / threads;
  std::atomic<int64_t> begun{0}, done{0};
  std::atomic<int64_t> sink{0};
  auto read = [&](int worker) {
    constexpr int kLanes = 128;  // enough sums in flight that none waits for another
    float sums[kLanes] = {};
    const float* from = data + worker * chunk;
    for (int64_t i = 0; i + kLanes <= chunk; i += kLanes)
      for (int k = 0; k < kLanes; ++k) sums[k] += from[i + k];
    float total = 0;
    for (float s : sums) total += s;
    if (total == 12345.f) sink++;
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t)
    others.emplace_back([&, t] {
      for (int64_t pass = 1; pass <= passes; ++pass) {
        while (begun.load(std::memory_order_acquire) < pass) std::this_thread::yield();
        read(t);
        done.fetch_add(1, std::memory_order_release);
      }
    });
  double best = 1e9;
  for (int64_t pass = 1; pass <= passes; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    begun.store(pass, std::memory_order_release);
    read(0);
    while (done.load(std::memory_order_acquire) < pass * (threads - 1)) std::this_thread::yield();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (pass > 2 && took.count() < best) best = took.count();
  }
  for (auto& other : others) other.join();
  return best;
}
"""


class MachineFloor:
    """Called with the work of a call, it says how long that takes at least: bytes or operations, the longer.

    Attributes:
        flops: Operations a second; the best of some products of 1536x1536.
        threads: Of PyTorch.
    """

    def __init__(self) -> None:
        progress("measuring what memory and cores can do")
        self.threads = torch.get_num_threads()
        self.flops = _flops()
        self._stream = _built()
        self._seconds: dict[int, float] = {}

    def __call__(self, work: Work) -> float | None:
        """Seconds; None where there is no compiler to build what reads."""
        if self._stream is None:
            return None
        return max(self.reading(work.bytes), work.operations / self.flops)

    def reading(self, size: int) -> float:
        """Seconds to read ``size`` bytes that were read before.

        Below 1 MiB it is the part of what that takes.
        """
        assert self._stream is not None
        whole = max(size, _SMALLEST)
        if whole not in self._seconds:
            buffer = torch.ones(whole // 4 + 1)
            passes = max(12, min(400, int(2e9 / whole)))
            self._seconds[whole] = self._stream(buffer.data_ptr(), whole, self.threads, passes)
        return self._seconds[whole] * size / whole

    def describe(self) -> dict[str, float]:
        """Facts for the head of the results."""
        facts = {"float32_gflops": round(self.flops / 1e9, 1)}
        if self._stream is not None:
            for name, size in (("1_mb", 1 << 20), ("30_mb", 30_000_000), ("250_mb", 250_000_000)):
                facts[f"read_{name}_gb_per_s"] = round(size / self.reading(size) / 1e9, 1)
        return facts


def _flops() -> float:
    a, b = torch.randn(1536, 1536), torch.randn(1536, 1536)
    out = torch.empty(1536, 1536)
    best = float("inf")
    for _ in range(12):
        start = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - start)
    return float(2 * 1536**3 / best)


def _built() -> Any:
    compiler = find_compiler(os.environ.get("CXX", ""))
    if isinstance(compiler, Rejection):
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "stream.cpp"), Path(folder, "stream.so")
        source.write_text(_SOURCE)
        # No -ffast-math: loading such a library lets the whole process flush denormal numbers to zero.
        flags = ["-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-pthread"]
        try:
            compiler.compile([source], library, flags)
        except BuildError:
            return None
        stream = ctypes.CDLL(str(library)).stream
    stream.restype = ctypes.c_double
    stream.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
    return stream
