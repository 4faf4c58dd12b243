// Products of small matrices by a group of threads, a tile of the result in each.
//
// A matrix of n rows has m × m threads with m = ⌈n/TILE⌉. Thread (ti, tj) has the rows
// ti, ti + m, ti + 2m … and such columns: neighbours read neighbouring words, and of
// the lower triangle all have the same share. Rows beyond n repeat the last one, and
// nothing is stored of them.
#pragma once
#include "scalar.cuh"

namespace bed {

// Elements between rows in shared memory: odd, so that a column's lie in different
// banks.
BED_DEVICE constexpr int odd_row(int n) { return n | 1; }

// Where a thread is among the matrices of its block.
struct Place {
  int matrix;           // in the block
  int thread, threads;  // of the matrix
  bool active;

  BED_DEVICE Place(int threads_, int count) : threads(threads_) {
    matrix = static_cast<int>(threadIdx.x) / threads;
    thread = static_cast<int>(threadIdx.x) % threads;
    active = matrix < count;
    if (!active) matrix = 0;
  }
};

template <int TILE>
struct Tile {
  int n, m;
  Place place;
  int row, column;  // of the first element

  BED_DEVICE Tile(int n_, int count)
      : n(n_),
        m((n_ + TILE - 1) / TILE),
        place(m * m, count),
        row(place.thread / m),
        column(place.thread % m) {}
  BED_DEVICE int i(int a) const { return row + a * m; }
  BED_DEVICE int j(int b) const { return column + b * m; }
  BED_DEVICE int inside(int i) const { return i < n ? i : n - 1; }
};

// sum[a][b] = Σₖ left(iₐ, k) right(k, j_b), in the order of k; only for b ≤ a where
// LOWER, which has all of the lower triangle.
template <bool LOWER, int TILE, typename T, typename Left, typename Right>
BED_DEVICE void multiply_tile(const Tile<TILE>& tile, T (&sum)[TILE][TILE], Left left,
                              Right right) {
  int i[TILE], j[TILE];
#pragma unroll
  for (int a = 0; a < TILE; ++a) {
    i[a] = tile.inside(tile.i(a)), j[a] = tile.inside(tile.j(a));
#pragma unroll
    for (int b = 0; b < TILE; ++b) sum[a][b] = make<T>(0);
  }
  for (int k = 0; k < tile.n; ++k) {
    T x[TILE], y[TILE];
#pragma unroll
    for (int a = 0; a < TILE; ++a) x[a] = left(i[a], k), y[a] = right(k, j[a]);
#pragma unroll
    for (int a = 0; a < TILE; ++a) {
#pragma unroll
      for (int b = 0; b < TILE; ++b)
        if (!LOWER || b <= a) sum[a][b] = madd(sum[a][b], x[a], y[b]);
    }
  }
}

// Call f(i, j, sum[a][b]) for the elements of a tile that a matrix has.
template <int TILE, typename T, typename F>
BED_DEVICE void for_tile(const Tile<TILE>& tile, const T (&sum)[TILE][TILE], F f) {
#pragma unroll
  for (int a = 0; a < TILE; ++a) {
#pragma unroll
    for (int b = 0; b < TILE; ++b) {
      const int i = tile.i(a), j = tile.j(b);
      if (i < tile.n && j < tile.n) f(i, j, sum[a][b]);
    }
  }
}

// Store the lower triangle, and its mirror image: Hermitian to the last bit.
template <int TILE, typename T>
BED_DEVICE void store_mirrored(const Tile<TILE>& tile, const T (&sum)[TILE][TILE], T* x,
                               int pitch) {
  for_tile(tile, sum, [&](int i, int j, T value) {
    if (i < j) return;
    x[i * pitch + j] = i == j ? make<T>(real(value)) : value;
    if (i != j) x[j * pitch + i] = conj(value);
  });
}

// Call f(i, j) for the thread's share of the pairs i ≥ j: rows r and n − 1 − r of the
// triangle are one line of n + 1.
template <typename F>
BED_DEVICE void for_pairs(const Place& place, int n, F f) {
  for (int x = place.thread; x < (n + 1) / 2 * (n + 1); x += place.threads) {
    const int r = x / (n + 1), c = x % (n + 1);
    if (c < n - r)
      f(n - 1 - r, c);
    else if (2 * r != n - 1)
      f(r, c - (n - r));
  }
}

// Call f(matrix, i, j) for the elements of all matrices of a block, so that neighbours
// have neighbouring ones.
template <typename F>
BED_DEVICE void for_block(int count, int n, F f) {
  for (int x = threadIdx.x; x < count * n * n; x += blockDim.x)
    f(x / (n * n), x % (n * n) / n, x % n);
}

}  // namespace bed
