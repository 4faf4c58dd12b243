// Eigenvalues alone, of a block's matrices in rounds: n from 5 to 64.
//
// Grid: at least ceil(size / M) blocks of 32·WARPS threads, where a block has up to
// M = 32/G·WARPS·ROUNDS matrices, held by G lanes each with R rows a lane (lanes.cuh);
// a larger grid has fewer rounds. Dynamic shared memory: sizeof(ValuesMemory). N is the
// size rounded up to one of the launcher's. In every round the warps reduce as many
// matrices as they can hold, of which T is kept; then one warp runs the QR chains of
// all of them, one thread a matrix (chase.cuh). The reference is
// engines/reference/eigh.py.
#include "chase.cuh"
#include "store.cuh"
#include "tridiagonalize.cuh"

namespace bed {

template <typename T, int N, int G, int R, int WARPS, int ROUNDS>
struct ValuesMemory {
  using L = Lanes<N, G, R>;
  static constexpr int at_once = 32 / G * WARPS, M = at_once * ROUNDS;
  static_assert(M <= 32, "a lane a chain");

  MatrixMemory<L, T, false> matrices[at_once];
  RealOf<T> d[N][M];
  RealOf<T> e[N][M];
  Scaling scalings[M];
  int converged[M];
};

template <typename T, int N, int G, int R, int WARPS, int ROUNDS, int MIN_BLOCKS>
__global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS)
    eigh_values(BED_BATCH_PARAMETERS(T)) {
  const Batch<T> batch = BED_BATCH;
  using L = Lanes<N, G, R>;
  using Memory = ValuesMemory<T, N, G, R, WARPS, ROUNDS>;
  using Tridiagonal = StridedTridiagonal<RealOf<T>, Memory::M>;
  BED_DYNAMIC_SHARED(raw);
  Memory& memory = *reinterpret_cast<Memory*>(raw);
  const int thread = threadIdx.x;
  // Neighbouring blocks have neighbouring matrices in every round.
  const auto first_of = [&](int round) {
    return (static_cast<long long>(round) * gridDim.x + blockIdx.x) * Memory::at_once;
  };
  const auto tridiagonal = [&](int m) {
    return Tridiagonal{memory.d[0] + m, memory.e[0] + m};
  };

  // What follows from the thread's number is worked out anew: registers are scarce.
  using Anew = Again<L>;
  int rounds = 0;
#pragma unroll 1
  for (; rounds < ROUNDS && first_of(rounds) < batch.size; ++rounds) {
    const int group = thread_again() / G, m = rounds * Memory::at_once + group;
    const long long index = first_of(rounds) + group;
    auto& mine = memory.matrices[group];
    T a[R][N];
    // Lanes without a matrix work on the last one, and store nothing.
    memory.scalings[m] = load_rows<Anew>(
        batch, index < batch.size ? index : batch.size - 1, a, mine.memory);
    const Shared<T> shared{mine.u(), mine.p(), nullptr, nullptr};
    tridiagonalize<Anew>(a, batch.n, shared, tridiagonal(m));
  }
  __syncthreads();

  if (thread < 32) {
    const bool there = thread < rounds * Memory::at_once;
    const bool converged = run_chain(tridiagonal(there ? thread : 0), batch.n, there);
    if (there) memory.converged[thread] = converged;
  }
  __syncthreads();

#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    const int group = thread / G, m = round * Memory::at_once + group;
    const Outcome outcome{memory.scalings[m], memory.converged[m] != 0};
    store_values<L>(batch, first_of(round) + group, tridiagonal(m), outcome, nullptr);
  }
}

}  // namespace bed
