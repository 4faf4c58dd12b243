// The QR chains of a round, one thread each (split.cuh).
//
// Grid: a block for CHAINS matrices of a chunk. Dynamic shared memory: their T,
// diagonal and off-diagonal entries side by side. The compiler is told that one block
// is enough: else it saves registers, and loads what a chain waits for.
#include "split.cuh"

namespace bed {

template <typename T, int CHAINS>
__global__ void __launch_bounds__(CHAINS, 1)
    split_chase(BED_BATCH_PARAMETERS(T), BED_SPLIT_PARAMETERS) {
  using R = RealOf<T>;
  BED_DYNAMIC_SHARED(raw);
  const int thread = threadIdx.x, m = static_cast<int>(blockIdx.x) * CHAINS + thread;
  if (m >= count) return;
  const Scratch<R> kept(scratch, capacity, room, n);
  R* d = reinterpret_cast<R*>(raw) + thread;
  const StridedTridiagonal<R, CHAINS> t{d, d + CHAINS * n};
  Progress progress = kept.progress[m];
  // Chains that were done before have nothing to be applied any more.
  if (progress.hi == 0 && progress.recorded == 0) return;
  kept.load(m, t, n, 0, 1);
  record_sweeps(t, n, progress, kept.record(m), room);
  kept.store(m, t, n, 0, 1);
  kept.progress[m] = progress;
}

}  // namespace bed
