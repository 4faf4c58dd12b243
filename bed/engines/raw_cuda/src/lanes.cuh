// A matrix held in the registers of G lanes of a warp, R rows in each: lane ℓ holds
// rows ℓ, ℓ + G, ℓ + 2G … as a[R][N]. Column indices are compile-time constants. The
// size n is at most N and at most G·R; rows and columns beyond it are zero.
//
// The load, and what the lanes share about a matrix.
#pragma once
#include "batch.cuh"
#include "warp.cuh"

namespace bed {

template <int N_, int G_, int R_>
struct Lanes {
  static constexpr int N = N_, G = G_, R = R_;
  static_assert(N <= G * R, "more columns than rows");
  // Elements of a vector in shared memory: a multiple of 16 bytes, and not of 32 words,
  // so that the matrices of a warp start in different banks.
  static constexpr int round_up(int elements) { return (elements + 3) / 4 * 4; }
  static constexpr int padded = round_up(N) + 4;
  // Elements between staged rows: odd, so that they start in different banks.
  static constexpr int row_length = N | 1;

  static BED_DEVICE int lane() { return static_cast<int>(threadIdx.x) % G; }
  static BED_DEVICE int row(int r) { return r * G + lane(); }
};

// The thread's number read anew, where it would not be worth a register to keep what
// follows from it through the whole kernel.
BED_DEVICE int thread_again() {
#ifdef BED_EMULATOR
  return threadIdx.x;
#else
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
#endif
}

// The same lanes, with nothing kept.
template <typename L>
struct Again : L {
  static BED_DEVICE int lane() { return thread_again() % L::G; }
  static BED_DEVICE int row(int r) { return r * L::G + lane(); }
};

struct Scaling {
  bool finite;
  int exponent;
};

// Elements of a lower triangle of so many rows, which are stored one after the other.
BED_DEVICE constexpr int triangle(int rows) { return rows * (rows + 1) / 2; }

// Memory of one matrix. Reflectors and work vectors come after the staged input, and
// the staged results after them.
template <typename L, typename T, bool VECTORS>
struct MatrixMemory {
  static constexpr int steps = L::N - 2 + Traits<T>::is_complex;
  static constexpr int reflectors = VECTORS ? steps * L::N : 0;
  static constexpr int used = reflectors + 2 * L::padded;
  static constexpr int input = triangle(L::N);
  static constexpr int output =
      VECTORS ? L::G * L::row_length : 0;  // of 32 rows a warp
  static constexpr int most = used > input ? (used > output ? used : output)
                                           : (input > output ? input : output);
  T memory[L::round_up(most) + 4];

  BED_DEVICE T* u() { return memory + reflectors; }
  BED_DEVICE T* p() { return memory + reflectors + L::padded; }
};

// Loads in flight of every lane, about.
constexpr int loads_at_once = 8;

// Stage the lower triangle of a matrix, with zeros beyond n; returns the largest
// magnitude. Neighbouring lanes read neighbouring elements of a row.
template <typename L, int STORAGE, typename T>
BED_DEVICE Bits stage_matrix(const Batch<T>& batch, long long index, T* stage) {
  constexpr int columns = (L::N + L::G - 1) / L::G;
  constexpr int rows = loads_at_once > columns ? loads_at_once / columns : 1;
  const int lane = L::lane();
  long long column_offsets[columns];
#pragma unroll
  for (int c = 0; c < columns; ++c)
    column_offsets[c] = (c * L::G + lane) * batch.column_stride;
  long long row_offset = index * batch.stride;
  Bits largest = 0;
  for (int i0 = 0; i0 < batch.n; i0 += rows) {
    T x[rows][columns] = {};  // else what was not read would be kept
#pragma unroll
    for (int u = 0; u < rows; ++u) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const int i = i0 + u, j = c * L::G + lane;
        if (j <= i && i < batch.n)
          x[u][c] = load_lower<STORAGE>(batch, row_offset + column_offsets[c], i == j);
      }
      row_offset += batch.row_stride;
    }
#pragma unroll
    for (int u = 0; u < rows; ++u) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        const int i = i0 + u, j = c * L::G + lane;
        if (j > i || i >= batch.n) continue;
        const Bits bits = magnitude_bits(x[u][c]);
        largest = bits > largest ? bits : largest;
        stage[triangle(i) + j] = x[u][c];
      }
    }
  }
  for (int x = triangle(batch.n) + lane; x < triangle(L::N); x += L::G)
    stage[x] = make<T>(0);
  return largest;
}

// Load matrix `index` into rows, scaled to [2, 4); zero if it is not finite.
template <typename L, typename T>
BED_DEVICE Scaling load_rows(const Batch<T>& batch, long long index, T (&a)[L::R][L::N],
                             T* stage) {
  using R = RealOf<T>;
  Bits largest = 0;
  with_storage(batch, [&](auto storage) {
    largest = stage_matrix<L, decltype(storage)::value>(batch, index, stage);
  });
  largest = group_max<L::G>(largest);
  const bool finite = is_finite<R>(largest);
  const int exponent = scaling_exponent<R>(finite ? largest : 0);
  const R factor = power_of_two<R>(-exponent);
  if (!finite)
    for (int x = L::lane(); x < triangle(L::N); x += L::G) stage[x] = make<T>(0);
  __syncwarp();
#pragma unroll
  for (int r = 0; r < L::R; ++r) {
    // Rows beyond N are another row times zero.
    const bool inside = L::G * L::R == L::N || L::row(r) < L::N;
    const int i = inside ? L::row(r) : 0;
    const R row_factor = inside ? factor : R(0);
    const T *left = stage + triangle(i), *below = stage + i;
#pragma unroll
    for (int j = 0; j < L::N; ++j) {
      // Most columns are left or right of the diagonal for all lanes.
      const bool above = j >= (r + 1) * L::G || (j > r * L::G && j > i);
      const T x = multiply_exactly(above ? below[triangle(j)] : left[j], row_factor);
      a[r][j] = above ? conj(x) : x;
    }
  }
  __syncwarp();  // the stage is free
  return {finite, exponent};
}

// The N − 1 possible steps of a reduction in parts: in each, the columns and rows that
// are done by its first step are left out at compile time.
template <int N, int PART>
struct Part {
  static constexpr int count = N >= 16 ? 4 : 2;
  static constexpr int first = (N - 1) * PART / count;
  static constexpr int last = (N - 1) * (PART + 1) / count;
};

}  // namespace bed
