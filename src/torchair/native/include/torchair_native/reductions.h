// Reductions of rows in memory: sums with a small error, extremes with NaN, positions of extremes.
//
// Each takes a function of the position, which the compiler inlines, so what is reduced need not lie in memory:
//     const float total = tair::sum_over<float>(count, [&](int64_t i) { return x[i] * x[i]; });
// The function may be called in any order, and in vectors: it has no effects.
#pragma once

#include "scalars.h"

namespace tair {

namespace detail {

constexpr int64_t sum_lanes_of = 16;     // partial sums of neighbors
constexpr int64_t sum_block = 16 * 64;   // elements that are summed one after the other, in lanes
constexpr int sum_levels = 40;

// The sum of up to sum_block elements from `begin` on.
template <class A, class F>
TAIR_INLINE A sum_of_block(int64_t begin, int64_t end, F element) {
  A lanes[4 * sum_lanes_of] = {};
  int64_t i = begin;
  for (; i + 4 * sum_lanes_of <= end; i += 4 * sum_lanes_of) {
#pragma omp simd
    for (int64_t j = 0; j < 4 * sum_lanes_of; ++j) {
      lanes[j] += element(i + j);
    }
  }
  const int64_t rest = end - i;
#pragma omp simd
  for (int64_t j = 0; j < rest; ++j) {
    lanes[j] += element(i + j);
  }
  for (int64_t width = 2 * sum_lanes_of; width > 0; width /= 2) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      lanes[j] += lanes[j + width];
    }
  }
  return lanes[0];
}

}  // namespace detail

// Sum of element(i), i < count, in A. Blocks are added in pairs, so that the error grows with the logarithm of their number.
template <class A, class F>
TAIR_INLINE A sum_over(int64_t count, F element) {
  if (count <= detail::sum_block) {
    return detail::sum_of_block<A>(0, count, element);
  }
  // levels[n] is a sum of 2^n blocks where bit n of `blocks` is set, as a counter that carries.
  A levels[detail::sum_levels] = {};
  int64_t blocks = 0;
  for (int64_t begin = 0; begin < count; begin += detail::sum_block, ++blocks) {
    const int64_t end = count - begin < detail::sum_block ? count : begin + detail::sum_block;
    A carried = detail::sum_of_block<A>(begin, end, element);
    int level = 0;
    for (; (blocks >> level) & 1; ++level) {
      carried += levels[level];
    }
    levels[level] = carried;
  }
  A total = 0;
  for (int level = 0; level < detail::sum_levels; ++level) {
    total += (blocks >> level) & 1 ? levels[level] : A(0);
  }
  return total;
}

// Largest (smallest) of element(i); NaN if one is. count is at least 1.
template <class A, class F>
TAIR_INLINE A max_over(int64_t count, F element) {
  A most = element(0);
  int any = 0;
#pragma omp simd reduction(max : most) reduction(| : any)
  for (int64_t i = 0; i < count; ++i) {
    const A value = element(i);
    most = value > most ? value : most;
    any |= value != value;
  }
  if constexpr (is_floating<A>) {
    return any ? static_cast<A>(__builtin_nan("")) : most;
  } else {
    return most;
  }
}
template <class A, class F>
TAIR_INLINE A min_over(int64_t count, F element) {
  A least = element(0);
  int any = 0;
#pragma omp simd reduction(min : least) reduction(| : any)
  for (int64_t i = 0; i < count; ++i) {
    const A value = element(i);
    least = value < least ? value : least;
    any |= value != value;
  }
  if constexpr (is_floating<A>) {
    return any ? static_cast<A>(__builtin_nan("")) : least;
  } else {
    return least;
  }
}

// Where the largest (smallest) element is: the first of equal ones; the first NaN if there is one. count is at least 1.
template <class A, class F>
TAIR_INLINE int64_t argmax_over(int64_t count, F element) {
  const A most = max_over<A>(count, element);
  int64_t found = 0;
  for (;; ++found) {
    const A value = element(found);
    if (value == most || value != value) {
      return found;
    }
  }
}
template <class A, class F>
TAIR_INLINE int64_t argmin_over(int64_t count, F element) {
  const A least = min_over<A>(count, element);
  int64_t found = 0;
  for (;; ++found) {
    const A value = element(found);
    if (value == least || value != value) {
      return found;
    }
  }
}

// Mean of element(i), and the sum of the squares of their differences to it (variance * count), of one row that is read twice.
template <class A, class F>
TAIR_INLINE void moments_over(int64_t count, F element, A& mean, A& squares) {
  mean = sum_over<A>(count, element) / static_cast<A>(count);
  const A center = mean;
  squares = sum_over<A>(count, [&](int64_t i) {
    const A difference = element(i) - center;
    return difference * difference;
  });
}

}  // namespace tair
