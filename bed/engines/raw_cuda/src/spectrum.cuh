// What the eigenvalues of a matrix stand for, and the function of a launch: see
// bed/_functions.py.
#pragma once
#include "batch.cuh"
#include "functions.cuh"

namespace bed {

// A matrix of a batch, or a vector of one: any strides, in elements.
template <typename T>
struct Strided {
  const T* data;
  long long stride, row, column;

  BED_DEVICE T at(long long index, int i, int j = 0) const {
    return data[index * stride + i * row + j * column];
  }
};

// Where the largest |w| is s, and eps that of the dtype.
template <typename R>
struct Spectral {
  Parameters<R> f;
  R floor;  // in s, or negative without a floor
  R band;   // of zero, in s, or negative for a function that has values everywhere
  bool singular;  // whether there is no value at zero

  BED_DEVICE R lifted_to(R s) const { return floor * s; }
  // The number that an eigenvalue stands for.
  BED_DEVICE R meant(R x, R s) const {
    if (floor >= R(0)) return x < lifted_to(s) ? lifted_to(s) : x;
    return x < R(0) && x >= -(band * s) ? R(0) : x;
  }
  // Whether that has no value.
  BED_DEVICE bool outside(R x) const {
    return (band >= R(0) && x < R(0)) || (singular && x == R(0));
  }
  BED_DEVICE R value_at(R x, R s) const { return value(f, meant(x, s)); }
  // f[x, y] of two eigenvalues. Where both are below the floor it is zero, although f′
  // may be infinite there.
  BED_DEVICE R slope(R x, R y, R s) const {
    R lifted = 1;
    if (floor >= R(0)) {
      const R a = x < y ? y : x, b = x < y ? x : y;
      lifted = clamp_difference(a, b, lifted_to(s), Range<R>::huge);
    }
    if (lifted == R(0)) return lifted;
    return lifted * difference(f, meant(x, s), meant(y, s));
  }
};

// A kernel takes it as plain numbers.
#define BED_SPECTRAL_PARAMETERS \
  int function, double p, double q, double floor, double band, int singular
#define BED_SPECTRAL(R)                              \
  {{function, static_cast<R>(p), static_cast<R>(q)}, \
   static_cast<R>(floor),                            \
   static_cast<R>(band),                             \
   singular != 0}

// What is known of all eigenvalues of a matrix.
template <typename R>
struct Spectrum {
  R largest;     // |w|
  bool known;    // whether none is NaN
  bool outside;  // whether one is outside of the domain

  BED_DEVICE Spectrum(const Spectral<R>& function, const R* w, int n)
      : largest(0), known(true), outside(false) {
    for (int i = 0; i < n; ++i) {
      const R size = magnitude(w[i]);
      known = known && size == size;
      largest = size > largest ? size : largest;
    }
    for (int i = 0; i < n; ++i)
      outside = outside || function.outside(function.meant(w[i], largest));
  }
};

template <typename R>
BED_DEVICE bool any_infinite(const R* x, int n) {
  bool found = false;
  for (int i = 0; i < n; ++i)
    found = found || magnitude_bits(x[i]) == Format<R>::infinity;
  return found;
}

template <typename T>
BED_DEVICE bool is_nonzero(T x) {
  return real(x) != RealOf<T>(0) || imag(x) != RealOf<T>(0);
}

}  // namespace bed
