// The gradients of gradient.cuh by a group of threads a matrix, V in shared memory.
//
// Grid and threads as in spectral_group.cu. Dynamic shared memory: for each matrix n
// rows of odd_row(n) of V, and, where SHARED, of the matrix that G becomes step by
// step, which has the place of the result otherwise; n eigenvalues; then a number for
// each.
#include "gradient.cuh"
#include "tiles.cuh"

namespace bed {

template <typename T, int TILE, bool SHARED>
__global__ void __launch_bounds__(TILE == 2 ? 128 : 256)
    spectral_vjp_group(BED_GRADIENT_PARAMETERS(T)) {
  using R = RealOf<T>;
  const Gradients<T> batch = BED_GRADIENT(T);
  const long long first = static_cast<long long>(blockIdx.x) * matrices;
  const long long left = size - first;
  const int count = left < matrices ? static_cast<int>(left) : matrices;
  const Tile<TILE> tile(n, count);
  const Place& place = tile.place;
  const long long index = first + place.matrix;
  const int row = odd_row(n), square = n * row, pitch = SHARED ? row : n;
  BED_DYNAMIC_SHARED(raw);
  T* const all_v = reinterpret_cast<T*>(raw);
  T* const all_x = SHARED ? all_v + matrices * square : result + first * n * n;
  R* const all_w = reinterpret_cast<R*>(all_v + (SHARED ? 2 : 1) * matrices * square);
  int* const used = reinterpret_cast<int*>(all_w + matrices * n);
  const T* const my_v = all_v + place.matrix * square;
  const R* const my_w = all_w + place.matrix * n;
  T* const x = all_x + place.matrix * n * pitch;

  for (int k = threadIdx.x; k < matrices; k += blockDim.x) used[k] = 0;
  __syncthreads();
  for (int k = threadIdx.x; k < count * n; k += blockDim.x) {
    all_w[k] = batch.w.at(first + k / n, k % n);
    if (kind == of_eigh && batch.grad_w(first + k / n, k % n) != R(0)) used[k / n] = 1;
  }
  for_block(count, n, [&](int matrix, int i, int j) {
    all_v[matrix * square + i * row + j] = batch.v.at(first + matrix, i, j);
    if (!g) return;
    const T y = batch.g.at(first + matrix, i, j);
    all_x[matrix * n * pitch + i * pitch + j] = y;
    if (is_nonzero(y)) used[matrix] = 1;
  });
  __syncthreads();

  const Spectrum<R> spectrum(batch.spectral, my_w, n);
  if (!g && place.active) {  // V diag(w̄), without the steps before
    for (int y = place.thread; y < n * n; y += place.threads)
      x[y / n * pitch + y % n] =
          scale(my_v[y / n * row + y % n], batch.grad_w(index, y % n));
  }
  T sum[TILE][TILE];
  const auto store = [&](int i, int j, T y) { x[i * pitch + j] = y; };
  const auto right = [&](int k, int j) { return x[k * pitch + j]; };
  if (g && kind != of_eigh) {  // herm(G) V
    if (place.active) {
      for_pairs(place, n, [&](int i, int j) {
        const T y = scale(x[i * pitch + j], R(0.5));
        const T h = axpy(y, R(0.5), conj(x[j * pitch + i]));
        x[i * pitch + j] = h;
        x[j * pitch + i] = conj(h);
      });
    }
    __syncthreads();
    if (place.active)
      multiply_tile<false>(
          tile, sum, [&](int i, int k) { return x[i * pitch + k]; },
          [&](int k, int j) { return my_v[k * row + j]; });
    __syncthreads();
    if (place.active) for_tile(tile, sum, store);
    __syncthreads();
  }
  if (g) {  // Vᴴ of that, the matrix between V and Vᴴ, and V of that
    const auto left = [&](int i, int k) { return conj(my_v[k * row + i]); };
    if (place.active) {
      if (kind == of_eigh)
        multiply_tile<false>(tile, sum, left, right);
      else
        multiply_tile<true>(tile, sum, left, right);
    }
    __syncthreads();
    if (place.active) for_tile(tile, sum, store);
    __syncthreads();
    if (place.active) {
      for_pairs(place, n, [&](int i, int j) {
        const T y = batch.inner(index, i, j, my_w[i], my_w[j], spectrum.largest,
                                x[i * pitch + j], x[j * pitch + i]);
        x[i * pitch + j] = y;
        x[j * pitch + i] = conj(y);
      });
    }
    __syncthreads();
    if (place.active)
      multiply_tile<false>(
          tile, sum, [&](int i, int k) { return my_v[i * row + k]; }, right);
    __syncthreads();
    if (place.active) for_tile(tile, sum, store);
  }
  __syncthreads();
  if (place.active)
    multiply_tile<true>(
        tile, sum, [&](int i, int k) { return x[i * pitch + k]; },
        [&](int k, int j) { return conj(my_v[j * row + k]); });
  __syncthreads();
  if (place.active) {
    store_mirrored(tile, sum, x, pitch);
    if (place.thread == 0)
      used[place.matrix] = batch.kind_of(spectrum, used[place.matrix] != 0);
  }
  __syncthreads();
  for_block(count, n, [&](int matrix, int i, int j) {
    const T y = all_x[matrix * n * pitch + i * pitch + j];
    batch.result[((first + matrix) * n + i) * n + j] =
        stored(static_cast<Gradient>(used[matrix]), y);
  });
}

}  // namespace bed
