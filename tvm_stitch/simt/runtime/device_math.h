// CUDA's arithmetic beyond the operators. Fast variants are computed exactly: the tool looks for
// errors of the kernel, not of the hardware's approximations. But what they get wrong altogether is
// wrong here too: with --use_fast_math, powf of a negative number is not-a-number.
#pragma once

#define SIMT_LIBM1(NAME)                             \
  extern "C" double NAME(double) noexcept;           \
  extern "C" float NAME##f(float) noexcept;
#define SIMT_LIBM2(NAME)                             \
  extern "C" double NAME(double, double) noexcept;   \
  extern "C" float NAME##f(float, float) noexcept;
SIMT_LIBM1(exp) SIMT_LIBM1(exp2) SIMT_LIBM1(expm1) SIMT_LIBM1(log) SIMT_LIBM1(log2)
SIMT_LIBM1(log10) SIMT_LIBM1(log1p) SIMT_LIBM1(sin) SIMT_LIBM1(cos) SIMT_LIBM1(tan)
SIMT_LIBM1(asin) SIMT_LIBM1(acos) SIMT_LIBM1(atan) SIMT_LIBM1(sinh) SIMT_LIBM1(cosh)
SIMT_LIBM1(tanh) SIMT_LIBM1(asinh) SIMT_LIBM1(acosh) SIMT_LIBM1(atanh) SIMT_LIBM1(erf)
SIMT_LIBM1(erfc) SIMT_LIBM1(lgamma) SIMT_LIBM1(tgamma) SIMT_LIBM1(cbrt) SIMT_LIBM1(ceil)
SIMT_LIBM1(floor) SIMT_LIBM1(round) SIMT_LIBM1(trunc) SIMT_LIBM1(rint) SIMT_LIBM1(nearbyint)
SIMT_LIBM1(sqrt) SIMT_LIBM1(fabs) SIMT_LIBM1(j0) SIMT_LIBM1(j1)
SIMT_LIBM2(pow) SIMT_LIBM2(atan2) SIMT_LIBM2(fmod) SIMT_LIBM2(fmax) SIMT_LIBM2(fmin)
SIMT_LIBM2(copysign) SIMT_LIBM2(hypot) SIMT_LIBM2(remainder) SIMT_LIBM2(nextafter)
SIMT_LIBM2(fdim)
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" int abs(int) noexcept;
extern "C" long labs(long) noexcept;
extern "C" long long llabs(long long) noexcept;
extern "C" int printf(const char*, ...);

// In device code the double names take floats too.
#define SIMT_OVERLOAD1(NAME) SIMT_INLINE float NAME(float x) { return __builtin_##NAME##f(x); }
SIMT_OVERLOAD1(exp) SIMT_OVERLOAD1(exp2) SIMT_OVERLOAD1(log) SIMT_OVERLOAD1(log2)
SIMT_OVERLOAD1(log10) SIMT_OVERLOAD1(log1p) SIMT_OVERLOAD1(sin) SIMT_OVERLOAD1(cos)
SIMT_OVERLOAD1(tan) SIMT_OVERLOAD1(atan) SIMT_OVERLOAD1(tanh) SIMT_OVERLOAD1(erf)
SIMT_OVERLOAD1(ceil) SIMT_OVERLOAD1(floor) SIMT_OVERLOAD1(round) SIMT_OVERLOAD1(trunc)
SIMT_OVERLOAD1(rint) SIMT_OVERLOAD1(nearbyint) SIMT_OVERLOAD1(sqrt) SIMT_OVERLOAD1(fabs)
SIMT_INLINE float __powf(float x, float y) { return __builtin_exp2(y * __builtin_log2(x)); }
SIMT_INLINE float pow(float x, float y) { return __powf(x, y); }
#define powf __powf
SIMT_INLINE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
SIMT_INLINE float abs(float x) { return __builtin_fabsf(x); }
SIMT_INLINE double abs(double x) { return __builtin_fabs(x); }
SIMT_INLINE long abs(long x) { return x < 0 ? -x : x; }
SIMT_INLINE long long abs(long long x) { return x < 0 ? -x : x; }

SIMT_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
SIMT_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
SIMT_INLINE float rsqrt(float x) { return rsqrtf(x); }
SIMT_INLINE float exp10f(float x) { return __builtin_powf(10.0f, x); }
SIMT_INLINE float normcdff(float x) { return 0.5f * __builtin_erfcf(-x * 0.70710678f); }
SIMT_INLINE float __expf(float x) { return __builtin_expf(x); }
SIMT_INLINE float __exp10f(float x) { return exp10f(x); }
SIMT_INLINE float __logf(float x) { return __builtin_logf(x); }
SIMT_INLINE float __log2f(float x) { return __builtin_log2f(x); }
SIMT_INLINE float __log10f(float x) { return __builtin_log10f(x); }
SIMT_INLINE float __sinf(float x) { return __builtin_sinf(x); }
SIMT_INLINE float __cosf(float x) { return __builtin_cosf(x); }
SIMT_INLINE float __tanf(float x) { return __builtin_tanf(x); }
SIMT_INLINE float __tanhf(float x) { return __builtin_tanhf(x); }
SIMT_INLINE float __fdividef(float x, float y) { return x / y; }
SIMT_INLINE float __fdiv_rn(float x, float y) { return x / y; }
SIMT_INLINE float __fadd_rn(float x, float y) { return x + y; }
SIMT_INLINE float __fsub_rn(float x, float y) { return x - y; }
SIMT_INLINE float __fmul_rn(float x, float y) { return x * y; }
SIMT_INLINE float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
SIMT_INLINE float __frcp_rn(float x) { return 1.0f / x; }
SIMT_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
SIMT_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }
SIMT_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
SIMT_INLINE void sincosf(float x, float* s, float* c) {
  *s = __builtin_sinf(x), *c = __builtin_cosf(x);
}

template <class T>
SIMT_INLINE bool isnan(T x) { return x != x; }
SIMT_INLINE bool isinf(float x) { return __builtin_isinf(x); }
SIMT_INLINE bool isinf(double x) { return __builtin_isinf(x); }
SIMT_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
SIMT_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }
SIMT_INLINE bool signbit(float x) { return __builtin_signbit(x); }

// min and max of floats give the number when one side is NaN, as the device does.
SIMT_INLINE float max(float a, float b) { return __builtin_fmaxf(a, b); }
SIMT_INLINE float min(float a, float b) { return __builtin_fminf(a, b); }
SIMT_INLINE double max(double a, double b) { return __builtin_fmax(a, b); }
SIMT_INLINE double min(double a, double b) { return __builtin_fmin(a, b); }
#define SIMT_MINMAX(A, B, R)                                              \
  SIMT_INLINE R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }       \
  SIMT_INLINE R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }
SIMT_MINMAX(int, int, int)
SIMT_MINMAX(unsigned, unsigned, unsigned)
SIMT_MINMAX(int, unsigned, unsigned)
SIMT_MINMAX(unsigned, int, unsigned)
SIMT_MINMAX(long, long, long)
SIMT_MINMAX(unsigned long, unsigned long, unsigned long)
SIMT_MINMAX(long long, long long, long long)
SIMT_MINMAX(unsigned long long, unsigned long long, unsigned long long)
SIMT_MINMAX(long, int, long)
SIMT_MINMAX(int, long, long)
SIMT_INLINE float max(float a, double b) { return __builtin_fmax(a, b); }
SIMT_INLINE float max(double a, float b) { return __builtin_fmax(a, b); }
SIMT_INLINE float min(float a, double b) { return __builtin_fmin(a, b); }
SIMT_INLINE float min(double a, float b) { return __builtin_fmin(a, b); }

SIMT_INLINE int __float_as_int(float x) { return simt_bits<int>(x); }
SIMT_INLINE unsigned __float_as_uint(float x) { return simt_bits<unsigned>(x); }
SIMT_INLINE float __int_as_float(int x) { return simt_bits<float>(x); }
SIMT_INLINE float __uint_as_float(unsigned x) { return simt_bits<float>(x); }
SIMT_INLINE long long __double_as_longlong(double x) { return simt_bits<long long>(x); }
SIMT_INLINE double __longlong_as_double(long long x) { return simt_bits<double>(x); }
SIMT_INLINE int __float2int_rn(float x) { return (int)__builtin_rintf(x); }
SIMT_INLINE int __float2int_rz(float x) { return (int)x; }
SIMT_INLINE int __float2int_rd(float x) { return (int)__builtin_floorf(x); }
SIMT_INLINE int __float2int_ru(float x) { return (int)__builtin_ceilf(x); }
SIMT_INLINE float __int2float_rn(int x) { return (float)x; }
SIMT_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
SIMT_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
SIMT_INLINE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
SIMT_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
SIMT_INLINE int __ffs(int x) { return __builtin_ffs(x); }
SIMT_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
SIMT_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
SIMT_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((unsigned long long)a * b >> 32);
}
SIMT_INLINE unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
SIMT_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    result |= (unsigned)(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return result;
}
template <class A, class B>
SIMT_INLINE int simt_dot4(unsigned a, unsigned b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(A)(a >> 8 * i) * (int)(B)(b >> 8 * i);
  return c;
}

SIMT_INLINE int __dp4a(int a, int b, int c) { return simt_dot4<int8_t, int8_t>(a, b, c); }
SIMT_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return simt_dot4<uint8_t, uint8_t>(a, b, c);
}

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define CUDART_INF_F (__builtin_inff())
#define CUDART_NAN_F (__builtin_nanf(""))
#define CUDART_INF (__builtin_inf())
#define CUDART_NAN (__builtin_nan(""))
#define CUDART_PI_F 3.141592654f
