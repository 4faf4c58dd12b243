// Functions of one thread, for the tests of the emulator.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__constant__ float table[2] = {0.5f, 2.0f};

__global__ void widen(const __half* h, const __nv_bfloat16* b, float* out_h,
                      float* out_b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out_h[i] = __half2float(h[i]);
  out_b[i] = __bfloat162float(b[i]);
}

// out: (8, n)
__global__ void count_bits(const unsigned* in, int* out) {
  const int i = threadIdx.x, n = blockDim.x;
  const unsigned x = in[i];
  const unsigned long long xx = (unsigned long long)x << 16;
  const int results[] = {__clz(x),  __clzll(xx),  __ffs(x),       __ffsll(xx),
                         __popc(x), __popcll(xx), (int)__brev(x), min(i, 3)};
  for (int k = 0; k < 8; ++k) out[k * n + i] = results[k];
}

// out: (8, n)
__global__ void maths(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  const float x = __ldg(in + i);
  out[i] = rsqrtf(x);
  out[n + i] = __frsqrt_rn(x);
  out[2 * n + i] = __fdividef(1.0f, x);
  out[3 * n + i] = __frcp_rn(x);
  out[4 * n + i] = rsqrt((double)x);
  out[5 * n + i] = fmaf(x, x, -x);
  out[6 * n + i] = max(x, NAN) * table[0] * table[1];
  out[7 * n + i] = copysignf(-x, 1) * isfinite(x) * !isnan(x);
}

// Plain, and with subnormal numbers kept.
__global__ void products(const float* in, float* out) {
  out[0] = in[0] * in[1];
  out[1] = bed_mul_rn(in[0], in[1]);
  out[2] = in[2] * in[3];
  out[3] = bed_mul_rn(in[2], in[3]);
}

// Arguments of every form.
struct Pair {
  float a;
  int b;
};

__global__ void arguments(const __grid_constant__ Pair pair, bool flag, unsigned char c,
                          long long n, double x, const void* any, float2* out) {
  const float4 q = make_float4(pair.a, pair.b, flag, c);
  *out = make_float2(q.x + q.y + q.z + q.w,
                     n + x + *static_cast<const unsigned char*>(any));
}

// The column of a matrix that a pointer and a stride describe.
__global__ void column(const float* in, long long stride, float* out) {
  out[threadIdx.x] = in ? in[(int)threadIdx.x * stride] : -1;
}
