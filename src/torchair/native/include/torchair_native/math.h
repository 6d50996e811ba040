// Mathematical functions of float and double, which GCC calls in vectors inside of `#pragma omp simd` loops.
//
// A function `tair_expf` is declared with the attribute `simd`, so GCC calls `_ZGVeN16v_tair_expf` and its kin; csrc/math_vectors.cpp
// defines those as calls of the Sleef functions that torch's own kernels use. Scalar calls give the same bits as vector ones.
//
// tanh, erf and exp of float are written out below. Inlined, the first two take a quarter of the time of Sleef's, and a softmax
// 0.85 of it. Their errors are at most 1.32, 1.38 and 1.01 ulp in a sample of 10^8 numbers.
//
// Calls under a condition are not vectorized ("notinbranch"), and in `c ? f(x) : g(x)` both are. Name the values first:
// `const float a = f(x), b = g(x); ... c ? a : b`; -fno-tree-sink keeps GCC from moving them back.
//
// Flags (torchair.native.support passes them): TAIR_SLEEF: torch exports Sleef and the CPU has AVX2;
// TAIR_SCALAR_<function>=1: this one it does not export; it is the C library's then.
#pragma once

#include "scalars.h"

// f(name, accuracy of Sleef's float version, of its double version), at most 1 ulp (erfc 1.5): what eager mode has with MKL, too.
#define TAIR_UNARY_FUNCTIONS(f) f(tanh, u10, u10) f(erf, u10, u10) f(exp, u10, u10) TAIR_CALLED_FUNCTIONS(f)
#define TAIR_CALLED_FUNCTIONS(f) \
  f(exp2, u10, u10) f(expm1, u10, u10) \
  f(log, u10, u10) f(log2, u10, u10) f(log10, u10, u10) f(log1p, u10, u10) \
  f(sin, u10, u10) f(cos, u10, u10) f(tan, u10, u10) \
  f(asin, u10, u10) f(acos, u10, u10) f(atan, u10, u10) \
  f(atanh, u10, u10) \
  f(erfc, u15, u15) f(lgamma, u10, u10)
#define TAIR_BINARY_FUNCTIONS(f) f(pow, u10, u10) f(atan2, u10, u10) f(hypot, u05, u05)
// Sleef's overflow too early, its fmod where the quotient does: these have code around them.
#define TAIR_GUARDED_FUNCTIONS(unary, binary) \
  unary(sinh, u10, u10) unary(cosh, u10, u10) unary(asinh, u10, u10) unary(acosh, u10, u10) binary(fmod, , )

// TAIR_IF_SET(X, a, b): a if the macro X is 1, b if it is not defined.
#define TAIR_PLACEHOLDER_1 0,
#define TAIR_SECOND(ignored, second, ...) second
#define TAIR_IF_SET_3(probe, a, b) TAIR_SECOND(probe a, b)
#define TAIR_IF_SET_2(value, a, b) TAIR_IF_SET_3(TAIR_PLACEHOLDER_##value, a, b)
#define TAIR_IF_SET(x, a, b) TAIR_IF_SET_2(x, a, b)

// math_vectors.cpp, which defines both the functions and their vector forms, defines TAIR_NO_CLONES: GCC would make its own otherwise.
#if defined(TAIR_SLEEF) && defined(__AVX2__) && defined(__GNUC__) && !defined(__clang__) && !defined(TAIR_NO_CLONES)
#define TAIR_VECTOR_ATTRIBUTE __attribute__((const, simd("notinbranch")))
#else
#define TAIR_VECTOR_ATTRIBUTE __attribute__((const))
#endif
#define TAIR_SCALAR_ATTRIBUTE __attribute__((const))
#define TAIR_NOTHING(...)

extern "C" {
#define TAIR_DECLARE_AS(name, type, ...) \
  TAIR_IF_SET(TAIR_SCALAR_##name, TAIR_SCALAR_ATTRIBUTE, TAIR_VECTOR_ATTRIBUTE) type tair_##name(__VA_ARGS__) noexcept;
#define TAIR_DECLARE_UNARY(name, ...) TAIR_DECLARE_AS(name##f, float, float) TAIR_DECLARE_AS(name, double, double)
#define TAIR_DECLARE_BINARY(name, ...) TAIR_DECLARE_AS(name##f, float, float, float) TAIR_DECLARE_AS(name, double, double, double)
TAIR_UNARY_FUNCTIONS(TAIR_DECLARE_UNARY)
TAIR_BINARY_FUNCTIONS(TAIR_DECLARE_BINARY)
TAIR_GUARDED_FUNCTIONS(TAIR_DECLARE_UNARY, TAIR_DECLARE_BINARY)
}

namespace tair {

namespace detail {

#if defined(__FMA__) || defined(__aarch64__)
TAIR_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else  // a call of the C library
TAIR_INLINE float multiply_add(float a, float b, float c) { return a * b + c; }
#endif

// e^x - 1 for |x| <= ln 2 / 2 and some: x + x^2 * (a polynomial, minimax).
TAIR_INLINE float expm1_near_zero(float x) {
  float p = 1.9875691500e-4f;
  p = multiply_add(p, x, 1.3981999507e-3f);
  p = multiply_add(p, x, 8.3334519073e-3f);
  p = multiply_add(p, x, 4.1665795894e-2f);
  p = multiply_add(p, x, 1.6666665459e-1f);
  p = multiply_add(p, x, 5.0000001201e-1f);
  return multiply_add(p, x * x, x);
}

// x as n * ln 2 + a fraction: 2^n, and e^fraction.
struct ExpParts {
  int32_t n;
  float power;
};

// |x| <= 2000; NaN goes through as NaN of `power`.
TAIR_INLINE ExpParts exp_parts(float x) {
  // 1.5 * 2^23 has no fraction bits: the sum is rounded to a whole number, which stands in its low bits.
  const float sum = multiply_add(x, 1.44269504088896341f, 12582912.0f), n = sum - 12582912.0f;
  const float most = multiply_add(n, -0.693145751953125f, x);  // exact: 14 bits of ln 2
  const float fraction = multiply_add(n, -1.428606765330187e-06f, most);
  return {static_cast<int32_t>(__builtin_bit_cast(uint32_t, sum) - 0x4B400000u), 1.0f + expm1_near_zero(fraction)};
}

// 2^n for -126 <= n <= 127.
TAIR_INLINE float power_of_two(int32_t n) { return __builtin_bit_cast(float, static_cast<uint32_t>(n + 127) << 23); }

// e^x for |x| <= 20; NaN goes through.
TAIR_INLINE float exp_of_few(float x) {
  const ExpParts parts = exp_parts(x);
  return parts.power * power_of_two(parts.n);
}

}  // namespace detail

TAIR_INLINE float exp(float x) {
  const float above = x < -104.0f ? -104.0f : x, bounded = above > 89.0f ? 89.0f : above;  // e^-104 rounds to 0, e^89 to infinity
  const detail::ExpParts parts = detail::exp_parts(bounded);
  const int32_t half = parts.n >> 1;  // 2^n has no normal float at both ends
  return parts.power * detail::power_of_two(half) * detail::power_of_two(parts.n - half);
}
TAIR_INLINE double exp(double x) { return tair_exp(x); }

TAIR_INLINE float tanh(float x) {
  const float a = abs(x);
  // tanh 9.02 is 1 - 2^-25, which rounds to 1.
  const float bounded = a > 10.0f ? 10.0f : a;
  const float far = 1.0f - 2.0f / (detail::exp_of_few(bounded + bounded) + 1.0f);
  const float square = a * a;
  float p = -5.70498872745e-3f;
  p = detail::multiply_add(p, square, 2.06390887954e-2f);
  p = detail::multiply_add(p, square, -5.37397155531e-2f);
  p = detail::multiply_add(p, square, 1.33314422036e-1f);
  p = detail::multiply_add(p, square, -3.33332819422e-1f);
  const float near = detail::multiply_add(p * square, a, a);
  return copysign(a < 0.625f ? near : far, x);
}
TAIR_INLINE double tanh(double x) { return tair_tanh(x); }

// Up to 1: 2 / sqrt(pi) * x and a polynomial (minimax); from there on 1 - e^(-x^2) * (a polynomial); from 3.92 on it rounds to 1.
TAIR_INLINE float erf(float x) {
  const float a = abs(x), bounded = a > 4.0f ? 4.0f : a, square = bounded * bounded;
  float p = -9.684213709e-06f;
  p = detail::multiply_add(p, square, 0.0001127302102f);
  p = detail::multiply_add(p, square, -0.000848524932f);
  p = detail::multiply_add(p, square, 0.005221131022f);
  p = detail::multiply_add(p, square, -0.02686547617f);
  p = detail::multiply_add(p, square, 0.1128378357f);
  p = detail::multiply_add(p, square, -0.3761263858f);
  // 2 / sqrt(pi) in two parts.
  const float near = detail::multiply_add(bounded, 1.128379226f, bounded * detail::multiply_add(p, square, -5.863538344e-08f));
  float g = -0.000393789969f;
  g = detail::multiply_add(g, bounded, 0.006065798885f);
  g = detail::multiply_add(g, bounded, -0.04131238814f);
  g = detail::multiply_add(g, bounded, 0.1650172603f);
  g = detail::multiply_add(g, bounded, -0.4331374101f);
  g = detail::multiply_add(g, bounded, 0.7940066403f);
  g = detail::multiply_add(g, bounded, -1.048954349f);
  g = detail::multiply_add(g, bounded, 0.9862917824f);
  const float far = detail::multiply_add(-detail::exp_of_few(-square), g, 1.0f);
  return copysign(a < 1.0f ? near : far, x);
}
TAIR_INLINE double erf(double x) { return tair_erf(x); }

#define TAIR_OVERLOAD(name, ...) \
  TAIR_INLINE float name(float x) { return tair_##name##f(x); } \
  TAIR_INLINE double name(double x) { return tair_##name(x); }
TAIR_CALLED_FUNCTIONS(TAIR_OVERLOAD)
#undef TAIR_OVERLOAD
#define TAIR_OVERLOAD(name, ...) \
  TAIR_INLINE float name(float x, float y) { return tair_##name##f(x, y); } \
  TAIR_INLINE double name(double x, double y) { return tair_##name(x, y); }
TAIR_BINARY_FUNCTIONS(TAIR_OVERLOAD)
#undef TAIR_OVERLOAD

// Remainder with the sign of x (torch.fmod); exact.
TAIR_INLINE float fmod(float x, float y) { return tair_fmodf(x, y); }
TAIR_INLINE double fmod(double x, double y) { return tair_fmod(x, y); }

namespace detail {
#define TAIR_OVERLOAD(name, ...) \
  TAIR_INLINE float name(float x) { return tair_##name##f(x); } \
  TAIR_INLINE double name(double x) { return tair_##name(x); }
TAIR_GUARDED_FUNCTIONS(TAIR_OVERLOAD, TAIR_NOTHING)
#undef TAIR_OVERLOAD

// From here to where they overflow, sinh and cosh are half of exp.
template <class F> constexpr F large_exponent = F(sizeof(F) == 4 ? 88 : 709);
}  // namespace detail

template <class F>
TAIR_INLINE F sinh(F x) {
  const F near = detail::sinh(x), root = exp(abs(x) * F(0.5)), far = copysign(root * F(0.5) * root, x);
  return abs(x) > detail::large_exponent<F> ? far : near;
}
template <class F>
TAIR_INLINE F cosh(F x) {
  const F near = detail::cosh(x), root = exp(abs(x) * F(0.5)), far = root * F(0.5) * root;
  return abs(x) > detail::large_exponent<F> ? far : near;
}
// Beyond 10^9, both are log(2x) to the last bit.
template <class F>
TAIR_INLINE F asinh(F x) {
  const F near = detail::asinh(x), far = copysign(log(abs(x)) + F(0.69314718055994530942), x);
  return abs(x) > F(1e9) ? far : near;
}
template <class F>
TAIR_INLINE F acosh(F x) {
  const F near = detail::acosh(x), far = log(x) + F(0.69314718055994530942);
  return x > F(1e9) ? far : near;
}

// torch.remainder: sign of y.
template <class F>
TAIR_INLINE F remainder(F x, F y) {
  const F rest = fmod(x, y);
  return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}

// torch.floor_divide: x == remainder + y * quotient holds where it can (c10::div_floor_floating).
template <class F>
TAIR_INLINE F div_floor(F x, F y) {
  const F rest = fmod(x, y), ratio = x / y, quotient = (x - rest) / y;
  const F whole = rest != 0 && (y < 0) != (rest < 0) ? quotient - F(1) : quotient;
  const F below = floor(whole), above = below + F(1), signed_zero = copysign(F(0), ratio);
  const F nearest = whole - below > F(0.5) ? above : below;
  const F result = whole != 0 ? nearest : signed_zero;
  return y == 0 ? ratio : result;
}

TAIR_INLINE float rsqrt(float x) { return 1.0f / sqrt(x); }
TAIR_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }

template <class F>
TAIR_INLINE F sigmoid(F x) {
  return F(1) / (F(1) + exp(-x));
}
template <class F>
TAIR_INLINE F silu(F x) {
  return x / (F(1) + exp(-x));
}
// torch.nn.functional.gelu, both forms.
template <class F>
TAIR_INLINE F gelu(F x) {
  return x * F(0.5) * (F(1) + erf(x * F(0.70710678118654752440)));
}
template <class F>
TAIR_INLINE F gelu_tanh(F x) {
  return F(0.5) * x * (F(1) + tanh(F(0.79788456080286535588) * (x + F(0.044715) * x * x * x)));
}
// torch.nn.functional.softplus.
template <class F>
TAIR_INLINE F softplus(F x, F beta, F threshold) {
  const F soft = log1p(exp(x * beta)) / beta;
  return x * beta > threshold ? x : soft;
}

}  // namespace tair
