// Positions of extremes of a row.
//
// Each takes a function of the position, which the compiler inlines, so the row need not lie in memory:
//     const int64_t place = tair::argmax_over<float>(count, [&](int64_t i) { return x[i] * x[i]; });
// The function may be called in any order, twice, and in vectors: it has no effects.
#pragma once

#include "scalars.h"

namespace tair {

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

namespace detail {

// The first element that equals `extreme`, or is NaN; there is one.
template <class A, class F>
TAIR_INLINE int64_t place_of(A extreme, int64_t count, F element) {
  constexpr int64_t block = 64;
  int64_t begin = 0;
  for (; begin + block <= count; begin += block) {
    int any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t i = begin; i < begin + block; ++i) {
      const A value = element(i);
      any |= value == extreme ? 1 : 0;
      any |= value != value ? 1 : 0;
    }
    if (any) {
      break;
    }
  }
  for (;; ++begin) {
    const A value = element(begin);
    if (value == extreme || value != value) {
      return begin;
    }
  }
}

}  // namespace detail

// Where the largest (smallest) element is: the first of equal ones; the first NaN if there is one. count is at least 1.
template <class A, class F>
TAIR_INLINE int64_t argmax_over(int64_t count, F element) {
  return detail::place_of<A>(max_over<A>(count, element), count, element);
}
template <class A, class F>
TAIR_INLINE int64_t argmin_over(int64_t count, F element) {
  return detail::place_of<A>(min_over<A>(count, element), count, element);
}

}  // namespace tair
