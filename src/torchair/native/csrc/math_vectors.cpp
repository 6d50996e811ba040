// The functions of math.h, by way of the Sleef functions in libtorch_cpu, in the names of the vector ABI that GCC calls:
// _ZGV<isa>N<lanes><v for each argument>_<name>, isa b: SSE, c: AVX, d: AVX2, e: AVX-512. GCC assumes that all of them exist.
// torch exports Sleef's 256- and 512-bit versions; those of 128 bits go through 256 bits.
#define TAIR_NO_CLONES
#include "../include/torchair_native/math.h"

#define TAIR_EXPORT extern "C" __attribute__((visibility("default")))

#if defined(TAIR_SLEEF) && defined(__AVX2__)

#include <immintrin.h>

namespace {
inline float first(__m256 v) { return _mm256_cvtss_f32(v); }
inline double first(__m256d v) { return _mm256_cvtsd_f64(v); }
}  // namespace

#ifdef __AVX512F__
#define TAIR_WIDE_UNARY(name, sleef, accuracy, t, lanes, vector) \
  extern "C" vector Sleef_##sleef##lanes##_##accuracy(vector); \
  TAIR_EXPORT vector _ZGVeN##lanes##v_tair_##name(vector x) { return Sleef_##sleef##lanes##_##accuracy(x); }
#define TAIR_WIDE_BINARY(name, sleef, accuracy, t, lanes, vector) \
  extern "C" vector Sleef_##sleef##lanes##_##accuracy(vector, vector); \
  TAIR_EXPORT vector _ZGVeN##lanes##vv_tair_##name(vector x, vector y) { return Sleef_##sleef##lanes##_##accuracy(x, y); }
#else
#define TAIR_WIDE_UNARY(...)
#define TAIR_WIDE_BINARY(...)
#endif

// name: with f for float; sleef: name in Sleef up to the lanes. Scalar calls take a lane of a vector: the same bits anywhere in a loop.
#define TAIR_FLOAT_UNARY(name, sleef, accuracy) \
  extern "C" __m256 Sleef_##sleef##8_##accuracy(__m256); \
  TAIR_EXPORT float tair_##name(float x) noexcept { return first(Sleef_##sleef##8_##accuracy(_mm256_set1_ps(x))); } \
  TAIR_EXPORT __m128 _ZGVbN4v_tair_##name(__m128 x) { return _mm256_castps256_ps128(Sleef_##sleef##8_##accuracy(_mm256_set_m128(x, x))); } \
  TAIR_EXPORT __m256 _ZGVcN8v_tair_##name(__m256 x) { return Sleef_##sleef##8_##accuracy(x); } \
  TAIR_EXPORT __m256 _ZGVdN8v_tair_##name(__m256 x) { return Sleef_##sleef##8_##accuracy(x); } \
  TAIR_WIDE_UNARY(name, sleef, accuracy, float, 16, __m512)
#define TAIR_DOUBLE_UNARY(name, sleef, accuracy) \
  extern "C" __m256d Sleef_##sleef##4_##accuracy(__m256d); \
  TAIR_EXPORT double tair_##name(double x) noexcept { return first(Sleef_##sleef##4_##accuracy(_mm256_set1_pd(x))); } \
  TAIR_EXPORT __m128d _ZGVbN2v_tair_##name(__m128d x) { return _mm256_castpd256_pd128(Sleef_##sleef##4_##accuracy(_mm256_set_m128d(x, x))); } \
  TAIR_EXPORT __m256d _ZGVcN4v_tair_##name(__m256d x) { return Sleef_##sleef##4_##accuracy(x); } \
  TAIR_EXPORT __m256d _ZGVdN4v_tair_##name(__m256d x) { return Sleef_##sleef##4_##accuracy(x); } \
  TAIR_WIDE_UNARY(name, sleef, accuracy, double, 8, __m512d)
#define TAIR_FLOAT_BINARY(name, sleef, accuracy) \
  extern "C" __m256 Sleef_##sleef##8_##accuracy(__m256, __m256); \
  TAIR_EXPORT float tair_##name(float x, float y) noexcept { return first(Sleef_##sleef##8_##accuracy(_mm256_set1_ps(x), _mm256_set1_ps(y))); } \
  TAIR_EXPORT __m128 _ZGVbN4vv_tair_##name(__m128 x, __m128 y) { return _mm256_castps256_ps128(Sleef_##sleef##8_##accuracy(_mm256_set_m128(x, x), _mm256_set_m128(y, y))); } \
  TAIR_EXPORT __m256 _ZGVcN8vv_tair_##name(__m256 x, __m256 y) { return Sleef_##sleef##8_##accuracy(x, y); } \
  TAIR_EXPORT __m256 _ZGVdN8vv_tair_##name(__m256 x, __m256 y) { return Sleef_##sleef##8_##accuracy(x, y); } \
  TAIR_WIDE_BINARY(name, sleef, accuracy, float, 16, __m512)
#define TAIR_DOUBLE_BINARY(name, sleef, accuracy) \
  extern "C" __m256d Sleef_##sleef##4_##accuracy(__m256d, __m256d); \
  TAIR_EXPORT double tair_##name(double x, double y) noexcept { return first(Sleef_##sleef##4_##accuracy(_mm256_set1_pd(x), _mm256_set1_pd(y))); } \
  TAIR_EXPORT __m128d _ZGVbN2vv_tair_##name(__m128d x, __m128d y) { return _mm256_castpd256_pd128(Sleef_##sleef##4_##accuracy(_mm256_set_m128d(x, x), _mm256_set_m128d(y, y))); } \
  TAIR_EXPORT __m256d _ZGVcN4vv_tair_##name(__m256d x, __m256d y) { return Sleef_##sleef##4_##accuracy(x, y); } \
  TAIR_EXPORT __m256d _ZGVdN4vv_tair_##name(__m256d x, __m256d y) { return Sleef_##sleef##4_##accuracy(x, y); } \
  TAIR_WIDE_BINARY(name, sleef, accuracy, double, 8, __m512d)

#else

#define TAIR_FLOAT_UNARY(name, sleef, accuracy) TAIR_LIBRARY_UNARY(name, float)
#define TAIR_DOUBLE_UNARY(name, sleef, accuracy) TAIR_LIBRARY_UNARY(name, double)
#define TAIR_FLOAT_BINARY(name, sleef, accuracy) TAIR_LIBRARY_BINARY(name, float)
#define TAIR_DOUBLE_BINARY(name, sleef, accuracy) TAIR_LIBRARY_BINARY(name, double)

#endif

#define TAIR_LIBRARY_UNARY(name, type, ...) TAIR_EXPORT type tair_##name(type x) noexcept { return __builtin_##name(x); }
#define TAIR_LIBRARY_BINARY(name, type, ...) TAIR_EXPORT type tair_##name(type x, type y) noexcept { return __builtin_##name(x, y); }

#define TAIR_DEFINE_UNARY(name, for_float, for_double) \
  TAIR_IF_SET(TAIR_SCALAR_##name##f, TAIR_LIBRARY_UNARY, TAIR_FLOAT_UNARY_)(name##f, float, for_float, name##f) \
  TAIR_IF_SET(TAIR_SCALAR_##name, TAIR_LIBRARY_UNARY, TAIR_DOUBLE_UNARY_)(name, double, for_double, name##d)
#define TAIR_DEFINE_BINARY(name, for_float, for_double) \
  TAIR_IF_SET(TAIR_SCALAR_##name##f, TAIR_LIBRARY_BINARY, TAIR_FLOAT_BINARY_)(name##f, float, for_float, name##f) \
  TAIR_IF_SET(TAIR_SCALAR_##name, TAIR_LIBRARY_BINARY, TAIR_DOUBLE_BINARY_)(name, double, for_double, name##d)
// Reorder (name, type, accuracy, sleef), which both branches take.
#define TAIR_FLOAT_UNARY_(name, type, accuracy, sleef) TAIR_FLOAT_UNARY(name, sleef, accuracy)
#define TAIR_DOUBLE_UNARY_(name, type, accuracy, sleef) TAIR_DOUBLE_UNARY(name, sleef, accuracy)
#define TAIR_FLOAT_BINARY_(name, type, accuracy, sleef) TAIR_FLOAT_BINARY(name, sleef, accuracy)
#define TAIR_DOUBLE_BINARY_(name, type, accuracy, sleef) TAIR_DOUBLE_BINARY(name, sleef, accuracy)

TAIR_UNARY_FUNCTIONS(TAIR_DEFINE_UNARY)
TAIR_BINARY_FUNCTIONS(TAIR_DEFINE_BINARY)
TAIR_GUARDED_FUNCTIONS(TAIR_DEFINE_UNARY, TAIR_NOTHING)

// ---------------------------------------------------------------- fmod

TAIR_EXPORT float tair_fmodf(float x, float y) noexcept { return __builtin_fmodf(x, y); }
TAIR_EXPORT double tair_fmod(double x, double y) noexcept { return __builtin_fmod(x, y); }

#if defined(TAIR_SLEEF) && defined(__AVX2__)

namespace {
// Sleef's result is NaN where x / y overflows: the C library's then. Elsewhere both are exact.
template <class V>
inline V repair(V x, V y, V result) {
  const auto is_nan = result != result;
  bool any = false;
  for (unsigned i = 0; i < sizeof(V) / sizeof(x[0]); ++i) {
    any |= is_nan[i] != 0;
  }
  if (__builtin_expect(any, 0)) {
    for (unsigned i = 0; i < sizeof(V) / sizeof(x[0]); ++i) {
      result[i] = sizeof(x[0]) == 4 ? __builtin_fmodf(x[i], y[i]) : __builtin_fmod(x[i], y[i]);
    }
  }
  return result;
}
}  // namespace

#define TAIR_FMOD(name, type, sleef, isa, lanes) \
  extern "C" type sleef(type, type); \
  TAIR_EXPORT type _ZGV##isa##N##lanes##vv_tair_##name(type x, type y) { return repair(x, y, sleef(x, y)); }

TAIR_FMOD(fmodf, __m256, Sleef_fmodf8, c, 8)
TAIR_FMOD(fmodf, __m256, Sleef_fmodf8, d, 8)
TAIR_FMOD(fmod, __m256d, Sleef_fmodd4, c, 4)
TAIR_FMOD(fmod, __m256d, Sleef_fmodd4, d, 4)
#ifdef __AVX512F__
TAIR_FMOD(fmodf, __m512, Sleef_fmodf16, e, 16)
TAIR_FMOD(fmod, __m512d, Sleef_fmodd8, e, 8)
#endif
TAIR_EXPORT __m128 _ZGVbN4vv_tair_fmodf(__m128 x, __m128 y) {
  return _mm256_castps256_ps128(_ZGVdN8vv_tair_fmodf(_mm256_set_m128(x, x), _mm256_set_m128(y, y)));
}
TAIR_EXPORT __m128d _ZGVbN2vv_tair_fmod(__m128d x, __m128d y) {
  return _mm256_castpd256_pd128(_ZGVdN4vv_tair_fmod(_mm256_set_m128d(x, x), _mm256_set_m128d(y, y)));
}

#endif
