// A vector of floats or doubles as wide as the machine's registers: GCC's vector types, and the few things that those lack.
//
// No <immintrin.h>, which takes a quarter of a second to compile. Where GCC has no builtin for a machine, plain loops say the same.
#pragma once

#include "scalars.h"

namespace tair {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64;
#elif defined(__AVX__)
constexpr int vector_bytes = 32;
#else
constexpr int vector_bytes = 16;
#endif

template <class T, int lanes>
struct vector_of {
  typedef T type __attribute__((vector_size(sizeof(T) * lanes)));
};
template <class T, int lanes> using vector_t = typename vector_of<T, lanes>::type;

namespace detail {
template <class A> struct integer_like { using type = int32_t; };
template <> struct integer_like<double> { using type = int64_t; };
}  // namespace detail

// A: float or double.
template <class A> constexpr int lanes = vector_bytes / sizeof(A);
template <class A> using vec = vector_t<A, lanes<A>>;

template <class A> TAIR_INLINE vec<A> zero() { return vec<A>{}; }
template <class A> TAIR_INLINE vec<A> splat(A value) { return value - vec<A>{}; }  // x - 0 keeps -0 and NaN

// ---------------------------------------------------------------- a * b + c in one rounding, where the machine has it

#if defined(__AVX512F__) && !defined(__clang__)
TAIR_INLINE vec<float> fma(vec<float> a, vec<float> b, vec<float> c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, static_cast<uint16_t>(-1), 4); }
TAIR_INLINE vec<double> fma(vec<double> a, vec<double> b, vec<double> c) { return __builtin_ia32_vfmaddpd512_mask(a, b, c, static_cast<uint8_t>(-1), 4); }
#elif defined(__FMA__) && !defined(__clang__)
TAIR_INLINE vec<float> fma(vec<float> a, vec<float> b, vec<float> c) { return __builtin_ia32_vfmaddps256(a, b, c); }
TAIR_INLINE vec<double> fma(vec<double> a, vec<double> b, vec<double> c) { return __builtin_ia32_vfmaddpd256(a, b, c); }
#elif defined(__clang__) && __has_builtin(__builtin_elementwise_fma)
TAIR_INLINE vec<float> fma(vec<float> a, vec<float> b, vec<float> c) { return __builtin_elementwise_fma(a, b, c); }
TAIR_INLINE vec<double> fma(vec<double> a, vec<double> b, vec<double> c) { return __builtin_elementwise_fma(a, b, c); }
#else
TAIR_INLINE vec<float> fma(vec<float> a, vec<float> b, vec<float> c) { return a * b + c; }
TAIR_INLINE vec<double> fma(vec<double> a, vec<double> b, vec<double> c) { return a * b + c; }
#endif

// ---------------------------------------------------------------- loads and stores, any alignment

namespace detail {
template <class V>
TAIR_INLINE V load_bytes(const void* from) {
  V to;
  __builtin_memcpy(&to, from, sizeof(V));
  return to;
}

template <class A, class X>
struct Loader;
template <class A>
struct Loader<A, A> {
  static TAIR_INLINE vec<A> load(const A* from) { return load_bytes<vec<A>>(from); }
};
template <>
struct Loader<double, float> {
  static TAIR_INLINE vec<double> load(const float* from) {
    return __builtin_convertvector(load_bytes<vector_t<float, lanes<double>>>(from), vec<double>);
  }
};
template <>
struct Loader<float, bfloat16> {
  static TAIR_INLINE vec<float> load(const bfloat16* from) {
    using Narrow = vector_t<uint16_t, lanes<float>>;
    using Wide = vector_t<uint32_t, lanes<float>>;
    return bit_cast<vec<float>>(__builtin_convertvector(load_bytes<Narrow>(from), Wide) << 16);
  }
};
template <>
struct Loader<float, float16> {
  static TAIR_INLINE vec<float> load(const float16* from) {
#if defined(__AVX512F__) && !defined(__clang__)
    return __builtin_ia32_vcvtph2ps512_mask(load_bytes<vector_t<short, 16>>(from), vec<float>{}, static_cast<uint16_t>(-1), 4);
#elif defined(__F16C__) && !defined(__clang__)
    return __builtin_ia32_vcvtph2ps256(load_bytes<vector_t<short, 8>>(from));
#else
    vec<float> to{};
    for (int i = 0; i < lanes<float>; ++i) {
      to[i] = static_cast<float>(from[i]);
    }
    return to;
#endif
  }
};
}  // namespace detail

// The first lanes<A> elements, as A.
template <class A, class X>
TAIR_INLINE vec<A> load(const X* from) {
  return detail::Loader<A, X>::load(from);
}

// The first `count` (less than lanes<A>) elements; zeros after them. Reads nothing beyond them.
template <class A, class X>
TAIR_INLINE vec<A> load_some(const X* from, int64_t count) {
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && !defined(__clang__)
  const auto mask = static_cast<uint16_t>((1u << count) - 1);
  if constexpr (detail::same<A, float> && detail::same<X, float>) {
    return __builtin_ia32_loadups512_mask(from, vec<float>{}, mask);
  } else if constexpr (detail::same<A, double> && detail::same<X, double>) {
    return __builtin_ia32_loadupd512_mask(from, vec<double>{}, static_cast<uint8_t>(mask));
  } else if constexpr (detail::same<A, float>) {
    const auto some = __builtin_ia32_loaddquhi256_mask(reinterpret_cast<const short*>(from), vector_t<short, 16>{}, mask);
    return load<A>(reinterpret_cast<const X*>(&some));
  }
#endif
  X copy[lanes<A>] = {};
  for (int64_t i = 0; i < count; ++i) {
    copy[i] = from[i];
  }
  return load<A>(copy);
}

template <class A>
TAIR_INLINE void store(A* to, vec<A> from) {
  __builtin_memcpy(to, &from, sizeof(from));
}
template <class A>
TAIR_INLINE void store_some(A* to, vec<A> from, int64_t count) {
#if defined(__AVX512F__) && !defined(__clang__)
  const auto mask = static_cast<uint16_t>((1u << count) - 1);
  if constexpr (detail::same<A, float>) {
    __builtin_ia32_storeups512_mask(to, from, mask);
  } else {
    __builtin_ia32_storeupd512_mask(to, from, static_cast<uint8_t>(mask));
  }
#else
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from[i];
  }
#endif
}

// ---------------------------------------------------------------- sums over the lanes

namespace detail {
template <class A> using LaneIndex = vector_t<typename integer_like<A>::type, lanes<A>>;

// Lane l: l, or l of the second vector where l has the bit `distance`.
template <class A>
constexpr LaneIndex<A> blend_index(int distance) {
  LaneIndex<A> index{};
  for (int l = 0; l < lanes<A>; ++l) {
    index[l] = l & distance ? l + lanes<A> : l;
  }
  return index;
}
// Lane l: l + distance, or l - distance of the second vector where l has that bit.
template <class A>
constexpr LaneIndex<A> swap_index(int distance) {
  LaneIndex<A> index{};
  for (int l = 0; l < lanes<A>; ++l) {
    index[l] = l & distance ? l - distance + lanes<A> : l + distance;
  }
  return index;
}

// From n vectors to one: halves the number of vectors and the lanes that belong to each, in turn.
template <class A, int n, int distance>
TAIR_INLINE vec<A> gather_sums(const vec<A>* v) {
  if constexpr (distance == 0) {
    return v[0];
  } else if constexpr (n == 1) {
    const vec<A> folded = v[0] + __builtin_shuffle(v[0], v[0], swap_index<A>(distance));
    return gather_sums<A, 1, distance / 2>(&folded);
  } else {
    vec<A> folded[n / 2];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      const vec<A> a = v[i], b = v[i + n / 2];
      folded[i] = __builtin_shuffle(a, b, blend_index<A>(distance)) + __builtin_shuffle(a, b, swap_index<A>(distance));
    }
    return gather_sums<A, n / 2, distance / 2>(folded);
  }
}
}  // namespace detail

// The sums over the lanes of n vectors (a power of two): to[i] = sum of v[i]. Cheaper than n sums: two thirds of the work is shared.
template <class A, int n>
TAIR_INLINE void sum_lanes(const vec<A>* v, A* to) {
  if constexpr (n > lanes<A>) {
    sum_lanes<A, n / 2>(v, to);
    sum_lanes<A, n / 2>(v + n / 2, to + n / 2);
  } else {
    const vec<A> sums = detail::gather_sums<A, n, lanes<A> / 2>(v);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) {
      to[i] = sums[i * (lanes<A> / n)];
    }
  }
}

template <class A>
TAIR_INLINE A sum(vec<A> v) {
  A result;
  sum_lanes<A, 1>(&v, &result);
  return result;
}

}  // namespace tair
