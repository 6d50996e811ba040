// Elementwise launches that need no dispatcher: ATen's kernels over iterators that are built once, and short loops.

#pragma once

#include "arena.h"

#include <ATen/TensorIterator.h>
#ifndef TORCHAIR_WITHOUT_KERNELS
#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>
#endif

#include <cstdint>
#include <optional>
#include <string_view>
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

// Elementwise kernels of ATen that a launch calls without the dispatcher, over an iterator that is built once. They are
// the kernels that eager mode calls, so results are the same bits.
struct Elementwise {
  enum class Form : uint8_t { Unary, UnaryFloat, Binary, BinaryFloat, BinaryAlpha, UnaryScalar };
  const char* name;
  Form form;
  void (*run)(at::TensorIteratorBase&, const at::Scalar&);
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
  bool wide = false;                     // float64
  int64_t count = 0;
  int64_t step[2] = {1, 1};  // of the inputs; 0 for a single number

  template <typename T>
  void run(void* const* data) const {
    auto* out = static_cast<T*>(data[0]);
    const auto* a = static_cast<const T*>(data[1]);
    const auto* b = static_cast<const T*>(data[2]);
    switch (operation) {
      case '+': for (int64_t i = 0; i < count; ++i) out[i] = a[i * step[0]] + b[i * step[1]]; break;
      case '-': for (int64_t i = 0; i < count; ++i) out[i] = a[i * step[0]] - b[i * step[1]]; break;
      case '*': for (int64_t i = 0; i < count; ++i) out[i] = a[i * step[0]] * b[i * step[1]]; break;
      default: for (int64_t i = 0; i < count; ++i) out[i] = a[i * step[0]] / b[i * step[1]];
    }
  }
};

// A call of such a kernel. Operand 0 is the output.
struct Iteration {
  struct Pointer {
    int operand;
    uint32_t slot;
    Spec spec;
  };
  const Elementwise* kernel;
  at::TensorIterator iterator;
  at::Scalar scalar;
  std::vector<Pointer> pointers;  // operands whose memory differs from run to run
  std::vector<std::pair<int, at::Tensor>> held;  // operands in the arena
  std::optional<Spec> output;  // a fresh output
  int32_t result = -1;
  int64_t generation = -1;  // of the arenas when the pointers of `held` were taken
  Short arithmetic;
  void* data[3] = {nullptr, nullptr, nullptr};  // of the operands, for `arithmetic`

  void point(int operand, void* address) {
    if (arithmetic.operation == 0) iterator.unsafe_replace_operand(operand, address);
    else data[operand] = address;
  }
};

}  // namespace torchair
