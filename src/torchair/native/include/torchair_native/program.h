// What generated kernels and the program runner (csrc/runtime.cpp) agree on.
#pragma once

#include <cstdint>

namespace tair {

// A kernel computes its share, worker of workers, of one function.
//   p: its pointers (inputs, outputs, workspace).   s: its sizes (run-time values).
using Kernel = void (*)(void* const* p, const int64_t* s, int64_t worker, int64_t workers);

// One step of a program. `torchair.native.support.Stage` mirrors it for ctypes.
struct Stage {
  Kernel kernel;
  int32_t first_pointer;  // where its p begins in the program's table of pointers
  int32_t first_size;     // where its s begins in the program's table of sizes
  int32_t workers;        // at most this many take part; 0: all of them
  int32_t barrier;        // 1: every worker has finished what stands before this stage
};

// The seconds that runs took lately.
struct Times {
  static constexpr int64_t kept = 5;

  double last[kept];
  int64_t count;
};

// What is known of the times of a program; one for each, zero at first. See torchair_run_program_paced.
struct Pace {
  Times all, one;             // on all workers, on one
  double alone_shortest;      // seconds of the fastest run on one worker
  double next_trial, wait;    // when the other way is tried again; seconds between trials
  int64_t runs;               // how many there were
  int64_t trials;             // runs of the current trial that are left
  int64_t alone;              // whether runs are on one worker now
};

struct Range {
  int64_t begin, end;
};

// A number that the compiler does not know.
inline int64_t unknown(int64_t number) {
  __asm__("" : "+r"(number));
  return number;
}

// Asks for elements that are read soon; they need not exist.
template <typename T>
inline void prefetch(const T* first, int64_t count) {
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(64 / sizeof(T))) {
    __builtin_prefetch(first + i);
  }
}

// The part of [0, count) that is this worker's. Parts begin at multiples of `grain` (so that two workers do not write to one
// cache line, or a block of rows is not cut) and differ by at most one grain; with few grains, the last workers get nothing.
inline Range share(int64_t count, int64_t worker, int64_t workers, int64_t grain = 1) {
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t each = grains / workers, more = grains % workers;
  const int64_t first = worker * each + (worker < more ? worker : more);
  const int64_t last = first + each + (worker < more ? 1 : 0);
  return {first * grain < count ? first * grain : count, last * grain < count ? last * grain : count};
}

}  // namespace tair

extern "C" {

// Run stages in order on at most `workers` threads of torch's OpenMP pool (fewer where OpenMP gives fewer; one inside
// another parallel region). Kernels learn how many there are. Returns the number of threads that ran.
int64_t torchair_run_program(const tair::Stage* stages, int64_t count, void* const* pointers, const int64_t* sizes, int64_t workers);

// The same, for programs that run often: on one worker while that is faster. It is when other processes have the CPUs: workers then wait
// for a thread that does not run, at least once in a program, and for as long as the system lets others run (milliseconds).
int64_t torchair_run_program_paced(const tair::Stage* stages, int64_t count, void* const* pointers, const int64_t* sizes, int64_t workers,
                                   tair::Pace* pace);

}
