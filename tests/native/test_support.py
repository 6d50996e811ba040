"""The C++ support library of native code: its build, its threads, its scalar and vector operations."""

from __future__ import annotations

import ctypes
import os
import time

import pytest
import torch

from torchair.native.support import Pace, Stage, _openmp_library, _torch_library

_KERNELS = """
#include <torchair_native/program.h>
#include <unistd.h>
#define KERNEL extern "C" __attribute__((visibility("default"))) void

// s: {count}; p: {data}. Adds one to its share.
KERNEL increment(void* const* p, const int64_t* s, int64_t worker, int64_t workers) {
  const tair::Range mine = tair::share(s[0], worker, workers, 4);
  auto* data = static_cast<int64_t*>(p[0]);
  for (int64_t i = mine.begin; i < mine.end; ++i) data[i] += 1;
}

// Each worker reads what another one wrote before the barrier.
KERNEL rotate(void* const* p, const int64_t* s, int64_t worker, int64_t workers) {
  const tair::Range mine = tair::share(s[0], worker, workers, 1);
  auto* from = static_cast<const int64_t*>(p[0]);
  auto* to = static_cast<int64_t*>(p[1]);
  for (int64_t i = mine.begin; i < mine.end; ++i) to[i] = from[(i + 1) % s[0]] + 1;
}

// s: {microseconds on several workers, microseconds on one}.
KERNEL slow(void* const*, const int64_t* s, int64_t, int64_t workers) {
  usleep(static_cast<unsigned>(workers > 1 ? s[0] : s[1]));
}

// p: {seen}: which workers there are, and how many they think there are.
KERNEL who(void* const* p, const int64_t*, int64_t worker, int64_t workers) {
  static_cast<int64_t*>(p[0])[worker] = workers;
}
"""


@pytest.fixture(scope="module")
def kernels(compiled):
    return compiled("torchair_test_kernels", _KERNELS)


def _address(function) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 16, 64])
def test_stages_see_what_stands_before_their_barrier(support, kernels, workers) -> None:
    count, turns = 101, 40
    a, b = torch.arange(count), torch.zeros(count, dtype=torch.int64)
    expected = a.clone()
    stages = []
    for turn in range(turns):
        stages.append(Stage(_address(kernels.rotate), turn % 2, 0, 0, 1))
        expected = torch.roll(expected, -1) + 1
    support.run_program(stages, [a.data_ptr(), b.data_ptr(), a.data_ptr()], [count], workers)
    assert torch.equal(a, expected)


def test_workers_of_a_stage(support, kernels) -> None:
    seen = torch.zeros(3, 8, dtype=torch.int64)
    stages = [Stage(_address(kernels.who), i, 0, limit, 1) for i, limit in enumerate((0, 1, 2))]
    pointers = [row.data_ptr() for row in seen]
    ran = support.run_program(stages, pointers, [], 3)
    assert ran == 3
    assert seen[:, :4].tolist() == [[3, 3, 3, 0], [1, 0, 0, 0], [2, 2, 0, 0]]


def test_no_more_threads_than_stages_use(support, kernels) -> None:
    seen = torch.zeros(8, dtype=torch.int64)
    assert support.run_program([Stage(_address(kernels.who), 0, 0, 2, 0)], [seen.data_ptr()], [], 5) == 2
    assert support.run_program([Stage(_address(kernels.who), 0, 0, 1, 0)], [seen.data_ptr()], [], 5) == 1
    assert support.run_program([], [], [], 5) == 1


def test_shares_cover_everything_once(support, kernels) -> None:
    for count in (0, 1, 3, 4, 5, 63, 64, 1001):
        data = torch.zeros(max(count, 1), dtype=torch.int64)
        for workers in (1, 2, 5, 64):
            support.run_program([Stage(_address(kernels.increment), 0, 0, 0, 0)], [data.data_ptr()], [count], workers)
        assert data[:count].eq(4).all()


def test_inside_a_parallel_region_it_runs_alone(support, compiled) -> None:
    library = compiled(
        "torchair_test_nested",
        """
        #include <torchair_native/program.h>
        #define KERNEL extern "C" __attribute__((visibility("default"))) void
        KERNEL nested(void* const* p, const int64_t*, int64_t worker, int64_t) {
          auto* stages = static_cast<const tair::Stage*>(p[1]);
          static_cast<int64_t*>(p[0])[worker] = torchair_run_program(stages, 1, nullptr, nullptr, 4);
        }
        KERNEL nothing(void* const*, const int64_t*, int64_t, int64_t) {}
        """,
    )
    threads = torch.zeros(2, dtype=torch.int64)
    inner = (Stage * 1)(Stage(_address(library.nothing), 0, 0, 0, 0))
    outer = [Stage(_address(library.nested), 0, 0, 0, 0)]
    assert support.run_program(outer, [threads.data_ptr(), ctypes.addressof(inner)], [], 2) == 2
    assert threads.tolist() == [1, 1]


def test_the_threads_are_those_of_torch(support) -> None:
    theirs = _openmp_library(_torch_library())
    if theirs is None:
        pytest.skip("torch's OpenMP library has not the interface of GCC's, so programs run on one thread")
    # As this process found it. The file may say another name: wheels rename the library.
    ours = _openmp_library(support.library)
    assert ours is not None
    assert os.path.realpath(ours) == os.path.realpath(theirs)


# Very different times: other processes may disturb the test, too.
_SHORT, _LONG = 10, 30_000


@pytest.mark.parametrize(("parallel", "alone"), [(_LONG, _SHORT), (_SHORT, _LONG)], ids=["busy", "quiet"])
def test_a_program_runs_alone_while_that_is_faster(support, kernels, parallel, alone) -> None:
    pace = Pace()
    stages = [Stage(_address(kernels.slow), 0, 0, 0, 0)]
    threads = [support.run_program(stages, [], [parallel, alone], 2, pace) for _ in range(16)]
    assert threads[:7] == [2] * 7
    tried = threads[7:].index(2) if parallel < alone else 6
    assert threads[7 : 7 + tried] == [1] * tried
    assert 3 <= tried <= 6, "a trial ends early when it is hopeless"
    assert threads[7 + tried :] == [1 if parallel > alone else 2] * (9 - tried)
    assert bool(pace.alone) is (parallel > alone)


def test_the_parallel_way_is_tried_again(support, kernels) -> None:
    pace = Pace()
    stages = [Stage(_address(kernels.slow), 0, 0, 0, 0)]
    for _ in range(13):
        support.run_program(stages, [], [_LONG, _SHORT], 2, pace)
    assert pace.alone
    deadline = time.monotonic() + 30
    while pace.alone and time.monotonic() < deadline:
        support.run_program(stages, [], [_SHORT, _LONG], 2, pace)
    assert not pace.alone


def test_single_slow_runs_decide_nothing(support, kernels) -> None:
    pace = Pace()
    stages = [Stage(_address(kernels.slow), 0, 0, 0, 0)]
    for i in range(40):
        parallel = 4 * _LONG if i % 4 == 2 else _SHORT
        support.run_program(stages, [], [parallel, _LONG], 2, pace)
    assert not pace.alone, "their mean is longer, their median is not"
