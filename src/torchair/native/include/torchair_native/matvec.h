// Matrix products with few rows of the left operand: they stream the right one, the weights, once, at the speed of memory.
//
// The caller computes its share of the results in blocks and applies what follows (bias, activation, ...) to the block:
//
//     const tair::Range mine = tair::share(N, worker, workers, 16);
//     float block[M * 32];
//     for (int64_t n = mine.begin; n < mine.end; n += 32) {
//       const int64_t rows = mine.end - n < 32 ? mine.end - n : 32;
//       tair::dot_rows(x, ldx, M, w + n * ldw, ldw, K, rows, block, 32, mine.end - n);
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

// How a vector of x and one of w are loaded, multiplied and added to sums. Loads of `some` elements put zeros after them.
template <class X, class W, class A>
struct Products {
  static constexpr int step = lanes<A>;  // elements at a time
  using Vector = vec<A>;
  template <class T> static TAIR_INLINE Vector load_all(const T* from) { return load<A>(from); }
  template <class T> static TAIR_INLINE Vector load_first(const T* from, int64_t count) { return load_some<A>(from, count); }
  static TAIR_INLINE vec<A> add(Vector left, Vector right, vec<A> sums) { return fma(left, right, sums); }
};

#if defined(__AVX512BF16__)
// Sums pairs of products, each addition rounded to float; results below 2^-126 become 0.
template <>
struct Products<bfloat16, bfloat16, float> {
  static constexpr int step = 32;
  using Vector = vector_t<uint16_t, 32>;
  static TAIR_INLINE Vector load_all(const bfloat16* from) { return load_bytes<Vector>(from); }
  static TAIR_INLINE Vector load_first(const bfloat16* from, int64_t count) {
    Vector to{};
    __builtin_memcpy(&to, from, static_cast<unsigned long>(count) * 2);
    return to;
  }
  static TAIR_INLINE vec<float> add(Vector left, Vector right, vec<float> sums) {
    // The builtin takes other types in each version of GCC.
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sums) : "v"(left), "v"(right));
    return sums;
  }
};
#endif

// How far ahead of what is read memory is fetched, in bytes. On an AMD EPYC (Zen, 2 cores), rows of 1 KiB are read at 14 GB/s
// without, 20 with 4 KiB, and 35, which is all that memory gives, with 16 KiB. Fetching ahead within each of the rows that are read
// together is no help: memory is fastest in order.
constexpr int64_t fetched_ahead = 16384;

// Lines of a cache that `ws` rows of w have in each step.
template <class X, class W, class A, int ws>
constexpr int lines_of_step = ws * Products<X, W, A>::step * static_cast<int>(sizeof(W)) / 64;

// xs rows of x against ws rows of w. Meanwhile, the lines [begin, end) of each step's worth of memory from `ahead` on are fetched.
template <int xs, int ws, int begin, int end, class X, class W, class A>
TAIR_INLINE void dot_block(const X* x, int64_t ldx, const W* w, int64_t ldw, int64_t k, A* out, int64_t ldout, const W* ahead) {
  using P = Products<X, W, A>;
  using Vector = typename P::Vector;
  constexpr int64_t step = P::step;
  // With few sums at a time, several accumulators each hide the latency of the additions.
  constexpr int parts = xs * ws >= 8 ? 1 : xs * ws >= 4 ? 2 : 4;
  vec<A> sums[parts][xs][ws] = {};
  int64_t i = 0;
  for (; i + parts * step <= k; i += parts * step) {
#pragma GCC unroll 8
    for (int part = 0; part < parts; ++part) {
      Vector right[ws];
#pragma GCC unroll 8
      for (int n = 0; n < ws; ++n) {
        right[n] = P::load_all(w + n * ldw + i + part * step);
      }
#pragma GCC unroll 8
      for (int line = begin; line < end; ++line) {
        __builtin_prefetch(reinterpret_cast<const char*>(ahead + ws * (i + part * step)) + 64 * line);
      }
#pragma GCC unroll 16
      for (int m = 0; m < xs; ++m) {
        const Vector left = P::load_all(x + m * ldx + i + part * step);
#pragma GCC unroll 8
        for (int n = 0; n < ws; ++n) {
          sums[part][m][n] = P::add(left, right[n], sums[part][m][n]);
        }
      }
    }
  }
  for (; i < k; i += step) {
    const int64_t rest = k - i;
    Vector right[ws];
#pragma GCC unroll 8
    for (int n = 0; n < ws; ++n) {
      right[n] = rest >= step ? P::load_all(w + n * ldw + i) : P::load_first(w + n * ldw + i, rest);
    }
#pragma GCC unroll 16
    for (int m = 0; m < xs; ++m) {
      const Vector left = rest >= step ? P::load_all(x + m * ldx + i) : P::load_first(x + m * ldx + i, rest);
#pragma GCC unroll 8
      for (int n = 0; n < ws; ++n) {
        sums[0][m][n] = P::add(left, right[n], sums[0][m][n]);
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
  A totals[xs * ws];
  sum_lanes<A, xs * ws>(&sums[0][0][0], totals);
#pragma GCC unroll 16
  for (int m = 0; m < xs; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < ws; ++n) {
      out[m * ldout + n] = totals[m * ws + n];
    }
  }
}

// ws rows of w against all m rows of x. Those rows of w come from memory in the first pass and from the nearest cache in the others.
// The first two fetch what comes later: otherwise memory and arithmetic would take turns.
template <int ws, bool fetch, class X, class W, class A>
TAIR_INLINE void dot_panel(const X* x, int64_t ldx, int64_t m, const W* w, int64_t ldw, int64_t k, A* out, int64_t ldout, const W* ahead) {
  constexpr int all = fetch ? lines_of_step<X, W, A, ws> : 0, half = (all + 1) / 2;
  int64_t i = 0;
  if (m >= 8) {
    dot_block<4, ws, 0, half>(x, ldx, w, ldw, k, out, ldout, ahead);
    dot_block<4, ws, half, all>(x + 4 * ldx, ldx, w, ldw, k, out + 4 * ldout, ldout, ahead);
    i = 8;
  } else if (m >= 4) {
    dot_block<4, ws, 0, all>(x, ldx, w, ldw, k, out, ldout, ahead);
    i = 4;
  } else if (m >= 2) {
    dot_block<2, ws, 0, all>(x, ldx, w, ldw, k, out, ldout, ahead);
    i = 2;
  } else if (m == 1) {
    dot_block<1, ws, 0, all>(x, ldx, w, ldw, k, out, ldout, ahead);
    return;
  }
  for (; i + 4 <= m; i += 4) {
    dot_block<4, ws, 0, 0>(x + i * ldx, ldx, w, ldw, k, out + i * ldout, ldout, w);
  }
  if (m - i >= 2) {
    dot_block<2, ws, 0, 0>(x + i * ldx, ldx, w, ldw, k, out + i * ldout, ldout, w);
    i += 2;
  }
  if (m - i >= 1) {
    dot_block<1, ws, 0, 0>(x + i * ldx, ldx, w, ldw, k, out + i * ldout, ldout, w);
  }
}

}  // namespace detail

// out[i][j] = sum over l < k of x[i * ldx + l] * w[j * ldw + l], for i < m and j < rows: `rows` rows of w, each contiguous
// (torch's Linear weights [N, K]). out is [m][rows] with ldout >= rows. The caller is to read `mine` rows from w on.
template <class X, class W, class A = acc_t<X, W>>
TAIR_FUNCTION void dot_rows(const X* x, int64_t ldx, int64_t m, const W* w, int64_t ldw, int64_t k, int64_t rows, A* out, int64_t ldout,
                            int64_t mine = 0) {
  constexpr int64_t least = detail::fetched_ahead / static_cast<int64_t>(sizeof(W));
  // With several passes, at least what the next panel reads. One pass over long rows has the processor fetch ahead in each of them.
  const int64_t ahead = m >= 4 && 4 * k > least ? 4 * k : least;
  const bool in_order = ldw == k && 4 * k <= ahead;
  int64_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    const W* panel = w + j * ldw;
    if (in_order && (j + 4) * k + ahead <= mine * k) {
      detail::dot_panel<4, true>(x, ldx, m, panel, ldw, k, out + j, ldout, panel + ahead);
    } else {
      detail::dot_panel<4, false>(x, ldx, m, panel, ldw, k, out + j, ldout, panel);
    }
  }
  for (; j < rows; ++j) {
    for (int64_t i = 0; i < m; ++i) {
      detail::dot_block<1, 1, 0, 0>(x + i * ldx, ldx, w + j * ldw, ldw, k, out + i * ldout + j, ldout, w);
    }
  }
}

// ---------------------------------------------------------------- weights [K, N]

namespace detail {

// Adds ks rows of w, `ns` vectors of columns wide, times ks elements of each of xs rows of x to out. last: there is one vector, of which
// only `some` columns exist. first: out is set, not added to. The ks products are summed before they are added: that rounds less.
template <int xs, int ns, bool last, class X, class W, class A>
TAIR_INLINE void column_block(const X* x, int64_t ldx, const W* w, int64_t ldw, int64_t ks, A* out, int64_t ldout, int64_t some, bool first) {
  constexpr int64_t step = lanes<A>;
  vec<A> sums[xs][ns] = {};
  for (int64_t i = 0; i < ks; ++i) {
    vec<A> right[ns];
#pragma GCC unroll 8
    for (int n = 0; n < ns; ++n) {
      const W* from = w + i * ldw + n * step;
      right[n] = last ? load_some<A>(from, some) : load<A>(from);
    }
#pragma GCC unroll 8
    for (int m = 0; m < xs; ++m) {
      const vec<A> left = splat(static_cast<A>(x[m * ldx + i]));
#pragma GCC unroll 8
      for (int n = 0; n < ns; ++n) {
        sums[m][n] = fma(left, right[n], sums[m][n]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < xs; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < ns; ++n) {
      A* to = out + m * ldout + n * step;
      const vec<A> before = first ? zero<A>() : last ? load_some<A>(to, some) : load<A>(to);
      last ? store_some(to, before + sums[m][n], some) : store(to, before + sums[m][n]);
    }
  }
}

template <int ns, bool last, class X, class W, class A>
TAIR_INLINE void column_panel(const X* x, int64_t ldx, int64_t m, const W* w, int64_t ldw, int64_t ks, A* out, int64_t ldout, int64_t some,
                              bool first) {
  int64_t i = 0;
  if constexpr (ns >= 4) {
    constexpr int half = ns / 2;  // with several rows of x: their sums stay in registers
    for (; i + 4 <= m; i += 4) {
      for (int n = 0; n < ns; n += half) {
        column_block<4, half, last>(x + i * ldx, ldx, w + n * lanes<A>, ldw, ks, out + i * ldout + n * lanes<A>, ldout, some, first);
      }
    }
  }
  for (; i < m; ++i) {
    column_block<1, ns, last>(x + i * ldx, ldx, w, ldw, ks, out + i * ldout, ldout, some, first);
  }
}

}  // namespace detail

// out[i][j] = sum over l < k of x[i * ldx + l] * w[l * ldw + j], for i < m and j < columns: w is [K, N] with contiguous columns.
// Few rows of w are read at a time, over all columns, so give it many columns (256 or more; out should stay in the nearest cache).
template <class X, class W, class A = acc_t<X, W>>
TAIR_FUNCTION void dot_columns(const X* x, int64_t ldx, int64_t m, const W* w, int64_t ldw, int64_t k, int64_t columns, A* out,
                               int64_t ldout) {
  constexpr int64_t step = lanes<A>, rows = 16;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        out[i * ldout + j] = 0;
      }
    }
  }
  for (int64_t l = 0; l < k; l += rows) {
    const int64_t ks = k - l < rows ? k - l : rows;
    const X* left = x + l;
    const W* right = w + l * ldw;
    int64_t j = 0;
    for (; j + 8 * step <= columns; j += 8 * step) {
      detail::column_panel<8, false>(left, ldx, m, right + j, ldw, ks, out + j, ldout, 0, l == 0);
    }
    for (; j < columns; j += step) {
      const int64_t some = columns - j;
      if (some >= step) {
        detail::column_panel<1, false>(left, ldx, m, right + j, ldw, ks, out + j, ldout, 0, l == 0);
      } else {
        detail::column_panel<1, true>(left, ldx, m, right + j, ldw, ks, out + j, ldout, some, l == 0);
      }
    }
  }
}

}  // namespace tair
