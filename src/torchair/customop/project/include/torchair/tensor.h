// What a kernel and its shape inference see of a tensor: where it lies, its sizes, strides and dtype. It owns nothing.
//
//   x.size(-1)  x.sizes()  x.dim()  x.numel()  x.dtype()      what it is
//   auto in = x.span<const float>();                          its elements; another dtype is an error
//   in[i]                                                     element i in row-major order, whatever the strides
//   in(row, column)                                           the element at an index
//   in.data()                                                 a plain pointer; in.is_contiguous() must hold
//
// No header of torch's dispatcher is included, which keeps compiling a kernel under a second.

#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace torchair {

using Half = c10::Half;
using BFloat16 = c10::BFloat16;
using Sizes = std::vector<int64_t>;

// ---- errors: an exception of this class arrives in Python as a RuntimeError that begins with the operator's name ----

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  static_assert(sizeof...(Parts) > 0, "say what is wrong");
  std::ostringstream text;
  (text << ... << parts);
  throw Error(text.str());
}

// TORCHAIR_CHECK(x.dim() == 2, "x must be a matrix, it has ", x.dim(), " dimensions");
#define TORCHAIR_CHECK(condition, ...)                   \
  do {                                                   \
    if (!(condition)) ::torchair::fail(__VA_ARGS__);     \
  } while (false)

inline std::string text(const Sizes& sizes) {
  std::string joined = "[";
  for (size_t d = 0; d < sizes.size(); ++d) joined += (d ? ", " : "") + std::to_string(sizes[d]);
  return joined + "]";
}

inline int64_t product(const Sizes& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

// ---- dtypes ---------------------------------------------------------------------------------------------------------

// Numbered as torch numbers them.
enum class DType : int8_t {
  UInt8 = 0,
  Int8 = 1,
  Int16 = 2,
  Int32 = 3,
  Int64 = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Bool = 11,
  BFloat16 = 15,
  Float8_e5m2 = 23,
  Float8_e4m3fn = 24,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
};

// The names that ATen has for them.
inline constexpr DType kByte = DType::UInt8, kChar = DType::Int8, kShort = DType::Int16, kInt = DType::Int32,
                       kLong = DType::Int64, kHalf = DType::Half, kFloat = DType::Float, kDouble = DType::Double,
                       kComplexHalf = DType::ComplexHalf, kComplexFloat = DType::ComplexFloat,
                       kComplexDouble = DType::ComplexDouble, kBool = DType::Bool, kBFloat16 = DType::BFloat16,
                       kFloat8_e5m2 = DType::Float8_e5m2, kFloat8_e4m3fn = DType::Float8_e4m3fn,
                       kUInt16 = DType::UInt16, kUInt32 = DType::UInt32, kUInt64 = DType::UInt64;

inline const char* text(DType dtype) {
  switch (dtype) {
    case DType::UInt8: return "uint8";
    case DType::Int8: return "int8";
    case DType::Int16: return "int16";
    case DType::Int32: return "int32";
    case DType::Int64: return "int64";
    case DType::Half: return "float16";
    case DType::Float: return "float32";
    case DType::Double: return "float64";
    case DType::ComplexHalf: return "complex32";
    case DType::ComplexFloat: return "complex64";
    case DType::ComplexDouble: return "complex128";
    case DType::Bool: return "bool";
    case DType::BFloat16: return "bfloat16";
    case DType::Float8_e5m2: return "float8_e5m2";
    case DType::Float8_e4m3fn: return "float8_e4m3fn";
    case DType::UInt16: return "uint16";
    case DType::UInt32: return "uint32";
    case DType::UInt64: return "uint64";
  }
  return "a dtype that kernels do not have";
}

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << text(dtype); }

template <typename T> struct dtype_of;  // dtype_of<float>::value is DType::Float
template <> struct dtype_of<uint8_t> { static constexpr DType value = DType::UInt8; };
template <> struct dtype_of<int8_t> { static constexpr DType value = DType::Int8; };
template <> struct dtype_of<int16_t> { static constexpr DType value = DType::Int16; };
template <> struct dtype_of<int32_t> { static constexpr DType value = DType::Int32; };
template <> struct dtype_of<int64_t> { static constexpr DType value = DType::Int64; };
template <> struct dtype_of<Half> { static constexpr DType value = DType::Half; };
template <> struct dtype_of<float> { static constexpr DType value = DType::Float; };
template <> struct dtype_of<double> { static constexpr DType value = DType::Double; };
template <> struct dtype_of<bool> { static constexpr DType value = DType::Bool; };
template <> struct dtype_of<BFloat16> { static constexpr DType value = DType::BFloat16; };

// What to compute in: float for the 16-bit floats, int64_t for bool and the integers, else T itself.
template <typename T>
using compute_t = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                     std::conditional_t<std::is_integral_v<T>, int64_t, T>>;

// ---- elements -------------------------------------------------------------------------------------------------------

// The elements of a tensor. T is const for what is only read.
template <typename T>
class Span {
 public:
  Span(T* data, Sizes sizes, Sizes strides)
      : data_(data), sizes_(std::move(sizes)), strides_(std::move(strides)), numel_(product(sizes_)) {
    int64_t expected = 1;
    for (size_t d = sizes_.size(); d-- > 0; expected *= sizes_[d])
      if (sizes_[d] != 1 && strides_[d] != expected) contiguous_ = numel_ == 0;
  }

  int64_t numel() const { return numel_; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  const Sizes& sizes() const { return sizes_; }
  const Sizes& strides() const { return strides_; }
  bool is_contiguous() const { return contiguous_; }

  // Element i in row-major order. Contiguous memory costs an addition, other memory a division for each dimension.
  T& operator[](int64_t i) const { return contiguous_ ? data_[i] : data_[offset(i)]; }

  // The element at an index, one number for each dimension. Not checked against the sizes.
  template <typename... Index>
  T& operator()(Index... index) const {
    const int64_t at[] = {static_cast<int64_t>(index)..., 0};
    int64_t offset = 0;
    for (size_t d = 0; d < sizeof...(Index); ++d) offset += at[d] * strides_[d];
    return data_[offset];
  }

  // The elements one after the other.
  T* data() const {
    TORCHAIR_CHECK(contiguous_, "data() of memory that is not contiguous: sizes ", text(sizes_), ", strides ",
                   text(strides_));
    return data_;
  }

 private:
  int64_t offset(int64_t i) const {
    int64_t offset = 0;
    for (size_t d = sizes_.size(); d-- > 0;) {
      offset += i % sizes_[d] * strides_[d];
      i /= sizes_[d];
    }
    return offset;
  }

  T* data_;
  Sizes sizes_, strides_;
  int64_t numel_;
  bool contiguous_ = true;
};

// ---- tensors --------------------------------------------------------------------------------------------------------

class Tensor {
 public:
  Tensor(void* data, Sizes sizes, Sizes strides, DType dtype)
      : data_(data), sizes_(std::move(sizes)), strides_(std::move(strides)), dtype_(dtype) {}

  DType dtype() const { return dtype_; }
  DType scalar_type() const { return dtype_; }
  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  const Sizes& sizes() const { return sizes_; }
  const Sizes& strides() const { return strides_; }
  int64_t numel() const { return product(sizes_); }

  // The size of a dimension; -1 is the last one.
  int64_t size(int64_t d) const {
    TORCHAIR_CHECK(-dim() <= d && d < dim(), "a tensor of ", dim(), " dimensions has no dimension ", d);
    return sizes_[d < 0 ? d + dim() : d];
  }

  bool is_contiguous() const {
    int64_t expected = 1;
    for (int64_t d = dim(); d-- > 0; expected *= sizes_[d])
      if (sizes_[d] != 1 && strides_[d] != expected) return numel() == 0;
    return true;
  }

  // The elements, as T or const T. In shape inference there are none.
  template <typename T>
  Span<T> span() const {
    constexpr DType wanted = dtype_of<std::remove_const_t<T>>::value;
    TORCHAIR_CHECK(dtype_ == wanted, "the kernel reads elements of dtype ", wanted, " from a tensor of dtype ", dtype_);
    return Span<T>(static_cast<T*>(data_), sizes_, strides_);
  }

  // The same elements broadcast to other sizes, as torch.Tensor.expand does. To be read only.
  Tensor expand(const Sizes& sizes) const {
    const int64_t extra = static_cast<int64_t>(sizes.size()) - dim();
    Sizes strides(sizes.size(), 0);
    bool fits = extra >= 0;
    for (int64_t d = 0; fits && d < dim(); ++d) {
      fits = sizes_[d] == sizes[d + extra] || sizes_[d] == 1;
      strides[d + extra] = sizes_[d] == sizes[d + extra] ? strides_[d] : 0;
    }
    TORCHAIR_CHECK(fits, "a tensor of sizes ", text(sizes_), " cannot be broadcast to ", text(sizes));
    return Tensor(data_, sizes, std::move(strides), dtype_);
  }

 private:
  void* data_;
  Sizes sizes_, strides_;
  DType dtype_;
};

using TensorList = std::vector<Tensor>;

// One output, as shape inference states it.
struct Output {
  Sizes sizes;
  DType dtype;
};
using Outputs = std::vector<Output>;

}  // namespace torchair
