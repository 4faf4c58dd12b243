// Scaling by powers of two on the bits of a number, exact for subnormal numbers even
// where the compiler flushes them to zero in ordinary arithmetic.
//
// `Bits` of a magnitude order like the magnitude; of a double only the upper word is
// looked at, which holds the exponent.
#pragma once
#include "scalar.cuh"

namespace bed {

using Bits = unsigned;

template <typename R>
struct Format;
template <>
struct Format<float> {
  static constexpr int shift = 23;  // of the exponent within Bits
  static constexpr int bias = 127;
  static constexpr Bits infinity = 0x7f800000u;
};
template <>
struct Format<double> {
  static constexpr int shift = 20;
  static constexpr int bias = 1023;
  static constexpr Bits infinity = 0x7ff00000u;
};

BED_DEVICE Bits magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }
BED_DEVICE Bits magnitude_bits(double x) {
  return static_cast<Bits>(__double_as_longlong(x) >> 32) & 0x7fffffffu;
}
template <typename R>
BED_DEVICE Bits magnitude_bits(Complex<R> x) {
  Bits re = magnitude_bits(x.re), im = magnitude_bits(x.im);
  return re > im ? re : im;
}

// Inf and NaN have the largest bits of all.
template <typename R>
BED_DEVICE bool is_finite(Bits bits) {
  return bits < Format<R>::infinity;
}

// Exponent that brings the largest magnitude of a matrix to [2, 4): a·2^-e is exact,
// and both 2^-e and the largest entry are normal numbers. Subnormal matrices come as
// close as their factor goes.
template <typename R>
BED_DEVICE int scaling_exponent(Bits largest) {
  int biased = static_cast<int>(largest >> Format<R>::shift);
  return (biased > 0 ? biased : 1) - Format<R>::bias - 1;
}

// 2^e, subnormal for the smallest e that scaling_exponent gives.
template <typename R>
BED_DEVICE R power_of_two(int e);
template <>
BED_DEVICE float power_of_two<float>(int e) {
  return __uint_as_float(e >= -126 ? static_cast<unsigned>(e + 127) << 23
                                   : 1u << (149 + e));
}
template <>
BED_DEVICE double power_of_two<double>(int e) {
  return __longlong_as_double(e >= -1022 ? static_cast<long long>(e + 1023) << 52
                                         : 1ll << (1074 + e));
}

// x·y with subnormal operands and results.
BED_DEVICE float multiply_exactly(float x, float y) {
#ifdef BED_EMULATOR
  return bed_mul_rn(x, y);
#else
  float product;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(x), "f"(y));
  return product;
#endif
}
BED_DEVICE double multiply_exactly(double x, double y) { return x * y; }
template <typename R>
BED_DEVICE Complex<R> multiply_exactly(Complex<R> x, R y) {
  return {multiply_exactly(x.re, y), multiply_exactly(x.im, y)};
}

// The conjugate of a number that is not scaled yet: a negation flushes subnormal ones.
template <typename R>
BED_DEVICE R conj_exactly(R x) {
  return x;
}
template <typename R>
BED_DEVICE Complex<R> conj_exactly(Complex<R> x) {
  return {x.re, multiply_exactly(x.im, R(-1))};
}

template <typename R>
BED_DEVICE R not_a_number();
template <>
BED_DEVICE float not_a_number<float>() {
  return __uint_as_float(0x7fffffffu);
}
template <>
BED_DEVICE double not_a_number<double>() {
  return __longlong_as_double(0x7fffffffffffffffll);
}

}  // namespace bed
