// The first launch of several (split.cuh): matrices are reduced, and Q is formed.
//
// Grid: a block of 32·WARPS threads for each matrix of a chunk. Dynamic shared memory:
// as that of eigh_block.cu, whose warps do the same.
#include "block.cuh"
#include "split.cuh"

namespace bed {

template <typename T, int WARPS, int MIN_BLOCKS>
__global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS)
    split_reduce(BED_BATCH_PARAMETERS(T), BED_SPLIT_PARAMETERS) {
  const Batch<T> batch = BED_BATCH;
  using R = RealOf<T>;
  constexpr int threads = 32 * WARPS;
  BED_DYNAMIC_SHARED(raw);
  BlockMemory<T>& memory = *reinterpret_cast<BlockMemory<T>*>(raw);
  T* a = reinterpret_cast<T*>(raw + sizeof(BlockMemory<T>));
  const StridedTridiagonal<R, 1> t{memory.d, memory.e};
  const int thread = threadIdx.x, m = blockIdx.x;
  const long long index = first + m;
  const Scaling scaling = load_block<threads>(batch, index, a, memory);
  tridiagonalize_block<threads>(a, n, memory, t);
  back_transform_block<threads>(a, n, memory);

  Scratch<R>(scratch, capacity, room, n).begin(m, t, n, scaling, thread, threads);
  const int rows = n * parts<T>;
  R* q = columns_of(batch, index);
  for (int x = thread; x < n * rows; x += threads)
    q[x] = number_of(a, block_row(n), x / rows, x % rows);
}

}  // namespace bed
