// Kernels that do what they must not. A comment marks the line that a message has to
// name.

__device__ __noinline__ void put(float* p, float x) {
  *p = x;  // store
}

// Shared memory as it is when a block starts.
template <typename T>
__global__ void read_shared(T* out) {
  BED_DYNAMIC_SHARED(raw);
  out[blockIdx.x * blockDim.x + threadIdx.x] = reinterpret_cast<T*>(raw)[threadIdx.x];
  reinterpret_cast<T*>(raw)[threadIdx.x] = 0;
}

__global__ void store_shared(int index) {
  BED_DYNAMIC_SHARED(raw);
  if (threadIdx.x == 5) put(reinterpret_cast<float*>(raw) + index, 1);
}

__global__ void store_global(float* out, int index) {
  if (blockIdx.x == 1 && threadIdx.x == 2) put(out + index, 1);
}

__global__ void load_global(const float* in, float* out, int index) {
  out[threadIdx.x] = in[threadIdx.x == 3 ? index : 0];  // load
}

__global__ void store_constant(const float* in) { put(const_cast<float*>(in), 1); }

__global__ void skip_one(float* out, int* flags, int skipped) {
  if (threadIdx.x == skipped) return;
  out[threadIdx.x] = nanf("");
  flags[threadIdx.x] = -1;
}

__global__ void load_vector(const float* in, float4* out, int index) {
  *out = *reinterpret_cast<const float4*>(in + index);  // vector
}

__global__ void divide(int* out, int divisor) {
  *out = 7 / divisor;  // divide
}

__global__ void shift(int* out, int amount) {
  *out = 1 << amount;  // shift
}

__global__ void hang(volatile int* flag) {
  while (*flag == 0) {  // hang
  }
}

__device__ __noinline__ float recurse(float* out, int depth) {
  volatile int frame[1024];
  for (int i = 0; i < 1024; ++i) frame[i] = depth;
  return depth ? recurse(out, depth - 1) + frame[depth % 1024] : *out;
}

__global__ void overflow_stack(float* out, int depth) { *out = recurse(out, depth); }

// An index out of the thread's own array: no page or guard word is near.
__global__ void leave_local(double* out, int index) {
  double a[4] = {1, 2, 3, 4};
  for (int i = 0; i < 4; ++i) a[i] *= out[i];
  a[index] = 5;  // local
  for (int i = 0; i < 4; ++i) out[i] = a[i];
}

// ---- collectives

__global__ void different_kinds() {
  if (threadIdx.x < 16)
    __shfl_sync(0xffffffffu, 1, 0);  // shuffle
  else
    __ballot_sync(0xffffffffu, 1);  // ballot
}

__global__ void different_lines() {
  if (threadIdx.x < 16)
    __shfl_sync(0xffffffffu, 1, 0);  // one
  else
    __shfl_sync(0xffffffffu, 1, 0);  // other
}

__global__ void not_in_mask() {
  __syncwarp(0xfffffffeu);  // stranger
}

__global__ void lane_missing() {
  if (threadIdx.x != 7)
    __syncwarp();  // waits
  else
    __syncwarp(1u << 7 | 1u << 8);  // missing
}

__global__ void warp_missing(int threads) {
  if (threadIdx.x < 32)
    bed_bar_sync(3, threads);  // named
  else
    __syncthreads();  // block
}

__global__ void different_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();  // first
  else
    __syncthreads();  // second
}

__global__ void different_counts() {
  bed_bar_sync(2, threadIdx.x < 32 ? 64 : 96);  // count
}

__global__ void arrive_twice() {
  bed_bar_arrive(4, 96);
  bed_bar_arrive(4, 96);  // again
}

__global__ void barrier_number(int id, int threads) {
  bed_bar_sync(id, threads);  // number
}

__global__ void shuffle_width(int width) {
  __shfl_sync(0xffffffffu, 1, 0, width);  // width
}

// The lanes that run together are not known; the emulator names all that live.
__global__ void trust_active_mask() {
  if (threadIdx.x < 16) __syncwarp(__activemask());  // active
  __syncthreads();
}

// Only AddressSanitizer sees where a pointer into an array leads.
__global__ void leave_local_by_pointer(float* out, int index) {
  float a[4] = {out[0], out[1], out[2], out[3]};
  float* p = a + (out[0] > 0);
  asm volatile("" : "+r"(p));
  p[index] = 5;
  for (int i = 0; i < 4; ++i) out[i] = a[i];
}

__global__ void uninitialised(float* out, int count) {
  float a[4];
  for (int i = 0; i < count; ++i) a[i] = i;
  *out = a[2];
}
