// A group of lanes per matrix, all of them running its QR chain: n from 9 to 16.
//
// Grid: ceil(size / matrices) blocks of THREADS threads, where a block has
// M = THREADS/G matrices, held by G lanes each with R rows a lane (lanes.cuh). Dynamic
// shared memory: sizeof(GroupMemory). N is the size rounded up to one of the
// launcher's. Every lane of a group computes the rotations of a sweep and applies them
// to its rows at once; groups of one warp sweep together, and those that are done idle.
// The reference is engines/reference/eigh.py.
#include "back_transform.cuh"
#include "store.cuh"

namespace bed {

// Diagonal and off-diagonal entries of the matrices of a block side by side, twice: a
// sweep reads one copy and writes the other, so that lanes need not wait for each other
// within it.
template <typename R, int M>
struct TwoTridiagonals {
  R* d;
  R* e;
  R* next_d;
  R* next_e;
  BED_DEVICE R& diagonal(int i) const { return d[i * M]; }
  BED_DEVICE R& off_diagonal(int i) const { return e[i * M]; }
  BED_DEVICE R& next_diagonal(int i) const { return next_d[i * M]; }
  BED_DEVICE R& next_off_diagonal(int i) const { return next_e[i * M]; }
  BED_DEVICE void swap() {
    R* x = d;
    d = next_d, next_d = x;
    x = e, e = next_e, next_e = x;
  }
};

template <typename T, int N, int G, int R, int THREADS>
struct GroupMemory {
  using L = Lanes<N, G, R>;
  static constexpr int M = THREADS / G;

  MatrixMemory<L, T, true> matrices[M];
  T tau[M][N];
  RealOf<T> d[2][N][M];
  RealOf<T> e[2][N][M];
  int ranks[M][N];
};

// One bit for every off-diagonal entry of the group's matrix that is negligible; also
// copies what a sweep may leave as it is.
template <typename L, typename Tridiagonal>
BED_DEVICE unsigned long long split_mask(const Tridiagonal& t, int n) {
  unsigned long long mask = 0;
  const int warp_lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int r = 0; r < L::R; ++r) {
    const int i = L::row(r);
    bool split = true;
    if (i < n) {
      const auto d = t.diagonal(i);
      t.next_diagonal(i) = d;
      if (i < n - 1) {
        const auto e = t.off_diagonal(i);
        split = is_negligible(e, d, t.diagonal(i + 1));
        t.next_off_diagonal(i) = e;
      }
    }
    unsigned votes = __ballot_sync(all_lanes, split);
    if (L::G < 32)
      votes = votes >> (warp_lane / L::G * L::G) & ((1u << (L::G % 32)) - 1);
    mask |= static_cast<unsigned long long>(votes) << (r * L::G);
  }
  return mask;
}

// Diagonalise T and multiply its rotations into the columns of q; returns whether the
// group's matrix converged.
template <typename L, typename T, typename Tridiagonal>
BED_DEVICE bool qr_iteration_group(Tridiagonal& t, int n, T (&q)[L::R][L::N]) {
  using R = RealOf<T>;
  const unsigned long long all_entries = (1ull << (n - 1)) - 1;
  const int limit = sweeps_per_eigenvalue * n;
  for (int count = 0;; ++count) {
    const unsigned long long splits = split_mask<L>(t, n);
    const unsigned long long open = ~splits & all_entries;
    const int hi = 64 - __clzll(open);  // the lowest unreduced block is rows lo to hi
    const bool done = open == 0;
    if (__all_sync(all_lanes, done || count == limit)) return done;
    int lo = 0;
    if (!done) {
      const unsigned long long above = splits & ((1ull << (hi - 1)) - 1);
      lo = 64 - __clzll(above);
    }
    const int last = done ? 1 : hi;
    const R hi_diagonal = t.diagonal(last);
    const TwoByTwo<R> corner =
        two_by_two(t.diagonal(last - 1), t.off_diagonal(last - 1), hi_diagonal);
    const bool pair = hi - lo == 1;
    Chain<R> chain(pair ? corner.along : t.diagonal(lo) - (hi_diagonal - corner.step),
                   t.off_diagonal(lo));
    __syncwarp();  // the copies of split_mask are there before the sweep overwrites
                   // them
    R diagonal = t.diagonal(0);
#pragma unroll
    for (int i = 0; i < L::N - 1; ++i) {
      if (i >= n - 1) break;
      const R next_diagonal = t.diagonal(i + 1);
      const R next_off_diagonal = i < L::N - 2 ? t.off_diagonal(i + 1) : R(0);
      if (i >= lo && i < hi) {
        const auto step = chain.advance(diagonal, next_diagonal, next_off_diagonal);
        if (i > lo) t.next_off_diagonal(i - 1) = step.off_diagonal;
        t.next_diagonal(i) = step.diagonal;
        const Rotation<R> rotation = chain.rotation();
#pragma unroll
        for (int r = 0; r < L::R; ++r) rotate(rotation, q[r][i], q[r][i + 1]);
      }
      diagonal = next_diagonal;
    }
    if (!done) {
      if (pair) t.next_diagonal(lo) = t.diagonal(lo) + corner.step;
      t.next_diagonal(hi) = hi_diagonal - (pair ? corner.step : chain.shift);
      t.next_off_diagonal(hi - 1) = pair ? R(0) : chain.g;
    }
    __syncwarp();
    t.swap();
  }
}

template <typename T, int N, int G, int R, int THREADS, int MIN_BLOCKS>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    eigh_group(BED_BATCH_PARAMETERS(T)) {
  const Batch<T> batch = BED_BATCH;
  using L = Lanes<N, G, R>;
  using Memory = GroupMemory<T, N, G, R, THREADS>;
  BED_DYNAMIC_SHARED(raw);
  Memory& memory = *reinterpret_cast<Memory*>(raw);
  const int thread = threadIdx.x, m = thread / G;
  const long long block_first = static_cast<long long>(blockIdx.x) * Memory::M;
  const long long index = block_first + m;
  TwoTridiagonals<RealOf<T>, Memory::M> t{memory.d[0][0] + m, memory.e[0][0] + m,
                                          memory.d[1][0] + m, memory.e[1][0] + m};
  auto& mine = memory.matrices[m];
  const Shared<T> shared{mine.u(), mine.p(), mine.memory, memory.tau[m]};
  Scaling scaling;
  {
    T a[R][N];
    // Groups without a matrix work on the last one, and store nothing.
    scaling = load_rows<L>(batch, index < batch.size ? index : batch.size - 1, a,
                           mine.memory);
    tridiagonalize<L>(a, batch.n, shared, t);
  }
  T q[R][N];
  back_transform<L>(q, batch.n, shared);
  const bool converged = qr_iteration_group<L>(t, batch.n, q);
  const Outcome outcome{scaling, converged};
  store_values<L>(batch, index, t, outcome, memory.ranks[m]);
  const int warp_first = thread / 32 * (32 / G);
  store_vectors<L>(batch, block_first + warp_first, q, outcome.solved(),
                   memory.ranks[m], memory.matrices[warp_first].memory);
}

}  // namespace bed
