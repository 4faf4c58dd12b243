// The first launch of several (split.cuh), of matrices that registers hold.
//
// Grid: ceil(count / M) blocks of 32·WARPS threads, where a block has M = 32/G·WARPS
// matrices, held by G lanes each with R rows a lane (lanes.cuh), as in eigh_chase.cu.
// Dynamic shared memory: sizeof(ReduceMemory).
#include "back_transform.cuh"
#include "split.cuh"

namespace bed {

template <typename T, int N, int G, int R, int WARPS>
struct ReduceMemory {
  using L = Lanes<N, G, R>;
  static constexpr int M = 32 / G * WARPS;

  MatrixMemory<L, T, true> matrices[M];
  T tau[M][N];
  RealOf<T> d[N][M];
  RealOf<T> e[N][M];
};

template <typename T, int N, int G, int R, int WARPS, int MIN_BLOCKS>
__global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS)
    split_reduce_lanes(BED_BATCH_PARAMETERS(T), BED_SPLIT_PARAMETERS) {
  const Batch<T> batch = BED_BATCH;
  using L = Lanes<N, G, R>;
  using Memory = ReduceMemory<T, N, G, R, WARPS>;
  using Real = RealOf<T>;
  BED_DYNAMIC_SHARED(raw);
  Memory& memory = *reinterpret_cast<Memory*>(raw);
  const int group = static_cast<int>(threadIdx.x) / G;
  const int m = static_cast<int>(blockIdx.x) * Memory::M + group;
  // Lanes without a matrix work on the last one, and store nothing.
  const long long index = first + (m < count ? m : count - 1);
  const StridedTridiagonal<Real, Memory::M> t{memory.d[0] + group, memory.e[0] + group};
  auto& mine = memory.matrices[group];
  const Shared<T> shared{mine.u(), mine.p(), mine.memory, memory.tau[group]};
  Scaling scaling;
  {
    T a[R][N];
    scaling = load_rows<L>(batch, index, a, mine.memory);
    tridiagonalize<L>(a, n, shared, t);
  }
  T q[R][N];
  back_transform<L>(q, n, shared);
  if (m >= count) return;

  Scratch<Real>(scratch, capacity, room, n).begin(m, t, n, scaling, L::lane(), G);
  const int rows = n * parts<T>;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int i = L::row(r);
    if (i >= n) continue;
    Real* to = columns_of(batch, index) + i * parts<T>;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (j >= n) continue;
      to[j * rows] = real(q[r][j]);
      if (parts<T> > 1) to[j * rows + 1] = imag(q[r][j]);
    }
  }
}

}  // namespace bed
