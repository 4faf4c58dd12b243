// The 16-bit floating-point types: storage, and the exact conversion to float.
#pragma once
#include "float32.h"

namespace bed_emulator {

inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline float widen_half(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  if (!fraction) return float_of_bits(sign);
  // Subnormal, fraction · 2^-24: the leading bit becomes the implicit one.
  int top = 31 - __builtin_clz(fraction);
  uint32_t rest = (fraction << (23 - top)) & 0x7fffffu;
  return float_of_bits(sign | uint32_t(top - 24 + 127) << 23 | rest);
}

}  // namespace bed_emulator

struct __half {
  uint16_t bits;
  operator bed_emulator::Float() const { return bed_emulator::widen_half(bits); }
};

struct __nv_bfloat16 {
  uint16_t bits;
  operator bed_emulator::Float() const {
    return bed_emulator::float_of_bits(uint32_t(bits) << 16);
  }
};

inline bed_emulator::Float __half2float(__half value) { return value; }
inline bed_emulator::Float __bfloat162float(__nv_bfloat16 value) { return value; }
