// A plan over an arena: filled once, then run.

#pragma once

#include "arena.h"
#include "direct.h"
#include "launch.h"
#include "native.h"
#include "values.h"

#include <torch/csrc/Dtype.h>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <cstdint>
#include <memory>
#include <string>
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
      run_body();
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
    body_.push_back(std::move(launch));
    direct_.add(body_.back());
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
    for (failed_ = 0; failed_ < count; ++failed_) {
      auto& step = steps[failed_];
      if (step.run == Step::Run::Launch || !direct || !direct_.run(step)) {
        launch(body_[failed_]);
        if (step.rebinds && direct) direct = direct_.bind(/*again=*/true);
      }
      for (uint32_t i = 0; i < step.releases; ++i) slots_.values[releases_[step.first_release + i]] = IValue();
    }
  }

  void launch(const Launch& launch) {
    switch (launch.kind) {
      case Kind::Call: call(launch, slots_, stack_, *arena_); break;
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
};

}  // namespace torchair
