// The C++ core of runtime.Plan: a list of launches over slots, run without Python between them.
//
// Built by runtime/extension.py, filled by runtime/instance.py. It knows tensors and dispatcher operators; it knows no graph.
//
// A slot is an IValue. Some are *held*: constants, memory of the arena, and views of those; they are set once. The others
// live during one run: inputs, and results of launches; each is dropped after the launch that reads it last.

#include "arena.h"
#include "elementwise.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace py = pybind11;
using c10::IValue;
using Stack = std::vector<IValue>;
using namespace torchair;

// Declared here as in torch/csrc/jit/python/pybind_utils.h, which takes half a minute to compile.
namespace torch::jit {
TORCH_PYTHON_API IValue toIValue(py::handle object, const c10::TypePtr& type, std::optional<int32_t> length = std::nullopt);
TORCH_PYTHON_API py::object toPyObject(IValue value);
}  // namespace torch::jit

namespace {

// A Python object of no type that the dispatcher knows, on its way between two callbacks.
struct PythonObject final : c10::ivalue::PyObjectHolder {
  explicit PythonObject(PyObject* object) : object_(object) { Py_INCREF(object); }
  ~PythonObject() override {
    py::gil_scoped_acquire gil;
    Py_DECREF(object_);
  }
  PyObject* getPyObject() override { return object_; }
  c10::InferredType tryToInferType() override { return c10::InferredType(std::string("a Python object")); }
  IValue toIValue(const c10::TypePtr& type, std::optional<int32_t> length) override {
    py::gil_scoped_acquire gil;
    return torch::jit::toIValue(object_, type, length);
  }
  std::string toStr() override {
    py::gil_scoped_acquire gil;
    return py::str(py::handle(object_));
  }
  std::vector<at::Tensor> extractTensors() override { return {}; }

 private:
  PyObject* object_;
};

// One argument whose elements come from slots and constants.
struct ListPatch {
  uint32_t position;
  c10::TypePtr element_type;
  std::vector<std::pair<int32_t, IValue>> elements;  // slot, or -1 and the constant
};

// One argument that is a number in a slot, and what the schema wants it as.
struct NumberPatch {
  uint32_t position;
  uint32_t slot;
  c10::TypeKind type;
};

enum class Kind : uint8_t { Call, Item, Callback };

struct Launch {
  Kind kind = Kind::Call;
  std::optional<c10::OperatorHandle> op;
  py::object callback;  // touched with the GIL only
  std::vector<IValue> arguments;
  std::vector<std::pair<uint32_t, uint32_t>> patches;  // position of an argument, slot
  std::vector<NumberPatch> numbers;
  std::vector<ListPatch> lists;
  std::vector<int32_t> results;  // slot of each result, -1 for one that nobody reads
  std::vector<uint32_t> release;
  uint32_t item = 0;
  bool may_alias = false;
  std::unique_ptr<Iteration> iteration;  // how a Call runs while its arguments are as promised
};

// An input whose views are kept between calls, as it was when they were made.
struct WatchedInput {
  uint32_t slot;
  const c10::TensorImpl* tensor = nullptr;
  const c10::StorageImpl* storage = nullptr;
  int64_t offset = 0;
};

IValue from_python(PyObject* object) {
  if (THPVariable_Check(object)) return THPVariable_Unpack(object);
  if (object == Py_None) return IValue();
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) {
    const long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) throw python_error();
    return static_cast<int64_t>(value);
  }
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  return IValue(c10::intrusive_ptr<c10::ivalue::PyObjectHolder>(c10::make_intrusive<PythonObject>(object)));
}

py::object to_python(const IValue& value) {
  if (value.isTensor()) return py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()));
  return torch::jit::toPyObject(value);
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
}

// A number as the schema wants it. Where a tensor belongs it is what eager mode makes of it: a 0-d tensor that does not
// take part in type promotion.
IValue converted(const IValue& number, c10::TypeKind type) {
  if (type == c10::TypeKind::TensorType && number.isScalar()) {
    c10::InferenceMode normal(false);
    auto wrapped = c10::scalar_to_tensor(number.toScalar());
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    return wrapped;
  }
  if (type == c10::TypeKind::FloatType && (number.isInt() || number.isBool())) return number.toScalar().toDouble();
  if ((type == c10::TypeKind::IntType || type == c10::TypeKind::SymIntType) && number.isBool())
    return static_cast<int64_t>(number.toBool());
  return number;
}

// A constant argument of the type that the schema says.
IValue constant(const py::handle& object, const c10::TypePtr& type) {
  const bool tensor = without_optional(type)->kind() == c10::TypeKind::TensorType;
  if (tensor && !object.is_none() && !THPVariable_Check(object.ptr()))
    return converted(torch::jit::toIValue(object, c10::NumberType::get()), c10::TypeKind::TensorType);
  return torch::jit::toIValue(object, type);
}

class PlanInstance {
 public:
  PlanInstance(size_t slots, size_t inputs, std::shared_ptr<Arena> arena)
      : slots_(slots), held_(slots, false), inputs_(inputs), checked_(inputs), arena_(std::move(arena)) {}

  ~PlanInstance() {
    py::gil_scoped_acquire gil;
    slots_.clear();
    body_.clear();
    kept_views_.clear();
  }

  // --- filling ---

  void hold(uint32_t slot, const py::object& value) {
    slots_.at(slot) = from_python(value.ptr());
    held_.at(slot) = true;
  }

  void hold_buffer(uint32_t slot, const Arena& memory, const py::object& dtype, int64_t offset, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& strides) {
    TORCH_CHECK(THPDtype_Check(dtype.ptr()), "not a dtype");
    const auto type = reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
    slots_.at(slot) = memory.tensor(type, offset, sizes, strides);
    held_.at(slot) = true;
  }

  // What the tensor in a slot is going to be.
  void describe(uint32_t slot, const py::object& dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    TORCH_CHECK(THPDtype_Check(dtype.ptr()), "not a dtype");
    specs_[slot] = {reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type, std::move(sizes), std::move(strides)};
  }

  // Run a launch once, now, and hold its results: views of what is held.
  void hold_views(const std::string& name, const std::string& overload, const py::list& arguments,
                    const std::vector<int32_t>& results) {
    c10::InferenceMode normal(false);
    at::AutoDispatchBelowADInplaceOrView below;
    Launch launch = make_call(name, overload, arguments, results, {}, true);
    call(launch, stack_);
    for (auto slot : results)
      if (slot >= 0) held_.at(slot) = true;
  }

  void hold_item(uint32_t slot, uint32_t item, uint32_t result) {
    slots_.at(result) = slots_.at(slot).toListRef().at(item);
    held_.at(result) = true;
  }

  void add_call(const std::string& name, const std::string& overload, const py::list& arguments,
                const std::vector<int32_t>& results, const std::vector<uint32_t>& release, bool may_alias) {
    body_.push_back(make_call(name, overload, arguments, results, release, may_alias));
    body_.back().iteration = make_iteration(body_.back());
  }

  void add_item(uint32_t slot, uint32_t item, int32_t result, const std::vector<uint32_t>& release) {
    Launch launch;
    launch.kind = Kind::Item;
    launch.patches = {{0, slot}};
    launch.item = item;
    launch.results = {result};
    launch.release = release;
    body_.push_back(std::move(launch));
  }

  // A Python function that takes the values of the given slots as one list, and returns a list of results.
  void add_callback(const py::object& function, const std::vector<uint32_t>& arguments, const std::vector<int32_t>& results,
                    const std::vector<uint32_t>& release) {
    Launch launch;
    launch.kind = Kind::Callback;
    launch.callback = function;
    for (auto slot : arguments) launch.patches.emplace_back(0, slot);
    launch.results = results;
    launch.release = release;
    body_.push_back(std::move(launch));
  }

  // Views of inputs that rarely change (parameters): made again only when one of these inputs is another tensor.
  void add_kept_view(const std::string& name, const std::string& overload, const py::list& arguments,
                     const std::vector<int32_t>& results) {
    kept_views_.push_back(make_call(name, overload, arguments, results, {}, true));
    for (auto slot : results)
      if (slot >= 0) held_.at(slot) = true;
  }

  void watch(const std::vector<uint32_t>& slots) {
    watched_.clear();
    for (auto slot : slots) watched_.push_back(WatchedInput{slot});
  }

  void finish(const std::vector<uint32_t>& outputs) {
    outputs_ = outputs;
    transient_.clear();
    for (size_t slot = 0; slot < slots_.size(); ++slot)
      if (!held_[slot]) transient_.push_back(static_cast<uint32_t>(slot));
    specs_.clear();
    body_.shrink_to_fit();
  }

  // --- running ---

  // Takes the inputs out of the list, so that the caller does not keep them alive.
  py::list run(const py::list& inputs) {
    const auto given = static_cast<size_t>(PyList_GET_SIZE(inputs.ptr()));
    TORCH_CHECK(given == inputs_, "the plan takes ", inputs_, " inputs, not ", given);
    for (size_t i = 0; i < given; ++i) slots_[i] = from_python(PyList_GET_ITEM(inputs.ptr(), i));
    if (PyList_SetSlice(inputs.ptr(), 0, static_cast<Py_ssize_t>(given), nullptr) != 0) throw python_error();
    failed_ = -1;
    std::fill(checked_.begin(), checked_.end(), 0);
    try {
      py::gil_scoped_release no_gil;
      at::AutoDispatchBelowADInplaceOrView below;
      // The graph says itself where it converts.
      c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
      refresh_views();
      const bool direct = !c10::impl::dispatch_mode_enabled();  // a user's mode wants to see every operator
      for (size_t i = 0; i < body_.size(); ++i) {
        failed_ = static_cast<int64_t>(i);
        auto& launch = body_[i];
        switch (launch.kind) {
          case Kind::Call:
            if (launch.iteration == nullptr || !direct || !iterate(*launch.iteration)) call(launch, stack_);
            break;
          case Kind::Item: item(launch); break;
          case Kind::Callback: callback(launch); break;
        }
        for (auto slot : launch.release) slots_[slot] = IValue();
      }
    } catch (...) {
      clear();
      throw;
    }
    failed_ = -1;
    py::list results(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i)
      PyList_SET_ITEM(results.ptr(), i, to_python(slots_[outputs_[i]]).release().ptr());
    clear();
    return results;
  }

  // Position of the launch that failed in the last run, or -1.
  int64_t failed() const { return failed_; }
  size_t launches() const { return body_.size(); }

 private:
  Launch make_call(const std::string& name, const std::string& overload, const py::list& arguments,
                   const std::vector<int32_t>& results, const std::vector<uint32_t>& release, bool may_alias) {
    Launch launch;
    launch.op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
    launch.results = results;
    launch.release = release;
    launch.may_alias = may_alias;
    const auto& schema = launch.op->schema();
    TORCH_CHECK(arguments.size() == schema.arguments().size(), name, " takes ", schema.arguments().size(), " arguments");
    for (size_t i = 0; i < arguments.size(); ++i) {
      // (0, constant), (1, slot), (2, [of these]), or (3, slot) for a slot with a number.
      const py::tuple argument = arguments[i];
      const auto kind = argument[0].cast<int>();
      const auto& type = schema.arguments()[i].type();
      launch.arguments.emplace_back();
      if (kind == 0) {
        launch.arguments.back() = constant(argument[1], type);
      } else if (kind == 1) {
        const auto slot = argument[1].cast<uint32_t>();
        if (held_.at(slot) && !slots_[slot].isNone()) launch.arguments.back() = slots_[slot];
        else launch.patches.emplace_back(i, slot);
      } else if (kind == 3) {
        launch.numbers.push_back({static_cast<uint32_t>(i), argument[1].cast<uint32_t>(), without_optional(type)->kind()});
      } else {
        add_list(launch, i, type, argument[1].cast<py::list>());
      }
    }
    return launch;
  }

  void add_list(Launch& launch, size_t position, c10::TypePtr type, const py::list& elements) {
    type = without_optional(type);
    auto element = type->expectRef<c10::ListType>().getElementType();
    if (element->kind() == c10::TypeKind::SymIntType) element = c10::IntType::get();
    ListPatch patch{static_cast<uint32_t>(position), element, {}};
    bool fixed = true;
    for (const auto& each : elements) {
      const auto argument = each.cast<py::tuple>();
      if (argument[0].cast<int>() == 0) {
        patch.elements.emplace_back(-1, constant(argument[1], element));
        continue;
      }
      const auto slot = argument[1].cast<uint32_t>();
      if (held_.at(slot) && !slots_[slot].isNone()) {
        patch.elements.emplace_back(-1, slots_[slot]);
      } else {
        patch.elements.emplace_back(static_cast<int32_t>(slot), IValue());
        fixed = false;
      }
    }
    if (fixed) launch.arguments[position] = list_of(patch);
    else launch.lists.push_back(std::move(patch));
  }

  IValue list_of(const ListPatch& patch) const {
    c10::impl::GenericList list(patch.element_type);
    list.reserve(patch.elements.size());
    const auto kind = patch.element_type->kind();
    for (const auto& [slot, value] : patch.elements) list.push_back(slot < 0 ? value : converted(slots_[slot], kind));
    return list;
  }

  void call(Launch& launch, Stack& stack) {
    // A callback inside an operator may run another plan, but never this one: the caller gives each run its own.
    stack.assign(launch.arguments.begin(), launch.arguments.end());
    for (const auto& [position, slot] : launch.patches) stack[position] = slots_[slot];
    for (const auto& number : launch.numbers) stack[number.position] = converted(slots_[number.slot], number.type);
    for (const auto& patch : launch.lists) stack[patch.position] = list_of(patch);
    launch.op->callBoxed(stack);
    for (size_t i = 0; i < launch.results.size(); ++i) {
      if (launch.results[i] < 0) continue;
      if (!launch.may_alias) own(stack[i]);
      slots_[launch.results[i]] = std::move(stack[i]);
    }
    stack.clear();
  }

  // --- elementwise kernels without the dispatcher ---

  // The tensor that an operand is built with: what it will be, or a stand-in whose memory is never read.
  std::optional<at::Tensor> operand(const Launch& launch, size_t position, int number, Iteration& made) {
    for (const auto& [at, slot] : launch.patches) {
      if (at != position) continue;
      const auto found = specs_.find(slot);
      if (found == specs_.end()) return std::nullopt;
      made.pointers.push_back({number, slot, found->second});
      return stand_in(found->second);
    }
    const auto& value = launch.arguments[position];
    if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
    const auto& tensor = value.toTensor();
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) made.held.emplace_back(number, tensor);
    return tensor;
  }

  at::Tensor stand_in(const Spec& spec) {
    // Addresses far from each other, so that operands do not look as if they overlapped.
    auto* address = reinterpret_cast<void*>((++stand_ins_) << 40);
    const auto meta = c10::scalarTypeToTypeMeta(spec.dtype);
    c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), size_t{1} << 40, c10::DataPtr(address, c10::Device(c10::kCPU)), nullptr,
        /*resizable=*/false));
    auto result = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), meta);
    result.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
    return result;
  }

  // None where the operator is another one, or where its kernel would convert operands first.
  std::unique_ptr<Iteration> make_iteration(const Launch& launch) {
    using Form = Elementwise::Form;
    const auto& schema = launch.op->schema();
    const auto* kernel = find_elementwise(schema.name());
    if (kernel == nullptr || !launch.lists.empty()) return nullptr;
    const bool binary =
        kernel->form == Form::Binary || kernel->form == Form::BinaryFloat || kernel->form == Form::BinaryAlpha;
    const auto& overload = schema.overload_name();
    const bool out = overload == "out";
    if (!out && overload != (binary ? "Tensor" : "") && !(binary && overload.empty())) return nullptr;
    c10::InferenceMode normal(false);
    auto made = std::make_unique<Iteration>();
    made->kernel = kernel;
    const auto a = operand(launch, 0, 1, *made);
    const auto b = binary ? operand(launch, 1, 2, *made) : a;
    if (!a || !b) return nullptr;
    at::Tensor result;
    if (out) {
      const auto target = operand(launch, schema.arguments().size() - 1, 0, *made);
      if (!target) return nullptr;
      result = *target;
    } else {
      if (launch.results.size() != 1 || launch.results[0] < 0) return nullptr;
      const auto found = specs_.find(static_cast<uint32_t>(launch.results[0]));
      if (found == specs_.end()) return nullptr;
      made->output = found->second;
      made->result = launch.results[0];
      result = stand_in(found->second);
    }
    const auto dtype = result.scalar_type();
    const bool floating = dtype == at::kFloat || dtype == at::kDouble;
    if (!floating && !(dtype == at::kLong && (kernel->form == Form::Binary || kernel->form == Form::BinaryAlpha)))
      return nullptr;
    for (const auto* tensor : {&*a, &*b}) {
      const bool number = tensor->unsafeGetTensorImpl()->is_wrapped_number();
      if (number ? at::isComplexType(tensor->scalar_type()) || (!floating && tensor->scalar_type() != at::kLong)
                 : tensor->scalar_type() != dtype)
        return nullptr;
    }
    if (kernel->form == Form::BinaryAlpha || kernel->form == Form::UnaryScalar) {
      const size_t position = binary ? 2 : 1;
      const auto& value = launch.arguments[position];
      if (!value.isScalar()) return nullptr;
      made->scalar = value.toScalar();
      if (made->scalar.isComplex() || made->scalar.isBoolean()) return nullptr;
      if (!floating && !made->scalar.isIntegral(false)) return nullptr;
      if (made->scalar.isFloatingPoint() && made->scalar.toDouble() != made->scalar.toDouble()) return nullptr;
    }
    const auto sizes = result.sizes().vec();
    try {
      switch (kernel->form) {
        case Form::Unary:
        case Form::UnaryScalar: made->iterator = at::TensorIterator::unary_op(result, *a); break;
        case Form::UnaryFloat: made->iterator = at::TensorIterator::unary_float_op(result, *a); break;
        case Form::BinaryFloat: made->iterator = at::TensorIterator::binary_float_op(result, *a, *b); break;
        case Form::Binary:
        case Form::BinaryAlpha: made->iterator = at::TensorIterator::binary_op(result, *a, *b); break;
      }
    } catch (const c10::Error&) {
      return nullptr;  // the call says what is wrong with it
    }
    if (made->iterator.common_dtype() != dtype || result.sizes() != at::IntArrayRef(sizes)) return nullptr;
    if (binary && floating) made->arithmetic = short_arithmetic(*made, dtype);
    return made;
  }

  static Short short_arithmetic(Iteration& made, at::ScalarType dtype) {
    const std::string_view name = made.kernel->name;
    const auto& iterator = made.iterator;
    const auto size = static_cast<int64_t>(at::elementSize(dtype));
    const bool alpha = made.kernel->form == Elementwise::Form::BinaryAlpha;
    if (iterator.numel() == 0 || iterator.numel() > Short::most || iterator.ndim() > 1 || iterator.ntensors() != 3) return {};
    if (alpha && made.scalar.toDouble() != 1) return {};
    Short found;
    found.operation = name == "aten::add" ? '+' : name == "aten::sub" ? '-' : name == "aten::mul" ? '*' : name == "aten::div" ? '/' : 0;
    found.wide = dtype == at::kDouble;
    found.count = iterator.numel();
    for (int i = 0; i < 3 && iterator.ndim() == 1; ++i) {
      const auto stride = iterator.strides(i)[0];
      if (stride != size && (i == 0 || stride != 0)) return {};
      if (i > 0) found.step[i - 1] = stride / size;
    }
    for (int i = 0; i < 3; ++i) {
      if (iterator.dtype(i) != dtype) return {};
      made.data[i] = iterator.data_ptr(i);
    }
    return found;
  }

  // False where an argument is not what was promised: then the operator is called.
  bool iterate(Iteration& iteration) {
    for (const auto& pointer : iteration.pointers) {
      const auto& value = slots_[pointer.slot];
      // An input is checked by the first launch of a run that reads it.
      const bool known = pointer.slot < inputs_ && checked_[pointer.slot];
      if (!known && (!value.isTensor() || !pointer.spec.fits(value.toTensor()))) return false;
      if (pointer.slot < inputs_) checked_[pointer.slot] = true;
      const auto& tensor = value.toTensor();
      iteration.point(
          pointer.operand, pointer.operand == 0 ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr()));
    }
    if (iteration.generation != arena_->generation()) {
      for (const auto& [number, tensor] : iteration.held)
        iteration.point(number, tensor.mutable_data_ptr());
      iteration.generation = arena_->generation();
    }
    if (iteration.output) {
      const auto& spec = *iteration.output;
      auto result = at::empty_strided(spec.sizes, spec.strides, at::TensorOptions().dtype(spec.dtype));
      iteration.point(0, result.mutable_data_ptr());
      slots_[iteration.result] = std::move(result);
    }
    if (iteration.arithmetic.operation == 0) iteration.kernel->run(iteration.iterator, iteration.scalar);
    else if (iteration.arithmetic.wide) iteration.arithmetic.run<double>(iteration.data);
    else iteration.arithmetic.run<float>(iteration.data);
    return true;
  }

  // An operator that returns its argument although its schema does not say so must not hand out memory of the arena.
  void own(IValue& value) const {
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      if (tensor.defined() && tensor.has_storage() && tensor.storage().unsafeGetStorageImpl() == arena_->storage())
        value = at::clone(tensor);
    } else if (value.isTensorList()) {
      auto list = value.toTensorList();
      for (size_t i = 0; i < list.size(); ++i) {
        IValue element(list.get(i));
        own(element);
        list.set(i, element.toTensor());
      }
    }
  }

  void item(const Launch& launch) {
    const auto& container = slots_[launch.patches[0].second];
    IValue found;
    if (container.isPyObject()) {
      py::gil_scoped_acquire gil;
      const auto object = torch::jit::toPyObject(container);
      found = from_python(py::object(object[py::int_(launch.item)]).ptr());
    } else if (container.isTuple()) {
      found = container.toTupleRef().elements().at(launch.item);
    } else {
      found = container.toListRef().at(launch.item);
    }
    if (launch.results[0] >= 0) slots_[launch.results[0]] = std::move(found);
  }

  void callback(const Launch& launch) {
    py::gil_scoped_acquire gil;
    py::list arguments(launch.patches.size());
    for (size_t i = 0; i < launch.patches.size(); ++i) arguments[i] = to_python(slots_[launch.patches[i].second]);
    const py::list results = launch.callback(arguments);
    TORCH_CHECK(results.size() == launch.results.size(), "a callback returned ", results.size(), " results, not ",
                launch.results.size());
    for (size_t i = 0; i < launch.results.size(); ++i)
      if (launch.results[i] >= 0) slots_[launch.results[i]] = from_python(py::object(results[i]).ptr());
  }

  void refresh_views() {
    bool same = true;
    for (auto& input : watched_) {
      const auto& value = slots_[input.slot];
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
      for (auto& launch : kept_views_) call(launch, stack_);
    } catch (...) {
      for (auto& input : watched_) input.tensor = nullptr;
      throw;
    }
  }

  void clear() {
    for (auto slot : transient_) slots_[slot] = IValue();
    stack_.clear();
  }

  std::vector<IValue> slots_;
  std::vector<bool> held_;
  size_t inputs_;
  std::vector<uint8_t> checked_;  // inputs that are as promised in this run
  std::unordered_map<uint32_t, Spec> specs_;
  uintptr_t stand_ins_ = 0;
  std::shared_ptr<Arena> arena_;
  std::vector<Launch> kept_views_;
  std::vector<WatchedInput> watched_;
  std::vector<Launch> body_;
  std::vector<uint32_t> outputs_;
  std::vector<uint32_t> transient_;
  Stack stack_;
  int64_t failed_ = -1;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::class_<Arena, std::shared_ptr<Arena>>(module, "Arena")
      .def(py::init<>())
      .def("reserve", &Arena::reserve)
      .def_property_readonly("nbytes", &Arena::nbytes)
      .def_property_readonly("storage_id", &Arena::storage_id)
      .def_property_readonly("generation", [](const Arena&) { return Arena::generation(); });
  py::class_<PlanInstance>(module, "PlanInstance")
      .def(py::init<size_t, size_t, std::shared_ptr<Arena>>())
      .def("hold", &PlanInstance::hold)
      .def("hold_buffer", &PlanInstance::hold_buffer)
      .def("describe", &PlanInstance::describe)
      .def("hold_views", &PlanInstance::hold_views)
      .def("hold_item", &PlanInstance::hold_item)
      .def("add_call", &PlanInstance::add_call)
      .def("add_item", &PlanInstance::add_item)
      .def("add_callback", &PlanInstance::add_callback)
      .def("add_kept_view", &PlanInstance::add_kept_view)
      .def("watch", &PlanInstance::watch)
      .def("finish", &PlanInstance::finish)
      .def("run", torch::wrap_pybind_function(&PlanInstance::run))
      .def_property_readonly("failed", &PlanInstance::failed)
      .def_property_readonly("launches", &PlanInstance::launches);
}
