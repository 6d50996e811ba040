// Launches that need no dispatcher: elementwise operators and products whose operands are as promised.
//
// After Dynamo has run, what a launch reads comes from far away, so a launch is one small record beside the next: what
// runs, and the addresses of its operands. Addresses of inputs are written there once a run, and only if they are others
// than in the run before; iterators are shared by all launches of a lane that differ in addresses alone.

#pragma once

#include "arena.h"
#include "elementwise.h"
#include "launch.h"
#include "product.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torchair {

// What the fake tensor of a slot promises.
struct Spec {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;

  bool fits(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.scalar_type() == dtype && tensor.layout() == c10::kStrided && tensor.is_cpu() &&
        !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor() && tensor.sizes() == at::IntArrayRef(sizes) &&
        tensor.strides() == at::IntArrayRef(strides);
  }
};

// An elementwise kernel of ATen, and what it runs over.
struct Kernel {
  const Elementwise* function;
  at::Scalar scalar;
  at::TensorIterator iterator;

  void run(void* const* data) {
    for (int i = 0; i < function->operands(); ++i) iterator.unsafe_replace_operand(i, data[i]);
    function->run(iterator, scalar);
  }
};

// A launch as a run sees it.
struct alignas(64) Step {
  enum class Run : uint8_t { Launch, Short, ShortWide, Kernel, Product };
  Run run = Run::Launch;
  bool rebinds = false;  // inputs may have other memory afterwards
  Short arithmetic;
  int32_t late = -1;  // what is known of its operands only when it runs
  uint32_t first_release = 0, releases = 0;
  void* data[4] = {nullptr, nullptr, nullptr, nullptr};  // of the operands; the result is the first
  union {
    Kernel* kernel = nullptr;
    const Product* product;
  };
};

class Direct {
 public:
  Direct(Slots& slots, bool exact_products) : slots_(slots), exact_products_(exact_products) {}

  // What the tensor in a slot is going to be.
  void describe(uint32_t slot, Spec spec) { specs_[slot] = std::move(spec); }

  // The tensor in a slot is there when a run begins: an input, or a view of one.
  void is_early(uint32_t slot) { early_.insert({slot, none}); }

  // Add the next step. It runs the launch where there is no shorter way. Steps of two lanes may run at the same time.
  void add(const Launch& launch, uint32_t lane) {
    lane_ = lane;
    constexpr std::string_view builtin = "aten::";
    steps.emplace_back();
    steps.back().rebinds = launch.kind == Kind::Callback ||
        (launch.may_change_inputs() && launch.op->schema().name().compare(0, builtin.size(), builtin) != 0);
    rebinds_ = rebinds_ || steps.back().rebinds;
    writes_ = writes_ || launch.may_change_inputs() || launch.kind == Kind::Native;
    if (launch.kind == Kind::Call && launch.lists.empty() && launch.numbers.empty()) {
      c10::InferenceMode normal(false);
      if (!make_elementwise(launch) && exact_products_) make_product(launch);
    }
  }

  void finish() {
    // Writing may give memory to a tensor that shared it until now, so addresses that are read are taken afterwards.
    std::stable_sort(sources_.begin(), sources_.end(), [](const auto& a, const auto& b) { return a.written > b.written; });
    specs_.clear();
    early_.clear();
    shared_.clear();
  }

  // Take the addresses of what is there when a run begins, or once more during it. False where something is not as
  // promised: then launches go through the dispatcher.
  bool bind(bool again = false) {
    if (generation_ != Arena::generation()) {
      for (const auto& [tensor, step, operand] : held_) steps[step].data[operand] = tensor.mutable_data_ptr();
      generation_ = Arena::generation();
    }
    for (auto& source : sources_) {
      const auto& value = slots_.values[source.slot];
      if (again && value.isNone()) continue;  // nobody reads it any more
      if (!value.isTensor() || !source.spec.fits(value.toTensor())) return false;
      const auto& tensor = value.toTensor();
      auto* address = source.written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
      if (writes_ && c10::impl::cow::is_cow_data_ptr(tensor.storage().data_ptr())) return false;  // a write moves it
      if (address == source.address) continue;
      source.address = address;
      for (const auto& [step, operand] : source.uses) steps[step].data[operand] = address;
    }
    return true;
  }

  // False where an operand is not what was promised: then the launch goes through the dispatcher.
  bool run(Step& step) {
    if (step.late >= 0 && !settle(step, late_[step.late])) return false;
    switch (step.run) {
      case Step::Run::Short: step.arithmetic.run<float>(step.data); break;
      case Step::Run::ShortWide: step.arithmetic.run<double>(step.data); break;
      case Step::Run::Kernel: step.kernel->run(step.data); break;
      case Step::Run::Product: step.product->run(step.data); break;
      case Step::Run::Launch: return false;
    }
    return true;
  }

  // Some step may give other memory to inputs: then addresses are taken once more during a run.
  bool rebinds() const { return rebinds_; }

  std::vector<Step> steps;

 private:
  // A tensor that is there when a run begins.
  struct Source {
    uint32_t slot;
    Spec spec;
    bool written;
    const void* address;
    std::vector<std::pair<uint32_t, uint32_t>> uses;  // step, operand
  };

  struct Held {
    at::Tensor tensor;
    uint32_t step;
    uint32_t operand;
  };

  struct Late {
    struct Pointer {
      uint32_t operand;
      uint32_t slot;
      Spec spec;
    };
    std::vector<Pointer> pointers;
    std::optional<Spec> output;  // a fresh output
    int32_t result = -1;
  };

  // An operand of a launch: a tensor that is held, a number, or what a slot is going to hold and a stand-in for it.
  struct Operand {
    at::Tensor tensor;
    int64_t slot = -1;
    bool fresh = false;

    bool number() const { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }
  };

  std::optional<Operand> operand(const Launch& launch, size_t position) {
    for (const auto& [at, slot] : launch.patches)
      if (at == position) return promised(slot);
    const auto& value = launch.arguments[position];
    if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
    return Operand{value.toTensor()};
  }

  // What a launch writes: its `out` argument, or a fresh tensor.
  std::optional<Operand> result(const Launch& launch, bool out) {
    if (out) return operand(launch, launch.arguments.size() - 1);
    if (launch.results.size() != 1 || launch.results[0] < 0) return std::nullopt;
    auto found = promised(static_cast<uint32_t>(launch.results[0]));
    if (found) found->fresh = true;
    return found;
  }

  std::optional<Operand> promised(uint32_t slot) {
    const auto found = specs_.find(slot);
    if (found == specs_.end()) return std::nullopt;
    return Operand{stand_in(found->second), slot};
  }

  // A tensor whose memory is never read.
  at::Tensor stand_in(const Spec& spec) {
    // Addresses far from each other, so that operands do not look as if they overlapped.
    auto* address = reinterpret_cast<void*>((++stand_ins_) << 40);
    c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), size_t{1} << 40, c10::DataPtr(address, c10::Device(c10::kCPU)), nullptr,
        /*resizable=*/false));
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(spec.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
    return tensor;
  }

  // False where the operator is another one, or where its kernel would convert operands first.
  bool make_elementwise(const Launch& launch) {
    using Form = Elementwise::Form;
    const auto& schema = launch.op->schema();
    const auto* function = find_elementwise(schema.name());
    if (function == nullptr) return false;
    const bool binary = function->binary();
    const auto& overload = schema.overload_name();
    const bool out = overload == "out";
    if (!out && overload != (binary ? "Tensor" : "") && !(binary && overload.empty())) return false;
    const auto target = result(launch, out);
    const auto a = operand(launch, 0);
    const auto b = binary ? operand(launch, 1) : a;
    if (!target || !a || !b) return false;
    const auto dtype = target->tensor.scalar_type();
    const bool floating = dtype == at::kFloat || dtype == at::kDouble;
    if (!floating && !(dtype == at::kLong && (function->form == Form::Binary || function->form == Form::BinaryAlpha)))
      return false;
    for (const auto* each : {&*a, &*b}) {
      const auto type = each->tensor.scalar_type();
      if (each->number() ? at::isComplexType(type) || (!floating && type != at::kLong) : type != dtype) return false;
    }
    at::Scalar scalar;
    if (function->scalar()) {
      const auto& value = launch.arguments[binary ? 2 : 1];
      if (!value.isScalar()) return false;
      scalar = value.toScalar();
      if (scalar.isComplex() || scalar.isBoolean()) return false;
      if (!floating && !scalar.isIntegral(false)) return false;
      if (scalar.isFloatingPoint() && scalar.toDouble() != scalar.toDouble()) return false;
    }
    const auto sizes = target->tensor.sizes().vec();
    at::TensorIterator iterator;
    try {
      iterator = function->iterator(target->tensor, a->tensor, b->tensor);
    } catch (const c10::Error&) {
      return false;  // the call says what is wrong with it
    }
    if (iterator.common_dtype() != dtype || target->tensor.sizes() != at::IntArrayRef(sizes)) return false;

    auto& step = steps.back();
    const Operand* operands[] = {&*target, &*a, &*b};
    const int count = function->operands();
    for (int i = 0; i < count; ++i) {
      if (operands[i]->number()) {
        numbers_.push_back(iterator.tensor(i));  // of the type that is computed with
        step.data[i] = numbers_.back().mutable_data_ptr();
      } else {
        place(*operands[i], i, launch);
      }
    }
    step.arithmetic = Short::of(*function, iterator, scalar);
    if (step.arithmetic.operation != 0) {
      step.run = dtype == at::kDouble ? Step::Run::ShortWide : Step::Run::Short;
    } else {
      step.run = Step::Run::Kernel;
      step.kernel = shared_kernel(*function, scalar, std::move(iterator), operands);
    }
    return true;
  }

  Kernel* shared_kernel(const Elementwise& function, const at::Scalar& scalar, at::TensorIterator&& iterator,
                        const Operand* const* operands) {
    std::ostringstream key;
    key << lane_ << ' ' << std::hexfloat << function.name << ' ' << static_cast<int>(scalar.type()) << ' ' << scalar.toDouble();
    for (int i = 0; i < function.operands(); ++i) {
      const auto& tensor = operands[i]->tensor;
      key << ' ' << static_cast<int>(tensor.scalar_type()) << tensor.sizes() << tensor.strides();
      if (operands[i]->number())
        key << " number " << std::string(static_cast<const char*>(iterator.data_ptr(i)), iterator.element_size(i));
      if (i > 0 && tensor.is_same(operands[0]->tensor)) key << " in place";
    }
    auto& found = shared_[key.str()];
    if (found == nullptr) {
      kernels_.push_back(std::make_unique<Kernel>(Kernel{&function, scalar, std::move(iterator)}));
      found = kernels_.back().get();
    }
    return found;
  }

  bool make_product(const Launch& launch) {
    const auto& schema = launch.op->schema();
    const bool out = schema.overload_name() == "out";
    const bool biased = schema.name() == "aten::addmm";
    if ((!biased && schema.name() != "aten::mm") || (!out && !schema.overload_name().empty())) return false;
    for (size_t i = 3; biased && i < 5; ++i)  // beta, alpha
      if (!launch.arguments[i].isScalar() || !launch.arguments[i].toScalar().equal(1)) return false;
    const auto target = result(launch, out);
    const auto bias = biased ? operand(launch, 0) : std::nullopt;
    const auto left = operand(launch, biased ? 1 : 0), right = operand(launch, biased ? 2 : 1);
    if (!target || !left || !right || (biased && !bias)) return false;
    if (!target->fresh && target->slot >= 0) return false;  // memory that an operand may lie in
    const auto product = Product::of(target->tensor, biased ? &bias->tensor : nullptr, left->tensor, right->tensor);
    if (!product) return false;
    place(*target, 0, launch);
    if (biased) place(*bias, 1, launch);
    place(*left, 2, launch);
    place(*right, 3, launch);
    products_.push_back(std::make_unique<const Product>(*product));
    steps.back().run = Step::Run::Product;
    steps.back().product = products_.back().get();
    return true;
  }

  // Note where the address of an operand of the last step comes from.
  void place(const Operand& operand, uint32_t number, const Launch& launch) {
    const auto at = static_cast<uint32_t>(steps.size() - 1);
    if (operand.slot < 0) {
      held_.push_back({operand.tensor, at, number});
      return;
    }
    const auto slot = static_cast<uint32_t>(operand.slot);
    if (const auto early = early_.find(slot); early != early_.end() && !operand.fresh) {
      if (early->second == none) {
        early->second = sources_.size();
        sources_.push_back({slot, specs_.at(slot), false, nullptr, {}});
      }
      auto& source = sources_[early->second];
      source.written = source.written || number == 0;
      source.uses.emplace_back(at, number);
      return;
    }
    if (steps.back().late < 0) {
      steps.back().late = static_cast<int32_t>(late_.size());
      late_.emplace_back();
    }
    auto& late = late_[steps.back().late];
    if (operand.fresh) {
      late.output = specs_.at(slot);
      late.result = launch.results[0];
    } else {
      late.pointers.push_back({number, slot, specs_.at(slot)});
    }
  }

  bool settle(Step& step, const Late& late) {
    for (const auto& pointer : late.pointers) {
      const auto& value = slots_.values[pointer.slot];
      if (!value.isTensor() || !pointer.spec.fits(value.toTensor())) return false;
      const auto& tensor = value.toTensor();
      step.data[pointer.operand] =
          pointer.operand == 0 ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    }
    if (late.output) {
      auto fresh = at::detail::empty_strided_cpu(late.output->sizes, late.output->strides, late.output->dtype);
      step.data[0] = fresh.mutable_data_ptr();
      slots_.values[late.result] = std::move(fresh);
    }
    return true;
  }

  static constexpr size_t none = SIZE_MAX;

  Slots& slots_;
  bool exact_products_;
  std::unordered_map<uint32_t, Spec> specs_;
  std::unordered_map<uint32_t, size_t> early_;  // slot, and its number among the sources
  std::unordered_map<std::string, Kernel*> shared_;
  uintptr_t stand_ins_ = 0;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<std::unique_ptr<const Product>> products_;
  std::vector<Source> sources_;
  std::vector<Held> held_;
  std::vector<at::Tensor> numbers_;
  std::vector<Late> late_;
  uint32_t lane_ = 0;  // of the last step
  bool rebinds_ = false;
  bool writes_ = false;  // some launch writes what it is given
  int64_t generation_ = -1;  // of the arenas when the addresses of what is held were taken
};

}  // namespace torchair
