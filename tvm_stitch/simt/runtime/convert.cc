// float16 <-> float32, rounding to nearest even.
#include "convert.h"

#include "abi.h"

using namespace simt;

extern "C" float simt_half_to_float(uint16_t half) { return widened_half(half); }

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
