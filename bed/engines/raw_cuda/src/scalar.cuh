// Numbers: real and complex types under one set of names, and the constants and
// functions that depend on the precision. Included first by every other file.
#pragma once

#define BED_DEVICE __device__ __forceinline__
#ifndef BED_EMULATOR
// Dynamic shared memory of the block; a test on the CPU brings its own definition.
#define BED_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

namespace bed {

template <typename R>
struct Complex {
  R re, im;
};

template <typename T>
struct Traits {
  using Real = T;
  static constexpr bool is_complex = false;
};
template <typename R>
struct Traits<Complex<R>> {
  using Real = R;
  static constexpr bool is_complex = true;
};
template <typename T>
using RealOf = typename Traits<T>::Real;

// Constants for matrices scaled to a largest entry in [2, 4). The compiler may flush
// subnormal numbers to zero: nothing is ever compared with one.
template <typename R>
struct Limits;
template <>
struct Limits<float> {
  static constexpr float eps = 0x1p-24f;          // unit roundoff
  static constexpr float negligible = 0x1p-102f;  // smallest normal / eps
  static constexpr float floor = 0x1p-51f;        // its root: what is smaller drops
  static constexpr float smallest = 0x1p-126f;    // normal
  static constexpr float lift = 0x1p64f;  // times floor times the smallest is normal
};
template <>
struct Limits<double> {
  static constexpr double eps = 0x1p-53;
  static constexpr double negligible = 0x1p-969;
  static constexpr double floor = 0x1p-484;
  static constexpr double smallest = 0x1p-1022;
  static constexpr double lift = 0x1p512;
};

// Parts of a number; the imaginary part of a real one is zero.
template <typename R>
BED_DEVICE R real(R x) {
  return x;
}
template <typename R>
BED_DEVICE R real(Complex<R> x) {
  return x.re;
}
template <typename R>
BED_DEVICE R imag(R) {
  return R(0);
}
template <typename R>
BED_DEVICE R imag(Complex<R> x) {
  return x.im;
}

// A number from its parts; the second is dropped for a real type.
template <typename T>
struct Make {
  static BED_DEVICE T of(T re, T) { return re; }
};
template <typename R>
struct Make<Complex<R>> {
  static BED_DEVICE Complex<R> of(R re, R im) { return {re, im}; }
};
template <typename T>
BED_DEVICE T make(RealOf<T> re, RealOf<T> im = RealOf<T>(0)) {
  return Make<T>::of(re, im);
}

template <typename R>
BED_DEVICE R conj(R x) {
  return x;
}
template <typename R>
BED_DEVICE Complex<R> conj(Complex<R> x) {
  return {x.re, -x.im};
}

// Elements between what threads have in shared memory, so that equal elements lie in
// different banks.
template <int COUNT>
constexpr int odd = COUNT | 1;

// acc + x·y.
template <typename R>
BED_DEVICE R madd(R acc, R x, R y) {
  return acc + x * y;
}
template <typename R>
BED_DEVICE Complex<R> madd(Complex<R> acc, Complex<R> x, Complex<R> y) {
  acc.re += x.re * y.re;
  acc.re -= x.im * y.im;
  acc.im += x.re * y.im;
  acc.im += x.im * y.re;
  return acc;
}

// acc + s·y for real s.
template <typename R>
BED_DEVICE R axpy(R acc, R s, R y) {
  return acc + s * y;
}
template <typename R>
BED_DEVICE Complex<R> axpy(Complex<R> acc, R s, Complex<R> y) {
  return {acc.re + s * y.re, acc.im + s * y.im};
}

// s·x for real s.
template <typename R>
BED_DEVICE R scale(R x, R s) {
  return x * s;
}
template <typename R>
BED_DEVICE Complex<R> scale(Complex<R> x, R s) {
  return {x.re * s, x.im * s};
}

template <typename T>
BED_DEVICE T negate(T x) {
  return make<T>(-real(x), -imag(x));
}
template <typename T>
BED_DEVICE T multiply(T x, T y) {
  return madd(make<T>(0), x, y);
}
// Real part of conj(x)·y.
template <typename T>
BED_DEVICE RealOf<T> inner(T x, T y) {
  return Traits<T>::is_complex ? real(x) * real(y) + imag(x) * imag(y)
                               : real(x) * real(y);
}

// What the hardware has: 1/√x and 1/x for normal x, in double precision with a relative
// error below 2⁻¹⁹ (of the upper half of a number, made from the upper half of x).
BED_DEVICE float reciprocal_sqrt_seed(float x) { return rsqrtf(x); }
#ifdef BED_EMULATOR
BED_DEVICE double reciprocal_sqrt_seed(double x) { return bed_rsqrt_approx(x); }
BED_DEVICE double reciprocal_seed(double x) { return bed_rcp_approx(x); }
#else
BED_DEVICE double reciprocal_sqrt_seed(double x) {
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
}
BED_DEVICE double reciprocal_seed(double x) {
  double y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
}
#endif

// y/(seed·√x) for y = ±seed or zero, so that rotations keep c² + s² at one to working
// precision. With seed = (1 + δ)/√x and h = 1 − x·seed² = −2δ − δ², the factor is
// (1 − h)^(−1/2) = 1 + h/2 + 3h²/8 + 5h³/16 + …: in single precision |δ| < 2⁻²² leaves
// 3h²/8 < 2⁻⁴³; in double |δ| < 2⁻¹⁹ leaves 5h³/16 < 2⁻⁵⁵, a quarter of an ulp. The
// library's rsqrt takes the same step from the same seed, and tests for zero,
// subnormal and infinite x besides.
BED_DEVICE float refined(float y, float seed, float x) {
  return y * (1.5f - (0.5f * x * seed) * seed);
}
BED_DEVICE double refined(double y, double seed, double x) {
  const double h = 1 - x * (seed * seed);
  return y + (y * h) * (0.5 + 0.375 * h);
}

// 1/√x for normal x.
template <typename R>
BED_DEVICE R reciprocal_sqrt(R x) {
  const R seed = reciprocal_sqrt_seed(x);
  return refined(seed, seed, x);
}

// x·y + z with one rounding, which does not depend on what the compiler contracts.
BED_DEVICE float fused(float x, float y, float z) { return fmaf(x, y, z); }
BED_DEVICE double fused(double x, double y, double z) { return fma(x, y, z); }

// 1/x for normal x. In double precision h = 1 − x·seed has |h| < 2⁻¹⁹, and
// seed·(1 + h + h²) leaves h³ < 2⁻⁵⁷.
BED_DEVICE float reciprocal(float x) { return __fdividef(1.0f, x); }
BED_DEVICE double reciprocal(double x) {
  const double seed = reciprocal_seed(x), h = fused(-x, seed, 1.0);
  return fused(seed, fused(h, h, h), seed);
}

// √x for normal x and x/y, exact where the result is a number of the type: the error of
// an approximation is then found exactly, and taken away.
template <typename R>
BED_DEVICE R square_root(R x) {
  const R inverse = reciprocal_sqrt(x), root = x * inverse;
  return fused(fused(-root, root, x), R(0.5) * inverse, root);
}
template <typename R>
BED_DEVICE R divide_exactly(R x, R y) {
  const R inverse = reciprocal(y), quotient = x * inverse;
  return fused(fused(-quotient, y, x), inverse, quotient);
}

// 1/x to less than a unit in the last place.
BED_DEVICE float near_reciprocal(float x) { return divide_exactly<float>(1, x); }
BED_DEVICE double near_reciprocal(double x) { return 1 / x; }

BED_DEVICE float magnitude(float x) { return fabsf(x); }
BED_DEVICE double magnitude(double x) { return fabs(x); }

BED_DEVICE float with_sign_of(float x, float sign) { return copysignf(x, sign); }
BED_DEVICE double with_sign_of(double x, double sign) { return copysign(x, sign); }

}  // namespace bed
