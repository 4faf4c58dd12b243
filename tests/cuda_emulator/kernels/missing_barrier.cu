// Kernels that need each of their barriers. The macro takes one away.

#ifdef WITHOUT_BARRIER
#define BARRIER(call)
#else
#define BARRIER(call) call
#endif

// Reverses 32 numbers within a warp.
__global__ void reverse_warp(const float* in, float* out) {
  BED_DYNAMIC_SHARED(raw);
  float* s = reinterpret_cast<float*>(raw);
  s[threadIdx.x] = in[threadIdx.x];
  BARRIER(__syncwarp());
  out[threadIdx.x] = s[31 - threadIdx.x];
}

// Rotates numbers by one place, several times: here the read must come before the
// write.
__global__ void rotate_warp(const float* in, float* out, int times) {
  BED_DYNAMIC_SHARED(raw);
  float* s = reinterpret_cast<float*>(raw);
  const int i = threadIdx.x;
  s[i] = in[i];
  for (int t = 0; t < times; ++t) {
    __syncwarp();
    const float x = s[(i + 1) % 32];
    BARRIER(__syncwarp());
    s[i] = x;
  }
  out[i] = s[i];
}

// As reverse_warp, over a block whose warps also meet among themselves.
__global__ void reverse_block(const float* in, float* out) {
  BED_DYNAMIC_SHARED(raw);
  float* s = reinterpret_cast<float*>(raw);
  const int i = threadIdx.x, n = blockDim.x;
  s[i] = __shfl_xor_sync(0xffffffffu, in[i], 0);
  __syncwarp();
  BARRIER(__syncthreads());
  out[i] = s[n - 1 - i];
}

// Warp 0 hands 32 numbers at a time to all warps, which add them up: without the
// barrier it overwrites what a late warp has not read.
__global__ void hand_over(const float* in, float* out, int steps) {
  BED_DYNAMIC_SHARED(raw);
  float* s = reinterpret_cast<float*>(raw);
  const int lane = threadIdx.x % warpSize;
  float sum = 0;
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x < warpSize) s[lane] = in[step * warpSize + lane];
    __syncthreads();
    sum += s[lane];
    BARRIER(__syncthreads());
  }
  out[threadIdx.x] = sum;
}
