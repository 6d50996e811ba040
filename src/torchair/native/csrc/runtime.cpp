// Runs a program: stages in order, divided over the threads of one parallel region.
//
// The threads are those of the OpenMP library that torch loaded (support.py links against that very file), so there is one pool.
#include "../include/torchair_native/program.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <sched.h>

namespace {

constexpr int64_t most_workers = 256;

// How often a waiting worker looks before it gives the CPU to others. Most waits are much shorter than this (about 20 microseconds);
// longer ones mean that the other worker's thread is not running, and yielding is then what lets it.
constexpr int patience = 2000;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// How many barriers a worker has signalled; on a cache line of its own.
struct alignas(64) Flag {
  uint32_t epoch;
};

void wait_for(const Flag& flag, uint32_t epoch) {
  for (int looks = 0;; ++looks) {
    // Epochs only grow; the difference stands a wrap-around.
    if (static_cast<int32_t>(__atomic_load_n(&flag.epoch, __ATOMIC_ACQUIRE) - epoch) >= 0) {
      return;
    }
    if (looks < patience) {
      relax();
    } else {
      sched_yield();
    }
  }
}

// Dissemination barrier: in round r a worker signals the one 2^r after it and waits for the one 2^r before it. With two workers that
// is one store and one wait each; nothing is written by two workers.
class Barrier {
 public:
  Barrier(Flag* flags, int64_t workers, int64_t worker) : flags_(flags), workers_(workers), worker_(worker) {}

  void wait() {
    ++epoch_;
    Flag* round = flags_;
    for (int64_t distance = 1; distance < workers_; distance *= 2, round += workers_) {
      int64_t from = worker_ - distance;
      from += from < 0 ? workers_ : 0;
      __atomic_store_n(&round[worker_].epoch, epoch_, __ATOMIC_RELEASE);
      wait_for(round[from], epoch_);
    }
  }

 private:
  Flag* flags_;
  int64_t workers_, worker_;
  uint32_t epoch_ = 0;
};

int64_t rounds(int64_t workers) {
  int64_t result = 0;
  for (int64_t distance = 1; distance < workers; distance *= 2) {
    ++result;
  }
  return result;
}

void run_alone(const tair::Stage* stages, int64_t count, void* const* pointers, const int64_t* sizes) {
  for (int64_t i = 0; i < count; ++i) {
    const tair::Stage& stage = stages[i];
    stage.kernel(pointers + stage.first_pointer, sizes + stage.first_size, 0, 1);
  }
}

#ifdef _OPENMP
// At most how many workers any stage has a use for.
int64_t useful_workers(const tair::Stage* stages, int64_t count, int64_t workers) {
  int64_t most = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (stages[i].workers == 0 || stages[i].workers >= workers) {
      return workers;
    }
    most = stages[i].workers > most ? stages[i].workers : most;
  }
  return most;
}

void run_share(const tair::Stage* stages, int64_t count, void* const* pointers, const int64_t* sizes, Flag* flags, int64_t worker,
               int64_t workers) {
  Barrier barrier(flags, workers, worker);
  for (int64_t i = 0; i < count; ++i) {
    const tair::Stage& stage = stages[i];
    if (stage.barrier && i > 0) {
      barrier.wait();
    }
    const int64_t part = stage.workers == 0 || stage.workers > workers ? workers : stage.workers;
    if (worker < part) {
      stage.kernel(pointers + stage.first_pointer, sizes + stage.first_size, worker, part);
    }
  }
}
#endif

}  // namespace

extern "C" __attribute__((visibility("default"))) int64_t torchair_run_program(const tair::Stage* stages, int64_t count,
                                                                               void* const* pointers, const int64_t* sizes,
                                                                               int64_t workers) {
#ifdef _OPENMP
  workers = useful_workers(stages, count, workers < most_workers ? workers : most_workers);
  if (workers > 1 && !omp_in_parallel()) {
    const int64_t needed = workers * rounds(workers);
    auto* flags = static_cast<Flag*>(__builtin_alloca_with_align(static_cast<unsigned long>(needed) * sizeof(Flag), 512));
    for (int64_t i = 0; i < needed; ++i) {
      flags[i].epoch = 0;
    }
    int64_t ran = 1;
#pragma omp parallel num_threads(static_cast<int>(workers)) shared(ran)
    {
      const int64_t worker = omp_get_thread_num(), real = omp_get_num_threads();
      if (worker == 0) {
        ran = real;
      }
      if (real == 1) {
        run_alone(stages, count, pointers, sizes);
      } else {
        run_share(stages, count, pointers, sizes, flags, worker, real);
      }
    }
    return ran;
  }
#endif
  (void)workers;
  run_alone(stages, count, pointers, sizes);
  return 1;
}
