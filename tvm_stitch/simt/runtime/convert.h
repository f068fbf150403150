// Halves to float32, inline for the instructions that take hundreds of them.
#pragma once
#include <stdint.h>
#include <string.h>

namespace simt {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline float widened_half(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00) return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Moving the exponent by a multiplication makes subnormals come out right.
  return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}
inline float widened_bfloat(uint16_t bfloat) { return float_of(uint32_t{bfloat} << 16); }

}  // namespace simt
