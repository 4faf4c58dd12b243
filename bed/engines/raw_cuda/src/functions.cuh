// Functions of one eigenvalue, and their first divided differences.
//
// The twin of engines/scalar/functions.py, where the forms have their reasons; what an
// eigenvalue stands for is in bed/_functions.py. These are for a compiler that keeps
// subnormal numbers (`_module.py`): they are as good as any other here.
#pragma once
#include "scalar.cuh"

namespace bed {

// Values of bed._functions.Function; a test compares the two.
enum Function : int {
  identity = 0,
  sqrt_ = 1,
  invsqrt = 2,
  log_ = 3,
  exp_ = 4,
  power = 5,
  abs_ = 6,
  sign = 7,
  clamp = 8
};

// Numbers of a format: as in engines/_constants.py.
template <typename R>
struct Range;
template <>
struct Range<float> {
  static constexpr float tiny = 0x1p-126f, huge = 0x1.fffffep127f, exp_range = 87;
};
template <>
struct Range<double> {
  static constexpr double tiny = 0x1p-1022, huge = 0x1.fffffffffffffp1023,
                          exp_range = 708;
};

// A function and its parameters.
template <typename R>
struct Parameters {
  int function;  // a Function
  R first, second;
};

template <typename R>
BED_DEVICE R value(const Parameters<R>& f, R x) {
  switch (f.function) {
    case sqrt_:
      return sqrt(x);
    case invsqrt:
      return R(1) / sqrt(x);
    case log_:
      return log(x);
    case exp_:
      return exp(x);
    case power:
      return pow(x, f.first);
    case abs_:
      return magnitude(x);
    case sign:
      return x == R(0) ? R(0) : with_sign_of(R(1), x);
    case clamp: {
      const R raised = x < f.first ? f.first : x;
      return raised > f.second ? f.second : raised;
    }
    default:
      return x;
  }
}

// 1/(√a + √b); zero of two zeros.
template <typename R>
BED_DEVICE R sqrt_difference(R a, R b) {
  const R size = sqrt(a) + sqrt(b);
  return size > R(0) ? R(1) / size : R(0);
}

// −1/(x y (x + y)) with x = √a, y = √b, in an order that does not overflow.
template <typename R>
BED_DEVICE R invsqrt_difference(R a, R b) {
  const R x = sqrt(a), y = sqrt(b);
  return -((R(1) / x) * (R(1) / y)) / (x + y);
}

// log(a/b) for a > b > 0.
template <typename R>
BED_DEVICE R log_ratio(R a, R b) {
  const R ratio = (a - b) / b;
  return ratio <= Range<R>::huge ? log1p(ratio) : log(a) - log(b);
}

// log(1 + d/b)/d with d = a − b ≥ 0.
template <typename R>
BED_DEVICE R log_difference(R a, R b) {
  return a == b ? R(1) / a : log_ratio(a, b) / (a - b);
}

// eᵃ (1 − e⁻ᵈ)/d with d = a − b ≥ 0.
template <typename R>
BED_DEVICE R exp_difference(R a, R b) {
  // Of less than rounding, and of subnormal ones expm1 need not have all digits.
  if (a - b < Limits<R>::eps) return exp(a);
  const R d = a - b < Range<R>::huge ? a - b : Range<R>::huge;
  const R rest = -expm1(-d) / d;
  if (magnitude(a) < Range<R>::exp_range) return exp(a) * rest;
  const R half = exp(a * R(0.5));  // the result may be in range where eᵃ is not
  return half * rest * half;
}

// xᵖ·rest·factor: x^(p − 1) is not taken, as p − 1 is rounded, and large x would show.
template <typename R>
BED_DEVICE R times_power(R x, R p, R rest, R factor) {
  const R whole = pow(x, p);
  if (magnitude(factor) == R(1) && whole >= Range<R>::tiny && whole <= Range<R>::huge)
    return whole * rest * factor;
  if (factor == R(0)) return factor;
  const R half = pow(x, p * R(0.5));  // as of exp
  return half * rest * (half * factor);
}

// 1, −1, or (a + b)/(a − b) for a > 0 > b; zero of two zeros.
template <typename R>
BED_DEVICE R abs_difference(R a, R b) {
  if (b >= R(0)) return a > R(0) ? R(1) : R(0);
  if (a <= R(0)) return R(-1);
  const R unit = a - b > Range<R>::huge ? R(0.5) : R(1);
  a *= unit, b *= unit;
  return (a + b) / (a - b);
}

// Of xᵖ with a ≥ b: both positive but for whole numbers p. From aᵖ (1 − (b/a)ᵖ)/d, or
// bᵖ ((a/b)ᵖ − 1)/d if p < 0, with d = a − b, and (1 + (b/a)ᵖ) where one argument is
// negative and p odd. The cases meet in one power at the end, which is long.
template <typename R>
BED_DEVICE R power_difference(R a, R b, R p) {
  const bool odd = fmod(p, R(2)) != R(0), mixed = a > R(0) && b < R(0);
  const R factor = odd || b >= R(0) ? R(1) : abs_difference(a, b);
  const R larger = a > -b ? magnitude(a) : magnitude(b);
  const R smaller = a > -b ? magnitude(b) : magnitude(a);
  R rest;
  if (mixed && odd) {
    const R r = magnitude(p) * log_ratio(larger, smaller);
    const R unit = a - b > Range<R>::huge ? R(0.5) : R(1);
    rest = unit * (R(1) + exp(-r)) / (a * unit - b * unit);
  } else if (p == R(0)) {
    return 0;
  } else if (p == R(1)) {
    return factor;
  } else if (larger == R(0)) {
    return 0;
  } else if (larger == smaller) {
    rest = p / larger;
  } else if (smaller == R(0)) {
    rest = R(1) / larger;
  } else {
    const R r = p * log_ratio(larger, smaller);
    rest = (p > R(0) ? -expm1(-r) : expm1(r)) / (larger - smaller);
  }
  return times_power(p > R(0) ? larger : smaller, p, rest, factor);
}

// 2/(a − b) for a > 0 > b, half of that if one is zero, else zero.
template <typename R>
BED_DEVICE R sign_difference(R a, R b) {
  if (a > R(0) && b < R(0)) return R(1) / (a * R(0.5) - b * R(0.5));
  if (a > R(0) && b == R(0)) return R(1) / a;
  return a == R(0) && b < R(0) ? R(-1) / b : R(0);
}

// Of min(max(x, low), high); 1 at both ends.
template <typename R>
BED_DEVICE R clamp_difference(R a, R b, R low, R high) {
  if (a < low || b > high) return R(0);
  if (b >= low && a <= high) return R(1);
  R top = a < high ? a : high, bottom = b > low ? b : low;
  const R unit = a - b > Range<R>::huge ? R(0.5) : R(1);
  a *= unit, b *= unit, top *= unit, bottom *= unit;
  return (top - bottom) / (a - b);
}

// f[a, b], in any order of a and b.
template <typename R>
BED_DEVICE R difference(const Parameters<R>& f, R x, R y) {
  const R a = x < y ? y : x, b = x < y ? x : y;
  switch (f.function) {
    case sqrt_:
      return sqrt_difference(a, b);
    case invsqrt:
      return invsqrt_difference(a, b);
    case log_:
      return log_difference(a, b);
    case exp_:
      return exp_difference(a, b);
    case power:
      return power_difference(a, b, f.first);
    case abs_:
      return abs_difference(a, b);
    case sign:
      return sign_difference(a, b);
    case clamp:
      return clamp_difference(a, b, f.first, f.second);
    default:
      return R(1);
  }
}

}  // namespace bed
