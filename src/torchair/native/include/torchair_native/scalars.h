// Scalar types and operations with ATen's results, written so that GCC vectorizes loops over them.
//
// Nothing here traps or depends on undefined behavior, so a loop may evaluate it speculatively.
#pragma once

#include <cstdint>

#define TAIR_INLINE inline __attribute__((always_inline))
// Larger functions; static, so that GCC compiles only what constant arguments leave of them.
#define TAIR_FUNCTION static __attribute__((noinline, unused))

namespace tair {

// ---------------------------------------------------------------- bits

template <class To, class From>
TAIR_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// ---------------------------------------------------------------- 16-bit floats

// Values of them in functions: their bits, as a type of its own. Locals of class type would keep loops from being vectorized. Nothing
// converts them silently; tair::cast does.
enum class bfloat16_bits : uint16_t {};
enum class float16_bits : uint16_t {};

namespace detail {

// condition ? a : b, as arithmetic: compilers make no branches of it, which would keep loops from being vectorized.
TAIR_INLINE uint32_t select(bool condition, uint32_t a, uint32_t b) { return b ^ ((a ^ b) & (0u - static_cast<uint32_t>(condition))); }

// The upper half of a float. Rounds to nearest, ties to even; NaN stays NaN.
TAIR_INLINE bfloat16_bits to_bfloat16(float value) {
  const uint32_t from = bit_cast<uint32_t>(value);
  const uint32_t rounded = (from + 0x7fffu + ((from >> 16) & 1u)) >> 16;
  return static_cast<bfloat16_bits>(static_cast<uint16_t>(select(value != value, 0x7fc0u, rounded)));
}

TAIR_INLINE float from_bfloat16(bfloat16_bits bits) { return bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// IEEE half precision. Rounds to nearest, ties to even. In integers, which compilers vectorize.
TAIR_INLINE float16_bits to_float16(float value) {
  const uint32_t all = bit_cast<uint32_t>(value), sign = (all >> 16) & 0x8000u, magnitude = all & 0x7fffffffu;
  // Normal results: rebase the exponent, round away 13 bits. Subnormal ones: adding 0.5 lets the float unit round.
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t tiny = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t to = select(magnitude < 0x38800000u, tiny, normal);
  to = select(magnitude >= 0x477ff000u, 0x7c00u, to);
  to = select(magnitude > 0x7f800000u, 0x7e00u, to);
  return static_cast<float16_bits>(static_cast<uint16_t>(sign | to));
}

TAIR_INLINE float from_float16(float16_bits bits) {
  const uint32_t all = static_cast<uint32_t>(bits), sign = (all & 0x8000u) << 16, magnitude = all & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + 0x38000000u + select(magnitude >= 0x7c00u, 0x38000000u, 0u);
  // Subnormal: the fraction counts steps of 2^-24.
  const uint32_t tiny = bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 5.9604644775390625e-8f);
  return bit_cast<float>(sign | select(magnitude < 0x400u, tiny, normal));
}

}  // namespace detail

// They in memory.
struct bfloat16 {
  bfloat16_bits bits;

  bfloat16() = default;
  TAIR_INLINE explicit bfloat16(float value) : bits(detail::to_bfloat16(value)) {}
  TAIR_INLINE operator float() const { return detail::from_bfloat16(bits); }
};

struct float16 {
  float16_bits bits;

  float16() = default;
#ifdef __FLT16_MAX__  // one instruction
  TAIR_INLINE explicit float16(float from) : bits(bit_cast<float16_bits>(static_cast<_Float16>(from))) {}
  TAIR_INLINE operator float() const { return static_cast<float>(bit_cast<_Float16>(bits)); }
#else
  TAIR_INLINE explicit float16(float from) : bits(detail::to_float16(from)) {}
  TAIR_INLINE operator float() const { return detail::from_float16(bits); }
#endif
};

static_assert(sizeof(bfloat16) == 2 && sizeof(float16) == 2);

// What operators compute in: float for 16-bit floats, the type itself otherwise (at::OpMathType).
template <class T> struct opmath { using type = T; };
template <> struct opmath<bfloat16> { using type = float; };
template <> struct opmath<float16> { using type = float; };
template <class T> using opmath_t = typename opmath<T>::type;

template <class T> constexpr bool is_floating = false;
template <> inline constexpr bool is_floating<float> = true;
template <> inline constexpr bool is_floating<double> = true;
template <> inline constexpr bool is_floating<bfloat16> = true;
template <> inline constexpr bool is_floating<float16> = true;

template <class T> constexpr bool is_signed_integer = !is_floating<T> && static_cast<T>(-1) < static_cast<T>(0);
template <> inline constexpr bool is_signed_integer<bfloat16> = false;
template <> inline constexpr bool is_signed_integer<float16> = false;

namespace detail {
template <int size> struct unsigned_of;
template <> struct unsigned_of<1> { using type = uint8_t; };
template <> struct unsigned_of<2> { using type = uint16_t; };
template <> struct unsigned_of<4> { using type = uint32_t; };
template <> struct unsigned_of<8> { using type = uint64_t; };

template <class A, class B> constexpr bool same = false;
template <class A> inline constexpr bool same<A, A> = true;
}  // namespace detail

template <class T> using unsigned_t = typename detail::unsigned_of<sizeof(T)>::type;

// ---------------------------------------------------------------- casts

// As Tensor.to casts. Floats go to narrow integers through a wider one and wrap around, as ATen on the same machine does; what does
// not fit the wider one becomes the machine's "indefinite" integer (smallest value on x86). bool: whether it is not zero.
template <class To, class From>
TAIR_INLINE To cast(From from) {
  using detail::same;
  if constexpr (same<To, From>) {
    return from;
  } else if constexpr (same<From, bfloat16_bits>) {
    return cast<To>(detail::from_bfloat16(from));
  } else if constexpr (same<From, float16_bits>) {
    return cast<To>(detail::from_float16(from));
  } else if constexpr (same<To, bfloat16_bits>) {
    return detail::to_bfloat16(cast<float>(from));
  } else if constexpr (same<To, float16_bits>) {
    return detail::to_float16(cast<float>(from));
  } else if constexpr (same<To, bool>) {
    if constexpr (is_floating<From>) {
      return static_cast<opmath_t<From>>(from) != 0;
    } else {
      return from != 0;
    }
  } else if constexpr (same<From, bfloat16> || same<From, float16>) {
    return cast<To>(static_cast<float>(from));
  } else if constexpr (same<To, bfloat16> || same<To, float16>) {
    return To(static_cast<float>(from));
  } else if constexpr (is_floating<From> && !is_floating<To>) {
    // A float of 2^31 or more is a multiple of 2^8: its low byte is the same by way of int32, and that vectorizes better.
    if constexpr (sizeof(To) == 8) {
      return static_cast<To>(static_cast<int64_t>(from));
    } else if constexpr (sizeof(To) == 4 && !is_signed_integer<To>) {
      return static_cast<To>(static_cast<int64_t>(from));
    } else if constexpr (same<To, uint8_t> && same<From, double>) {
      return static_cast<To>(static_cast<int64_t>(from));
    } else {
      return static_cast<To>(static_cast<int32_t>(from));
    }
  } else {
    return static_cast<To>(from);
  }
}

// ---------------------------------------------------------------- rounding and bits of floats

TAIR_INLINE float floor(float x) { return __builtin_floorf(x); }
TAIR_INLINE double floor(double x) { return __builtin_floor(x); }
TAIR_INLINE float ceil(float x) { return __builtin_ceilf(x); }
TAIR_INLINE double ceil(double x) { return __builtin_ceil(x); }
TAIR_INLINE float trunc(float x) { return __builtin_truncf(x); }
TAIR_INLINE double trunc(double x) { return __builtin_trunc(x); }
TAIR_INLINE float round_half_even(float x) { return __builtin_rintf(x); }
TAIR_INLINE double round_half_even(double x) { return __builtin_rint(x); }
TAIR_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
TAIR_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
TAIR_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TAIR_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
TAIR_INLINE float copysign(float x, float sign) { return __builtin_copysignf(x, sign); }
TAIR_INLINE double copysign(double x, double sign) { return __builtin_copysign(x, sign); }
TAIR_INLINE float abs(float x) { return __builtin_fabsf(x); }
TAIR_INLINE double abs(double x) { return __builtin_fabs(x); }

// -x of the smallest integer is itself (no undefined behavior).
template <class T>
TAIR_INLINE T negate(T x) {
  if constexpr (is_floating<T>) {
    return -x;
  } else {
    return static_cast<T>(unsigned_t<T>(0) - static_cast<unsigned_t<T>>(x));
  }
}

template <class T>
TAIR_INLINE T abs(T x) {
  if constexpr (is_signed_integer<T>) {
    return x < 0 ? negate(x) : x;
  } else {
    return x;
  }
}

template <class T> TAIR_INLINE bool isnan(T x) { return x != x; }
TAIR_INLINE bool isinf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
TAIR_INLINE bool isinf(double x) { return __builtin_fabs(x) == __builtin_inf(); }
TAIR_INLINE bool isfinite(float x) { return __builtin_fabsf(x) < __builtin_inff(); }
TAIR_INLINE bool isfinite(double x) { return __builtin_fabs(x) < __builtin_inf(); }
TAIR_INLINE bool signbit(float x) { return bit_cast<int32_t>(x) < 0; }
TAIR_INLINE bool signbit(double x) { return bit_cast<int64_t>(x) < 0; }

// torch.sign: 0 for zeros and NaN.
template <class T>
TAIR_INLINE T sign(T x) {
  return static_cast<T>(static_cast<T>(x > T(0)) - static_cast<T>(x < T(0)));
}

namespace detail {
// One step towards `to` on the number line of float bits.
template <class F, class I>
TAIR_INLINE F nextafter(F from, F to) {
  const I bits = bit_cast<I>(from);
  const I stepped = (from < to) == (from > F(0)) ? bits + 1 : bits - 1;
  const F smallest = bit_cast<F>(I(1));
  F result = from == F(0) ? (to < F(0) ? -smallest : smallest) : bit_cast<F>(stepped);
  result = from == to ? to : result;
  return from != from || to != to ? from + to : result;
}
}  // namespace detail
TAIR_INLINE float nextafter(float from, float to) { return detail::nextafter<float, int32_t>(from, to); }
TAIR_INLINE double nextafter(double from, double to) { return detail::nextafter<double, int64_t>(from, to); }

// ---------------------------------------------------------------- minimum, maximum

// torch.minimum / torch.maximum: NaN if either is.
template <class T>
TAIR_INLINE T minimum(T a, T b) {
  if constexpr (is_floating<T>) {
    const T least = a < b ? a : b;
    return a != a ? a : least;  // a NaN b is taken by the comparison
  } else {
    return a < b ? a : b;
  }
}
template <class T>
TAIR_INLINE T maximum(T a, T b) {
  if constexpr (is_floating<T>) {
    const T most = a > b ? a : b;
    return a != a ? a : most;
  } else {
    return a > b ? a : b;
  }
}

// torch.fmin / torch.fmax: the other one if one is NaN.
template <class T>
TAIR_INLINE T fmin(T a, T b) {
  if constexpr (is_floating<T>) {
    const T least = a < b ? a : b;
    return b != b ? a : least;
  } else {
    return a < b ? a : b;
  }
}
template <class T>
TAIR_INLINE T fmax(T a, T b) {
  if constexpr (is_floating<T>) {
    const T most = a > b ? a : b;
    return b != b ? a : most;
  } else {
    return a > b ? a : b;
  }
}

// torch.clamp: NaN stays NaN, and `high` wins where the limits cross.
template <class T>
TAIR_INLINE T clamp(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}

// ---------------------------------------------------------------- integers

namespace detail {
// Unsigned arithmetic in which results of T wrap around; not narrower than int, so that nothing is promoted to signed.
template <class T> struct wrapping { using type = uint32_t; };
template <> struct wrapping<int64_t> { using type = uint64_t; };
template <> struct wrapping<uint64_t> { using type = uint64_t; };
template <class T> using wrapping_t = typename wrapping<T>::type;
}  // namespace detail

// Sums, differences and products; those of integers wrap around.
template <class T>
TAIR_INLINE T add(T a, T b) {
  if constexpr (is_floating<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<detail::wrapping_t<T>>(a) + static_cast<detail::wrapping_t<T>>(b));
  }
}
template <class T>
TAIR_INLINE T subtract(T a, T b) {
  if constexpr (is_floating<T>) {
    return a - b;
  } else {
    return static_cast<T>(static_cast<detail::wrapping_t<T>>(a) - static_cast<detail::wrapping_t<T>>(b));
  }
}
template <class T>
TAIR_INLINE T multiply(T a, T b) {
  if constexpr (is_floating<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<detail::wrapping_t<T>>(a) * static_cast<detail::wrapping_t<T>>(b));
  }
}

namespace detail {
// A divisor that does not trap: neither 0 nor -1.
template <class T> TAIR_INLINE bool divides(T b) { return b != 0 && !(is_signed_integer<T> && b == static_cast<T>(-1)); }
}  // namespace detail

// Division of integers. ATen raises an error for a divisor of 0, which a kernel cannot: these return 0 then, so whoever generates
// code leaves a division to ATen unless the divisor is known not to be 0. The smallest value divided by -1 is itself.
template <class T>
TAIR_INLINE T integer_div_trunc(T a, T b) {
  const bool divides = detail::divides(b);
  const T quotient = static_cast<T>(a / (divides ? b : T(1)));
  return divides ? quotient : b == 0 ? T(0) : negate(a);
}
template <class T>
TAIR_INLINE T integer_remainder_trunc(T a, T b) {  // sign of a: torch.fmod
  const bool divides = detail::divides(b);
  return divides ? static_cast<T>(a % (divides ? b : T(1))) : T(0);
}
template <class T>
TAIR_INLINE T integer_remainder(T a, T b) {  // sign of b: torch.remainder
  const T rest = integer_remainder_trunc(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
}
template <class T>
TAIR_INLINE T integer_div_floor(T a, T b) {
  const T quotient = integer_div_trunc(a, b), rest = integer_remainder_trunc(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
}

// Shifts by less than 0 or by at least the width: all bits go out (torch.bitwise_left_shift, torch.bitwise_right_shift).
template <class T>
TAIR_INLINE T shift_left(T a, T b) {
  constexpr int width = sizeof(T) * 8;
  const bool out = b < 0 || b >= width;
  const auto moved = static_cast<T>(static_cast<detail::wrapping_t<T>>(a) << (out ? 0 : static_cast<int>(b)));
  return out ? T(0) : moved;
}
template <class T>
TAIR_INLINE T shift_right(T a, T b) {
  constexpr int width = sizeof(T) * 8, most = is_signed_integer<T> ? width - 1 : width;
  const bool out = b < 0 || b >= most;
  if constexpr (is_signed_integer<T>) {
    return static_cast<T>(a >> (out ? most : static_cast<int>(b)));
  } else {
    return out ? T(0) : static_cast<T>(a >> (out ? 0 : static_cast<int>(b)));
  }
}

// Integer powers wrap around; a negative exponent gives 1 for base 1, +-1 for base -1, else 0.
template <class T>
TAIR_INLINE T integer_pow(T base, T exponent) {
  if (exponent < 0) {
    return base == 1 ? T(1) : is_signed_integer<T> && base == static_cast<T>(-1) ? ((exponent & 1) ? static_cast<T>(-1) : T(1)) : T(0);
  }
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1, square *= square) {
    result *= left & 1 ? square : 1;
  }
  return static_cast<T>(result);
}

}  // namespace tair
