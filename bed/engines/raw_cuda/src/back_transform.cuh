// Q = H₀ H₁ … from the reflectors of tridiagonalize.cuh, into the rows that lanes hold.
// The twin of engines/*/back_transform.py.
//
// Forwards, Q ← Q Hₖ: each row of Q needs the reflector and itself only, where the
// backward order needs a sum over the lanes for every column.
#pragma once
#include "tridiagonalize.cuh"

namespace bed {

template <typename L, int PART, typename T>
BED_DEVICE void back_transform_parts(T (&q)[L::R][L::N], int n,
                                     const Shared<T>& shared) {
  constexpr int N = L::N;
  if constexpr (PART < Part<N, 0>::count) {
    constexpr int first_step = Part<N, PART>::first, last_step = Part<N, PART>::last;
    const int steps = reduction_steps<T>(n);
    const int end = steps < last_step ? steps : last_step;
#pragma unroll 1
    for (int k = first_step; k < end; ++k) {
      const T* u = shared.reflectors + k * N;  // zero up to column k
      const T minus_tau = negate(shared.tau[k]);
      T s[L::R];
#pragma unroll
      for (int r = 0; r < L::R; ++r) s[r] = make<T>(0);
#pragma unroll
      for (int j0 = first_step + 1; j0 < N; j0 += terms_per_part) {
        T part[L::R];
#pragma unroll
        for (int r = 0; r < L::R; ++r) part[r] = make<T>(0);
#pragma unroll
        for (int j = j0; j < j0 + terms_per_part && j < N; ++j) {
#pragma unroll
          for (int r = 0; r < L::R; ++r) part[r] = madd(part[r], q[r][j], u[j]);
        }
#pragma unroll
        for (int r = 0; r < L::R; ++r)
          s[r] = make<T>(real(s[r]) + real(part[r]), imag(s[r]) + imag(part[r]));
      }
#pragma unroll
      for (int r = 0; r < L::R; ++r) s[r] = multiply(minus_tau, s[r]);
      // Makes the compiler read u again: kept, it would take as many registers as a
      // row.
      __syncwarp();
#pragma unroll
      for (int j = first_step + 1; j < N; ++j) {
        const T uj = conj(u[j]);
#pragma unroll
        for (int r = 0; r < L::R; ++r) q[r][j] = madd(q[r][j], s[r], uj);
      }
    }
    back_transform_parts<L, PART + 1>(q, n, shared);
  }
}

template <typename L, typename T>
BED_DEVICE void back_transform(T (&q)[L::R][L::N], int n, const Shared<T>& shared) {
#pragma unroll
  for (int r = 0; r < L::R; ++r) {
#pragma unroll
    for (int j = 0; j < L::N; ++j) q[r][j] = make<T>(L::row(r) == j ? 1 : 0);
  }
  back_transform_parts<L, 0>(q, n, shared);
}

}  // namespace bed
