// V diag(f(w)) Vᴴ with a thread a matrix, V in its registers.
//
// Grid: ceil(size / THREADS) blocks of THREADS threads. Dynamic shared memory: for each
// thread odd<N * N> elements, in which V comes and the result leaves, so that
// neighbouring threads move neighbouring words; and odd<N> eigenvalues. N is the size
// itself.
#include "product.cuh"
#include "staged.cuh"

namespace bed {

template <typename T, int N, int THREADS>
__global__ void __launch_bounds__(THREADS) spectral_tiny(BED_PRODUCT_PARAMETERS(T)) {
  using R = RealOf<T>;
  const Products<T> batch = BED_PRODUCT(T);
  const Staged<T, N, THREADS> staged(size);
  BED_DYNAMIC_SHARED(raw);
  T* const stage = reinterpret_cast<T*>(raw);
  R* const f = reinterpret_cast<R*>(stage + THREADS * odd<N * N>) + staged.own_row();
  T* const mine = stage + staged.own();
  staged.load(batch.v, stage);
  __syncthreads();
  T vectors[N][N];
  staged.take(mine, vectors);
  for (int k = 0; k < N; ++k) f[k] = batch.w.at(staged.index(), k);
  const Spectrum<R> spectrum(batch.spectral, f, N);
#pragma unroll 1
  for (int k = 0; k < N; ++k) f[k] = batch.spectral.value_at(f[k], spectrum.largest);
  const bool failed = !spectrum.known || spectrum.outside;
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      T y = make<T>(0);
#pragma unroll
      for (int k = 0; k < N; ++k)
        y = madd(y, scale(vectors[i][k], f[k]), conj(vectors[j][k]));
      if (failed) y = make<T>(not_a_number<R>(), not_a_number<R>());
      staged.put_mirrored(mine, i, j, y);
    }
  }
  if (staged.active())
    batch.status[staged.index()] =
        batch.status_of(staged.index(), spectrum, any_infinite(f, N));
  __syncthreads();
  staged.store(stage, batch.result);
}

}  // namespace bed
