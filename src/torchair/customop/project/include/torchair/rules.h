// What the rules for sizes and dtypes of outputs (op_plugin_functions.yaml) compute, for shape inference in op_host.
// Each function does what PyTorch does; sizes or dtypes that do not fit are an error.

#pragma once

#include <torchair/tensor.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace torchair {

using Floats = std::vector<double>;

// ---- tensors --------------------------------------------------------------------------------------------------------

inline const Sizes& sizes(const Tensor& x) { return x.sizes(); }
inline int64_t size(const Tensor& x, int64_t d) { return x.size(d); }
inline int64_t dim(const Tensor& x) { return x.dim(); }
inline int64_t numel(const Tensor& x) { return x.numel(); }
inline DType dtype(const Tensor& x) { return x.dtype(); }
inline bool is_contiguous(const Tensor& x) { return x.is_contiguous(); }

// ---- positions ------------------------------------------------------------------------------------------------------

// A position that may count from the end, as one that counts from the beginning.
inline int64_t position(int64_t index, int64_t count) {
  TORCHAIR_CHECK(-count <= index && index < count, "position ", index, " of ", count);
  return index < 0 ? index + count : index;
}

template <typename T>
T item(const std::vector<T>& list, int64_t index) {
  return list[position(index, static_cast<int64_t>(list.size()))];
}

template <typename T>
int64_t length(const std::vector<T>& list) {
  return static_cast<int64_t>(list.size());
}

// ---- whole numbers --------------------------------------------------------------------------------------------------

inline int64_t divide(int64_t a, int64_t b) {
  TORCHAIR_CHECK(b != 0, "a size is divided by zero");
  return a / b;
}

inline int64_t modulo(int64_t a, int64_t b) {
  TORCHAIR_CHECK(b != 0, "a size is divided by zero");
  return a % b;
}

inline int64_t min(int64_t a, int64_t b) { return std::min(a, b); }
inline int64_t max(int64_t a, int64_t b) { return std::max(a, b); }

// ---- sizes ----------------------------------------------------------------------------------------------------------

inline Sizes same(const Sizes& sizes) { return sizes; }

// The sizes that tensors of sizes a and b are broadcast to.
inline Sizes broadcast(const Sizes& a, const Sizes& b) {
  if (a.size() < b.size()) return broadcast(b, a);
  Sizes result = a;
  for (size_t d = 0; d < b.size(); ++d) {
    int64_t& size = result[a.size() - b.size() + d];
    TORCHAIR_CHECK(size == b[d] || size == 1 || b[d] == 1, "sizes ", text(a), " and ", text(b), " cannot be broadcast");
    size = size == 1 ? b[d] : size;
  }
  return result;
}

template <typename... More>
Sizes broadcast(const Sizes& a, const Sizes& b, const More&... more) {
  return broadcast(broadcast(a, b), more...);
}

// The sizes without some dimensions (all, if none is named), or with 1 in their place.
inline Sizes reduce(const Sizes& sizes, const std::vector<int64_t>& dims, bool keepdim) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  std::vector<bool> gone(sizes.size(), dims.empty());
  for (int64_t d : dims)
    if (rank != 0 || (d != 0 && d != -1)) gone[position(d, rank)] = true;
  Sizes result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!gone[d]) result.push_back(sizes[d]);
    if (gone[d] && keepdim) result.push_back(1);
  }
  return result;
}

inline Sizes reduce(const Sizes& sizes, int64_t dim, bool keepdim) {
  return reduce(sizes, std::vector<int64_t>{dim}, keepdim);
}

// The sizes of a matrix product, as torch.matmul.
inline Sizes matmul(const Sizes& a, const Sizes& b) {
  TORCHAIR_CHECK(!a.empty() && !b.empty(), "a matrix product needs at least one dimension on both sides");
  const int64_t inner = b.size() > 1 ? b[b.size() - 2] : b[0];
  TORCHAIR_CHECK(a.back() == inner, "sizes ", text(a), " and ", text(b), " do not fit a matrix product");
  const auto batch = [](const Sizes& s) { return Sizes(s.begin(), s.end() - std::min<size_t>(s.size(), 2)); };
  Sizes result = broadcast(batch(a), batch(b));
  if (a.size() > 1) result.push_back(a[a.size() - 2]);
  if (b.size() > 1) result.push_back(b.back());
  return result;
}

// The sizes of tensors that are joined along a dimension.
inline Sizes cat(const TensorList& tensors, int64_t dim) {
  TORCHAIR_CHECK(!tensors.empty(), "an empty list is joined");
  Sizes result = tensors[0].sizes();
  const int64_t d = position(dim, tensors[0].dim());
  result[d] = 0;
  for (const Tensor& tensor : tensors) {
    TORCHAIR_CHECK(tensor.dim() == tensors[0].dim(), "tensors of different numbers of dimensions are joined");
    result[d] += tensor.size(d);
  }
  return result;
}

// The sizes in another order.
inline Sizes permute(const Sizes& sizes, const std::vector<int64_t>& order) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  std::vector<bool> taken(sizes.size());
  Sizes result;
  for (int64_t index : order) {
    const int64_t d = position(index, rank);
    TORCHAIR_CHECK(!taken[d], text(order), " is no order of ", rank, " dimensions");
    taken[d] = true;
    result.push_back(sizes[d]);
  }
  TORCHAIR_CHECK(result.size() == sizes.size(), text(order), " is no order of ", rank, " dimensions");
  return result;
}

// ---- dtypes ---------------------------------------------------------------------------------------------------------

inline bool is_complex(DType d) {
  return d == DType::ComplexHalf || d == DType::ComplexFloat || d == DType::ComplexDouble;
}

inline bool is_integral(DType d, bool include_bool) {
  switch (d) {
    case DType::UInt8: case DType::Int8: case DType::Int16: case DType::Int32: case DType::Int64:
    case DType::UInt16: case DType::UInt32: case DType::UInt64: return true;
    default: return d == DType::Bool && include_bool;
  }
}

inline bool is_floating(DType d) { return !is_complex(d) && !is_integral(d, true); }

inline DType to_real(DType d) {
  switch (d) {
    case DType::ComplexHalf: return DType::Half;
    case DType::ComplexFloat: return DType::Float;
    case DType::ComplexDouble: return DType::Double;
    default: return d;
  }
}

inline DType to_complex(DType d) {
  switch (d) {
    case DType::Half: return DType::ComplexHalf;
    case DType::Float: case DType::BFloat16: return DType::ComplexFloat;
    case DType::Double: return DType::ComplexDouble;
    default: TORCHAIR_CHECK(is_complex(d), "there is no complex dtype for ", d); return d;
  }
}

// The dtype that holds the values of both, as torch.promote_types.
inline DType promote(DType a, DType b) {
  const auto kind = [](DType d) { return d == DType::Bool ? 0 : is_integral(d, false) ? 1 : is_floating(d) ? 2 : 3; };
  if (a == b) return a;
  for (DType d : {a, b})
    TORCHAIR_CHECK(static_cast<int>(d) <= static_cast<int>(DType::BFloat16), "dtypes ", a, " and ", b, " have no common dtype");
  if (kind(a) > kind(b)) std::swap(a, b);
  if (kind(b) == 3) {
    if (kind(a) < 2) return b;
    const DType real = promote(to_real(a), to_real(b));
    return to_complex(real);
  }
  if (kind(a) != kind(b)) return b;
  if (kind(a) == 1) {  // unsigned ones are 8 bits wide
    if (a != DType::UInt8 && b != DType::UInt8) return std::max(a, b);
    const DType other = a == DType::UInt8 ? b : a;
    return other == DType::Int8 ? DType::Int16 : other;
  }
  if (a == DType::Double || b == DType::Double) return DType::Double;
  return DType::Float;  // float32 with a 16-bit one, or the two 16-bit ones
}

// The dtype of an operation on two tensors, as torch.result_type: one without dimensions counts less.
inline DType promote(const Tensor& a, const Tensor& b) {
  const auto kind = [](DType d) { return d == DType::Bool ? 0 : is_integral(d, false) ? 1 : is_floating(d) ? 2 : 3; };
  const bool a_counts = a.dim() > 0 || b.dim() == 0, b_counts = b.dim() > 0 || a.dim() == 0;
  if (a_counts && b_counts) return promote(a.dtype(), b.dtype());
  const DType strong = a_counts ? a.dtype() : b.dtype(), weak = a_counts ? b.dtype() : a.dtype();
  if (is_floating(strong) && is_complex(weak)) return to_complex(strong);
  return kind(weak) > kind(strong) ? promote(strong, weak) : strong;
}

// ---- arguments that may be None -------------------------------------------------------------------------------------

template <typename T>
bool has_value(const std::optional<T>& value) {
  return value.has_value();
}
inline bool defined(const Tensor&) { return true; }

template <typename T>
const T& value(const std::optional<T>& given) {
  TORCHAIR_CHECK(given.has_value(), "the value of an argument is needed that is None");
  return *given;
}

template <typename T, typename U>
T value_or(const std::optional<T>& given, const U& other) {
  return given ? *given : T(other);
}

}  // namespace torchair
