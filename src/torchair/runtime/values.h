// Values of slots on their way between Python and the dispatcher.

#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <ATen/ScalarOps.h>
#include <c10/core/InferenceMode.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace py = pybind11;

// Declared here as in torch/csrc/jit/python/pybind_utils.h, which takes half a minute to compile.
namespace torch::jit {
TORCH_PYTHON_API c10::IValue toIValue(
    py::handle object, const c10::TypePtr& type, std::optional<int32_t> length = std::nullopt);
TORCH_PYTHON_API py::object toPyObject(c10::IValue value);
}  // namespace torch::jit

namespace torchair {

using c10::IValue;

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

inline IValue from_python(PyObject* object) {
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

inline py::object to_python(const IValue& value) {
  if (value.isTensor()) return py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()));
  return torch::jit::toPyObject(value);
}

inline c10::TypePtr without_optional(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
}

// A number as the schema wants it. Where a tensor belongs it is what eager mode makes of it: a 0-d tensor that does not
// take part in type promotion.
inline IValue converted(const IValue& number, c10::TypeKind type) {
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
inline IValue constant(const py::handle& object, const c10::TypePtr& type) {
  const bool tensor = without_optional(type)->kind() == c10::TypeKind::TensorType;
  if (tensor && !object.is_none() && !THPVariable_Check(object.ptr()))
    return converted(torch::jit::toIValue(object, c10::NumberType::get()), c10::TypeKind::TensorType);
  return torch::jit::toIValue(object, type);
}

}  // namespace torchair
