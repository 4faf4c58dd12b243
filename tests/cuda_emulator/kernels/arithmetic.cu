// Arithmetic of one thread: what is flushed, what is approximated, for the tests of the
// emulator.

// out: (16, n); of doubles and integers as well: (3, n).
__global__ void flushing(const float* xs, const float* ys, float* out, double* wide,
                         int* whole) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  const float x = xs[i], y = ys[i];
  const float results[] = {
      x + y, x - y, x * y, x / y, fmaf(x, y, x), -x, fabsf(x), min(x, y), max(x, y),
      sqrtf(fabsf(x)), float(double(x) * 0x1p-20),
      // From here on nothing is flushed.
      bed_mul_rn(x, y), copysignf(x, y), x == x ? x : y,
      __shfl_xor_sync(0xffffffffu, x, 0), __uint_as_float(__float_as_uint(x))};
  for (int k = 0; k < 16; ++k) out[k * n + i] = results[k];
  wide[i] = double(x);
  wide[n + i] = x * 0x1p30;
  wide[2 * n + i] = 0x1p30 - y;
  whole[i] = (x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 |
             (x != y) << 5;
  whole[n + i] = x > 0;
  whole[2 * n + i] = bool(x);
}

// What the device computes in one operation.
template <typename T>
__global__ void contracted(const T* xs, const T* ys, const T* zs, T* out) {
  const int i = threadIdx.x;
  out[i] = xs[i] * ys[i] + zs[i];
}

// out: (9, n)
template <typename T>
__global__ void approximations(const T* xs, const T* ys, T* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
  const T x = xs[i], y = ys[i];
  const T results[] = {rsqrt(x), exp(y),    expm1(y),         log(x),
                       log1p(x), pow(x, y), bed_rcp_approx(x)};
  for (int k = 0; k < 7; ++k) out[k * n + i] = results[k];
  if constexpr (sizeof(T) == 4) {
    out[7 * n + i] = bed_sqrt_approx(x);
    out[8 * n + i] = __fdividef(y, x);
  } else {
    out[7 * n + i] = bed_rsqrt_approx(x);
    out[8 * n + i] = y / x;
  }
}
