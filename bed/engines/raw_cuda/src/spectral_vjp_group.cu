// Gradients of functions of a matrix and of its eigenvalues and eigenvectors, by a
// group of threads a matrix, V in shared memory.
//
//     V [L ∘ (Vᴴ herm(G) V)] Vᴴ              of a function, differences L
//     V [diag(w̄) + F ∘ (X − Xᴴ)/2] Vᴴ        of the decomposition, X = Vᴴ V̄
//
// (bed/_functions.py, bed/_derivative/eigh.py). Grid and threads as in
// spectral_group.cu. Dynamic shared memory: for each matrix n rows of odd_row(n) of V,
// and, where SHARED, of the matrix that G becomes step by step, which has the place of
// the result otherwise; n eigenvalues; then a number for each.
#include "spectrum.cuh"
#include "tiles.cuh"

namespace bed {

// What a launch makes the gradient of.
enum Kind : int { of_function = 0, of_differences = 1, of_eigh = 2 };

// What comes out of a matrix.
enum Gradient : int { all_zero = 0, regular = 1, all_nan = 2 };

// 1/(wⱼ − wᵢ), or zero for a gap that is no more than rounding.
template <typename R>
BED_DEVICE R inverse_gap(R wi, R wj, R largest, R cutoff) {
  const R s = largest > R(0) ? largest : R(1), gap = (wj - wi) / s;
  return magnitude(gap) > cutoff ? R(1) / gap / s : R(0);
}

template <typename T, int TILE, bool SHARED>
__global__ void __launch_bounds__(TILE == 2 ? 128 : 256)
    spectral_vjp_group(const RealOf<T>* values, long long values_stride,
                       long long value_stride, const T* vectors,
                       long long vectors_stride, long long row_stride,
                       long long column_stride, const T* cotangent,
                       long long cotangent_stride, long long cotangent_row_stride,
                       long long cotangent_column_stride, const RealOf<T>* beside,
                       long long beside_stride, long long beside_row_stride,
                       long long beside_column_stride, T* result, long long size, int n,
                       int matrices, int kind, double cutoff, BED_SPECTRAL_PARAMETERS) {
  using R = RealOf<T>;
  const Spectral<R> spectral = BED_SPECTRAL(R);
  const Strided<T> v{vectors, vectors_stride, row_stride, column_stride};
  const Strided<T> g{cotangent, cotangent_stride, cotangent_row_stride,
                     cotangent_column_stride};
  // L where it is given, or w̄.
  const Strided<R> given{beside, beside_stride, beside_row_stride,
                         beside_column_stride};
  const long long first = static_cast<long long>(blockIdx.x) * matrices;
  const int count = size - first < matrices ? static_cast<int>(size - first) : matrices;
  const int m = (n + TILE - 1) / TILE, row = odd_row(n);
  const Place place(m * m, count);
  const long long index = first + place.matrix;
  BED_DYNAMIC_SHARED(raw);
  T* const all_v = reinterpret_cast<T*>(raw);
  T* const all_x = SHARED ? all_v + matrices * n * row : result + first * n * n;
  R* const all_w = reinterpret_cast<R*>(all_v + (SHARED ? 2 : 1) * matrices * n * row);
  int* const outcomes = reinterpret_cast<int*>(all_w + matrices * n);
  const int pitch = SHARED ? row : n;
  T* const mine = all_v + place.matrix * n * row;
  T* const x = all_x + place.matrix * n * pitch;
  R* const w = all_w + place.matrix * n;

  for (int k = threadIdx.x; k < matrices; k += blockDim.x) outcomes[k] = all_zero;
  __syncthreads();
  for (int k = threadIdx.x; k < count * n; k += blockDim.x) {
    all_w[k] = values[(first + k / n) * values_stride + k % n * value_stride];
    if (kind == of_eigh && beside && given.at(first + k / n, k % n) != R(0))
      outcomes[k / n] = regular;
  }
  for_block(count, n, [&](int matrix, int i, int j) {
    all_v[matrix * n * row + i * row + j] = v.at(first + matrix, i, j);
    if (!cotangent) return;
    const T y = g.at(first + matrix, i, j);
    all_x[matrix * n * pitch + i * pitch + j] = y;
    if (real(y) != R(0) || imag(y) != R(0)) outcomes[matrix] = regular;
  });
  __syncthreads();

  const Spectrum<R> spectrum(spectral, w, n);
  const Tile<TILE> tile(n, place.thread);
  T sum[TILE][TILE];
  const auto store = [&](int i, int j, T y) { x[i * pitch + j] = y; };
  if (place.active && place.thread == 0 && outcomes[place.matrix] != all_zero)
    outcomes[place.matrix] = spectrum.known && !spectrum.outside ? regular : all_nan;

  if (!cotangent) {  // V diag(w̄), without the steps before
    if (place.active) {
      for (int y = place.thread; y < n * n; y += place.threads)
        store(y / n, y % n, scale(mine[y / n * row + y % n], given.at(index, y % n)));
    }
  } else {
    if (kind != of_eigh) {  // herm(G), and its product with V
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
            [&](int k, int j) { return mine[k * row + j]; });
      __syncthreads();
      if (place.active) for_tile(tile, sum, store);
      __syncthreads();
    }
    const auto left = [&](int i, int k) { return conj(mine[k * row + i]); };
    const auto right = [&](int k, int j) { return x[k * pitch + j]; };
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
        T y = x[i * pitch + j];
        if (kind == of_eigh) {
          y = axpy(scale(y, R(0.5)), R(-0.5), conj(x[j * pitch + i]));
          y = scale(y, inverse_gap(w[i], w[j], spectrum.largest, R(cutoff)));
          if (i == j) y = make<T>(beside ? given.at(index, i) : R(0));
        } else {
          y = scale(y, kind == of_function
                           ? spectral.slope(w[i], w[j], spectrum.largest)
                           : given.at(index, i, j));
        }
        x[i * pitch + j] = i == j ? make<T>(real(y)) : y;
        x[j * pitch + i] = i == j ? make<T>(real(y)) : conj(y);
      });
    }
    __syncthreads();
    if (place.active)
      multiply_tile<false>(
          tile, sum, [&](int i, int k) { return mine[i * row + k]; }, right);
    __syncthreads();
    if (place.active) for_tile(tile, sum, store);
  }
  __syncthreads();
  if (place.active)
    multiply_tile<true>(
        tile, sum, [&](int i, int k) { return x[i * pitch + k]; },
        [&](int k, int j) { return conj(mine[j * row + k]); });
  __syncthreads();
  if (place.active) store_mirrored(tile, sum, x, pitch);
  __syncthreads();
  for_block(count, n, [&](int matrix, int i, int j) {
    const int outcome = outcomes[matrix];
    const T y = all_x[matrix * n * pitch + i * pitch + j];
    result[((first + matrix) * n + i) * n + j] =
        outcome == regular    ? y
        : outcome == all_zero ? make<T>(0)
                              : make<T>(not_a_number<R>(), not_a_number<R>());
  });
}

}  // namespace bed
