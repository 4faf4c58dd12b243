// Matrices of N rows, one to each thread of a block, on their way through shared
// memory.
#pragma once
#include "spectrum.cuh"

namespace bed {

template <typename T, int N, int THREADS>
struct Staged {
  // Elements between the matrices of a block.
  static constexpr int length = odd<N * N>;
  long long first;
  int count;

  explicit BED_DEVICE Staged(long long size)
      : first(static_cast<long long>(blockIdx.x) * THREADS),
        count(size - first < THREADS ? static_cast<int>(size - first) : THREADS) {}

  static BED_DEVICE int thread() { return threadIdx.x; }
  BED_DEVICE bool active() const { return thread() < count; }
  // Threads without a matrix work on the first one, in a place of their own.
  BED_DEVICE long long index() const { return first + (active() ? thread() : 0); }
  static BED_DEVICE int own() { return thread() * length; }
  static BED_DEVICE int own_row() { return thread() * odd<N>; }

  BED_DEVICE void load(const Strided<T>& from, T* stage) const {
#pragma unroll 4
    for (int x = thread(); x < count * N * N; x += THREADS) {
      const int matrix = x / (N * N), i = x % (N * N) / N, j = x % N;
      stage[matrix * length + i * N + j] = from.at(first + matrix, i, j);
    }
  }
  BED_DEVICE void store(const T* stage, T* to) const {
    for (int x = thread(); x < count * N * N; x += THREADS)
      to[first * (N * N) + x] = stage[x / (N * N) * length + x % (N * N)];
  }
  static BED_DEVICE void take(const T* mine, T (&a)[N][N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) a[i][j] = mine[i * N + j];
    }
  }
  // Element (i, j), i ≥ j, and its mirror image: Hermitian to the last bit.
  static BED_DEVICE void put_mirrored(T* mine, int i, int j, T y) {
    mine[j * N + i] = conj(y);
    mine[i * N + j] = i == j ? make<T>(real(y)) : y;
  }
};

}  // namespace bed
