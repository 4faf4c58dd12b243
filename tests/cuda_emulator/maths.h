// Device functions without communication: maths, bits, loads.
//
// What CUDA rounds correctly is correctly rounded here; the rest is in approximate.h.
#pragma once
#include <stdlib.h>

#include "approximate.h"

namespace bed_emulator {

template <typename A, typename B>
using Common = std::common_type_t<A, B>;

// Found by the type of their arguments; the host's <math.h> has them for doubles.
BED_INLINE Float abs(Float x) { return x.abs(); }
BED_INLINE Float fabs(Float x) { return x.abs(); }
BED_INLINE Float sqrt(Float x) { return __builtin_sqrtf(x.raw()); }
BED_INLINE Float fmod(Float x, Float y) {
  return Float(__builtin_fmodf(x.flushed().raw(), y.flushed().raw())).flushed();
}
BED_INLINE Float fma(Float x, Float y, Float z) {
  return __builtin_fmaf(x.raw(), y.raw(), z.raw());
}
// Bits of x and of the sign: no subnormal number is flushed.
BED_INLINE Float copysign(Float x, Float sign) {
  return __builtin_copysignf(x.raw(), sign.raw());
}
BED_INLINE bool isnan(Float x) { return __builtin_isnan(x.raw()); }
BED_INLINE bool isinf(Float x) { return __builtin_isinf(x.raw()); }
BED_INLINE bool isfinite(Float x) { return __builtin_isfinite(x.raw()); }
BED_INLINE bool signbit(Float x) { return __builtin_signbit(x.raw()); }

}  // namespace bed_emulator

// The same by their names in C; overloads, so that a Float is not ambiguous.
BED_INLINE bed_emulator::Float fabsf(bed_emulator::Float x) { return x.abs(); }
BED_INLINE bed_emulator::Float sqrtf(bed_emulator::Float x) { return sqrt(x); }
BED_INLINE bed_emulator::Float fmaf(bed_emulator::Float x, bed_emulator::Float y,
                                    bed_emulator::Float z) {
  return fma(x, y, z);
}
BED_INLINE bed_emulator::Float copysignf(bed_emulator::Float x,
                                         bed_emulator::Float sign) {
  return copysign(x, sign);
}
BED_INLINE bed_emulator::Float fminf(bed_emulator::Float x, bed_emulator::Float y) {
  return bed_emulator::minimum(x, y);
}
BED_INLINE bed_emulator::Float fmaxf(bed_emulator::Float x, bed_emulator::Float y) {
  return bed_emulator::maximum(x, y);
}
inline bed_emulator::Float __frsqrt_rn(bed_emulator::Float x) {
  return 1 / sqrt(double(x));
}
inline bed_emulator::Float __fsqrt_rn(bed_emulator::Float x) { return sqrt(x); }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline bed_emulator::Float __frcp_rn(bed_emulator::Float x) { return 1 / x; }
inline double __drcp_rn(double x) { return 1 / x; }
inline bed_emulator::Float __fdiv_rn(bed_emulator::Float x, bed_emulator::Float y) {
  return x / y;
}

// As in CUDA, of a number and a NaN the number is chosen.
template <typename A, typename B>
inline bed_emulator::Common<A, B> min(A a, B b) {
  using T = bed_emulator::Common<A, B>;
  if constexpr (std::is_same_v<T, bed_emulator::Float>)
    return bed_emulator::minimum(a, b);
  else if constexpr (std::is_floating_point_v<T>)
    return fmin(T(a), T(b));
  else
    return T(b) < T(a) ? T(b) : T(a);
}
template <typename A, typename B>
inline bed_emulator::Common<A, B> max(A a, B b) {
  using T = bed_emulator::Common<A, B>;
  if constexpr (std::is_same_v<T, bed_emulator::Float>)
    return bed_emulator::maximum(a, b);
  else if constexpr (std::is_floating_point_v<T>)
    return fmax(T(a), T(b));
  else
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

inline int __float_as_int(bed_emulator::Float x) {
  return bed_emulator::bit_cast<int>(x);
}
inline unsigned __float_as_uint(bed_emulator::Float x) {
  return bed_emulator::bit_cast<unsigned>(x);
}
inline bed_emulator::Float __int_as_float(int x) {
  return bed_emulator::bit_cast<bed_emulator::Float>(x);
}
inline bed_emulator::Float __uint_as_float(unsigned x) {
  return bed_emulator::bit_cast<bed_emulator::Float>(x);
}
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
