// Steps of several lanes: lane 0 in the thread of the caller, the others in threads that the process keeps for all plans.
//
// It knows when a step may start, and nothing of what it does; needs the standard library only.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <condition_variable>
#endif

namespace torchair {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// How long somebody looks before he gives the CPU to others, and how long before he sleeps. A look is 10 to 60 ns.
struct Patience {
  int looks;
  int yields;
};

// Waits of a lane for another one are short, or else long: a callback, a large product.
constexpr Patience waits_patiently{1000, 100};
// Between two runs of a loop that calls a model; waking up a thread costs more than a small plan.
constexpr Patience rests_patiently{6000, 400};
// The caller slept while it waited for the lane, so runs are long. It may have been woken up on the CPU of the lane, which has
// to make room: a thread that is ready to run there, and not asleep, would be behind the caller in the next run.
constexpr Patience sleeps{0, 0};
// More lanes than cores: whoever looks keeps others from working.
constexpr Patience hurries{0, 10};

// A number that grows, and that others wait for; on a cache line of its own.
//
// Even: twice the number. Odd: the same, and somebody sleeps until it changes.
class alignas(64) Progress {
 public:
  static constexpr uint32_t end = 0x7fffffff;

  // Nobody may wait now.
  void reset() { word_.store(0, std::memory_order_relaxed); }

  // Whether somebody slept.
  bool publish(uint32_t count) {
    if ((word_.exchange(2 * count, std::memory_order_acq_rel) & 1) == 0) return false;
    wake();
    return true;
  }

  bool reached(uint32_t count) const { return word_.load(std::memory_order_acquire) / 2 >= count; }

  void wait(uint32_t count, Patience patience) {
    for (int looks = 0;; ++looks) {
      auto seen = word_.load(std::memory_order_acquire);
      if (seen / 2 >= count) return;
      if (looks < patience.looks) {
        relax();
      } else if (looks < patience.looks + patience.yields) {
        sched_yield();
      } else if ((seen & 1) != 0 || word_.compare_exchange_weak(seen, seen | 1, std::memory_order_acq_rel)) {
        sleep_while(seen | 1);
      }
    }
  }

 private:
#ifdef __linux__
  void wake() { syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0); }
  void sleep_while(uint32_t value) { syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0); }
#else
  void wake() {
    std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }
  void sleep_while(uint32_t value) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return word_.load(std::memory_order_acquire) != value; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
#endif
  std::atomic<uint32_t> word_{0};
};

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4, "a futex is four bytes");

// A thread that runs lanes, one after the other.
class LaneThread {
 public:
  // Whether the thread may sleep at once.
  using Function = bool (*)(void* context, uint32_t lane);

  // Raises std::system_error where the system has no more threads. `prepare` runs in the thread first.
  explicit LaneThread(void (*prepare)()) {
    // Signals are for the threads that Python knows.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this, prepare] { live(prepare); }).detach();
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void start(Function function, void* context, uint32_t lane) {
    function_ = function;
    context_ = context;
    lane_ = lane;
    called_.publish(1);
  }

 private:
  void live(void (*prepare)()) {
#ifdef __linux__
    pthread_setname_np(pthread_self(), "torchair lane");
#endif
    if (prepare != nullptr) prepare();
    for (auto patience = rests_patiently;;) {
      called_.wait(1, patience);
      called_.reset();  // before the run ends: from then on others may call
      patience = function_(context_, lane_) ? sleeps : rests_patiently;
    }
  }

  Progress called_;
  Function function_ = nullptr;
  void* context_ = nullptr;
  uint32_t lane_ = 0;
};

// The lane threads of the process. They live as long as it, and sleep while there is nothing to do; they are not ended when the
// interpreter exits, since they may be in the middle of a run of a thread that is not ended either.
class LanePool {
 public:
  // The one of this process: a child that was forked has none of its parent's threads.
  static LanePool& of_process() {
    static const bool registered = [] {
      current() = new LanePool;
      pthread_atfork(nullptr, nullptr, [] { current() = new LanePool; });
      return true;
    }();
    (void)registered;
    return *current();
  }

  // Runs in each new thread first.
  void (*prepare)() = default_prepare();

  static void (*&default_prepare())() {
    static void (*function)() = nullptr;
    return function;
  }

  // Threads for so many lanes, new ones where no free ones are left; none of them, and false, where the system refuses.
  bool take(size_t count, std::vector<LaneThread*>& taken) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (taken.size() < count && !free_.empty()) {
        taken.push_back(free_.back());
        free_.pop_back();
      }
    }
    try {
      while (taken.size() < count) {
        taken.push_back(new LaneThread(prepare));
        const std::lock_guard<std::mutex> lock(mutex_);
        free_.reserve(++threads_);  // so that giving back cannot fail
      }
    } catch (const std::system_error&) {
      give_back(taken);
      return false;
    }
    return true;
  }

  // Their lanes have ended.
  void give_back(std::vector<LaneThread*>& taken) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // In the order in which they are taken the next time: a lane finds its caches.
    free_.insert(free_.end(), taken.rbegin(), taken.rend());
    taken.clear();
  }

  size_t threads() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return threads_;
  }

 private:
  static LanePool*& current() {
    static LanePool* pool = nullptr;
    return pool;
  }

  std::mutex mutex_;
  std::vector<LaneThread*> free_;
  size_t threads_ = 0;
};

// When the steps of a plan run. Filled once, then run, one run at a time.
//
// A Body runs the steps:
//   auto enter(uint32_t lane)                       what is returned lives while the lane runs, in its thread
//   void step(uint32_t position, uint32_t lane)     may throw
//   std::exception_ptr caught(uint32_t lane)        what was thrown, called where it is caught, ready for another thread
class Lanes {
 public:
  // The next step of the plan; `after`: positions of steps before it, each in another lane.
  void add(uint32_t lane, const std::vector<uint32_t>& after) {
    while (lanes_.size() <= lane) lanes_.push_back(std::make_unique<Lane>());
    Step step{static_cast<uint32_t>(places_.size()), false, static_cast<uint32_t>(waits_.size()),
              static_cast<uint32_t>(after.size())};
    for (auto position : after) {
      const auto [other, at] = places_.at(position);
      lanes_[other]->steps[at].is_awaited = true;
      waits_.push_back({other, at + 1});
    }
    auto& steps = lanes_[lane]->steps;
    places_.emplace_back(lane, static_cast<uint32_t>(steps.size()));
    steps.push_back(step);
  }

  size_t count() const { return lanes_.size(); }

  // Runs all steps, or those before the first one that fails; its error is raised, and `failed` is its position. False where
  // threads are missing: then nothing ran.
  template <typename Body>
  bool run(Body& body, int64_t& failed) {
    auto& pool = LanePool::of_process();
    if (!pool.take(lanes_.size() - 1, threads_)) return false;
    failed_at_.store(nowhere, std::memory_order_relaxed);
    for (auto& lane : lanes_) {
      lane->progress.reset();
      lane->error = nullptr;
    }
    static const auto cores = std::max(1u, std::thread::hardware_concurrency());
    patience_ = lanes_.size() > cores ? hurries : waits_patiently;
    Context<Body> context{this, &body};
    for (uint32_t lane = 1; lane < lanes_.size(); ++lane) threads_[lane - 1]->start(run_in_thread<Body>, &context, lane);
    run_lane(body, 0);
    for (uint32_t lane = 1; lane < lanes_.size(); ++lane) lanes_[lane]->progress.wait(Progress::end, patience_);
    pool.give_back(threads_);
    Lane* first = nullptr;
    for (auto& lane : lanes_)
      if (lane->error != nullptr && (first == nullptr || lane->error_at < first->error_at)) first = lane.get();
    if (first == nullptr) return true;
    failed = first->error_at;
    auto error = std::exchange(first->error, nullptr);
    for (auto& lane : lanes_) lane->error = nullptr;
    std::rethrow_exception(std::move(error));
  }

 private:
  static constexpr uint32_t nowhere = UINT32_MAX;

  struct Step {
    uint32_t position;
    bool is_awaited;
    uint32_t first_wait, waits;
  };

  struct Wait {
    uint32_t lane, count;
  };

  struct Lane {
    Progress progress;
    std::vector<Step> steps;
    std::exception_ptr error;
    uint32_t error_at = 0;
  };

  template <typename Body>
  struct Context {
    Lanes* lanes;
    Body* body;
  };

  template <typename Body>
  static bool run_in_thread(void* context, uint32_t lane) {
    auto* const given = static_cast<Context<Body>*>(context);
    return given->lanes->run_lane(*given->body, lane);
  }

  // Steps after the one that failed do not start. All before it run, so the first error is the one of a serial run.
  bool is_over(uint32_t position) const { return position > failed_at_.load(std::memory_order_acquire); }

  // Whether the caller slept until the lane ended.
  template <typename Body>
  bool run_lane(Body& body, uint32_t number) {
    auto& lane = *lanes_[number];
    uint32_t position = lane.steps.empty() ? 0 : lane.steps.front().position;
    try {
      const auto state = body.enter(number);
      (void)state;
      uint32_t done = 0;
      for (const auto& step : lane.steps) {
        if (is_over(step.position)) break;
        position = step.position;
        for (uint32_t i = 0; i < step.waits; ++i) {
          const auto& wait = waits_[step.first_wait + i];
          lanes_[wait.lane]->progress.wait(wait.count, patience_);
        }
        if (step.waits != 0 && is_over(position)) break;  // what it waited for did not run
        body.step(position, number);
        ++done;
        if (step.is_awaited) lane.progress.publish(done);
      }
    } catch (...) {
      lane.error = body.caught(number);
      lane.error_at = position;
      auto first = failed_at_.load(std::memory_order_relaxed);
      while (position < first && !failed_at_.compare_exchange_weak(first, position, std::memory_order_acq_rel)) {
      }
    }
    // The last that this thread does here: the caller goes on. What waits for steps that did not run sees that it is over.
    return lane.progress.publish(Progress::end);
  }

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::pair<uint32_t, uint32_t>> places_;  // of each step: lane, and which step of it
  std::vector<Wait> waits_;
  std::vector<LaneThread*> threads_;
  std::atomic<uint32_t> failed_at_{nowhere};
  Patience patience_ = waits_patiently;
};

}  // namespace torchair
