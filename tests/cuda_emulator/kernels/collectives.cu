// Warp collectives and block barriers, for the tests of the emulator.

// The four shuffles of `in`, one after another in `out` (4, threads).
template <typename T>
__global__ void shuffles(const T* in, T* out, int width, int amount, unsigned mask) {
  const int i = threadIdx.x, n = blockDim.x;
  if (!(mask >> (i % warpSize) & 1)) return;
  const T x = in[i];
  out[i] = __shfl_sync(mask, x, amount, width);
  out[n + i] = __shfl_up_sync(mask, x, amount, width);
  out[2 * n + i] = __shfl_down_sync(mask, x, amount, width);
  out[3 * n + i] = __shfl_xor_sync(mask, x, amount, width);
}

// Votes of the lanes in `mask`; the others have exited, or vote apart.
// out: (4, threads) ballot, all, any, match.
__global__ void votes(const int* in, unsigned* out, unsigned mask, bool others_exit) {
  const int i = threadIdx.x, n = blockDim.x;
  const bool inside = mask >> (i % warpSize) & 1;
  if (others_exit && !inside) return;
  // With the others gone, a mask that still names them means the same.
  const unsigned group = others_exit ? 0xffffffffu : inside ? mask : ~mask;
  const int x = in[i];
  out[i] = __ballot_sync(group, x > 0);
  out[n + i] = __all_sync(group, x > 0);
  out[2 * n + i] = __any_sync(group, x > 0);
  out[3 * n + i] = __match_any_sync(group, x);
}

// Sum over groups of `lanes` lanes, each with a mask of its own.
template <typename T, int lanes>
__global__ void group_sums(const T* in, T* out) {
  const int lane = threadIdx.x % warpSize;
  const unsigned mask = (0xffffffffu >> (32 - lanes)) << (lane / lanes * lanes);
  T x = in[threadIdx.x];
#pragma unroll
  for (int o = lanes / 2; o > 0; o /= 2) x += __shfl_xor_sync(mask, x, o);
  out[threadIdx.x] = x;
}

// Running maximum over a block in shared memory; every step needs both barriers.
// `in` and `out` have the shape of the grid of threads, (blocks, threads).
__global__ void running_maximum(const double* in, double* out) {
  BED_DYNAMIC_SHARED(raw);
  double* s = reinterpret_cast<double*>(raw);
  const int i = threadIdx.x, n = blockDim.x;
  const int at = blockIdx.x * n + i;
  s[i] = in[at];
  for (int o = 1; o < n; o *= 2) {
    __syncthreads();
    const double other = i >= o ? s[i - o] : s[i];
    __syncthreads();
    s[i] = max(s[i], other);
  }
  out[at] = s[i];
}

// out: (3, threads) or, and, count of in > 0 over the threads that stay.
__global__ void block_votes(const int* in, int* out, int first_to_exit) {
  const int i = threadIdx.x, n = blockDim.x;
  if (i >= first_to_exit) return;
  out[i] = __syncthreads_or(in[i] > 0);
  out[n + i] = __syncthreads_and(in[i] > 0);
  out[2 * n + i] = __syncthreads_count(in[i] > 0);
}

// Warp 0 squares `in`, 32 numbers at a time, the other warps add them up, each on its
// own: two slots, and for each slot a barrier "full" and a barrier "free".
__global__ void pipeline(const float* in, float* out, int steps) {
  BED_DYNAMIC_SHARED(raw);
  float* slots = reinterpret_cast<float*>(raw);
  const int n = blockDim.x, lane = threadIdx.x % warpSize;
  const bool producer = threadIdx.x < warpSize;
  float sum = 0;
  for (int step = 0; step < steps; ++step) {
    const int slot = step % 2, full = 1 + slot, empty = 3 + slot;
    float* s = slots + slot * warpSize;
    if (producer) {
      const float x = in[step * warpSize + lane];
      if (step >= 2) bed_bar_sync(empty, n);
      s[lane] = x * x;
      bed_bar_arrive(full, n);
    } else {
      bed_bar_sync(full, n);
      for (int j = 0; j < warpSize; ++j) sum += s[j];
      bed_bar_arrive(empty, n);
    }
  }
  out[threadIdx.x] = sum;
}

// Three dimensions: out (gz, gy, gx, bz, by, bx) is filled with its own flat index.
__global__ void indices(int* out) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread =
      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
  out[i] = i;
}

// Notes in which order the warps of a block come by, several times between barriers.
__global__ void order(int* out, int* count, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (int step = 0; step < 3; ++step) {
      __syncwarp();
      if (threadIdx.x % warpSize == 0) out[(*count)++] = threadIdx.x / warpSize;
    }
    __syncthreads();
  }
}
