// Matrix products without the dispatcher: the call of BLAS that eager mode makes.

#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

// BLAS with 32-bit integers, as x86 builds of torch contain it; null where they do not.
extern "C" {
__attribute__((weak)) void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
                                  const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                                  const float* beta, float* c, const int* ldc);
__attribute__((weak)) void dgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k,
                                  const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
                                  const double* beta, double* c, const int* ldc);
}

namespace torchair {

// [rows, k] times [k, columns], plus a bias of [columns]. Rows, bias and result are dense; the second matrix lies in rows
// or, as weights do, in columns. Between its checks eager mode copies the bias into the result and calls BLAS with the
// operands exchanged (BLAS counts columns first), so this gives the same bits.
struct Product {
  int columns, rows, k, lda;
  bool transposed;
  bool biased;
  bool wide;  // float64

  // None where eager mode may do something else. `bias` is null for a product alone.
  static std::optional<Product> of(const at::Tensor& result, const at::Tensor* bias, const at::Tensor& left,
                                   const at::Tensor& right) {
#if defined(TORCHAIR_WITHOUT_KERNELS) || !defined(__x86_64__)
    return std::nullopt;
#else
    const auto dtype = result.scalar_type();
    if (dtype != at::kFloat && dtype != at::kDouble) return std::nullopt;
    if (dtype == at::kFloat ? sgemm_ == nullptr : dgemm_ == nullptr) return std::nullopt;
    if (left.scalar_type() != dtype || right.scalar_type() != dtype || left.dim() != 2 || right.dim() != 2) return std::nullopt;
    const auto rows = left.size(0), k = left.size(1), columns = right.size(1);
    constexpr int64_t most = std::numeric_limits<int>::max();
    // With one column, or a sum of one term, several orders of memory look alike.
    if (rows < 1 || k < 2 || columns < 2 || right.size(0) != k || std::max({rows, k, columns}) > most) return std::nullopt;
    if (result.sizes() != at::IntArrayRef({rows, columns}) || result.strides() != at::IntArrayRef({columns, 1}))
      return std::nullopt;
    if (left.strides() != at::IntArrayRef({k, 1})) return std::nullopt;
    if (bias != nullptr &&
        (bias->scalar_type() != dtype || bias->sizes() != at::IntArrayRef({columns}) || bias->stride(0) != 1))
      return std::nullopt;
    const bool in_rows = right.stride(1) == 1 && right.stride(0) >= columns;
    const bool in_columns = right.stride(0) == 1 && right.stride(1) >= k;
    const auto lda = in_rows ? right.stride(0) : right.stride(1);
    if ((!in_rows && !in_columns) || lda > most) return std::nullopt;
    return Product{static_cast<int>(columns), static_cast<int>(rows), static_cast<int>(k), static_cast<int>(lda),
                   !in_rows, bias != nullptr, dtype == at::kDouble};
#endif
  }

  // Operands: result, bias or null, left, right.
  void run(void* const* data) const {
    if (wide) run_as<double>(data, dgemm_);
    else run_as<float>(data, sgemm_);
  }

 private:
  template <typename T, typename Gemm>
  void run_as(void* const* data, Gemm* gemm) const {
    auto* result = static_cast<T*>(data[0]);
    const T one = 1, beta = biased ? 1 : 0;
    if (biased)
      for (int64_t row = 0; row < rows; ++row) std::memcpy(result + row * columns, data[1], columns * sizeof(T));
    gemm(transposed ? "T" : "N", "N", &columns, &rows, &k, &one, static_cast<const T*>(data[3]), &lda,
         static_cast<const T*>(data[2]), &k, &beta, result, &columns);
  }
};

}  // namespace torchair
