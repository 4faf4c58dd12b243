// The QR chains of many matrices, one thread each, and the sweeps they hand to the
// warps that hold the eigenvectors. The twin of engines/*/qr_iteration.py.
//
// A sweep's rotations go through one of SLOTS slots of shared memory, each with a full
// and a free barrier: the chains are up to SLOTS sweeps ahead. Rotations outside a
// matrix's window are the identity.
#pragma once
#include "rotation.cuh"
#include "warp.cuh"

namespace bed {

#ifndef BED_EMULATOR
BED_DEVICE void bed_bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
BED_DEVICE void bed_bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
#endif

// Wait or arrive at barrier FIRST + which of COUNT. The numbers are constants, because
// the compiler reserves all barriers of a block for one it does not know.
template <int FIRST, int COUNT>
BED_DEVICE void wait(int which, int threads) {
  if (COUNT == 1 || which == 0)
    bed_bar_sync(FIRST, threads);
  else if constexpr (COUNT > 1)
    wait<FIRST + 1, COUNT - 1>(which - 1, threads);
}
template <int FIRST, int COUNT>
BED_DEVICE void arrive(int which, int threads) {
  if (COUNT == 1 || which == 0)
    bed_bar_arrive(FIRST, threads);
  else if constexpr (COUNT > 1)
    arrive<FIRST + 1, COUNT - 1>(which - 1, threads);
}

// Diagonal and off-diagonal entries in shared memory, STRIDE matrices side by side.
template <typename R, int STRIDE>
struct StridedTridiagonal {
  using Real = R;
  R* d;
  R* e;
  BED_DEVICE R& diagonal(int i) const { return d[i * STRIDE]; }
  BED_DEVICE R& off_diagonal(int i) const { return e[i * STRIDE]; }
  BED_DEVICE bool negligible(int i) const {
    return is_negligible(off_diagonal(i), diagonal(i), diagonal(i + 1));
  }
};

// The lowest block that is not diagonal yet, rows lo to hi.
struct Window {
  int lo, hi;

  // Before the first sweep of a matrix of size n.
  template <typename Tridiagonal>
  static BED_DEVICE Window bottom(const Tridiagonal& t, int n) {
    Window window{n - 1, n - 1};
    window.raise(t);
    return window;
  }
  // Extend lo to the next negligible off-diagonal entry above.
  template <typename Tridiagonal>
  BED_DEVICE void raise(const Tridiagonal& t) {
    while (lo > 0 && !t.negligible(lo - 1)) --lo;
  }
  // Drop rows that have converged; returns false when none is left.
  template <typename Tridiagonal>
  BED_DEVICE bool shrink(const Tridiagonal& t) {
    while (true) {
      if (hi > lo) {
        if (!t.negligible(hi - 1)) return true;
        --hi;
      } else {
        if (lo == 0) return false;
        lo = hi = lo - 1;
        raise(t);
      }
    }
  }
};

// One sweep over the window, or its solution if it has two rows; record(i, rotation)
// gets the rotation of rows i and i + 1.
// The window's top moves down to the last off-diagonal entry that became negligible.
template <typename R, typename Tridiagonal, typename Record>
BED_DEVICE void sweep(const Tridiagonal& t, Window& window, Record record) {
  const int lo = window.lo, hi = window.hi;
  const R first = t.diagonal(lo), off_diagonal = t.off_diagonal(lo);
  const R last = t.diagonal(hi);
  const TwoByTwo<R> corner =
      two_by_two(t.diagonal(hi - 1), t.off_diagonal(hi - 1), last);
  const bool pair = hi - lo == 1;
  Chain<R> chain(pair ? corner.along : first - (last - corner.step), off_diagonal);
  R diagonal = t.diagonal(lo + 1);
  auto step = chain.advance(first, diagonal, t.off_diagonal(lo + 1));
#pragma unroll 4
  for (int i = lo + 1; i < hi; ++i) {
    // The last off-diagonal entry read is not used.
    const R next_diagonal = t.diagonal(i + 1),
            next_off_diagonal = t.off_diagonal(i + 1);
    // The rotation before is completed while this one waits for its root.
    record(i - 1, chain.rotation());
    const R above = t.diagonal(i - 1) = step.diagonal;
    step = chain.advance(diagonal, next_diagonal, next_off_diagonal);
    t.off_diagonal(i - 1) = step.off_diagonal;
    if (is_negligible(step.off_diagonal, above, step.diagonal)) window.lo = i;
    diagonal = next_diagonal;
  }
  record(hi - 1, chain.rotation());
  t.diagonal(hi - 1) = step.diagonal;
  if (pair) t.diagonal(lo) = first + corner.step;
  t.diagonal(hi) = last - (pair ? corner.step : chain.shift);
  t.off_diagonal(hi - 1) = pair ? R(0) : chain.g;
}

// Diagonalise T of every lane that has a matrix; returns whether it converged.
template <typename Tridiagonal>
BED_DEVICE bool run_chain(const Tridiagonal& t, int n, bool mine) {
  using R = typename Tridiagonal::Real;
  Window window = mine ? Window::bottom(t, n) : Window{0, 0};
  bool busy = mine && window.shrink(t);
  const int limit = sweeps_per_eigenvalue * n;
  for (int count = 0; __any_sync(all_lanes, busy) && count < limit; ++count) {
    if (!busy) continue;
    sweep<R>(t, window, [](int, const Rotation<R>&) {});
    busy = window.shrink(t);
  }
  return !busy;
}

// Shared memory of the slots for M matrices of size up to N.
template <typename R, int N, int M, int SLOTS>
struct Slots {
  Rotation<R> rotations[SLOTS][N][M];
  int lo[SLOTS][M];
  int hi[SLOTS][M];
  int last[SLOTS];   // whether there is no sweep in the slot: all matrices are done
  int converged[M];  // valid after the last slot

  // Barriers: 0 belongs to __syncthreads.
  static constexpr int ready = 1;
  static constexpr int full = 2;          // the first of SLOTS
  static constexpr int free = 2 + SLOTS;  // likewise
  static_assert(2 + 2 * SLOTS <= 16, "a block has 16 barriers");
};

// Body of the chasing warp of a block of THREADS threads; lane m serves matrix m. T is
// complete when barrier `ready` is passed.
template <int THREADS, typename R, int N, int M, int SLOTS>
BED_DEVICE void run_chains(Slots<R, N, M, SLOTS>& slots,
                           const StridedTridiagonal<R, M>& first, int n) {
  using S = Slots<R, N, M, SLOTS>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool mine = lane < M;
  const int m = mine ? lane : 0;
  const StridedTridiagonal<R, M> t{first.d + m, first.e + m};
  if (mine) {
    for (int slot = 0; slot < SLOTS; ++slot) {
      slots.lo[slot][m] = slots.hi[slot][m] = 0;
      for (int i = 0; i < N; ++i) slots.rotations[slot][i][m] = {R(0), R(0)};
    }
  }
  bed_bar_sync(S::ready, THREADS);
  Window window = mine ? Window::bottom(t, n) : Window{0, 0};
  bool busy = mine && window.shrink(t);
  const int limit = sweeps_per_eigenvalue * n;
  for (int count = 0;; ++count) {
    const bool all_done = __all_sync(all_lanes, !busy || count == limit);
    const int slot = count % SLOTS;
    if (count >= SLOTS) wait<S::free, SLOTS>(slot, THREADS);
    if (lane == 0) slots.last[slot] = all_done;
    if (all_done) {
      if (mine) slots.converged[m] = !busy;
      __syncwarp();
      arrive<S::full, SLOTS>(slot, THREADS);
      return;
    }
    if (mine) {
      const int lo = busy ? window.lo : 0, hi = busy ? window.hi : 0;
      // What the slot held before and this sweep does not overwrite: rows above the
      // window and rows below it, few of those it had SLOTS sweeps ago.
      const int old_lo = slots.lo[slot][m], old_hi = slots.hi[slot][m];
#pragma unroll 1
      for (int i = old_lo; i < (lo < old_hi ? lo : old_hi); ++i)
        slots.rotations[slot][i][m] = {R(0), R(0)};
#pragma unroll 1
      for (int i = hi > old_lo ? hi : old_lo; i < old_hi; ++i)
        slots.rotations[slot][i][m] = {R(0), R(0)};
      slots.lo[slot][m] = lo;
      slots.hi[slot][m] = hi;
    }
    if (busy) {
      sweep<R>(t, window, [&](int i, const Rotation<R>& rotation) {
        slots.rotations[slot][i][m] = rotation;
      });
      busy = window.shrink(t);
    }
    __syncwarp();
    arrive<S::full, SLOTS>(slot, THREADS);
  }
}

}  // namespace bed
