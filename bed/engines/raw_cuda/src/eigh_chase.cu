// A warp of chains and APPLIERS warps that hold the matrices: n from 9 to 64.
//
// Grid: ceil(size / matrices) blocks of 32·(APPLIERS + 1) threads, where a block has
// M = 32/G·APPLIERS matrices, held by G lanes each with R rows a lane (lanes.cuh).
// Dynamic shared memory: sizeof(ChaseMemory). N is the size rounded up to one of the
// launcher's. The applying warps reduce their matrices and form Q while the last warp
// runs the QR chains, one thread a matrix, and hands over the rotations sweep by sweep
// (chase.cuh). The reference is engines/reference/eigh.py.
#include "back_transform.cuh"
#include "chase.cuh"
#include "store.cuh"

namespace bed {

template <typename T, int N, int G, int R, int APPLIERS, int SLOTS>
struct ChaseMemory {
  using L = Lanes<N, G, R>;
  static constexpr int M = 32 / G * APPLIERS;

  MatrixMemory<L, T, true> matrices[M];
  T tau[M][N];
  RealOf<T> d[N][M];
  RealOf<T> e[N][M];
  int ranks[M][N];
  // Kept here from load to store: registers are scarce between.
  Scaling scalings[M];
  Slots<RealOf<T>, N, M, SLOTS> slots;
};

// Apply the sweeps that the chains record to the columns of q, until the last.
template <int THREADS, int SLOTS, typename L, typename T, typename S>
BED_DEVICE void apply_sweeps(S& slots, int m, T (&q)[L::R][L::N]) {
  using R = RealOf<T>;
  constexpr int chunk = 4;  // rotations loaded before they are applied
  for (int count = 0;; ++count) {
    const int slot = count % SLOTS;
    wait<S::full, SLOTS>(slot, THREADS);
    if (slots.last[slot]) return;
    // The rows that any matrix of the warp rotates.
    unsigned end = slots.hi[slot][m];
    unsigned begin = end > 0 ? L::N - slots.lo[slot][m] : 0;
    end = group_max<32>(end);
    begin = L::N - group_max<32>(begin);
#pragma unroll
    for (int i0 = 0; i0 < L::N - 1; i0 += chunk) {
      if (i0 + chunk <= static_cast<int>(begin) || i0 >= static_cast<int>(end))
        continue;
      Rotation<R> rotations[chunk];
#pragma unroll
      for (int u = 0; u < chunk; ++u)
        if (i0 + u < L::N - 1) rotations[u] = slots.rotations[slot][i0 + u][m];
#pragma unroll
      for (int u = 0; u < chunk; ++u) {
        if (i0 + u >= L::N - 1) continue;
#pragma unroll
        for (int r = 0; r < L::R; ++r)
          rotate(rotations[u], q[r][i0 + u], q[r][i0 + u + 1]);
      }
    }
    arrive<S::free, SLOTS>(slot, THREADS);
  }
}

// Store what the applying warps hold.
template <typename T, typename L, typename Memory>
BED_DEVICE void store_matrices(const Batch<T>& batch, Memory& memory,
                               const T (&q)[L::R][L::N]) {
  using Tridiagonal = StridedTridiagonal<RealOf<T>, Memory::M>;
  const int thread = thread_again(), m = thread / L::G;
  const long long block_first = static_cast<long long>(blockIdx.x) * Memory::M;
  const Outcome outcome{memory.scalings[m], memory.slots.converged[m] != 0};
  const Tridiagonal t{memory.d[0] + m, memory.e[0] + m};
  store_values<Again<L>>(batch, block_first + m, t, outcome, memory.ranks[m]);
  const int warp_first = thread / 32 * (32 / L::G);
  store_vectors<L>(batch, block_first + warp_first, q, outcome.solved(),
                   memory.ranks[m], memory.matrices[warp_first].memory);
}

template <typename T, int N, int G, int R, int APPLIERS, int SLOTS, int MIN_BLOCKS>
__global__ void __launch_bounds__(32 * (APPLIERS + 1), MIN_BLOCKS)
    eigh_chase(BED_BATCH_PARAMETERS(T)) {
  const Batch<T> batch = BED_BATCH;
  using L = Lanes<N, G, R>;
  using Memory = ChaseMemory<T, N, G, R, APPLIERS, SLOTS>;
  using Real = RealOf<T>;
  using Tridiagonal = StridedTridiagonal<Real, Memory::M>;
  constexpr int threads = 32 * (APPLIERS + 1);
  BED_DYNAMIC_SHARED(raw);
  Memory& memory = *reinterpret_cast<Memory*>(raw);
  const int thread = threadIdx.x;
  if (thread >= 32 * APPLIERS) {
    run_chains<threads>(memory.slots, Tridiagonal{memory.d[0], memory.e[0]}, batch.n);
    return;
  }

  const int m = thread / G;
  const long long index = static_cast<long long>(blockIdx.x) * Memory::M + m;
  const Tridiagonal t{memory.d[0] + m, memory.e[0] + m};
  auto& mine = memory.matrices[m];
  const Shared<T> shared{mine.u(), mine.p(), mine.memory, memory.tau[m]};
  {
    T a[R][N];
    // Lanes without a matrix work on the last one, and store nothing.
    memory.scalings[m] = load_rows<L>(
        batch, index < batch.size ? index : batch.size - 1, a, mine.memory);
    tridiagonalize<Again<L>>(a, batch.n, shared, t);
  }
  bed_bar_arrive(decltype(memory.slots)::ready, threads);

  T q[R][N];
  back_transform<L>(q, batch.n, shared);
  apply_sweeps<threads, SLOTS, L>(memory.slots, m, q);
  store_matrices<T, L>(batch, memory, q);
}

}  // namespace bed
