// Householder reduction of a matrix held by lanes (lanes.cuh) to real tridiagonal form,
// A = Q T Qᴴ. The twin of engines/*/tridiagonalize.py.
//
// After step k the columns are moved left by one, so the current column always has
// index 0 and the steps need no unrolling.
#pragma once
#include "lanes.cuh"
#include "reflector.cuh"

namespace bed {

// Terms of a sum added up before they join the total. Sums of equal terms, as of a
// matrix of ones, lose a unit in the last place with nearly every term.
constexpr int terms_per_part = 8;

// Steps for a matrix of size n: a complex one has a last off-diagonal entry to be made
// real.
template <typename T>
BED_DEVICE int reduction_steps(int n) {
  const int steps = n - 2 + Traits<T>::is_complex;
  return steps > 0 ? steps : 0;
}

// Where a group keeps what it shares about its matrix.
template <typename T>
struct Shared {
  T* u;  // (padded,) current reflector from its leading one on
  T* p;  // (padded,) second vector of the update, likewise
  // Of the eigenvectors, or null:
  T* reflectors;  // (steps, N), reflector k from column 0 on
  T* tau;         // (steps,)
};

template <typename L, int PART, typename T, typename Tridiagonal>
BED_DEVICE void tridiagonalize_part(T (&a)[L::R][L::N], int n, const Shared<T>& shared,
                                    const Tridiagonal& t) {
  using R = RealOf<T>;
  constexpr int N = L::N;
  constexpr int first_step = Part<N, PART>::first, last_step = Part<N, PART>::last;
  constexpr int columns = N - 1 - first_step;         // right of the current one
  constexpr int first_row = (first_step + 1) / L::G;  // rows r below this are done
  const int steps = reduction_steps<T>(n);
  const int end = steps < last_step ? steps : last_step;
#pragma unroll 1
  for (int k = first_step; k < end; ++k) {
    const int lane = L::lane();
    T u[L::R], p[L::R];
    T first = make<T>(0);
    R tail = 0;
#pragma unroll
    for (int r = 0; r < L::R; ++r) {
      const int i = r * L::G + lane;
      u[r] = i > k ? a[r][0] : make<T>(0);
      if (i == k) t.diagonal(k) = real(a[r][0]);
      if (i == k + 1)
        first = u[r];
      else
        tail += inner(u[r], u[r]);
    }
    tail = group_sum<L::G>(tail);
    first = group_sum<L::G>(first);
    const Reflector<T> h = reflector(first, tail);
    if (lane == 0) {
      t.off_diagonal(k) = h.beta;
      if (shared.tau) shared.tau[k] = h.tau;
    }
#pragma unroll
    for (int r = 0; r < L::R; ++r) {
      const int i = r * L::G + lane;
      u[r] = i == k + 1 ? make<T>(1) : multiply(u[r], h.scale);
      int position = i - k - 1;  // rows that are done follow as zeros
      if (position < 0) position += L::G * L::R;
      if (position < N) shared.u[position] = u[r];
      if (shared.reflectors && i < N) shared.reflectors[k * N + i] = u[r];
    }
    __syncwarp();

    R gamma = 0;
#pragma unroll
    for (int r = first_row; r < L::R; ++r) {
      T y = make<T>(0);
#pragma unroll
      for (int j0 = 0; j0 < columns; j0 += terms_per_part) {
        T part = make<T>(0);
#pragma unroll
        for (int j = j0; j < j0 + terms_per_part && j < columns; ++j)
          part = madd(part, a[r][j + 1], shared.u[j]);
        y = make<T>(real(y) + real(part), imag(y) + imag(part));
      }
      gamma += inner(u[r], y);
      p[r] = multiply(h.tau, y);
    }
    gamma = group_sum<L::G>(gamma);
    const R half = R(0.5) * inner(h.tau, h.tau) * gamma;
#pragma unroll
    for (int r = 0; r < L::R; ++r) {
      const int i = r * L::G + lane;
      p[r] = r >= first_row && i > k ? axpy(p[r], -half, u[r]) : make<T>(0);
      int position = i - k - 1;
      if (position < 0) position += L::G * L::R;
      if (position < N) shared.p[position] = p[r];
    }
    __syncwarp();

#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const T uj = conj(shared.u[j]), pj = conj(shared.p[j]);
#pragma unroll
      for (int r = first_row; r < L::R; ++r)
        a[r][j] = madd(madd(a[r][j + 1], negate(u[r]), pj), negate(p[r]), uj);
    }
#pragma unroll
    for (int r = first_row; r < L::R; ++r) a[r][columns] = make<T>(0);
    __syncwarp();  // u and p are free for the next step
  }
}

// Parts PART and later.
template <typename L, int PART, typename T, typename Tridiagonal>
BED_DEVICE void tridiagonalize_parts(T (&a)[L::R][L::N], int n, const Shared<T>& shared,
                                     const Tridiagonal& t) {
  if constexpr (PART < Part<L::N, 0>::count) {
    tridiagonalize_part<L, PART>(a, n, shared, t);
    tridiagonalize_parts<L, PART + 1>(a, n, shared, t);
  }
}

// Destroys `a`; fills T and, unless null, reflectors and τ. The group's lanes see all
// of it on return.
template <typename L, typename T, typename Tridiagonal>
BED_DEVICE void tridiagonalize(T (&a)[L::R][L::N], int n, const Shared<T>& shared,
                               const Tridiagonal& t) {
  tridiagonalize_parts<L, 0>(a, n, shared, t);
  const int k = reduction_steps<T>(n);  // one or two columns are left
#pragma unroll
  for (int r = 0; r < L::R; ++r) {
    const int i = L::row(r);
    if (i == k) t.diagonal(k) = real(a[r][0]);
    if constexpr (L::N > 1) {
      if (i == k + 1 && i < n) {
        t.diagonal(k + 1) = real(a[r][1]);
        t.off_diagonal(k) = real(a[r][0]);
      }
    }
  }
  __syncwarp();
}

}  // namespace bed
