// Householder reflectors. The convention, as in every engine but the reference:
//
//   H = I − τ u uᴴ,  u₀ = 1,   Hᴴ x = β e₁,  β real
//
// The device twin of engines/scalar/reflectors.py.
#pragma once
#include "scalar.cuh"

namespace bed {

template <typename T>
struct Reflector {
  RealOf<T> beta;
  T tau;    // zero: H is the identity
  T scale;  // u is x times this below its first entry
};

// From x₀ and the squared norm of the rest of x. What u is scaled by is nearly exact,
// as its error is that of all entries alike, and comes back fourfold in HᴴH.
template <typename T>
BED_DEVICE Reflector<T> reflector(T first, RealOf<T> tail) {
  using R = RealOf<T>;
  const R re = real(first), im = imag(first);
  if (tail + im * im <= Limits<R>::negligible) return {re, make<T>(0), make<T>(0)};
  const R total = tail + (re * re + im * im);
  const R inverse = re > 0 ? -reciprocal_sqrt(total) : reciprocal_sqrt(total);
  const R beta = total * inverse;
  const R gap = re - beta;
  const T tau = make<T>(-gap * inverse, -im * inverse);
  if (!Traits<T>::is_complex) return {beta, tau, make<T>(near_reciprocal(gap))};
  const R square = near_reciprocal(gap * gap + im * im);
  return {beta, tau, make<T>(gap * square, -im * square)};
}

}  // namespace bed
