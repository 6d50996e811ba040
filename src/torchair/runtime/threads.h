// What a lane needs of the thread that runs it: the state of the caller's thread, and a share of the cores.

#pragma once

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cfenv>
#include <vector>

// Of the OpenMP library, and of the MKL, that torch was built with; null where it was built without.
extern "C" {
__attribute__((weak)) void omp_set_num_threads(int threads);
__attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);
}

namespace torchair {

// How many workers the operators of this thread may use, as long as it lives.
class ThreadShare {
 public:
  // `all`: what "all" means.
  explicit ThreadShare(int all) : before_(at::in_parallel_region() ? 0 : at::get_num_threads()), all_(all) { use(0); }

  ~ThreadShare() {
    if (before_ == 0) return;
    set(before_);
    if (mkl_before_ >= 0) MKL_Set_Num_Threads_Local(mkl_before_);
  }

  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;

  // From now on `cores`, 0: all.
  void use(int cores) {
    const int wanted = cores == 0 ? all_ : std::min(cores, all_);
    if (before_ == 0 || wanted == now_) return;
    set(wanted);
    if (MKL_Set_Num_Threads_Local == nullptr) return;
    const int before = MKL_Set_Num_Threads_Local(wanted);
    if (mkl_before_ < 0) mkl_before_ = before;
  }

 private:
  void set(int threads) {
    // Not at::set_num_threads, which speaks for the threads of the process that have not asked yet.
    if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
    now_ = threads;
  }

  const int before_;  // 0: in a parallel region, where nothing is set
  const int all_;
  int now_ = 0;
  int mkl_before_ = -1;
};

// The state of a thread, for others.
class CallerState {
 public:
  CallerState() { std::fegetenv(&floating_); }

  // In another thread: the same state, as long as it lives. Warnings are collected; they go to where the caller wants them.
  class Guard {
   public:
    Guard(const CallerState& state, c10::WarningHandler& warnings) : torch_(state.torch_), warnings_(&warnings) {
      std::fegetenv(&before_);
      std::fesetenv(&state.floating_);  // denormal numbers, rounding
    }
    ~Guard() { std::fesetenv(&before_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    at::ThreadLocalStateGuard torch_;
    c10::WarningUtils::WarningHandlerGuard warnings_;
    std::fenv_t before_;
  };

 private:
  at::ThreadLocalState torch_;
  std::fenv_t floating_;
};

// Keeps warnings for later.
class CollectedWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { warnings_.push_back(warning); }

  // Warn of them in this thread.
  void repeat() {
    std::vector<c10::Warning> warnings;
    warnings.swap(warnings_);
    for (const auto& warning : warnings) c10::WarningUtils::get_warning_handler()->process(warning);
  }

 private:
  std::vector<c10::Warning> warnings_;
};

}  // namespace torchair
