// float16 <-> float32, rounding to nearest even.
#include <string.h>

#include "abi.h"

namespace {
uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace

extern "C" float simt_half_to_float(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00) return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // Moving the exponent by a multiplication makes subnormals come out right.
  return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));
}

extern "C" uint16_t simt_float_to_half(float value) {
  const uint32_t bits = bits_of(value);
  const uint16_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or is infinite
  if (magnitude < 0x38800000) {                       // subnormal: let the adder round
    return sign | static_cast<uint16_t>(bits_of(float_of(magnitude) + 0.5f) - 0x3f000000);
  }
  const uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>(rounded >> 13);
}
