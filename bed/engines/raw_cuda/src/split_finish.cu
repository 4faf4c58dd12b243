// The last launch of several (split.cuh): results are sorted and stored.
//
// Grid: a block of 32·WARPS threads for each matrix of a chunk. Dynamic shared memory:
// as that of eigh_block.cu. A chain that the rounds had no room for ends here, by one
// thread, while the others wait to apply its rotations.
#include "block.cuh"
#include "split.cuh"

namespace bed {

// Apply a sweep to Q in shared memory.
template <int THREADS, typename T>
BED_DEVICE void rotate_block(T* q, int n, int lo, int hi,
                             const Rotation<RealOf<T>>* rotations) {
  using R = RealOf<T>;
  for (int j = threadIdx.x; j < n * parts<T>; j += THREADS) {
    R* x = &number_of(q, block_row(n), 0, j);
    for (int i = lo; i < hi; ++i)
      rotate(rotations[i - lo], x[i * parts<T>], x[(i + 1) * parts<T>]);
  }
}

template <typename T, int WARPS, int MIN_BLOCKS>
__global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS)
    split_finish(BED_BATCH_PARAMETERS(T), BED_SPLIT_PARAMETERS) {
  const Batch<T> batch = BED_BATCH;
  using R = RealOf<T>;
  constexpr int threads = 32 * WARPS;
  BED_DYNAMIC_SHARED(raw);
  BlockMemory<T>& memory = *reinterpret_cast<BlockMemory<T>*>(raw);
  T* q = reinterpret_cast<T*>(raw + sizeof(BlockMemory<T>));
  const StridedTridiagonal<R, 1> t{memory.d, memory.e};
  const int thread = threadIdx.x, m = blockIdx.x;
  const long long index = first + m;
  const Scratch<R> kept(scratch, capacity, room, n);
  const int rows = n * parts<T>;
  kept.load(m, t, n, thread, threads);
  const R* columns = columns_of(batch, index);
  for (int x = thread; x < n * rows; x += threads)
    number_of(q, block_row(n), x / rows, x % rows) = columns[x];
  Progress progress = kept.progress[m];
  sync_appliers<threads>();

  // The slots of chase.cuh are one record here.
  Rotation<R>* record = memory.slots.rotations[0][0];
  constexpr int room_here = block_slots * block_max;
  while (progress.hi > 0 && progress.sweeps < sweeps_per_eigenvalue * n) {
    if (thread == 0) {
      record_sweeps(t, n, progress, record, room_here);
      kept.progress[m] = progress;
    }
    sync_appliers<threads>();
    progress = kept.progress[m];
    for_sweeps(record, progress.recorded,
               [&](int lo, int hi, const Rotation<R>* rotations) {
                 rotate_block<threads>(q, n, lo, hi, rotations);
               });
    sync_appliers<threads>();
  }

  const Outcome outcome{{progress.finite != 0, progress.exponent}, progress.hi == 0};
  store_values_block<threads>(batch, index, t, outcome, memory);
  store_vectors_block<threads>(batch, index, q, outcome, memory);
}

}  // namespace bed
