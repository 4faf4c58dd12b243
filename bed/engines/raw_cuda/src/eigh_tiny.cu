// One thread per matrix, everything in registers: n up to 8.
//
// Grid: ceil(size / THREADS) blocks of THREADS threads. Dynamic shared memory:
// tiny_shared<T, N, THREADS, VECTORS>() bytes, in which a block's matrices are staged,
// so that neighbouring threads move neighbouring words. N is the size itself. Layout of
// batch, results and status: batch.cuh. The reference is engines/reference/eigh.py.
#include "batch.cuh"
#include "copy.cuh"
#include "reflector.cuh"
#include "rotation.cuh"

namespace bed {

// The staging area of an array is reused for the next one.
template <typename T, int N, int THREADS, bool VECTORS>
constexpr int tiny_shared() {
  return THREADS * odd<N * N> * static_cast<int>(sizeof(T));
}

// d, e: T of A = Q T Qᴴ. On return row k of `a` holds reflector k right of the
// diagonal.
template <typename T, int N>
BED_DEVICE void tridiagonalize_tiny(T (&a)[N][N], RealOf<T> (&d)[N], RealOf<T> (&e)[N],
                                    T (&tau)[N]) {
  using R = RealOf<T>;
  constexpr int steps = N - 2 + Traits<T>::is_complex;
#pragma unroll
  for (int k = 0; k < N - 1; ++k) {
    d[k] = real(a[k][k]);
    if (k >= steps) {
      e[k] = real(a[k + 1][k]);
      tau[k] = make<T>(0);
      continue;
    }
    R tail = 0;
#pragma unroll
    for (int i = k + 2; i < N; ++i) tail += inner(a[i][k], a[i][k]);
    const Reflector<T> h = reflector(a[k + 1][k], tail);
    e[k] = h.beta;
    tau[k] = h.tau;
    T u[N], p[N];
    u[k + 1] = make<T>(1);
#pragma unroll
    for (int i = k + 2; i < N; ++i) u[i] = multiply(a[i][k], h.scale);
#pragma unroll
    for (int i = k + 1; i < N; ++i) a[k][i] = u[i];
    if (k == N - 2) continue;  // a phase does not change the last diagonal entry
    R gamma = 0;
#pragma unroll
    for (int i = k + 1; i < N; ++i) {
      T y = make<T>(0);
#pragma unroll
      for (int j = k + 1; j < N; ++j) y = madd(y, a[i][j], u[j]);
      gamma += inner(u[i], y);
      p[i] = multiply(h.tau, y);
    }
    const R half = R(0.5) * inner(h.tau, h.tau) * gamma;
#pragma unroll
    for (int i = k + 1; i < N; ++i) p[i] = axpy(p[i], -half, u[i]);
#pragma unroll
    for (int i = k + 1; i < N; ++i) {
#pragma unroll
      for (int j = k + 1; j < N; ++j) {
        a[i][j] = madd(a[i][j], negate(u[i]), conj(p[j]));
        a[i][j] = madd(a[i][j], negate(p[i]), conj(u[j]));
      }
    }
  }
  d[N - 1] = real(a[N - 1][N - 1]);
}

// Q = H₀ H₁ … by backward accumulation.
template <typename T, int N>
BED_DEVICE void back_transform_tiny(const T (&a)[N][N], const T (&tau)[N],
                                    T (&q)[N][N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) q[i][j] = make<T>(i == j ? 1 : 0);
  }
#pragma unroll
  for (int k = N - 3 + Traits<T>::is_complex; k >= 0; --k) {
#pragma unroll
    for (int j = k + 1; j < N; ++j) {
      T s = make<T>(0);
#pragma unroll
      for (int i = k + 1; i < N; ++i) s = madd(s, conj(a[k][i]), q[i][j]);
      s = multiply(negate(tau[k]), s);
#pragma unroll
      for (int i = k + 1; i < N; ++i) q[i][j] = madd(q[i][j], a[k][i], s);
    }
  }
}

// Diagonalise T of two rows.
template <bool VECTORS, typename T, typename R>
BED_DEVICE void solve_pair(R (&d)[2], R off_diagonal, T (&q)[2][2]) {
  if (is_negligible(off_diagonal, d[0], d[1])) return;
  const TwoByTwo<R> solution = two_by_two(d[0], off_diagonal, d[1]);
  Chain<R> chain(solution.along, off_diagonal);
  chain.advance(d[0], d[1], R(0));
  d[0] += solution.step;
  d[1] -= solution.step;
  if (VECTORS) {
#pragma unroll
    for (int r = 0; r < 2; ++r) rotate(chain.rotation(), q[r][0], q[r][1]);
  }
}

// Diagonalise T; returns whether it converged.
template <typename T, int N, bool VECTORS>
BED_DEVICE bool qr_iteration_tiny(RealOf<T> (&d)[N], RealOf<T> (&e)[N], T (&q)[N][N]) {
  using R = RealOf<T>;
  if constexpr (N == 2) {
    solve_pair<VECTORS>(d, e[0], q);
    return true;
  }
  for (int sweep = 0;; ++sweep) {
    // The lowest unreduced block is [lo, hi].
    int lo = 0, hi = 0;
#pragma unroll
    for (int i = N - 2; i >= 0; --i) {
      const bool split = is_negligible(e[i], d[i], d[i + 1]);
      if (!split && hi == 0) hi = i + 1;
      if (split && hi != 0 && lo == 0) lo = i + 1;
    }
    if (hi == 0) return true;
    if (sweep == sweeps_per_eigenvalue * N) return false;
    R a = 0, b = 0, c = 0;
#pragma unroll
    for (int i = 0; i < N - 1; ++i)
      if (i + 1 == hi) a = d[i], b = e[i], c = d[i + 1];
    R first = d[0], off_diagonal = e[0];
#pragma unroll
    for (int i = 1; i < N - 1; ++i)
      if (i == lo) first = d[i], off_diagonal = e[i];
    const TwoByTwo<R> corner = two_by_two(a, b, c);
    const bool pair = hi - lo == 1;
    Chain<R> chain(pair ? corner.along : first - (c - corner.step), off_diagonal);
#pragma unroll
    for (int i = 0; i < N - 1; ++i) {
      if (i < lo || i >= hi) continue;
      const R next_off_diagonal = i < N - 2 ? e[i < N - 2 ? i + 1 : 0] : R(0);
      const auto step = chain.advance(d[i], d[i + 1], next_off_diagonal);
      if (i > 0 && i > lo) e[i > 0 ? i - 1 : 0] = step.off_diagonal;
      if (pair) chain.g = 0, chain.shift = corner.step;
      d[i] = pair ? d[i] + corner.step : step.diagonal;
      if (i + 1 == hi) {
        d[i + 1] -= chain.shift;
        e[i] = chain.g;
      }
      if (VECTORS) {
#pragma unroll
        for (int r = 0; r < N; ++r) rotate(chain.rotation(), q[r][i], q[r][i + 1]);
      }
    }
  }
}

template <typename T, int N, int THREADS, int MIN_BLOCKS, bool VECTORS>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    eigh_tiny(BED_BATCH_PARAMETERS(T)) {
  const Batch<T> batch = BED_BATCH;
  using R = RealOf<T>;
  BED_DYNAMIC_SHARED(memory);
  T* stage = reinterpret_cast<T*>(memory);
  const int thread = threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.x) * THREADS;
  const long long left = batch.size - first;
  const int count = left < THREADS ? static_cast<int>(left) : THREADS;

  // Matrices that lie one behind the other are read in whole, by rows or by columns.
  const bool by_columns = N <= copied_max && batch.row_stride == 1 &&
                          batch.column_stride == N && batch.stride == N * N;
  const bool by_rows = N <= copied_max && batch.row_stride == N &&
                       batch.column_stride == 1 && batch.stride == N * N;
  const bool together = batch.storage == native && (by_rows || by_columns);
  if (together) {
    copy_matrices<T, N, THREADS>(static_cast<const T*>(batch.a) + first * (N * N),
                                 count, stage);
  } else {
    with_storage(batch, [&](auto storage) {
#pragma unroll 4
      for (int x = thread; x < count * N * N; x += THREADS) {
        const int matrix = x / (N * N), i = x % (N * N) / N, j = x % N;
        if (i >= j)
          stage[matrix * odd<N * N> + i * N + j] =
              load_element<decltype(storage)::value>(batch, first + matrix, i, j);
      }
    });
  }
  __syncthreads();

  T a[N][N];
  Bits largest = 0;
  const T* mine = stage + (thread < count ? thread : 0) * odd<N * N>;
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      a[i][j] =
          lower(batch, mine[together && by_columns ? j * N + i : i * N + j], i == j);
      const Bits bits = magnitude_bits(a[i][j]);
      largest = bits > largest ? bits : largest;
    }
  }
  const bool finite = is_finite<R>(largest);
  const int exponent = scaling_exponent<R>(finite ? largest : 0);
  const R factor = power_of_two<R>(-exponent);
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int j = 0; j <= i; ++j) {
      a[i][j] = finite ? multiply_exactly(a[i][j], factor) : make<T>(0);
      a[j][i] = conj(a[i][j]);
    }
  }

  R d[N], e[N];
  T tau[N], q[N][N];
  tridiagonalize_tiny<T, N>(a, d, e, tau);
  if (VECTORS) back_transform_tiny<T, N>(a, tau, q);
  const bool converged = qr_iteration_tiny<T, N, VECTORS>(d, e, q);

  const long long begin = static_cast<long long>(block_again()) * THREADS;
  const long long rest = batch.size - begin;
  const int here = rest < THREADS ? static_cast<int>(rest) : THREADS;
  const bool solved = finite && converged;
  const R unscale = power_of_two<R>(exponent);
  int rank[N];
  bool overflows = false;
  __syncthreads();  // everybody has read the matrices
  R* sorted = reinterpret_cast<R*>(stage);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    rank[j] = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) rank[j] += d[i] < d[j] || (d[i] == d[j] && i < j);
    // Subnormal numbers were ranked as zeros; see `store_value`.
    const R w = solved ? multiply_exactly(d[j] + R(0), unscale) : not_a_number<R>();
    overflows = overflows || magnitude_bits(w) == Format<R>::infinity;
    sorted[thread * odd<N> + rank[j]] = w;
  }
  if (thread < here)
    batch.status[begin + thread] = !finite      ? not_finite
                                   : !converged ? no_convergence
                                   : overflows  ? overflow
                                                : ok;
  __syncthreads();
  for (int x = thread; x < here * N; x += THREADS)
    batch.w[begin * N + x] = sorted[x / N * odd<N> + x % N];
  if (!VECTORS) return;

  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      stage[thread * odd<N * N> + i * N + rank[j]] =
          solved ? q[i][j] : make<T>(not_a_number<R>(), not_a_number<R>());
  }
  __syncthreads();
  for (int x = thread; x < here * N * N; x += THREADS)
    batch.v[begin * (N * N) + x] = stage[x / (N * N) * odd<N * N> + x % (N * N)];
}

}  // namespace bed
