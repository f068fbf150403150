// float16 and bfloat16: every operation is computed in float32 and rounded, which is exact for
// + - * / and the square root of both formats.
#pragma once

struct simt_raw_half {
  uint16_t bits;
};
struct simt_raw_bfloat {
  uint16_t bits;
};

template <class A, class B>
struct simt_only {};
template <class A>
struct simt_only<A, A> {
  using type = A;
};

// Through the raw types a value goes in and out of volatile memory while copies stay trivial.
#define SIMT_VOLATILE(T, RAW)                                                \
  SIMT_INLINE T(RAW raw) : bits(raw.bits) {}                                 \
  SIMT_INLINE operator RAW() const volatile { return {bits}; }               \
  SIMT_INLINE volatile T& operator=(RAW raw) volatile {                      \
    bits = raw.bits;                                                         \
    return *this;                                                            \
  }

struct half {
  uint16_t bits;
  half() = default;
  SIMT_VOLATILE(half, simt_raw_half)
  SIMT_INLINE half(float x) : bits(simt_float_to_half(x)) {}
  SIMT_INLINE half(double x) : bits(simt_float_to_half((float)x)) {}
  SIMT_INLINE half(int x) : bits(simt_float_to_half((float)x)) {}
  SIMT_INLINE half(unsigned x) : bits(simt_float_to_half((float)x)) {}
  SIMT_INLINE half(long x) : bits(simt_float_to_half((float)x)) {}
  SIMT_INLINE half(unsigned long x) : bits(simt_float_to_half((float)x)) {}
  SIMT_INLINE half(long long x) : bits(simt_float_to_half((float)x)) {}
  SIMT_INLINE half(unsigned long long x) : bits(simt_float_to_half((float)x)) {}
  // A template takes part for exactly this type, which keeps volatile copies unambiguous.
  template <class B, class = typename simt_only<B, struct nv_bfloat16>::type>
  SIMT_INLINE half(const B& x) : half((float)x) {}
  SIMT_INLINE operator float() const { return simt_half_to_float(bits); }
};
using __half = half;

SIMT_INLINE uint16_t simt_float_to_bfloat(float value) {
  const unsigned raw = simt_bits<unsigned>(value);
  if (value != value) return 0x7fff;
  return (uint16_t)((raw + 0x7fff + (raw >> 16 & 1)) >> 16);
}

struct nv_bfloat16 {
  uint16_t bits;
  nv_bfloat16() = default;
  SIMT_VOLATILE(nv_bfloat16, simt_raw_bfloat)
  SIMT_INLINE nv_bfloat16(float x) : bits(simt_float_to_bfloat(x)) {}
  SIMT_INLINE nv_bfloat16(double x) : bits(simt_float_to_bfloat((float)x)) {}
  SIMT_INLINE nv_bfloat16(int x) : bits(simt_float_to_bfloat((float)x)) {}
  SIMT_INLINE nv_bfloat16(unsigned x) : bits(simt_float_to_bfloat((float)x)) {}
  SIMT_INLINE nv_bfloat16(long x) : bits(simt_float_to_bfloat((float)x)) {}
  SIMT_INLINE nv_bfloat16(unsigned long x) : bits(simt_float_to_bfloat((float)x)) {}
  SIMT_INLINE nv_bfloat16(long long x) : bits(simt_float_to_bfloat((float)x)) {}
  SIMT_INLINE nv_bfloat16(unsigned long long x) : bits(simt_float_to_bfloat((float)x)) {}
  template <class H, class = typename simt_only<H, half>::type>
  SIMT_INLINE nv_bfloat16(const H& x) : nv_bfloat16((float)x) {}
  SIMT_INLINE operator float() const { return simt_bits<float>((unsigned)bits << 16); }
};
using __nv_bfloat16 = nv_bfloat16;

#define SIMT_PAIR(PAIR, T)                       \
  struct alignas(4) PAIR {                       \
    T x, y;                                      \
    PAIR() = default;                            \
    SIMT_INLINE PAIR(T a, T b) : x(a), y(b) {}   \
  };
SIMT_PAIR(half2, half)
SIMT_PAIR(nv_bfloat162, nv_bfloat16)
using __half2 = half2;
using __nv_bfloat162 = nv_bfloat162;
SIMT_INLINE half2 make_half2(half x, half y) { return {x, y}; }
SIMT_INLINE half2 __halves2half2(half x, half y) { return {x, y}; }
SIMT_INLINE nv_bfloat162 make_bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }
SIMT_INLINE nv_bfloat162 __halves2bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }

#define SIMT_BINARY(T, PAIR, NAME, EXPRESSION)                                              \
  SIMT_INLINE T NAME(T a, T b) {                                                            \
    const float x = (float)a, y = (float)b;                                                 \
    return T(EXPRESSION);                                                                   \
  }                                                                                         \
  SIMT_INLINE PAIR NAME##2(PAIR a, PAIR b) { return {NAME(a.x, b.x), NAME(a.y, b.y)}; }
#define SIMT_COMPARE(T, NAME, OP) \
  SIMT_INLINE bool NAME(T a, T b) { return (float)a OP (float)b; }
#define SIMT_UNARY(T, PAIR, NAME, EXPRESSION)                                               \
  SIMT_INLINE T NAME(T a) {                                                                 \
    const float x = (float)a;                                                               \
    return T(EXPRESSION);                                                                   \
  }
#define SIMT_MATH(T, PAIR, NAME, EXPRESSION)                                                \
  SIMT_UNARY(T, PAIR, h##NAME, EXPRESSION)                                                  \
  SIMT_INLINE PAIR h2##NAME(PAIR a) { return {h##NAME(a.x), h##NAME(a.y)}; }
#define SIMT_OPERATOR(T, PAIR, OP)                                                          \
  SIMT_INLINE T operator OP(T a, T b) { return T((float)a OP(float) b); }                   \
  SIMT_INLINE PAIR operator OP(PAIR a, PAIR b) { return {a.x OP b.x, a.y OP b.y}; }         \
  SIMT_INLINE T& operator OP##=(T& a, T b) { return a = a OP b; }

#define SIMT_FORMAT(T, PAIR)                                                                \
  SIMT_OPERATOR(T, PAIR, +)                                                                 \
  SIMT_OPERATOR(T, PAIR, -)                                                                 \
  SIMT_OPERATOR(T, PAIR, *)                                                                 \
  SIMT_OPERATOR(T, PAIR, /)                                                                 \
  SIMT_INLINE T operator-(T a) { return T(-(float)a); }                                     \
  SIMT_COMPARE(T, operator<, <)                                                             \
  SIMT_COMPARE(T, operator>, >)                                                             \
  SIMT_COMPARE(T, operator<=, <=)                                                           \
  SIMT_COMPARE(T, operator>=, >=)                                                           \
  SIMT_COMPARE(T, operator==, ==)                                                           \
  SIMT_COMPARE(T, operator!=, !=)                                                           \
  SIMT_COMPARE(T, __hlt, <)                                                                 \
  SIMT_COMPARE(T, __hgt, >)                                                                 \
  SIMT_COMPARE(T, __hle, <=)                                                                \
  SIMT_COMPARE(T, __hge, >=)                                                                \
  SIMT_COMPARE(T, __heq, ==)                                                                \
  SIMT_COMPARE(T, __hne, !=)                                                                \
  SIMT_BINARY(T, PAIR, __hadd, x + y)                                                       \
  SIMT_BINARY(T, PAIR, __hsub, x - y)                                                       \
  SIMT_BINARY(T, PAIR, __hmul, x* y)                                                        \
  SIMT_INLINE T __hdiv(T a, T b) { return a / b; }                                          \
  SIMT_INLINE PAIR __h2div(PAIR a, PAIR b) { return a / b; }                                \
  SIMT_BINARY(T, PAIR, __hmax, __builtin_fmaxf(x, y))                                       \
  SIMT_BINARY(T, PAIR, __hmin, __builtin_fminf(x, y))                                       \
  SIMT_BINARY(T, PAIR, __hmax_nan, x != x || y != y ? __builtin_nanf("") : x > y ? x : y)   \
  SIMT_BINARY(T, PAIR, __hmin_nan, x != x || y != y ? __builtin_nanf("") : x < y ? x : y)   \
  SIMT_INLINE T __hfma(T a, T b, T c) {                                                     \
    return T((float)((double)(float)a * (double)(float)b + (double)(float)c));              \
  }                                                                                         \
  SIMT_INLINE PAIR __hfma2(PAIR a, PAIR b, PAIR c) {                                        \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                  \
  }                                                                                         \
  SIMT_UNARY(T, PAIR, __habs, __builtin_fabsf(x))                                           \
  SIMT_UNARY(T, PAIR, __hneg, -x)                                                           \
  SIMT_INLINE bool __hisnan(T a) { return (float)a != (float)a; }                           \
  SIMT_INLINE int __hisinf(T a) { return __builtin_isinf_sign((float)a); }                  \
  SIMT_INLINE bool isinf(T a) { return __builtin_isinf((float)a); }                         \
  SIMT_INLINE bool isfinite(T a) { return __builtin_isfinite((float)a); }                   \
  SIMT_MATH(T, PAIR, exp, __builtin_expf(x))                                                \
  SIMT_MATH(T, PAIR, exp2, __builtin_exp2f(x))                                              \
  SIMT_MATH(T, PAIR, exp10, __builtin_powf(10.0f, x))                                       \
  SIMT_MATH(T, PAIR, log, __builtin_logf(x))                                                \
  SIMT_MATH(T, PAIR, log2, __builtin_log2f(x))                                              \
  SIMT_MATH(T, PAIR, log10, __builtin_log10f(x))                                            \
  SIMT_MATH(T, PAIR, sin, __builtin_sinf(x))                                                \
  SIMT_MATH(T, PAIR, cos, __builtin_cosf(x))                                                \
  SIMT_MATH(T, PAIR, tanh, __builtin_tanhf(x))                                              \
  SIMT_MATH(T, PAIR, tanh_approx, __builtin_tanhf(x))                                       \
  SIMT_MATH(T, PAIR, sqrt, __builtin_sqrtf(x))                                              \
  SIMT_MATH(T, PAIR, rsqrt, 1.0f / __builtin_sqrtf(x))                                      \
  SIMT_MATH(T, PAIR, rcp, 1.0f / x)                                                         \
  SIMT_MATH(T, PAIR, ceil, __builtin_ceilf(x))                                              \
  SIMT_MATH(T, PAIR, floor, __builtin_floorf(x))                                            \
  SIMT_MATH(T, PAIR, trunc, __builtin_truncf(x))                                            \
  SIMT_MATH(T, PAIR, rint, __builtin_rintf(x))

SIMT_FORMAT(half, half2)
SIMT_FORMAT(nv_bfloat16, nv_bfloat162)

SIMT_INLINE float __half2float(half x) { return (float)x; }
SIMT_INLINE half __float2half(float x) { return half(x); }
SIMT_INLINE half __float2half_rn(float x) { return half(x); }
SIMT_INLINE half2 __float2half2_rn(float x) { return {half(x), half(x)}; }
SIMT_INLINE half2 __floats2half2_rn(float x, float y) { return {half(x), half(y)}; }
SIMT_INLINE half2 __float22half2_rn(float2 v) { return {half(v.x), half(v.y)}; }
SIMT_INLINE float2 __half22float2(half2 v) { return {(float)v.x, (float)v.y}; }
SIMT_INLINE half2 __half2half2(half x) { return {x, x}; }
SIMT_INLINE half __low2half(half2 v) { return v.x; }
SIMT_INLINE half __high2half(half2 v) { return v.y; }
SIMT_INLINE float __low2float(half2 v) { return (float)v.x; }
SIMT_INLINE float __high2float(half2 v) { return (float)v.y; }
SIMT_INLINE unsigned short __half_as_ushort(half x) { return x.bits; }
SIMT_INLINE short __half_as_short(half x) { return (short)x.bits; }
SIMT_INLINE half __ushort_as_half(unsigned short x) { return simt_bits<half>(x); }
SIMT_INLINE half __short_as_half(short x) { return simt_bits<half>(x); }
SIMT_INLINE half __int2half_rn(int x) { return half(x); }
SIMT_INLINE int __half2int_rn(half x) { return __float2int_rn((float)x); }

SIMT_INLINE float __bfloat162float(nv_bfloat16 x) { return (float)x; }
SIMT_INLINE nv_bfloat16 __float2bfloat16(float x) { return nv_bfloat16(x); }
SIMT_INLINE nv_bfloat16 __float2bfloat16_rn(float x) { return nv_bfloat16(x); }
SIMT_INLINE nv_bfloat16 __double2bfloat16(double x) { return nv_bfloat16(x); }
SIMT_INLINE nv_bfloat162 __float2bfloat162_rn(float x) { return {nv_bfloat16(x), nv_bfloat16(x)}; }
SIMT_INLINE nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {nv_bfloat16(x), nv_bfloat16(y)};
}
SIMT_INLINE nv_bfloat162 __float22bfloat162_rn(float2 v) {
  return {nv_bfloat16(v.x), nv_bfloat16(v.y)};
}
SIMT_INLINE float2 __bfloat1622float2(nv_bfloat162 v) { return {(float)v.x, (float)v.y}; }
SIMT_INLINE nv_bfloat162 __bfloat162bfloat162(nv_bfloat16 x) { return {x, x}; }
SIMT_INLINE float __low2float(nv_bfloat162 v) { return (float)v.x; }
SIMT_INLINE float __high2float(nv_bfloat162 v) { return (float)v.y; }
SIMT_INLINE unsigned short __bfloat16_as_ushort(nv_bfloat16 x) { return x.bits; }
SIMT_INLINE nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return simt_bits<nv_bfloat16>(x); }
