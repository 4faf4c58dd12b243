// What the device only approximates: a result drawn from all that NVIDIA allows.
//
// The draw depends on the function, the bits of its arguments and `device_number`
// alone: a device gives the same argument the same result, and another device, of
// another number, another one. A kernel that is right for several numbers does not rely
// on more accuracy than is promised.
//
// The bounds are those of the manual of PTX (`.approx`) and of section 5.5,
// "Mathematical Functions", of the CUDA Programming Guide (the functions of <math.h>;
// in units in the last place, from the correctly rounded result).
#pragma once
#include "float32.h"

namespace bed_emulator {

// Of the device that a launch runs on.
static uint64_t device_number;

template <typename To, typename From>
BED_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Functions that are approximated; the numbers only tell draws apart.
enum class Approximated : uint64_t {
  rsqrt = 1,
  rcp,
  sqrt,
  div,
  exp,
  expm1,
  log,
  log1p,
  pow,
  rsqrt_seed,
  rcp_seed
};

// A whole number from -most to most.
template <typename T>
inline int draw(Approximated function, int most, T x, T y = T(0)) {
  uint64_t state =
      device_number * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(function);
  for (uint64_t word :
       {uint64_t(bit_cast<BitsOf<T>>(x)), uint64_t(bit_cast<BitsOf<T>>(y))}) {
    state = (state ^ word) * 0xbf58476d1ce4e5b9u;
    state ^= state >> 29;
  }
  state *= 0x94d049bb133111ebu;
  return int((state >> 32) * (2 * most + 1) >> 32) - most;
}

// `x` moved by so many units in the last place, away from zero if `steps` is positive.
// Zero, infinity and NaN stay, and no other number becomes one of them.
template <typename T>
inline T moved(T x, int steps) {
  if (x == T(0) || !isfinite(double(x))) return x;
  T to = bit_cast<T>(BitsOf<T>(bit_cast<BitsOf<T>>(x) + steps));
  return isfinite(double(to)) && to != T(0) && signbit(to) == signbit(x) ? to : x;
}

// One of the floats within so much of the exact result, relative to it.
inline Float within(Approximated function, double bound, double exact, Float x) {
  Float rounded = exact;
  int steps = draw(function, 2, x.raw());
  while (true) {
    float result = moved(rounded.raw(), steps);
    if (!steps || fabs(double(result) - exact) <= bound * fabs(exact))
      return Float(result).flushed();
    steps -= steps > 0 ? 1 : -1;
  }
}

// One of the numbers within so many units of the last place of a result.
inline Float within_ulps(Approximated function, int most, double exact, Float x,
                         Float y = 0) {
  float rounded = float(exact);
  return Float(moved(rounded, draw(function, most, x.raw(), y.raw()))).flushed();
}
inline double within_ulps(Approximated function, int most, long double exact, double x,
                          double y = 0) {
  return moved(double(exact), draw(function, most, x, y));
}

}  // namespace bed_emulator

inline bed_emulator::Float rsqrtf(bed_emulator::Float x) {
  using namespace bed_emulator;
  constexpr double bound = 0x1.125fbee250664p-23;  // 2^-22.9
  return within(Approximated::rsqrt, bound, 1 / sqrt(double(x)), x);
}
inline bed_emulator::Float rsqrt(bed_emulator::Float x) { return rsqrtf(x); }
inline double rsqrt(double x) {
  using namespace bed_emulator;
  return within_ulps(Approximated::rsqrt, 1, 1 / sqrtl(x), x);
}
// div.approx: beyond 2^126 the reciprocal of the divisor is flushed.
inline bed_emulator::Float __fdividef(bed_emulator::Float x, bed_emulator::Float y) {
  using namespace bed_emulator;
  double size = fabs(double(y));
  if (size > 0x1p126 && size < HUGE_VAL) return x * copysign(0.0, double(y));
  return within_ulps(Approximated::div, 2, double(x) / double(y), x, y);
}

// Instructions that no function of CUDA stands for.
// rcp.approx and sqrt.approx of floats.
inline bed_emulator::Float bed_rcp_approx(bed_emulator::Float x) {
  using namespace bed_emulator;
  return within_ulps(Approximated::rcp, 1, 1 / double(x), x);
}
inline bed_emulator::Float bed_sqrt_approx(bed_emulator::Float x) {
  using namespace bed_emulator;
  return within(Approximated::sqrt, 0x1p-23, sqrt(double(x)), x);
}

namespace bed_emulator {

// The upper word of a double, the rest zero.
inline double upper_word(double x) {
  return bit_cast<double>(bit_cast<uint64_t>(x) >> 32 << 32);
}
// rcp and rsqrt.approx.ftz.f64, from the upper word of the argument to that of the
// result. No bound is published; the last of the 20 bits may be another here.
template <typename F>
inline double seed_from(Approximated function, double x, F exact) {
  double y = upper_word(x);
  if (fabs(y) < 0x1p-1022) y = copysign(0.0, y);
  double result = upper_word(exact(y));
  if (result == 0 || !isfinite(result)) return result;
  auto word = bit_cast<uint64_t>(result) >> 32;
  result = bit_cast<double>((word + draw(function, 1, y)) << 32);
  return fabs(result) < 0x1p-1022 ? copysign(0.0, result) : result;
}

}  // namespace bed_emulator

inline double bed_rcp_approx(double x) {
  using namespace bed_emulator;
  return seed_from(Approximated::rcp_seed, x, [](double y) { return 1 / y; });
}
inline double bed_rsqrt_approx(double x) {
  using namespace bed_emulator;
  return seed_from(Approximated::rsqrt_seed, x, [](double y) { return 1 / sqrt(y); });
}

// Functions of <math.h>, which the host computes too well: emulator.h puts these in
// their place.
#define BED_FUNCTION(name, ulps_float, ulps_double)                         \
  inline bed_emulator::Float bed_##name(bed_emulator::Float x) {            \
    using namespace bed_emulator;                                           \
    return within_ulps(Approximated::name, ulps_float, name(double(x)), x); \
  }                                                                         \
  inline double bed_##name(double x) {                                      \
    using namespace bed_emulator;                                           \
    return within_ulps(Approximated::name, ulps_double, name##l(x), x);     \
  }
BED_FUNCTION(expm1, 1, 1)
BED_FUNCTION(log, 1, 1)
BED_FUNCTION(log1p, 1, 1)
#undef BED_FUNCTION
// Documented: these are one exactly where the argument or the exponent is zero, and
// powers of one.
inline bed_emulator::Float bed_exp(bed_emulator::Float x) {
  using namespace bed_emulator;
  return x == 0 ? Float(1) : within_ulps(Approximated::exp, 2, exp(double(x)), x);
}
inline double bed_exp(double x) {
  using namespace bed_emulator;
  return x == 0 ? 1 : within_ulps(Approximated::exp, 1, expl(x), x);
}
inline bed_emulator::Float bed_pow(bed_emulator::Float x, bed_emulator::Float y) {
  using namespace bed_emulator;
  double exact = pow(double(x), double(y));
  return x == 1 || y == 0 ? Float(1) : within_ulps(Approximated::pow, 4, exact, x, y);
}
inline double bed_pow(double x, double y) {
  using namespace bed_emulator;
  return x == 1 || y == 0 ? 1 : within_ulps(Approximated::pow, 2, powl(x, y), x, y);
}
