// Everything for op_host/*.cpp and op_kernel/*.cpp of an operator project.
//
// op_host: what the operator is called, its schema, the sizes and dtypes of its outputs.
//
//   Outputs infer_my_op(const Tensor& x, const std::optional<Tensor>& y, double attr1) { return {{x.sizes(), x.dtype()}}; }
//   TORCHAIR_OPERATOR(MyOp, "(Tensor x, Tensor? y, float attr1) -> Tensor", infer_my_op);
//
// op_kernel: what it computes. The parameters are those of the schema, then the outputs, which are allocated already.
//
//   void my_op(const Tensor& x, const std::optional<Tensor>& y, double attr1, Tensor& out) { ... }
//   TORCHAIR_KERNEL(MyOp, my_op);
//
// An argument that the schema marks as written, Tensor(a!), is a Tensor& too: the kernel writes into it.
//
//   schema       parameter                        schema       parameter
//   Tensor       const Tensor&                    int, SymInt  int64_t
//   Tensor?      const std::optional<Tensor>&     float        double
//   Tensor[]     const TensorList&                bool         bool
//   ScalarType   DType                            str          const std::string&
//   int[]        const std::vector<int64_t>&      int?         std::optional<int64_t>     (and so on)

#pragma once

#include <torchair/tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace torchair {

// ---- loops over all cores -------------------------------------------------------------------------------------------

// Calls body(begin, end) for parts of the range 0 .. count, on as many threads as torch.get_num_threads() says. A part
// has at least `grain` steps: fewer are not worth a thread. Exceptions come out of the call.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

inline void parallel_for(int64_t count, const std::function<void(int64_t begin, int64_t end)>& body) {
  parallel_for(count, 32768, body);
}

// ---- one body for several dtypes ------------------------------------------------------------------------------------

//   dispatch_all(x.dtype(), [&](auto zero) {
//     using T = decltype(zero);
//     auto in = x.span<const T>();
//     ...
//   });
template <typename Body>
void dispatch_floating(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Float: return body(float{});
    case DType::Double: return body(double{});
    case DType::Half: return body(Half{});
    case DType::BFloat16: return body(BFloat16{});
    default: fail("dtype ", dtype, " is not supported; supported are float32, float64, float16, bfloat16");
  }
}

template <typename Body>
void dispatch_integral(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::UInt8: return body(uint8_t{});
    case DType::Int8: return body(int8_t{});
    case DType::Int16: return body(int16_t{});
    case DType::Int32: return body(int32_t{});
    case DType::Int64: return body(int64_t{});
    case DType::Bool: return body(bool{});
    default: fail("dtype ", dtype, " is not supported; supported are uint8, int8, int16, int32, int64 and bool");
  }
}

template <typename Body>
void dispatch_all(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Float:
    case DType::Double:
    case DType::Half:
    case DType::BFloat16: return dispatch_floating(dtype, body);
    case DType::ComplexHalf:
    case DType::ComplexFloat:
    case DType::ComplexDouble: fail("dtype ", dtype, " is not supported; supported are real numbers and bool");
    case DType::Float8_e5m2:
    case DType::Float8_e4m3fn:
    case DType::UInt16:
    case DType::UInt32:
    case DType::UInt64:
      fail("dtype ", dtype, " is not supported; supported are float32, float64, float16, bfloat16, uint8, int8, int16, ",
           "int32, int64 and bool");
    default: return dispatch_integral(dtype, body);
  }
}

// ---- the elements of any argument -----------------------------------------------------------------------------------

//   elements<const T>(x)                  a Span<const T>
//   elements<const T>(y)                  of a Tensor?: a std::optional<Span<const T>>
//   elements<const T>(z)                  of a Tensor[]: a std::vector<Span<const T>>
//   elements<const T>(x, out.sizes())     the same broadcast to other sizes, to be read only
template <typename T>
Span<T> elements(const Tensor& tensor) {
  return tensor.span<T>();
}
template <typename T>
Span<T> elements(const Tensor& tensor, const Sizes& sizes) {
  static_assert(std::is_const_v<T>, "what is broadcast can only be read");
  return tensor.expand(sizes).span<T>();
}
template <typename T, typename... Broadcast>
std::optional<Span<T>> elements(const std::optional<Tensor>& tensor, const Broadcast&... sizes) {
  if (!tensor) return std::nullopt;
  return elements<T>(*tensor, sizes...);
}
template <typename T, typename... Broadcast>
std::vector<Span<T>> elements(const TensorList& tensors, const Broadcast&... sizes) {
  std::vector<Span<T>> spans;
  for (const Tensor& tensor : tensors) spans.push_back(elements<T>(tensor, sizes...));
  return spans;
}

// ---- registration ---------------------------------------------------------------------------------------------------

namespace detail {

// An argument on its way from torch to a function. monostate: None.
using Value = std::variant<std::monostate, Tensor, TensorList, int64_t, double, bool, std::string, DType,
                           std::vector<int64_t>, std::vector<double>, std::vector<bool>, std::vector<std::string>>;

// How the schema calls the type of a parameter.
template <typename T> struct schema_type {
  static_assert(!std::is_same_v<T, T>, "a parameter has a type that stands for none of a schema; torchair/kernel.h lists those that do");
  static std::string name() { return {}; }
};
template <> struct schema_type<Tensor> { static std::string name() { return "Tensor"; } };
template <> struct schema_type<TensorList> { static std::string name() { return "Tensor[]"; } };
template <> struct schema_type<int64_t> { static std::string name() { return "int"; } };
template <> struct schema_type<double> { static std::string name() { return "float"; } };
template <> struct schema_type<bool> { static std::string name() { return "bool"; } };
template <> struct schema_type<std::string> { static std::string name() { return "str"; } };
template <> struct schema_type<DType> { static std::string name() { return "ScalarType"; } };
template <> struct schema_type<std::vector<int64_t>> { static std::string name() { return "int[]"; } };
template <> struct schema_type<std::vector<double>> { static std::string name() { return "float[]"; } };
template <> struct schema_type<std::vector<bool>> { static std::string name() { return "bool[]"; } };
template <> struct schema_type<std::vector<std::string>> { static std::string name() { return "str[]"; } };
template <typename T> struct schema_type<std::optional<T>> { static std::string name() { return schema_type<T>::name() + "?"; } };

template <typename T>
struct Get {
  static T& from(Value& value) { return std::get<T>(value); }
};
template <typename T>
struct Get<std::optional<T>> {
  static std::optional<T> from(Value& value) {
    if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
    return std::get<T>(value);
  }
};

template <typename P>
using plain = std::remove_const_t<std::remove_reference_t<P>>;

template <typename R, typename... P, size_t... I>
R apply(R (*function)(P...), std::vector<Value>& values, std::index_sequence<I...>) {
  std::tuple<decltype(Get<plain<P>>::from(values[I]))...> arguments{Get<plain<P>>::from(values[I])...};
  return function(std::get<I>(arguments)...);
}

// A function with its types: one half of an operator.
template <typename R>
struct Function {
  std::vector<std::string> parameters;
  std::function<R(std::vector<Value>&)> call;
};

template <typename R, typename... P>
Function<R> erase(R (*function)(P...)) {
  return {{schema_type<plain<P>>::name()...},
          [function](std::vector<Value>& values) { return apply(function, values, std::index_sequence_for<P...>{}); }};
}

struct Registration {
  Registration(const char* op, const char* file, const char* schema, Function<Outputs> infer);
  Registration(const char* op, const char* file, Function<void> kernel);
};

}  // namespace detail

#define TORCHAIR_OPERATOR(op, schema, infer)                             \
  static const ::torchair::detail::Registration torchair_operator_##op { \
    #op, __FILE__, schema, ::torchair::detail::erase(infer)              \
  }

#define TORCHAIR_KERNEL(op, function)                                  \
  static const ::torchair::detail::Registration torchair_kernel_##op { \
    #op, __FILE__, ::torchair::detail::erase(function)                 \
  }

}  // namespace torchair
