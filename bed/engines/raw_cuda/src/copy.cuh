// Matrices of a block that lie one behind the other in memory, to shared memory, where
// they are odd<N·N> elements apart.
#pragma once
#include "scalar.cuh"

namespace bed {

// Up to this size loading is a good part of the work, and registers are not short.
constexpr int copied_max = 4;

// What a thread loads at once.
template <typename T>
struct alignas(16) Pack {
  static constexpr int length = 16 / static_cast<int>(sizeof(T));
  T x[length];
};

template <typename T, int N, int THREADS>
BED_DEVICE void copy_matrices(const T* from, int count, T* stage) {
  using P = Pack<T>;
  constexpr int size = N * N;
  // The elements of a pack are neighbours there, too: N·N is odd or a multiple of four.
  const auto place = [](int x) { return odd<size> == size ? x : x + x / size; };
  const bool aligned = reinterpret_cast<unsigned long long>(from) % sizeof(P) == 0;
  const int packs = aligned ? count * size / P::length : 0;
#pragma unroll 2
  for (int p = threadIdx.x; p < packs; p += THREADS) {
    const P pack = reinterpret_cast<const P*>(from)[p];
#pragma unroll
    for (int u = 0; u < P::length; ++u) stage[place(p * P::length) + u] = pack.x[u];
  }
#pragma unroll 2
  for (int x = packs * P::length + threadIdx.x; x < count * size; x += THREADS)
    stage[place(x)] = from[x];
}

// The block's number read anew, where what follows from it is not worth registers
// through the whole kernel.
BED_DEVICE int block_again() {
#ifdef BED_EMULATOR
  return blockIdx.x;
#else
  int x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  return x;
#endif
}

}  // namespace bed
