// rsqrt.approx.ftz.f64 and rcp.approx.ftz.f64, from which double precision is refined.
//
// They read the upper half of a number and return one, and NVIDIA calls them gross
// without a figure. Half of the 2⁻¹⁹ that the kernels allow is used up here: 2⁻²⁰,
// always the same way for the same argument, before the lower half is cut off.
#pragma once
#include "maths.h"

namespace bed_emulator {

inline uint64_t upper_half(uint64_t bits) { return bits & 0xffffffff00000000u; }

inline double gross(double exact, double argument) {
  uint64_t scrambled = bit_cast<uint64_t>(argument) * 0x9e3779b97f4a7c15u >> 32;
  double moved = exact * (1 + (double(scrambled) * 0x1p-31 - 1) * 0x1p-20);
  return bit_cast<double>(upper_half(bit_cast<uint64_t>(moved)));
}

inline double flushed(double x) { return fabs(x) < 0x1p-1022 ? copysign(0.0, x) : x; }

}  // namespace bed_emulator

inline double bed_rsqrt_approx(double x) {
  x = bed_emulator::flushed(x);
  return bed_emulator::gross(1 / sqrt(x), x);
}
inline double bed_rcp_approx(double x) {
  x = bed_emulator::flushed(x);
  return bed_emulator::gross(1 / x, x);
}
