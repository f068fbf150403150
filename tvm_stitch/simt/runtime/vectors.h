// CUDA's vector types: float4, uint2, longlong2, ... with their sizes and alignments.
#pragma once

#define SIMT_VECTORS(NAME, T, ALIGN2, ALIGN4)                                              \
  struct NAME##1 {                                                                         \
    T x;                                                                                   \
  };                                                                                       \
  struct alignas(ALIGN2) NAME##2 {                                                         \
    T x, y;                                                                                \
  };                                                                                       \
  struct NAME##3 {                                                                         \
    T x, y, z;                                                                             \
  };                                                                                       \
  struct alignas(ALIGN4) NAME##4 {                                                         \
    T x, y, z, w;                                                                          \
  };                                                                                       \
  SIMT_INLINE NAME##1 make_##NAME##1(T x) { return {x}; }                                  \
  SIMT_INLINE NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                          \
  SIMT_INLINE NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                  \
  SIMT_INLINE NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }

SIMT_VECTORS(char, signed char, 2, 4)
SIMT_VECTORS(uchar, unsigned char, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(ushort, unsigned short, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(uint, unsigned int, 8, 16)
SIMT_VECTORS(long, long, 16, 16)
SIMT_VECTORS(ulong, unsigned long, 16, 16)
SIMT_VECTORS(longlong, long long, 16, 16)
SIMT_VECTORS(ulonglong, unsigned long long, 16, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(double, double, 16, 16)
#undef SIMT_VECTORS

// Vector atomics add component by component.
SIMT_INLINE float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }
SIMT_INLINE float4 operator+(float4 a, float4 b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}
SIMT_INLINE float2 __fadd2_rn(float2 a, float2 b) { return a + b; }
SIMT_INLINE float2 __fmul2_rn(float2 a, float2 b) { return {a.x * b.x, a.y * b.y}; }
SIMT_INLINE float2 __ffma2_rn(float2 a, float2 b, float2 c) {
  return {__builtin_fmaf(a.x, b.x, c.x), __builtin_fmaf(a.y, b.y, c.y)};
}
