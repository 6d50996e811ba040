// Matrix products with few rows of the left operand: they stream the right one, the weights, once, at the speed of memory.
//
// The caller computes its share of the results in blocks and applies what follows (bias, activation, ...) to the block:
//
//     const tair::Range mine = tair::share(N, worker, workers, 16);
//     float block[M * 32];
//     for (int64_t n = mine.begin; n < mine.end; n += 32) {
//       const int64_t rows = mine.end - n < 32 ? mine.end - n : 32;
//       tair::dot_rows(x, ldx, M, w + n * ldw, ldw, K, rows, block, 32);
//       ...
//     }
//
// Types: float, bfloat16, float16 in any combination, which accumulate in float; double with double or float in double.
#pragma once

#include "simd.h"

namespace tair {

// What products of X and W are summed in.
template <class X, class W> struct accumulator { using type = float; };
template <class X> struct accumulator<X, double> { using type = double; };
template <class W> struct accumulator<double, W> { using type = double; };
template <> struct accumulator<double, double> { using type = double; };
template <class X, class W> using acc_t = typename accumulator<X, W>::type;

namespace detail {

// xs rows of x against ws rows of w.
template <int xs, int ws, class X, class W, class A>
TAIR_INLINE void dot_block(const X* x, int64_t ldx, const W* w, int64_t ldw, int64_t k, A* out, int64_t ldout) {
  constexpr int64_t step = lanes<A>;
  // With few sums at a time, several accumulators each hide the latency of the additions.
  constexpr int parts = xs * ws >= 8 ? 1 : xs * ws >= 4 ? 2 : 4;
  vec<A> sums[parts][xs][ws] = {};
  int64_t i = 0;
  for (; i + parts * step <= k; i += parts * step) {
#pragma GCC unroll 8
    for (int part = 0; part < parts; ++part) {
      vec<A> right[ws];
#pragma GCC unroll 8
      for (int n = 0; n < ws; ++n) {
        right[n] = load<A>(w + n * ldw + i + part * step);
      }
#pragma GCC unroll 16
      for (int m = 0; m < xs; ++m) {
        const vec<A> left = load<A>(x + m * ldx + i + part * step);
#pragma GCC unroll 8
        for (int n = 0; n < ws; ++n) {
          sums[part][m][n] = fma(left, right[n], sums[part][m][n]);
        }
      }
    }
  }
  for (; i < k; i += step) {
    const int64_t left_over = k - i;
    vec<A> right[ws];
#pragma GCC unroll 8
    for (int n = 0; n < ws; ++n) {
      right[n] = left_over >= step ? load<A>(w + n * ldw + i) : load_some<A>(w + n * ldw + i, left_over);
    }
#pragma GCC unroll 16
    for (int m = 0; m < xs; ++m) {
      const vec<A> left = left_over >= step ? load<A>(x + m * ldx + i) : load_some<A>(x + m * ldx + i, left_over);
#pragma GCC unroll 8
      for (int n = 0; n < ws; ++n) {
        sums[0][m][n] = fma(left, right[n], sums[0][m][n]);
      }
    }
  }
#pragma GCC unroll 4
  for (int part = 1; part < parts; ++part) {
#pragma GCC unroll 16
    for (int m = 0; m < xs; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < ws; ++n) {
        sums[0][m][n] += sums[part][m][n];
      }
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < xs; ++m) {
    if constexpr (ws % 4 == 0) {
#pragma GCC unroll 2
      for (int n = 0; n < ws; n += 4) {
        sum_four(&sums[0][m][n], out + m * ldout + n);
      }
    } else {
#pragma GCC unroll 8
      for (int n = 0; n < ws; ++n) {
        out[m * ldout + n] = sum<A>(sums[0][m][n]);
      }
    }
  }
}

// ws rows of w against all m rows of x; those rows of w stay in the nearest cache.
template <int ws, class X, class W, class A>
TAIR_INLINE void dot_panel(const X* x, int64_t ldx, int64_t m, const W* w, int64_t ldw, int64_t k, A* out, int64_t ldout) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    dot_block<4, ws>(x + i * ldx, ldx, w, ldw, k, out + i * ldout, ldout);
  }
  if (m - i >= 2) {
    dot_block<2, ws>(x + i * ldx, ldx, w, ldw, k, out + i * ldout, ldout);
    i += 2;
  }
  if (m - i >= 1) {
    dot_block<1, ws>(x + i * ldx, ldx, w, ldw, k, out + i * ldout, ldout);
  }
}

}  // namespace detail

// out[i][j] = sum over l < k of x[i * ldx + l] * w[j * ldw + l], for i < m and j < rows: `rows` rows of w, each contiguous
// (torch's Linear weights [N, K]). out is [m][rows] with ldout >= rows.
template <class X, class W, class A = acc_t<X, W>>
__attribute__((noinline)) void dot_rows(const X* x, int64_t ldx, int64_t m, const W* w, int64_t ldw, int64_t k, int64_t rows, A* out,
                                        int64_t ldout) {
  int64_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    detail::dot_panel<4>(x, ldx, m, w + j * ldw, ldw, k, out + j, ldout);
  }
  for (; j < rows; ++j) {
    detail::dot_panel<1>(x, ldx, m, w + j * ldw, ldw, k, out + j, ldout);
  }
}

}  // namespace tair
