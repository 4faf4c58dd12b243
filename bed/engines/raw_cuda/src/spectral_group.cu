// V diag(f(w)) Vᴴ by a group of threads a matrix, V in shared memory.
//
// Grid: ceil(size / matrices) blocks of threads for `matrices` groups of ⌈n/TILE⌉².
// Dynamic shared memory: for each matrix n rows of V of odd_row(n), and n eigenvalues;
// then a number for each. The result takes V's place, so that it leaves in order.
#include "spectrum.cuh"
#include "tiles.cuh"

namespace bed {

template <typename T, int TILE>
__global__ void __launch_bounds__(TILE == 2 ? 128 : 256)
    spectral_group(const RealOf<T>* values, long long values_stride,
                   long long value_stride, const T* vectors, long long vectors_stride,
                   long long row_stride, long long column_stride, T* result,
                   int* status, const int* solved, long long size, int n, int matrices,
                   BED_SPECTRAL_PARAMETERS) {
  using R = RealOf<T>;
  const Spectral<R> spectral = BED_SPECTRAL(R);
  const Strided<T> v{vectors, vectors_stride, row_stride, column_stride};
  const long long first = static_cast<long long>(blockIdx.x) * matrices;
  const int count = size - first < matrices ? static_cast<int>(size - first) : matrices;
  const int m = (n + TILE - 1) / TILE, row = odd_row(n);
  const Place place(m * m, count);
  BED_DYNAMIC_SHARED(raw);
  T* const all = reinterpret_cast<T*>(raw);
  R* const all_w = reinterpret_cast<R*>(all + matrices * n * row);
  int* const failed = reinterpret_cast<int*>(all_w + matrices * n);

  for_block(count, n, [&](int matrix, int i, int j) {
    all[matrix * n * row + i * row + j] = v.at(first + matrix, i, j);
  });
  for (int x = threadIdx.x; x < count * n; x += blockDim.x)
    all_w[x] = values[(first + x / n) * values_stride + x % n * value_stride];
  __syncthreads();

  T* const mine = all + place.matrix * n * row;
  R* const w = all_w + place.matrix * n;
  const Spectrum<R> spectrum(spectral, w, n);
  __syncthreads();
  if (place.active) {
    for (int k = place.thread; k < n; k += place.threads)
      w[k] = value(spectral.f, spectral.meant(w[k], spectrum.largest));
  }
  __syncthreads();

  const Tile<TILE> tile(n, place.thread);
  T sum[TILE][TILE];
  if (place.active) {
    multiply_tile<true>(
        tile, sum, [&](int i, int k) { return scale(mine[i * row + k], w[k]); },
        [&](int k, int j) { return conj(mine[j * row + k]); });
    if (place.thread == 0) {
      bool overflows = false;
      for (int k = 0; k < n; ++k)
        overflows = overflows || magnitude_bits(w[k]) == Format<R>::infinity;
      failed[place.matrix] = !spectrum.known || spectrum.outside;
      const long long index = first + place.matrix;
      status[index] = !spectrum.known    ? (solved ? solved[index] : not_finite)
                      : spectrum.outside ? domain
                      : overflows        ? overflow
                                         : ok;
    }
  }
  __syncthreads();
  if (place.active) store_mirrored(tile, sum, mine, row);
  __syncthreads();
  for_block(count, n, [&](int matrix, int i, int j) {
    result[((first + matrix) * n + i) * n + j] =
        failed[matrix] ? make<T>(not_a_number<R>(), not_a_number<R>())
                       : all[matrix * n * row + i * row + j];
  });
}

}  // namespace bed
