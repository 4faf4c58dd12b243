// A matrix in the shared memory of a block: loaded, reduced, Q formed in its place.
#pragma once
#include "chase.cuh"
#include "reflector.cuh"
#include "store.cuh"

namespace bed {

constexpr int block_max = 64;  // largest n
constexpr int block_slots = 2;
constexpr int block_chunk = 4;  // elements loaded before any of them is stored

// Row length: odd, so that a column's elements lie in different banks.
BED_DEVICE constexpr int block_row(int n) { return n | 1; }

template <typename T>
struct BlockMemory {
  Slots<RealOf<T>, block_max, 1, block_slots> slots;
  RealOf<T> d[block_max];
  RealOf<T> e[block_max];
  T p[block_max];
  T tau[block_max];
  int ranks[block_max];
  unsigned largest[32];
  // n rows of block_row(n) elements follow
};

// Barrier of the applying warps alone.
constexpr int appliers_barrier = 2 + 2 * block_slots;

template <int THREADS>
BED_DEVICE void sync_appliers() {
  bed_bar_sync(appliers_barrier, THREADS);
}

// Load matrix `index` into `a`, both triangles, scaled to [2, 4); zero if it is not
// finite.
template <int THREADS, typename T>
BED_DEVICE Scaling load_block(const Batch<T>& batch, long long index, T* a,
                              BlockMemory<T>& memory) {
  using R = RealOf<T>;
  const int thread = threadIdx.x, n = batch.n, row = block_row(n);
  Bits largest = 0;
  with_storage(batch, [&](auto storage) {
    for (int x = thread; x < n * n; x += THREADS) {
      const int i = x / n, j = x % n;
      if (j > i) continue;
      const T value = load_lower<decltype(storage)::value>(batch, index, i, j);
      const Bits bits = magnitude_bits(value);
      largest = bits > largest ? bits : largest;
      a[i * row + j] = value;
      a[j * row + i] = conj_exactly(value);
    }
  });
  memory.largest[thread / 32] = largest = group_max<32>(largest);
  sync_appliers<THREADS>();
#pragma unroll
  for (int i = 0; i < THREADS / 32; ++i)
    largest = memory.largest[i] > largest ? memory.largest[i] : largest;
  const bool finite = is_finite<R>(largest);
  const int exponent = scaling_exponent<R>(finite ? largest : 0);
  const R factor = power_of_two<R>(-exponent);
  for (int x = thread; x < n * n; x += THREADS) {
    T& value = a[x / n * row + x % n];
    value = finite ? multiply_exactly(value, factor) : make<T>(0);
  }
  sync_appliers<THREADS>();
  return {finite, exponent};
}

// Reduce the n × n matrix in `a`; row k keeps reflector k right of the diagonal.
template <int THREADS, typename T, typename Tridiagonal>
BED_DEVICE void tridiagonalize_block(T* a, int n, BlockMemory<T>& memory,
                                     const Tridiagonal& t) {
  using R = RealOf<T>;
  const int thread = threadIdx.x, lane = thread % 32, row = block_row(n);
  const int steps = n - 2 + Traits<T>::is_complex;
  for (int k = 0; k < steps; ++k) {
    T* u = a + k * row;  // indexed by column
    // Every warp works out the same reflector, and the first one stores it.
    R tail = 0;
    for (int i = k + 2 + lane; i < n; i += 32)
      tail += inner(a[i * row + k], a[i * row + k]);
    const Reflector<T> h = reflector(a[(k + 1) * row + k], group_sum<32>(tail));
    if (thread == 0) {
      t.diagonal(k) = real(a[k * row + k]);
      t.off_diagonal(k) = h.beta;
      memory.tau[k] = h.tau;
    }
    if (thread < 32)
      for (int i = k + 1 + lane; i < n; i += 32)
        u[i] = i == k + 1 ? make<T>(1) : multiply(a[i * row + k], h.scale);
    sync_appliers<THREADS>();

    // y = A u, four threads a row. All rows of a warp count as long as one is left.
    for (int i0 = k + 1 + thread / 32 * 8; i0 < n; i0 += THREADS / 4) {
      const int i = i0 + lane / 4;
      const T* x = a + (i < n ? i : n - 1) * row;
      T y = make<T>(0);
      for (int j = k + 1 + lane % 4; j < n; j += 4) y = madd(y, x[j], u[j]);
      y = group_sum<4>(y);
      if (lane % 4 == 0 && i < n) memory.p[i] = y;
    }
    sync_appliers<THREADS>();

    R gamma = 0;
    for (int i = k + 1 + lane; i < n; i += 32) gamma += inner(u[i], memory.p[i]);
    const R half = R(0.5) * inner(h.tau, h.tau) * group_sum<32>(gamma);
    // A − p uᴴ − u pᴴ with p = τ y − K u.
    for (int i = k + 1 + thread / 4; i < n; i += THREADS / 4) {
      const T ui = u[i], pi = axpy(multiply(h.tau, memory.p[i]), -half, ui);
      for (int j = k + 1 + thread % 4; j < n; j += 4) {
        const T uj = u[j], pj = axpy(multiply(h.tau, memory.p[j]), -half, uj);
        T& x = a[i * row + j];
        x = madd(madd(x, negate(ui), conj(pj)), negate(pi), conj(uj));
      }
    }
    sync_appliers<THREADS>();
  }
  if (thread == 0) {
    for (int k = steps > 0 ? steps : 0; k < n; ++k) {
      t.diagonal(k) = real(a[k * row + k]);
      if (k + 1 < n) t.off_diagonal(k) = real(a[(k + 1) * row + k]);
    }
  }
  __syncwarp();  // the first warp may overwrite these entries
}

// Q = H₀ H₁ … in the place of the reflectors, by backward accumulation. A warp has
// sixteen columns at a time, two lanes each: one for every other row.
template <int THREADS, typename T>
BED_DEVICE void back_transform_block(T* a, int n, const BlockMemory<T>& memory) {
  const int thread = threadIdx.x, lane = thread % 32, row = block_row(n);
  const int steps = n - 2 + Traits<T>::is_complex;
  // Below the last reflector Q is the identity.
  const int from = steps > 0 ? steps : 0;
  for (int j = from + thread; j < n; j += THREADS)
    for (int i = from; i < n; ++i) a[i * row + j] = make<T>(i == j ? 1 : 0);
  sync_appliers<THREADS>();
  for (int k = steps - 1; k >= 0; --k) {
    const T* u = a + k * row;
    const T minus_tau = negate(memory.tau[k]);
    const int first = k + 1 + lane / 16;
    for (int j0 = k + 1 + thread / 32 * 16; j0 < n; j0 += THREADS / 2) {
      const int j = j0 + lane % 16;
      T* x = a + (j < n ? j : n - 1);
      T s = make<T>(0);
      for (int i = first; i < n; i += 2) s = madd(s, conj(u[i]), x[i * row]);
      s = multiply(minus_tau, pair_sum<16>(s));
      if (j >= n) continue;
      // The last row is done again, from what it was, where a chunk is not full.
      const int last = n - 1 - (n - 1 - first) % 2;
      for (int i0 = first; i0 < n; i0 += 2 * block_chunk) {
        T y[block_chunk];
#pragma unroll
        for (int c = 0; c < block_chunk; ++c) {
          const int i = i0 + 2 * c < last ? i0 + 2 * c : last;
          y[c] = madd(x[i * row], u[i], s);
        }
#pragma unroll
        for (int c = 0; c < block_chunk; ++c) {
          const int i = i0 + 2 * c < last ? i0 + 2 * c : last;
          x[i * row] = y[c];
        }
      }
    }
    sync_appliers<THREADS>();
    // Row and column k become those of the identity: the reflector is used up.
    for (int j = k + thread; j < n; j += THREADS) {
      a[k * row + j] = make<T>(j == k ? 1 : 0);
      if (j > k) a[j * row + k] = make<T>(0);
    }
    sync_appliers<THREADS>();
  }
}

// Eigenvalues and status; leaves the rank of every column in `memory.ranks`.
template <int THREADS, typename T, typename Tridiagonal>
BED_DEVICE void store_values_block(const Batch<T>& batch, long long index,
                                   const Tridiagonal& t, const Outcome& outcome,
                                   BlockMemory<T>& memory) {
  const int thread = threadIdx.x, n = batch.n;
  unsigned overflows = 0;
  for (int j = thread; j < n; j += THREADS) {
    const int rank = rank_of(t, n, j);
    memory.ranks[j] = rank;
    if (store_value(batch, index, rank, t.diagonal(j), outcome)) overflows = 1;
  }
  memory.largest[thread / 32] = group_max<32>(overflows);
  sync_appliers<THREADS>();
  if (thread == 0) {
    for (int i = 1; i < THREADS / 32; ++i) overflows |= memory.largest[i];
    overflows |= memory.largest[0];
    batch.status[index] = status_of(outcome, overflows != 0);
  }
}

// Eigenvectors: column j of Q goes to column ranks[j]; neighbouring threads store
// neighbouring entries of a row.
template <int THREADS, typename T>
BED_DEVICE void store_vectors_block(const Batch<T>& batch, long long index, const T* q,
                                    const Outcome& outcome,
                                    const BlockMemory<T>& memory) {
  using R = RealOf<T>;
  const int n = batch.n, row = block_row(n);
  T* out = batch.v + index * n * n;
  for (int x = threadIdx.x; x < n * n; x += THREADS) {
    const int i = x / n, j = x % n;
    out[i * n + memory.ranks[j]] = outcome.solved()
                                       ? q[i * row + j]
                                       : make<T>(not_a_number<R>(), not_a_number<R>());
  }
}

}  // namespace bed
