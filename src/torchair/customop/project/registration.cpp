// Makes the operators of a project known to torch: each IR kernel becomes the torch operator `<project>_kernels::MyOp`,
// which infers the sizes and dtypes of its outputs, allocates them, and runs the kernel over views of the tensors.
//
// The only source that includes torch's dispatcher. It is compiled once for a machine and linked into every project.

#include <torchair/kernel.h>

#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torchair {

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  at::parallel_for(0, count, std::max<int64_t>(grain, 1), body);
}

namespace detail {
namespace {

struct Operator {
  std::string host_file, kernel_file, schema;
  std::optional<Function<Outputs>> infer;
  std::optional<Function<void>> kernel;
  bool known_to_torch = false;
};

// Filled while the library is loaded, before any code of it is called. Not dropped at exit: torch may still call.
std::map<std::string, Operator>& operators() {
  static auto* all = new std::map<std::string, Operator>();
  return *all;
}

// What is wrong with the project, one line each.
std::vector<std::string>& problems() {
  static auto* all = new std::vector<std::string>();
  return *all;
}

Tensor view(const at::Tensor& tensor, bool written) {
  TORCH_CHECK(tensor.layout() == c10::kStrided, "a tensor of layout ", tensor.layout(), " was given, not a strided one");
  TORCH_CHECK(tensor.device().is_cpu(), "a tensor on ", tensor.device(), " was given, the kernel runs on the CPU");
  // As PyTorch's own operators refuse it: one write would change several elements.
  if (written) at::assert_no_internal_overlap(tensor);
  // Asking for memory to write into would copy a tensor that shares it lazily.
  void* data = written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
  return Tensor(data, tensor.sizes().vec(), tensor.strides().vec(),
                static_cast<DType>(tensor.scalar_type()));
}

// The type of an argument as schema_type calls it.
std::string type_name(const c10::Argument& argument) {
  std::string name = argument.real_type()->str();
  for (size_t at; (at = name.find("SymInt")) != std::string::npos;) name.replace(at, 6, "int");
  return name;
}

Value value_of(const c10::IValue& value, const std::string& type, bool written) {
  if (value.isNone()) return {};
  if (value.isTensor()) return view(value.toTensor(), written);
  if (value.isTensorList()) {
    TensorList views;
    for (const at::Tensor& tensor : value.toTensorVector()) views.push_back(view(tensor, written));
    return views;
  }
  if (type.rfind("ScalarType", 0) == 0) return static_cast<DType>(value.toInt());
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (type.rfind("int[]", 0) == 0) {  // of int or of SymInt
    std::vector<int64_t> integers;
    for (const c10::IValue& item : value.toListRef()) integers.push_back(item.toSymInt().guard_int(__FILE__, __LINE__));
    return integers;
  }
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const c10::List<bool> list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  if (type.rfind("str[]", 0) == 0) {
    std::vector<std::string> strings;
    for (const c10::IValue& item : value.toListRef()) strings.push_back(item.toStringRef());
    return strings;
  }
  TORCH_CHECK(false, "a value of type ", value.tagKind(), " cannot be passed to a kernel");
}

// Autograd and torch.compile learn of a write by the version counter.
void mark_written(const c10::IValue& value) {
  const auto mark = [](const at::Tensor& tensor) {
    if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  };
  if (value.isTensor()) mark(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) mark(tensor);
}

// Runs an operator: the arguments on the stack become its outputs.
struct Call final : c10::OperatorKernel {
  Call(std::string op, const Operator* entry, const c10::FunctionSchema& schema) : op_(std::move(op)), entry_(entry) {
    for (const c10::Argument& argument : schema.arguments()) {
      types_.push_back(type_name(argument));
      written_.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    }
  }

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = types_.size();
    const auto arguments = torch::jit::last(*stack, count);
    std::vector<at::Tensor> results;
    try {
      std::vector<Value> values;
      values.reserve(count + 4);
      for (size_t i = 0; i < count; ++i) values.push_back(value_of(arguments[i], types_[i], written_[i]));
      const Outputs outputs = entry_->infer->call(values);
      TORCHAIR_CHECK(count + outputs.size() == entry_->kernel->parameters.size(), "shape inference gives ",
                     outputs.size(), " outputs, the kernel has ", entry_->kernel->parameters.size() - count);
      for (const Output& output : outputs) {
        for (int64_t size : output.sizes)
          TORCHAIR_CHECK(size >= 0, "shape inference gives a negative size: ", text(output.sizes));
        results.push_back(at::empty(output.sizes, at::TensorOptions(static_cast<c10::ScalarType>(output.dtype))));
        values.push_back(view(results.back(), true));
      }
      entry_->kernel->call(values);
    } catch (const Error& error) {
      TORCH_CHECK(false, op_, ": ", error.what());
    }
    for (size_t i = 0; i < count; ++i)
      if (written_[i]) mark_written(arguments[i]);
    torch::jit::drop(*stack, count);
    for (at::Tensor& result : results) stack->emplace_back(std::move(result));
  }

  std::string op_;
  const Operator* entry_;
  std::vector<std::string> types_;
  std::vector<bool> written_;
};

// Compares the parameters of a function with the schema.
void compare(const std::string& op, const c10::FunctionSchema& schema, const std::vector<std::string>& parameters,
             size_t outputs, const std::string& file, const char* what) {
  const auto& arguments = schema.arguments();
  if (parameters.size() != arguments.size() + outputs) {
    problems().push_back(file + ": " + what + " of " + op + " has " + std::to_string(parameters.size()) +
                         " parameters, not " + std::to_string(arguments.size() + outputs) + ": " +
                         std::to_string(arguments.size()) + " for the arguments" +
                         (outputs ? " and " + std::to_string(outputs) + " for the outputs" : ""));
    return;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool is_output = i >= arguments.size();
    const std::string wanted = is_output ? "Tensor" : type_name(arguments[i]);
    if (parameters[i] != wanted)
      problems().push_back(file + ": parameter " + std::to_string(i + 1) + " of " + what + " of " + op +
                           " is of type " + parameters[i] + ", not " + wanted +
                           (is_output ? " (an output)" : " (argument " + arguments[i].name() + ")"));
  }
}

void make_known(const std::string& space, const std::string& op, Operator& entry, torch::Library& library) {
  if (!entry.infer) return problems().push_back(entry.kernel_file + ": " + op + " has a kernel, and no TORCHAIR_OPERATOR");
  if (!entry.kernel) return problems().push_back(entry.host_file + ": " + op + " has no TORCHAIR_KERNEL");
  try {
    const c10::FunctionSchema schema = torch::schema((space + "::" + op + entry.schema).c_str());
    const size_t before = problems().size();
    compare(op, schema, entry.infer->parameters, 0, entry.host_file, "shape inference");
    compare(op, schema, entry.kernel->parameters, schema.returns().size(), entry.kernel_file, "the kernel");
    if (problems().size() != before) return;
    const auto is_tensor = [](const std::string& type) { return type.rfind("Tensor", 0) == 0; };
    const bool has_tensors =
        std::any_of(entry.infer->parameters.begin(), entry.infer->parameters.end(), is_tensor);
    library.def((op + entry.schema).c_str());
    library.impl(op.c_str(),
                 torch::dispatch(has_tensors ? c10::DispatchKey::CPU : c10::DispatchKey::CompositeExplicitAutograd,
                                 torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Call>(op, &entry, schema))));
    entry.known_to_torch = true;
  } catch (const std::exception& error) {  // PyTorch's parser throws a class of its own
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    std::string text = of_torch ? of_torch->what_without_backtrace() : error.what();
    text.erase(0, std::min(text.find_first_not_of(" \n"), text.size()));
    problems().push_back(entry.host_file + ": " + op + ": " + text);
  }
}

}  // namespace

Registration::Registration(const char* op, const char* file, const char* schema, Function<Outputs> infer) {
  Operator& entry = operators()[op];
  if (entry.infer) problems().push_back(std::string(file) + ": " + op + " is also in " + entry.host_file);
  entry.host_file = file;
  entry.schema = schema;
  entry.infer = std::move(infer);
}

Registration::Registration(const char* op, const char* file, Function<void> kernel) {
  Operator& entry = operators()[op];
  if (entry.kernel) problems().push_back(std::string(file) + ": the kernel of " + op + " is also in " + entry.kernel_file);
  entry.kernel_file = file;
  entry.kernel = std::move(kernel);
}

}  // namespace detail
}  // namespace torchair

// Called after the library was loaded, since an exception while it is loaded would end the process. Returns what is
// wrong, or an empty text. A second call changes nothing.
extern "C" __attribute__((visibility("default"))) const char* torchair_register(const char* space) {
  using namespace torchair::detail;
  static auto* library = new torch::Library(torch::Library::FRAGMENT, space, std::nullopt, __FILE__, __LINE__);
  static auto* report = new std::string();
  for (auto& [op, entry] : operators())
    if (!entry.known_to_torch) make_known(space, op, entry, *library);
  report->clear();
  for (const std::string& problem : problems()) *report += problem + "\n";
  problems().clear();
  return report->c_str();
}
