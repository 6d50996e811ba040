// Runs a program: stages in order, divided over the threads of one parallel region.
//
// The threads are those of the OpenMP library that torch loaded (support.py links against that very file), so there is one pool.
#include "../include/torchair_native/program.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <sched.h>
#endif
#include <time.h>

namespace {

constexpr int64_t most_workers = 256;

// Seconds that a waiting worker looks before it gives the CPU to others. Waking a thread up takes some tens of microseconds, in a virtual
// machine more, and the one that is waited for meanwhile does the same at its next barrier: with a patience of 4 microseconds, a program of
// 75 stages slept 30 times a run and took 2.0 to 3.3 ms in place of 1.1. A longer wait than this one means that the other's thread is not
// running.
constexpr double patience = 50e-6;

// How often it looks between two readings of the clock; the first ones end most waits.
constexpr int looks_a_reading = 64;

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// Says how many barriers a worker has come to; on a cache line of its own. Even: 2 * that number. Odd: the same, and whoever waits
// for a larger one sleeps.
struct alignas(64) Flag {
  uint32_t value;
};

void signal(Flag& flag, uint32_t epoch) {
  const uint32_t before = __atomic_exchange_n(&flag.value, 2 * epoch, __ATOMIC_ACQ_REL);
#ifdef __linux__
  if (before & 1) {
    syscall(SYS_futex, &flag.value, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
#else
  (void)before;
#endif
}

// On a busy machine, sleeping is ten times better than sched_yield: a thread that wakes up is preferred to those that never sleep, whereas
// one that yields waits for its turn among them, at every barrier.
void wait_for(Flag& flag, uint32_t epoch) {
  double end = 0;
  for (int looks = 1;; ++looks) {
    uint32_t value = __atomic_load_n(&flag.value, __ATOMIC_ACQUIRE);
    if (value / 2 >= epoch) {
      return;
    }
    relax();
    if (looks % looks_a_reading != 0) {
      continue;
    }
    const double time = now();
    end = end == 0 ? time + patience : end;
    if (time < end) {
      continue;
    }
#ifdef __linux__
    if ((value & 1) || __atomic_compare_exchange_n(&flag.value, &value, value | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      syscall(SYS_futex, &flag.value, FUTEX_WAIT_PRIVATE, value | 1, nullptr, nullptr, 0);
    }
#else
    sched_yield();
#endif
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
      signal(round[worker_], epoch_);
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

#define TAIR_EXPORT extern "C" __attribute__((visibility("default")))

TAIR_EXPORT int64_t torchair_run_program(const tair::Stage* stages, int64_t count, void* const* pointers, const int64_t* sizes,
                                         int64_t workers) {
#ifdef _OPENMP
  workers = useful_workers(stages, count, workers < most_workers ? workers : most_workers);
  if (workers > 1 && !omp_in_parallel()) {
    const int64_t needed = workers * rounds(workers);
    auto* flags = static_cast<Flag*>(__builtin_alloca_with_align(static_cast<unsigned long>(needed) * sizeof(Flag), 512));
    for (int64_t i = 0; i < needed; ++i) {
      flags[i].value = 0;
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

// ---------------------------------------------------------------- how many workers pay

namespace {

constexpr int64_t first_runs = 2;        // not counted: they find memory cold and start threads
constexpr int64_t trial_runs = 1 + tair::Times::kept;  // the first one finds threads that sleep; it is not counted either
constexpr double hopeless = 4;           // a trial ends early when it takes this many times longer
constexpr double shortest_break = 0.25;  // seconds until it is tried again; doubles each time, up to the longest
constexpr double longest_break = 2;

void add(tair::Times& times, double seconds) { times.last[times.count++ % tair::Times::kept] = seconds; }

// A mean would do what the slowest run says, and any run may be slow: a thread slept, or its processor did something else.
double median(const tair::Times& times) {
  double sorted[tair::Times::kept];
  const int64_t count = times.count < tair::Times::kept ? times.count : tair::Times::kept;
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = i;
    for (; place > 0 && sorted[place - 1] > times.last[i]; --place) {
      sorted[place] = sorted[place - 1];
    }
    sorted[place] = times.last[i];
  }
  return count == 0 ? 0 : sorted[count / 2];
}

}  // namespace

// One worker is tried after the first runs; after that, only when parallel runs take longer than one ever did; and parallel runs from
// time to time. So on a quiet machine all but a few of the runs are parallel, if that is faster at all.
TAIR_EXPORT int64_t torchair_run_program_paced(const tair::Stage* stages, int64_t count, void* const* pointers, const int64_t* sizes,
                                               int64_t workers, tair::Pace* pace) {
  if (workers <= 1) {
    return torchair_run_program(stages, count, pointers, sizes, workers);
  }
  const bool trial = pace->trials > 0, alone = (pace->alone != 0) != trial;
  const double begin = now();
  const int64_t ran = torchair_run_program(stages, count, pointers, sizes, alone ? 1 : workers);
  const double end = now(), seconds = end - begin;
  if (pace->runs++ < first_runs) {
    return ran;
  }
  tair::Times &usual = pace->alone ? pace->one : pace->all, &other = pace->alone ? pace->all : pace->one;
  if (alone && (pace->alone_shortest == 0 || seconds < pace->alone_shortest)) {
    pace->alone_shortest = seconds;
  }
  if (!trial) {
    add(usual, seconds);
    if (end >= pace->next_trial && usual.count >= tair::Times::kept && (pace->alone || median(usual) > pace->alone_shortest)) {
      pace->trials = trial_runs;
      other.count = 0;  // what was measured of the other way is old
      pace->alone_shortest *= pace->alone ? 1 : 1.1;  // sizes may have grown
    }
    return ran;
  }
  if (pace->trials-- < trial_runs) {
    add(other, seconds);
  }
  if (other.count >= 2 && median(other) > hopeless * median(usual)) {
    pace->trials = 0;
  }
  if (pace->trials == 0) {
    const bool change = median(other) < median(usual);
    pace->alone = change ? !pace->alone : pace->alone;
    pace->wait = change || pace->wait == 0 ? shortest_break : pace->wait * 2 < longest_break ? pace->wait * 2 : longest_break;
    pace->next_trial = end + pace->wait;
  }
  return ran;
}
