// V diag(f(w)) Vᴴ by a group of threads a matrix, V in shared memory.
//
// Grid: ceil(size / matrices) blocks of threads for `matrices` groups of ⌈n/TILE⌉².
// Dynamic shared memory: for each matrix n rows of V of odd_row(n), and n eigenvalues;
// then a number for each. The result takes V's place, so that it leaves in order.
#include "product.cuh"
#include "tiles.cuh"

namespace bed {

template <typename T, int TILE>
__global__ void __launch_bounds__(TILE == 2 ? 128 : 256)
    spectral_group(BED_PRODUCT_PARAMETERS(T)) {
  using R = RealOf<T>;
  const Products<T> batch = BED_PRODUCT(T);
  const long long first = static_cast<long long>(blockIdx.x) * matrices;
  const long long left = size - first;
  const int count = left < matrices ? static_cast<int>(left) : matrices;
  const Tile<TILE> tile(n, count);
  const Place& place = tile.place;
  const int row = odd_row(n), square = n * row;
  BED_DYNAMIC_SHARED(raw);
  T* const all = reinterpret_cast<T*>(raw);
  R* const all_w = reinterpret_cast<R*>(all + matrices * square);
  int* const failed = reinterpret_cast<int*>(all_w + matrices * n);

  for_block(count, n, [&](int matrix, int i, int j) {
    all[matrix * square + i * row + j] = batch.v.at(first + matrix, i, j);
  });
  for (int x = threadIdx.x; x < count * n; x += blockDim.x)
    all_w[x] = batch.w.at(first + x / n, x % n);
  __syncthreads();

  T* const mine = all + place.matrix * square;
  R* const f = all_w + place.matrix * n;
  const Spectrum<R> spectrum(batch.spectral, f, n);
  __syncthreads();
  if (place.active) {
    for (int k = place.thread; k < n; k += place.threads)
      f[k] = batch.spectral.value_at(f[k], spectrum.largest);
  }
  __syncthreads();

  T sum[TILE][TILE];
  if (place.active) {
    multiply_tile<true>(
        tile, sum, [&](int i, int k) { return scale(mine[i * row + k], f[k]); },
        [&](int k, int j) { return conj(mine[j * row + k]); });
    if (place.thread == 0) {
      failed[place.matrix] = !spectrum.known || spectrum.outside;
      const long long index = first + place.matrix;
      batch.status[index] = batch.status_of(index, spectrum, any_infinite(f, n));
    }
  }
  __syncthreads();
  if (place.active) store_mirrored(tile, sum, mine, row);
  __syncthreads();
  for_block(count, n, [&](int matrix, int i, int j) {
    const T x = all[matrix * square + i * row + j];
    batch.result[((first + matrix) * n + i) * n + j] =
        failed[matrix] ? make<T>(not_a_number<R>(), not_a_number<R>()) : x;
  });
}

}  // namespace bed
