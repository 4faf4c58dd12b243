// The gradients of gradient.cuh with a thread a matrix, V in its registers.
//
// Grid and shared memory as of spectral_tiny.cu; V, G and the result are staged in the
// same place one after another, and what is between V and Vᴴ goes through it, for a
// loop over its elements that is not unrolled.
#include "gradient.cuh"
#include "staged.cuh"

namespace bed {

template <typename T, int N, int THREADS>
__global__ void __launch_bounds__(THREADS)
    spectral_vjp_tiny(BED_GRADIENT_PARAMETERS(T)) {
  using R = RealOf<T>;
  const Gradients<T> batch = BED_GRADIENT(T);
  const Staged<T, N, THREADS> staged(size);
  const long long index = staged.index();
  BED_DYNAMIC_SHARED(raw);
  T* const stage = reinterpret_cast<T*>(raw);
  R* const my_w = reinterpret_cast<R*>(stage + THREADS * odd<N * N>) + staged.own_row();
  T* const mine = stage + staged.own();
  staged.load(batch.v, stage);
  __syncthreads();
  T vectors[N][N], x[N][N];
  staged.take(mine, vectors);
  bool used = false;
  for (int k = 0; k < N; ++k) {
    my_w[k] = batch.w.at(index, k);
    used = used || (kind == of_eigh && batch.grad_w(index, k) != R(0));
  }
  const Spectrum<R> spectrum(batch.spectral, my_w, N);
  if (g) {
    __syncthreads();
    staged.load(batch.g, stage);
    __syncthreads();
    staged.take(mine, x);
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) used = used || is_nonzero(x[i][j]);
    }
    if (kind != of_eigh) {  // herm(G)
#pragma unroll
      for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int j = 0; j <= i; ++j) {
          x[i][j] = axpy(scale(x[i][j], R(0.5)), R(0.5), conj(x[j][i]));
          x[j][i] = conj(x[i][j]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      T y[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        y[i] = kind == of_eigh ? x[i][j] : make<T>(0);
        if (kind == of_eigh) continue;
#pragma unroll
        for (int k = 0; k < N; ++k) y[i] = madd(y[i], x[i][k], vectors[k][j]);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (i < j && kind != of_eigh) continue;
        T m = make<T>(0);
#pragma unroll
        for (int k = 0; k < N; ++k) m = madd(m, conj(vectors[k][i]), y[k]);
        mine[i * N + j] = m;
      }
    }
#pragma unroll 1
    for (int p = 0; p < N * N; ++p) {
      const int i = p / N, j = p % N;
      if (i < j) continue;
      staged.put_mirrored(mine, i, j,
                          batch.inner(index, i, j, my_w[i], my_w[j], spectrum.largest,
                                      mine[i * N + j], mine[j * N + i]));
    }
    staged.take(mine, x);
  }
  const Gradient outcome = batch.kind_of(spectrum, used);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    T z[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      z[k] = make<T>(0);
      if (!g) {
        z[k] = scale(vectors[i][k], batch.grad_w(index, k));
        continue;
      }
#pragma unroll
      for (int l = 0; l < N; ++l) z[k] = madd(z[k], vectors[i][l], x[l][k]);
    }
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      T y = make<T>(0);
#pragma unroll
      for (int k = 0; k < N; ++k) y = madd(y, z[k], conj(vectors[j][k]));
      staged.put_mirrored(mine, i, j, stored(outcome, y));
    }
  }
  __syncthreads();
  staged.store(stage, batch.result);
}

}  // namespace bed
