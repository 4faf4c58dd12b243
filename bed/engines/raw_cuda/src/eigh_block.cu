// A block per matrix, the matrix in shared memory: what registers cannot hold.
//
// Grid: size blocks of 32·(APPLIERS + 1) threads. Dynamic shared memory:
// block_shared<T>(n). Any n up to what shared memory holds; the launcher uses it for
// the larger sizes of float64 and of the complex types. The applying warps reduce the
// matrix and form Q in its place (block.cuh); then the last warp's first thread runs
// the QR chain and hands over the rotations sweep by sweep (chase.cuh). The reference
// is engines/reference/eigh.py.
#include "block.cuh"

namespace bed {

// Apply the recorded sweeps to the columns of Q. Rotations are real: a thread owns
// every THREADS-th row of real or of imaginary parts.
template <int THREADS, int BLOCK, typename T>
BED_DEVICE void apply_sweeps_block(T* q, int n, BlockMemory<T>& memory) {
  using S = decltype(memory.slots);
  using R = RealOf<T>;
  constexpr int parts = sizeof(T) / sizeof(R);
  const int row = block_row(n) * parts;
  for (int count = 0;; ++count) {
    const int slot = count % block_slots;
    wait<S::full, block_slots>(slot, BLOCK);
    if (memory.slots.last[slot]) return;
    const int lo = memory.slots.lo[slot][0], hi = memory.slots.hi[slot][0];
    for (int j = threadIdx.x; j < n * parts; j += THREADS) {
      R* x = reinterpret_cast<R*>(q) + j / parts * row + j % parts;
      R kept = x[lo * parts];
      for (int i0 = lo; i0 < hi; i0 += block_chunk) {
        Rotation<R> rotations[block_chunk];
        R next[block_chunk];
#pragma unroll
        for (int c = 0; c < block_chunk; ++c) {
          const int i = i0 + c < hi ? i0 + c : lo;
          rotations[c] = memory.slots.rotations[slot][i][0];
          next[c] = x[(i + 1) * parts];
        }
#pragma unroll
        for (int c = 0; c < block_chunk; ++c) {
          if (i0 + c >= hi) break;
          rotate(rotations[c], kept, next[c]);
          x[(i0 + c) * parts] = kept;
          kept = next[c];
        }
      }
      x[hi * parts] = kept;
    }
    arrive<S::free, block_slots>(slot, BLOCK);
  }
}

// Body of the last warp where no rotation is applied.
template <int THREADS, typename S, typename Tridiagonal>
BED_DEVICE void run_chain_alone(S& slots, const Tridiagonal& t, int n) {
  bed_bar_sync(S::ready, THREADS);
  const bool first = threadIdx.x % 32 == 0, converged = run_chain(t, n, first);
  if (first) slots.converged[0] = converged;
  __syncwarp();
  bed_bar_arrive(S::full, THREADS);
}

template <typename T, int APPLIERS, int MIN_BLOCKS, bool VECTORS>
__global__ void __launch_bounds__(32 * (APPLIERS + 1), MIN_BLOCKS)
    eigh_block(BED_BATCH_PARAMETERS(T)) {
  const Batch<T> batch = BED_BATCH;
  using R = RealOf<T>;
  constexpr int appliers = 32 * APPLIERS, threads = appliers + 32;
  BED_DYNAMIC_SHARED(raw);
  BlockMemory<T>& memory = *reinterpret_cast<BlockMemory<T>*>(raw);
  T* a = reinterpret_cast<T*>(raw + sizeof(BlockMemory<T>));
  const StridedTridiagonal<R, 1> t{memory.d, memory.e};
  const int thread = threadIdx.x;
  const long long index = blockIdx.x;
  if (thread >= appliers) {
    if (VECTORS)
      run_chains<threads>(memory.slots, t, n);
    else
      run_chain_alone<threads>(memory.slots, t, n);
    return;
  }

  const Scaling scaling = load_block<appliers>(batch, index, a, memory);
  tridiagonalize_block<appliers>(a, n, memory, t);
  bed_bar_arrive(decltype(memory.slots)::ready, threads);
  if (VECTORS) {
    back_transform_block<appliers>(a, n, memory);
    apply_sweeps_block<appliers, threads>(a, n, memory);
  } else {
    bed_bar_sync(decltype(memory.slots)::full, threads);
  }

  const Outcome outcome{scaling, memory.slots.converged[0] != 0};
  store_values_block<appliers>(batch, index, t, outcome, memory);
  if (VECTORS) store_vectors_block<appliers>(batch, index, a, outcome, memory);
}

}  // namespace bed
