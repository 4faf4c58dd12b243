// `float` of the device: what it flushes as PTX does with `.ftz`, which is not quite
// what the host's processor flushes in the mode of float_mode.h.
//
// Where the mode is set, the manual of PTX (add, sub, mul, fma, div, abs, neg, min,
// max, setp, cvt) has all of these take subnormal operands for zero of the same sign
// and give no subnormal results, while moves, selections, shuffles, loads and stores,
// copysign and reinterpreted bits keep them. The processor does so in arithmetic,
// comparisons and conversions; a sign it changes on the bits, which this class
// therefore does not leave to it. The compiler sees through the class, and contracts
// a·b + c as before.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#define BED_INLINE inline __attribute__((always_inline))

namespace bed_emulator {

class Float;

template <typename A>
constexpr bool is_number = std::is_arithmetic_v<A>;
template <typename A>
constexpr bool is_wide = std::is_same_v<A, double> || std::is_same_v<A, long double>;
// What the arithmetic of a Float and a number of the host's gives.
template <typename A>
using With = std::conditional_t<is_wide<A>, A, Float>;
template <typename A>
using IfNumber = std::enable_if_t<is_number<A>, int>;

class Float {
 public:
  Float() = default;
  template <typename A, IfNumber<A> = 0>
  constexpr BED_INLINE Float(A x) : x_(static_cast<float>(x)) {}
  template <typename A, IfNumber<A> = 0>
  constexpr BED_INLINE explicit operator A() const {
    return static_cast<A>(x_);
  }
  // The number of the host's with these bits.
  constexpr BED_INLINE float raw() const { return x_; }

  BED_INLINE Float operator-() const { return -flushed().x_; }
  BED_INLINE Float operator+() const { return *this; }
  BED_INLINE Float abs() const { return __builtin_fabsf(flushed().x_); }
  // Subnormal numbers are zero where the mode is set: what a multiplication by one does
  // of which the compiler does not know that it is by one.
  BED_INLINE Float flushed() const {
    float one = 1;
    asm("" : "+r"(one));
    return x_ * one;
  }

  template <typename A>
  BED_INLINE Float& operator+=(A y) {
    return *this = *this + y;
  }
  template <typename A>
  BED_INLINE Float& operator-=(A y) {
    return *this = *this - y;
  }
  template <typename A>
  BED_INLINE Float& operator*=(A y) {
    return *this = *this * y;
  }
  template <typename A>
  BED_INLINE Float& operator/=(A y) {
    return *this = *this / y;
  }

#define BED_OPERATOR(result_of_two, result_with, op)              \
  friend BED_INLINE result_of_two operator op(Float x, Float y) { \
    return x.x_ op y.x_;                                          \
  }                                                               \
  template <typename A, IfNumber<A> = 0>                          \
  friend BED_INLINE result_with operator op(Float x, A y) {       \
    if constexpr (is_wide<A>)                                     \
      return static_cast<A>(x.x_) op y;                           \
    else                                                          \
      return x op Float(y);                                       \
  }                                                               \
  template <typename A, IfNumber<A> = 0>                          \
  friend BED_INLINE result_with operator op(A x, Float y) {       \
    if constexpr (is_wide<A>)                                     \
      return x op static_cast<A>(y.x_);                           \
    else                                                          \
      return Float(x) op y;                                       \
  }
  BED_OPERATOR(Float, With<A>, +)
  BED_OPERATOR(Float, With<A>, -)
  BED_OPERATOR(Float, With<A>, *)
  BED_OPERATOR(Float, With<A>, /)
  BED_OPERATOR(bool, bool, ==)
  BED_OPERATOR(bool, bool, !=)
  BED_OPERATOR(bool, bool, <)
  BED_OPERATOR(bool, bool, <=)
  BED_OPERATOR(bool, bool, >)
  BED_OPERATOR(bool, bool, >=)
#undef BED_OPERATOR

 private:
  float x_;
};
static_assert(sizeof(Float) == 4 && std::is_trivially_copyable_v<Float>);

template <typename T>
constexpr bool is_floating = std::is_floating_point_v<T> || std::is_same_v<T, Float>;

// Of a number and a NaN the number; -0 is below +0, as the manual has it.
BED_INLINE Float minimum(Float a, Float b) {
  float x = a.flushed().raw(), y = b.flushed().raw();
  if (x != x) return y;
  return x < y || y != y || (x == y && __builtin_signbit(x)) ? x : y;
}
BED_INLINE Float maximum(Float a, Float b) {
  float x = a.flushed().raw(), y = b.flushed().raw();
  if (x != x) return y;
  return x > y || y != y || (x == y && !__builtin_signbit(x)) ? x : y;
}

}  // namespace bed_emulator
