// The rotations of an implicit QR sweep, and how they are applied.
//
//   x' = c·x + s·y,  y' = c·y − s·x     with c ≥ 0
//
// as three shears with t = s/(1 + c):  x += t·y,  y −= s·x,  x += t·y.  That is three
// multiply-adds where c and s need four operations, and |t| ≤ 1 keeps it as accurate.
#pragma once
#include "scalar.cuh"

namespace bed {

template <typename R>
struct Rotation {
  R t, s;  // both zero: the identity
};

template <typename T>
BED_DEVICE void rotate(const Rotation<RealOf<T>>& q, T& x, T& y) {
  x = axpy(x, q.t, y);
  y = axpy(y, -q.s, x);
  x = axpy(x, q.t, y);
}

// [[a, b], [b, c]] in closed form, b not zero: the device twin of
// engines/scalar/two_by_two.py. Singular matrices of small integers have an eigenvalue
// that is exactly zero.
template <typename R>
struct TwoByTwo {
  R along;  // (along, b) is an eigenvector, whose rotation is by at most 45°
  R step;   // the eigenvalues are a + step, which belongs to it, and c − step, which
            // is nearer to c: Wilkinson's shift
};
template <typename R>
BED_DEVICE TwoByTwo<R> two_by_two(R a, R b, R c) {
  const R delta = (a - c) * R(0.5), square = b * b;
  const R size = magnitude(delta) + square_root(delta * delta + square);
  const R along = with_sign_of(size, delta);
  return {along, divide_exactly(square, along)};
}

// What a sweep carries from one rotation to the next: the bulge and the parts of the
// diagonal that are not settled. (Golub and Van Loan, algorithm 8.3.2, in the form
// that needs the diagonal and the off-diagonal entries only.)
//
// Every rotation waits for the root of the one before. So little is left to be done
// behind it: what the root is multiplied with is there before it, and it gives f and g
// of the next rotation at once, without c and s.
template <typename R>
struct Chain {
  R g, f;   // the next rotation makes √(g² + f²) of the two
  R b;      // the off-diagonal entry below it, times c of the last rotation
  R c = 1;  // the last rotation
  R s = 0;
  R shift = 0;  // what the last rotation took from the next diagonal entry

  // Of a block of T whose first off-diagonal entry is given.
  BED_DEVICE Chain(R g, R off_diagonal) : g(g), f(off_diagonal), b(off_diagonal) {}

  struct Step {
    R off_diagonal;  // of the two rows above, settled
    R diagonal;      // of the upper row, settled
  };

  // Rotate rows i and i+1, whose diagonal entries are given, and the off-diagonal entry
  // below them.
  BED_DEVICE Step advance(R diagonal, R next_diagonal, R next_off_diagonal) {
    // Never zero: where the root is not used it is finite.
    const R square = g * g + (f * f + Limits<R>::smallest);
    const R seed = reciprocal_sqrt_seed(square);
    // Squares this small have lost digits, and c² + s² would not be one. Both entries
    // are noise then in a matrix of order one.
    const bool turn = square > Limits<R>::negligible;
    const R kept = diagonal - shift;
    const R mixed = (next_diagonal - kept) * f + g * (b + b);
    // In graded matrices the product is less than what it is divided by can be: it is
    // taken times a power of two.
    const R bulge = f * (next_off_diagonal * Limits<R>::lift);
    const R unmoved = turn ? b : -b;

    const R start = turn ? with_sign_of(seed, g) : R(0);
    const R inverse = refined(start, seed, square);
    const R lowered = refined(start * (1 / Limits<R>::lift), seed, square);
    const R r = mixed * inverse, cosine = g * inverse;
    s = f * inverse;
    c = turn ? cosine : R(1);
    shift = s * r;
    g = cosine * r - unmoved;
    f = bulge * lowered;
    b = c * next_off_diagonal;
    return {square * inverse, kept + shift};
  }

  // The last rotation.
  BED_DEVICE Rotation<R> rotation() const { return {s * reciprocal(R(1) + c), s}; }
};

// Whether an off-diagonal entry is below rounding beside its two diagonal entries; NaN
// is not.
template <typename R>
BED_DEVICE bool is_negligible(R off_diagonal, R above, R below) {
  return magnitude(off_diagonal) <=
         Limits<R>::eps * (magnitude(above) + magnitude(below)) + Limits<R>::floor;
}

// Sweeps per eigenvalue before a matrix is given up; about two are usual.
constexpr int sweeps_per_eigenvalue = 30;

}  // namespace bed
