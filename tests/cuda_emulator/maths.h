// Device functions without communication: maths, bits, loads.
//
// What CUDA rounds correctly is correctly rounded here. What it only approximates is
// moved by up to one unit in the last place, always the same way for the same argument,
// so that a kernel cannot come to rely on more accuracy than the device has.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>

namespace bed_emulator {

template <typename To, typename From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// `rounded`, or a neighbour; `exact` is the true value to twice the precision. Exact
// results, such as those of powers of four, stay exact.
inline float approximate(float rounded, double exact) {
  uint32_t bits = bit_cast<uint32_t>(rounded);
  if (rounded == exact || !isfinite(rounded) || rounded == 0) return rounded;
  uint32_t scrambled = (bits ^ bits >> 15) * 0x9e3779b1u >> 30;
  return bit_cast<float>(bits + (scrambled == 0 ? -1 : scrambled == 3 ? 1 : 0));
}

template <typename A, typename B>
using Common = std::common_type_t<A, B>;

}  // namespace bed_emulator

// The host's <math.h> has the rest, with overloads for float.
inline float rsqrtf(float x) {
  double exact = 1 / sqrt(double(x));
  return bed_emulator::approximate(float(exact), exact);
}
inline float rsqrt(float x) { return rsqrtf(x); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float __frsqrt_rn(float x) { return float(1 / sqrt(double(x))); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline float __frcp_rn(float x) { return 1 / x; }
inline double __drcp_rn(double x) { return 1 / x; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) {
  // Documented: the reciprocal of a large divisor is flushed to zero.
  if (fabsf(y) > 0x1p126f && fabsf(y) < INFINITY) return x * 0.0f;
  return bed_emulator::approximate(x / y, double(x) / double(y));
}

// As in CUDA, of a number and a NaN the number is chosen.
template <typename A, typename B>
inline bed_emulator::Common<A, B> min(A a, B b) {
  using T = bed_emulator::Common<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmin(T(a), T(b));
  return T(b) < T(a) ? T(b) : T(a);
}
template <typename A, typename B>
inline bed_emulator::Common<A, B> max(A a, B b) {
  using T = bed_emulator::Common<A, B>;
  if constexpr (std::is_floating_point_v<T>) return fmax(T(a), T(b));
  return T(a) < T(b) ? T(b) : T(a);
}

inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1) << (31 - i);
  return result;
}

inline int __float_as_int(float x) { return bed_emulator::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return bed_emulator::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return bed_emulator::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return bed_emulator::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) {
  return bed_emulator::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return bed_emulator::bit_cast<double>(x);
}

template <typename T>
inline T __ldg(const T* address) {
  return *address;
}
