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
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from[i];
  }
}

// ---------------------------------------------------------------- sums over the lanes

namespace detail {
template <class A, int count>
TAIR_INLINE vector_t<A, count / 2> fold(vector_t<A, count> v) {
  vector_t<A, count / 2> halves[2];
  __builtin_memcpy(halves, &v, sizeof(v));
  return halves[0] + halves[1];
}
template <class A, int count>
TAIR_INLINE auto fold_to_16_bytes(vector_t<A, count> v) {
  if constexpr (count * sizeof(A) == 16) {
    return v;
  } else {
    return fold_to_16_bytes<A, count / 2>(fold<A, count>(v));
  }
}
}  // namespace detail

template <class A>
TAIR_INLINE A sum(vec<A> v) {
  const auto folded = detail::fold_to_16_bytes<A, lanes<A>>(v);
  if constexpr (sizeof(A) == 4) {
    return (folded[0] + folded[2]) + (folded[1] + folded[3]);
  } else {
    return folded[0] + folded[1];
  }
}

// The sums of four vectors: cheaper than one after the other.
TAIR_INLINE void sum_four(const vec<float>* v, float* to) {
  using Four = vector_t<float, 4>;
  const Four a = detail::fold_to_16_bytes<float, lanes<float>>(v[0]), b = detail::fold_to_16_bytes<float, lanes<float>>(v[1]);
  const Four c = detail::fold_to_16_bytes<float, lanes<float>>(v[2]), d = detail::fold_to_16_bytes<float, lanes<float>>(v[3]);
  using Index = vector_t<int32_t, 4>;
  const Four ab = __builtin_shuffle(a, b, Index{0, 4, 1, 5}) + __builtin_shuffle(a, b, Index{2, 6, 3, 7});
  const Four cd = __builtin_shuffle(c, d, Index{0, 4, 1, 5}) + __builtin_shuffle(c, d, Index{2, 6, 3, 7});
  const Four all = __builtin_shuffle(ab, cd, Index{0, 1, 4, 5}) + __builtin_shuffle(ab, cd, Index{2, 3, 6, 7});
  __builtin_memcpy(to, &all, sizeof(all));
}
TAIR_INLINE void sum_four(const vec<double>* v, double* to) {
  for (int i = 0; i < 4; ++i) {
    to[i] = sum<double>(v[i]);
  }
}

}  // namespace tair
