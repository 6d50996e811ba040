// Elementwise operators without the dispatcher: ATen's kernels, and short loops.

#pragma once

#include <ATen/TensorIterator.h>
#ifndef TORCHAIR_WITHOUT_KERNELS
#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>
#endif

#include <cstdint>
#include <string_view>

namespace torchair {

// Elementwise kernels of ATen that a launch calls over an iterator that is built once. They are the kernels that eager
// mode calls, so results are the same bits.
struct Elementwise {
  enum class Form : uint8_t { Unary, UnaryFloat, Binary, BinaryFloat, BinaryAlpha, UnaryScalar };
  const char* name;
  Form form;
  void (*run)(at::TensorIteratorBase&, const at::Scalar&);

  bool binary() const { return form == Form::Binary || form == Form::BinaryFloat || form == Form::BinaryAlpha; }
  bool scalar() const { return form == Form::BinaryAlpha || form == Form::UnaryScalar; }
  int operands() const { return binary() ? 3 : 2; }

  at::TensorIterator iterator(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b) const {
    switch (form) {
      case Form::UnaryFloat: return at::TensorIterator::unary_float_op(const_cast<at::Tensor&>(result), a);
      case Form::BinaryFloat: return at::TensorIterator::binary_float_op(const_cast<at::Tensor&>(result), a, b);
      case Form::Binary:
      case Form::BinaryAlpha: return at::TensorIterator::binary_op(const_cast<at::Tensor&>(result), a, b);
      default: return at::TensorIterator::unary_op(const_cast<at::Tensor&>(result), a);
    }
  }
};

#ifdef TORCHAIR_WITHOUT_KERNELS  // a build of torch whose kernels cannot be linked to: every launch goes through the dispatcher
inline const Elementwise* find_elementwise(std::string_view /*unused*/) { return nullptr; }
#else
template <auto& stub>
void with_iterator(at::TensorIteratorBase& iterator, const at::Scalar& /*unused*/) {
  stub(c10::kCPU, iterator);
}

template <auto& stub>
void with_scalar(at::TensorIteratorBase& iterator, const at::Scalar& scalar) {
  stub(c10::kCPU, iterator, scalar);
}

inline void subtract(at::TensorIteratorBase& iterator, const at::Scalar& alpha) {
  at::native::add_stub(c10::kCPU, iterator, -alpha);
}

inline const Elementwise* find_elementwise(std::string_view name) {
  using namespace at::native;
  using Form = Elementwise::Form;
  static const Elementwise all[] = {
      {"aten::add", Form::BinaryAlpha, with_scalar<add_stub>},
      {"aten::sub", Form::BinaryAlpha, subtract},
      {"aten::mul", Form::Binary, with_iterator<mul_stub>},
      {"aten::div", Form::BinaryFloat, with_iterator<div_true_stub>},
      {"aten::maximum", Form::Binary, with_iterator<maximum_stub>},
      {"aten::minimum", Form::Binary, with_iterator<minimum_stub>},
      {"aten::clamp_min", Form::UnaryScalar, with_scalar<clamp_min_scalar_stub>},
      {"aten::clamp_max", Form::UnaryScalar, with_scalar<clamp_max_scalar_stub>},
      {"aten::abs", Form::Unary, with_iterator<abs_stub>},
      {"aten::neg", Form::Unary, with_iterator<neg_stub>},
      {"aten::silu", Form::Unary, with_iterator<silu_stub>},
      {"aten::tanh", Form::UnaryFloat, with_iterator<tanh_stub>},
      {"aten::exp", Form::UnaryFloat, with_iterator<exp_stub>},
      {"aten::log", Form::UnaryFloat, with_iterator<log_stub>},
      {"aten::sigmoid", Form::UnaryFloat, with_iterator<sigmoid_stub>},
      {"aten::sin", Form::UnaryFloat, with_iterator<sin_stub>},
      {"aten::cos", Form::UnaryFloat, with_iterator<cos_stub>},
      {"aten::sqrt", Form::UnaryFloat, with_iterator<sqrt_stub>},
      {"aten::rsqrt", Form::UnaryFloat, with_iterator<rsqrt_stub>},
      {"aten::reciprocal", Form::UnaryFloat, with_iterator<reciprocal_stub>},
  };
  for (const auto& each : all)
    if (name == each.name) return &each;
  return nullptr;
}
#endif

// Arithmetic on few elements that lie side by side: a loop of our own costs a fifth of what the kernel's set-up costs.
// Each is one rounded operation, so the results are the kernel's.
struct Short {
  static constexpr int64_t most = 1024;  // elements; beyond, vector instructions and threads win
  char operation = 0;                    // + - * /, or 0 where the kernel runs
  uint8_t step[2] = {1, 1};              // of the inputs; 0 for a single number
  uint16_t count = 0;

  // None where the kernel runs.
  static Short of(const Elementwise& kernel, const at::TensorIterator& iterator, const at::Scalar& scalar) {
    const std::string_view name = kernel.name;
    if (!kernel.binary() || !at::isFloatingType(iterator.common_dtype())) return {};
    if (iterator.numel() == 0 || iterator.numel() > most || iterator.ndim() > 1 || iterator.ntensors() != 3) return {};
    if (kernel.scalar() && scalar.toDouble() != 1) return {};
    Short found;
    found.count = static_cast<uint16_t>(iterator.numel());
    const auto size = static_cast<int64_t>(at::elementSize(iterator.common_dtype()));
    for (int i = 0; i < 3; ++i) {
      if (iterator.dtype(i) != iterator.common_dtype()) return {};
      if (iterator.ndim() == 0) continue;
      const auto stride = iterator.strides(i)[0];
      if (stride != size && (i == 0 || stride != 0)) return {};
      if (i > 0) found.step[i - 1] = stride == 0 ? 0 : 1;
    }
    found.operation = name == "aten::add" ? '+' : name == "aten::sub" ? '-' : name == "aten::mul" ? '*' : name == "aten::div" ? '/' : 0;
    return found;
  }

  template <typename T>
  void run(void* const* data) const {
    auto* out = static_cast<T*>(data[0]);
    const auto* a = static_cast<const T*>(data[1]);
    const auto* b = static_cast<const T*>(data[2]);
    const int64_t n = count, i_a = step[0], i_b = step[1];
    switch (operation) {
      case '+': for (int64_t i = 0; i < n; ++i) out[i] = a[i * i_a] + b[i * i_b]; break;
      case '-': for (int64_t i = 0; i < n; ++i) out[i] = a[i * i_a] - b[i * i_b]; break;
      case '*': for (int64_t i = 0; i < n; ++i) out[i] = a[i * i_a] * b[i * i_b]; break;
      default: for (int64_t i = 0; i < n; ++i) out[i] = a[i * i_a] / b[i * i_b];
    }
  }
};

}  // namespace torchair
