// The rotations of a round are applied to Q (split.cuh).
//
// Grid: a block for each matrix of a chunk, with a thread for every row of real or of
// imaginary parts, which it holds: N is n rounded up to one of the launcher's. Dynamic
// shared memory: the record of a matrix.
#include "split.cuh"

namespace bed {

// Apply a sweep to the columns of a row.
template <int N, typename R>
BED_DEVICE void rotate_row(R (&x)[N], int lo, int hi, const Rotation<R>* rotations) {
  constexpr int chunk = 4;  // rotations loaded before they are applied
#pragma unroll
  for (int i0 = 0; i0 < N - 1; i0 += chunk) {
    if (i0 >= lo && i0 + chunk <= hi && i0 + chunk < N) {
      Rotation<R> rotation[chunk];
#pragma unroll
      for (int u = 0; u < chunk; ++u) rotation[u] = rotations[i0 + u - lo];
#pragma unroll
      for (int u = 0; u < chunk; ++u) rotate(rotation[u], x[i0 + u], x[i0 + u + 1]);
    } else if (i0 + chunk > lo && i0 < hi) {
      // An end of the sweep: what is outside is left alone, down to the sign of a zero.
#pragma unroll
      for (int i = i0; i < i0 + chunk && i < N - 1; ++i)
        if (i >= lo && i < hi) rotate(rotations[i - lo], x[i], x[i + 1]);
    }
  }
}

template <typename T, int N, int MIN_BLOCKS>
__global__ void __launch_bounds__((N * sizeof(T) / sizeof(RealOf<T>) + 31) / 32 * 32,
                                  MIN_BLOCKS)
    split_apply(BED_BATCH_PARAMETERS(T), BED_SPLIT_PARAMETERS) {
  const Batch<T> batch = BED_BATCH;
  using R = RealOf<T>;
  BED_DYNAMIC_SHARED(raw);
  Rotation<R>* record = reinterpret_cast<Rotation<R>*>(raw);
  const int thread = threadIdx.x, m = blockIdx.x, rows = n * parts<T>;
  const Scratch<R> kept(scratch, capacity, room, n);
  const int recorded = kept.progress[m].recorded;
  if (recorded == 0) return;
  for (int i = thread; i < recorded; i += blockDim.x) record[i] = kept.record(m)[i];
  __syncthreads();
  if (thread >= rows) return;
  R* q = columns_of(batch, first + m) + thread;
  R x[N] = {};
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < n) x[i] = q[i * rows];
  for_sweeps(record, recorded, [&](int lo, int hi, const Rotation<R>* rotations) {
    rotate_row<N>(x, lo, hi, rotations);
  });
  // By another way of counting, or the compiler would keep all addresses for it.
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < n) *q = x[i], q += rows;
}

}  // namespace bed
