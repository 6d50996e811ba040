// A plan over an arena: filled once, then run.

#pragma once

#include "arena.h"
#include "direct.h"
#include "lanes.h"
#include "launch.h"
#include "native.h"
#include "threads.h"
#include "values.h"

#include <torch/csrc/Dtype.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace torchair {

inline at::ScalarType scalar_type(const py::object& dtype) {
  TORCH_CHECK(THPDtype_Check(dtype.ptr()), "not a dtype");
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

// An input whose views are kept between calls, as it was when they were made.
struct WatchedInput {
  uint32_t slot;
  const c10::TensorImpl* tensor = nullptr;
  const c10::StorageImpl* storage = nullptr;
  int64_t offset = 0;
};

// What tests and traces want of a run, beside its results.
struct Watch {
  using Clock = std::chrono::steady_clock;

  int64_t most_microseconds = 0;         // steps are delayed by at most that
  uint64_t seed = 0;
  bool times_steps = false;
  Clock::time_point began;
  std::vector<std::pair<int64_t, int64_t>> times;  // of each step, in nanoseconds since the run began

  bool is_on() const { return most_microseconds > 0 || times_steps; }

  void begin_run(size_t steps) {
    times.assign(times_steps ? steps : 0, {-1, -1});
    ++seed;
    began = Clock::now();
  }

  // Different for each step and each run, and the same for a seed.
  void delay(uint32_t position, bool before) const {
    if (most_microseconds == 0) return;
    std::minstd_rand random(static_cast<uint32_t>(seed * 7919 + position * 2 + (before ? 1 : 0) + 1));
    random.discard(3);
    const auto wait = static_cast<int64_t>(random()) % (2 * most_microseconds) - most_microseconds;
    if (wait > 0) std::this_thread::sleep_for(std::chrono::microseconds(wait));
  }

  void begin_step(uint32_t position) {
    delay(position, true);
    if (times_steps) times[position].first = since_begin();
  }

  void end_step(uint32_t position) {
    if (times_steps) times[position].second = since_begin();
    delay(position, false);
  }

 private:
  int64_t since_begin() const { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count(); }
};

class PlanInstance {
 public:
  // `exact_products`: a float32 product is what BLAS gives.
  PlanInstance(size_t slots, size_t inputs, std::shared_ptr<Arena> arena, bool exact_products)
      : slots_{std::vector<IValue>(slots), std::vector<bool>(slots, false)},
        inputs_(inputs),
        arena_(std::move(arena)),
        direct_(slots_, exact_products) {
    for (size_t slot = 0; slot < inputs; ++slot) direct_.is_early(static_cast<uint32_t>(slot));
  }

  ~PlanInstance() {
    py::gil_scoped_acquire gil;
    slots_.values.clear();
    body_.clear();
    kept_views_.clear();
  }

  // --- filling ---

  void hold(uint32_t slot, const py::object& value) {
    slots_.values.at(slot) = from_python(value.ptr());
    slots_.held.at(slot) = true;
  }

  void hold_buffer(uint32_t slot, const Arena& memory, const py::object& dtype, int64_t offset, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& strides) {
    slots_.values.at(slot) = memory.tensor(scalar_type(dtype), offset, sizes, strides);
    slots_.held.at(slot) = true;
  }

  // What the tensor in a slot is going to be.
  void describe(uint32_t slot, const py::object& dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    direct_.describe(slot, {scalar_type(dtype), std::move(sizes), std::move(strides)});
  }

  // Run a launch once, now, and hold its results: views of what is held.
  void hold_views(const std::string& name, const std::string& overload, const py::list& arguments,
                  const std::vector<int32_t>& results) {
    c10::InferenceMode normal(false);
    at::AutoDispatchBelowADInplaceOrView below;
    call(make_call(name, overload, arguments, results, true, slots_), slots_, stack_, *arena_);
    for (auto slot : results)
      if (slot >= 0) slots_.held.at(slot) = true;
  }

  void hold_item(uint32_t slot, uint32_t item, uint32_t result) {
    slots_.values.at(result) = slots_.values.at(slot).toListRef().at(item);
    slots_.held.at(result) = true;
  }

  // Where and when the next step runs: its lane, the steps of other lanes that it waits for, how many workers it may use, and
  // how many when it runs alone. 0: all.
  void place(uint32_t lane, std::vector<uint32_t> after, int cores, int limit) {
    lane_ = lane;
    after_ = std::move(after);
    cores_.resize(body_.size() + 1, 0);
    cores_.back() = cores;
    limits_.resize(body_.size() + 1, 0);
    limits_.back() = limit;
    has_limits_ = has_limits_ || limit != 0;
  }

  // Run all steps in the thread of the caller, in the order in which they were added.
  void use_one_lane() { one_lane_ = true; }

  // Delay each step at random, by at most so many microseconds; 0: not at all.
  void delay_steps(uint64_t seed, int64_t most_microseconds) {
    watch_.seed = seed;
    watch_.most_microseconds = most_microseconds;
  }

  // Whether to note when each step begins and ends.
  void time_steps(bool on) { watch_.times_steps = on; }

  // When each step of the last run began and ended, in nanoseconds from its begin; -1 for one that did not run.
  const std::vector<std::pair<int64_t, int64_t>>& times() const { return watch_.times; }

  void add_call(const std::string& name, const std::string& overload, const py::list& arguments,
                const std::vector<int32_t>& results, const std::vector<uint32_t>& release, bool may_alias) {
    add(make_call(name, overload, arguments, results, may_alias, slots_), release);
  }

  void add_item(uint32_t slot, uint32_t item, int32_t result, const std::vector<uint32_t>& release) {
    Launch launch;
    launch.kind = Kind::Item;
    launch.patches = {{0, slot}};
    launch.item = item;
    launch.results = {result};
    add(std::move(launch), release);
  }

  // A Python function that takes the values of the given slots as one list, and returns a list of results.
  void add_callback(const py::object& function, const std::vector<uint32_t>& arguments, const std::vector<int32_t>& results,
                    const std::vector<uint32_t>& release) {
    Launch launch;
    launch.kind = Kind::Callback;
    launch.callback = function;
    for (auto slot : arguments) launch.patches.emplace_back(0, slot);
    launch.results = results;
    add(std::move(launch), release);
  }

  // A native program. `pointers`: slot, byte, whether it is written; `fresh`, `given`: slot, dtype, sizes, strides.
  void add_native(uintptr_t runner, const std::string& stages, int64_t count, std::vector<int64_t> sizes,
                  const std::vector<std::tuple<uint32_t, int64_t, bool>>& pointers,
                  const std::vector<std::tuple<uint32_t, py::object, std::vector<int64_t>, std::vector<int64_t>>>& fresh,
                  const std::vector<std::tuple<uint32_t, py::object, std::vector<int64_t>, std::vector<int64_t>>>& given,
                  uint32_t workspace, int64_t errors, std::vector<std::string> messages, const std::vector<int32_t>& results,
                  const std::vector<uint32_t>& release) {
    NativeRun run{reinterpret_cast<NativeRun::Runner>(runner), stages, count, std::move(sizes)};
    for (const auto& [slot, dtype, shape, strides] : fresh) run.fresh.push_back({slot, scalar_type(dtype), shape, strides});
    for (const auto& [slot, offset, written] : pointers) run.point(slot, offset, written);
    for (const auto& [slot, dtype, shape, strides] : given)
      if (!slots_.held.at(slot)) run.expect(slot, {scalar_type(dtype), shape, strides});
    run.finish(workspace, errors, std::move(messages), slots_, results);
    natives_.push_back(std::move(run));
    Launch launch;
    launch.kind = Kind::Native;
    launch.item = static_cast<uint32_t>(natives_.size() - 1);
    launch.results = results;
    add(std::move(launch), release);
  }

  // Views of inputs that rarely change (parameters): made again only when one of these inputs is another tensor.
  void add_kept_view(const std::string& name, const std::string& overload, const py::list& arguments,
                     const std::vector<int32_t>& results) {
    kept_views_.push_back(make_call(name, overload, arguments, results, true, slots_));
    for (auto slot : results) {
      if (slot < 0) continue;
      slots_.held.at(slot) = true;
      direct_.is_early(static_cast<uint32_t>(slot));
    }
  }

  void watch(const std::vector<uint32_t>& slots) {
    watched_.clear();
    for (auto slot : slots) watched_.push_back(WatchedInput{slot});
  }

  void finish(const std::vector<uint32_t>& outputs) {
    outputs_ = outputs;
    transient_.clear();
    for (size_t slot = 0; slot < slots_.values.size(); ++slot)
      if (!slots_.held[slot]) transient_.push_back(static_cast<uint32_t>(slot));
    direct_.finish();
    body_.shrink_to_fit();
    cores_.resize(body_.size(), 0);
    limits_.resize(body_.size(), 0);
    lane_stacks_.resize(lanes_.count());
    lane_warnings_.resize(lanes_.count());
  }

  // --- running ---

  // Takes the inputs out of the list, so that the caller does not keep them alive.
  py::list run(const py::list& inputs) {
    const auto given = PyList_GET_SIZE(inputs.ptr());
    take(PySequence_Fast_ITEMS(inputs.ptr()), static_cast<size_t>(given));
    if (PyList_SetSlice(inputs.ptr(), 0, given, nullptr) != 0) throw python_error();
    return run_taken();
  }

  py::list run(PyObject* const* inputs, size_t given) {
    take(inputs, given);
    return run_taken();
  }

  // Position of the launch that failed in the last run, or -1.
  int64_t failed() const { return failed_; }
  size_t launches() const { return body_.size(); }

 private:
  void take(PyObject* const* inputs, size_t given) {
    failed_ = -1;
    TORCH_CHECK(given == inputs_, "the plan takes ", inputs_, " inputs, not ", given);
    for (size_t i = 0; i < given; ++i) slots_.values[i] = from_python(inputs[i]);
  }

  py::list run_taken() {
    try {
      py::gil_scoped_release no_gil;
      c10::AutoGradMode no_grad(false);
      at::AutoDispatchBelowADInplaceOrView below;
      // The graph says itself where it converts.
      c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      refresh_views();
      if (watch_.is_on()) watch_.begin_run(body_.size());
      // A user's mode wants to see every operator, in the thread where it is on.
      if (lanes_.count() < 2 || one_lane_ || c10::impl::dispatch_mode_enabled() || !run_lanes()) run_body();
    } catch (...) {
      clear();
      throw;
    }
    failed_ = -1;
    py::list results(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i)
      PyList_SET_ITEM(results.ptr(), i, to_python(slots_.values[outputs_[i]]).release().ptr());
    clear();
    return results;
  }

  void add(Launch&& launch, const std::vector<uint32_t>& release) {
    lanes_.add(lane_, after_);
    body_.push_back(std::move(launch));
    direct_.add(body_.back(), lane_);
    auto& step = direct_.steps.back();
    step.first_release = static_cast<uint32_t>(releases_.size());
    step.releases = static_cast<uint32_t>(release.size());
    releases_.insert(releases_.end(), release.begin(), release.end());
  }

  void run_body() {
    // A user's mode wants to see every operator.
    bool direct = !c10::impl::dispatch_mode_enabled() && direct_.bind();
    auto* const steps = direct_.steps.data();
    const auto count = static_cast<int64_t>(direct_.steps.size());
    std::optional<ThreadShare> share;
    if (has_limits_) share.emplace(at::get_num_threads());
    const bool special = has_limits_ || watch_.is_on();
    for (failed_ = 0; failed_ < count; ++failed_) {
      auto& step = steps[failed_];
      if (C10_UNLIKELY(special)) {
        if (share) share->use(limits_[failed_]);
        watch_.begin_step(static_cast<uint32_t>(failed_));
      }
      if (step.run == Step::Run::Launch || !direct || !direct_.run(step)) {
        launch(body_[failed_], stack_);
        if (step.rebinds && direct) direct = direct_.bind(/*again=*/true);
      }
      release(step);
      if (C10_UNLIKELY(special)) watch_.end_step(static_cast<uint32_t>(failed_));
    }
  }

  void release(const Step& step) {
    for (uint32_t i = 0; i < step.releases; ++i) slots_.values[releases_[step.first_release + i]] = IValue();
  }

  // What Lanes runs.
  class LaneBody {
   public:
    LaneBody(PlanInstance& plan, bool direct) : plan_(plan), direct_(direct), all_(at::get_num_threads()) {}

    struct State {
      State(LaneBody& body, uint32_t lane) {
        if (lane != 0) caller.emplace(body.caller_, body.plan_.lane_warnings_[lane]);
        share.emplace(body.all_);
        body.plan_.lane_stacks_[lane].share = &*share;
      }
      std::optional<CallerState::Guard> caller;
      std::optional<ThreadShare> share;
    };

    State enter(uint32_t lane) { return State(*this, lane); }

    void step(uint32_t position, uint32_t lane) {
      auto& own = plan_.lane_stacks_[lane];
      auto& step = plan_.direct_.steps[position];
      own.share->use(plan_.cores_[position]);
      const bool watched = plan_.watch_.is_on();
      if (C10_UNLIKELY(watched)) plan_.watch_.begin_step(position);
      if (step.run == Step::Run::Launch || !direct_ || !plan_.direct_.run(step)) plan_.launch(plan_.body_[position], own.stack);
      plan_.release(step);
      if (C10_UNLIKELY(watched)) plan_.watch_.end_step(position);
    }

    std::exception_ptr caught(uint32_t lane) {
      plan_.lane_stacks_[lane].stack.clear();
      try {
        throw;
      } catch (python_error& error) {
        error.persist();  // else it stays behind in this thread
        return std::current_exception();
      } catch (...) {
        return std::current_exception();
      }
    }

   private:
    PlanInstance& plan_;
    bool direct_;
    int all_;
    CallerState caller_;
  };

  // False where threads are missing: then nothing ran.
  bool run_lanes() {
    LaneBody body(*this, !direct_.rebinds() && direct_.bind());
    bool ran = false;
    try {
      ran = lanes_.run(body, failed_);
    } catch (...) {
      for (auto& warnings : lane_warnings_) warnings.repeat();
      throw;
    }
    for (auto& warnings : lane_warnings_) warnings.repeat();
    return ran;
  }

  void launch(const Launch& launch, Stack& stack) {
    switch (launch.kind) {
      case Kind::Call: call(launch, slots_, stack, *arena_); break;
      case Kind::Item: take_item(launch, slots_); break;
      case Kind::Callback: call_back(launch, slots_); break;
      case Kind::Native: natives_[launch.item].run(slots_); break;
    }
  }

  void refresh_views() {
    bool same = true;
    for (auto& input : watched_) {
      const auto& value = slots_.values[input.slot];
      const auto* tensor = value.isTensor() ? value.toTensor().unsafeGetTensorImpl() : nullptr;
      const auto* storage =
          tensor != nullptr && tensor->has_storage() ? tensor->unsafe_storage().unsafeGetStorageImpl() : nullptr;
      const auto offset = storage != nullptr ? tensor->storage_offset() : 0;
      if (tensor != input.tensor || storage != input.storage || offset != input.offset || storage == nullptr) same = false;
      input.tensor = tensor;
      input.storage = storage;
      input.offset = offset;
    }
    if (same) return;
    try {
      c10::InferenceMode normal(false);
      for (auto& launch : kept_views_) call(launch, slots_, stack_, *arena_);
    } catch (...) {
      for (auto& input : watched_) input.tensor = nullptr;
      throw;
    }
  }

  void clear() {
    for (auto slot : transient_) slots_.values[slot] = IValue();
    stack_.clear();
  }

  Slots slots_;
  size_t inputs_;
  std::shared_ptr<Arena> arena_;
  Direct direct_;
  std::vector<Launch> kept_views_;
  std::vector<WatchedInput> watched_;
  std::vector<Launch> body_;
  std::vector<NativeRun> natives_;
  std::vector<uint32_t> releases_;
  std::vector<uint32_t> outputs_;
  std::vector<uint32_t> transient_;
  Stack stack_;
  int64_t failed_ = -1;

  // What a lane has of its own.
  struct alignas(64) LaneStack {
    Stack stack;
    ThreadShare* share = nullptr;
  };
  Lanes lanes_;
  std::vector<LaneStack> lane_stacks_;
  std::vector<CollectedWarnings> lane_warnings_;
  std::vector<int> cores_, limits_;  // of each step
  bool has_limits_ = false;
  bool one_lane_ = false;
  Watch watch_;
  uint32_t lane_ = 0;  // of the next step
  std::vector<uint32_t> after_;
};

}  // namespace torchair
