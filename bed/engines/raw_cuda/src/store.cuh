// Sort, scale back and store the results of a matrix held by lanes.
#pragma once
#include "lanes.cuh"
#include "rotation.cuh"

namespace bed {

// What is known of a matrix at the end.
struct Outcome {
  Scaling scaling;
  bool converged;
  BED_DEVICE bool solved() const { return scaling.finite && converged; }
};

// Rank of diagonal entry j among the n of T: ascending, equal ones in their order.
template <typename Tridiagonal>
BED_DEVICE int rank_of(const Tridiagonal& t, int n, int j) {
  const auto value = t.diagonal(j);
  int rank = 0;
#pragma unroll 4
  for (int i = 0; i < n; ++i) {
    const auto other = t.diagonal(i);
    rank += other < value || (other == value && i < j);
  }
  return rank;
}

// Store the eigenvalue in its place; returns whether it overflows.
template <typename T>
BED_DEVICE bool store_value(const Batch<T>& batch, long long index, int rank,
                            RealOf<T> value, const Outcome& outcome) {
  using R = RealOf<T>;
  // Where subnormal numbers are flushed they were ranked as zeros: the sum makes them
  // so.
  const R flushed = value + R(0), factor = power_of_two<R>(outcome.scaling.exponent);
  const R w = outcome.solved() ? multiply_exactly(flushed, factor) : not_a_number<R>();
  batch.w[index * batch.n + rank] = w;
  return magnitude_bits(w) == Format<R>::infinity;
}

BED_DEVICE int status_of(const Outcome& outcome, bool overflows) {
  return !outcome.scaling.finite ? not_finite
         : !outcome.converged    ? no_convergence
         : overflows             ? overflow
                                 : ok;
}

// Eigenvalues and status; leaves the rank of every column in `ranks` (N,), if not null.
template <typename L, typename T, typename Tridiagonal>
BED_DEVICE void store_values(const Batch<T>& batch, long long index,
                             const Tridiagonal& t, const Outcome& outcome, int* ranks) {
  const bool live = index < batch.size;
  unsigned overflows = 0;
#pragma unroll
  for (int r = 0; r < L::R; ++r) {
    const int j = L::row(r);
    if (j < batch.n) {
      const int rank = rank_of(t, batch.n, j);
      if (ranks) ranks[j] = rank;
      if (live && store_value(batch, index, rank, t.diagonal(j), outcome))
        overflows = 1;
    }
  }
  overflows = group_max<L::G>(overflows);
  if (live && L::lane() == 0) batch.status[index] = status_of(outcome, overflows != 0);
  __syncwarp();
}

// Eigenvectors of the 32/G matrices of a warp, the first of which is `first`. Rows pass
// through `stage` (32·L::row_length elements of the warp), R rows of every lane, one
// after the other. What a matrix has there is stored as one piece, so that neighbouring
// lanes store neighbouring elements whatever n.
template <typename L, typename T>
BED_DEVICE void store_vectors(const Batch<T>& batch, long long first,
                              const T (&q)[L::R][L::N], bool solved, const int* ranks,
                              T* stage) {
  using R = RealOf<T>;
  const int lane = thread_again() % 32, n = batch.n;
  // The lane's first element, and from one of its elements to the next: there may be a
  // row's end between.
  const int first_column = lane % n, columns = 32 % n;
  const int first_place = lane / n * L::row_length + first_column;
  const int places = 32 / n * L::row_length + columns;
#pragma unroll
  for (int r = 0; r < L::R; ++r) {
#pragma unroll
    for (int j = 0; j < L::N; ++j)
      if (j < n)
        stage[lane * L::row_length + ranks[j]] =
            solved ? q[r][j] : make<T>(not_a_number<R>(), not_a_number<R>());
    __syncwarp();
    const int rows = n - r * L::G < L::G ? n - r * L::G : L::G;
    for (int m = 0; m < 32 / L::G && first + m < batch.size; ++m) {
      T* out = batch.v + ((first + m) * n + r * L::G) * n;
      int column = first_column, place = m * L::G * L::row_length + first_place;
      for (int x = lane; x < rows * n; x += 32) {
        out[x] = stage[place];
        column += columns, place += places;
        if (column >= n) column -= n, place += L::row_length - n;
      }
    }
    __syncwarp();
  }
}

}  // namespace bed
