// Eigenvectors in several launches, so that a multiprocessor runs more QR chains than
// it can hold matrices: matrices are reduced; then in rounds their chains go on, one
// thread each, and write the rotations to memory, which are applied; and the results
// are sorted and stored. Every matrix gets the rotations that it has in one launch, in
// their order: the bits are the same. (eigh_chase.cu rotates by the identity besides,
// which can change the sign of a zero.)
//
// Between the launches Q is where the eigenvectors will be. What else is kept has room
// for the matrices of a chunk of the batch.
#pragma once
#include "chase.cuh"
#include "store.cuh"

namespace bed {

// Where the chain of a matrix is, and what is known of the matrix.
struct Progress {
  int lo, hi;    // window of the next sweep; both zero: it is done
  int sweeps;    // so far
  int recorded;  // entries of the record of this round
  int finite, exponent;
};

// The scratch memory of a chunk of up to `capacity` matrices of size n.
template <typename R>
struct Scratch {
  Rotation<R>* records;  // (capacity, room), see record_sweeps
  R* d;                  // (n, capacity)
  R* e;                  // (n, capacity)
  Progress* progress;    // (capacity,)
  int capacity, room;

  BED_DEVICE Scratch(unsigned char* memory, int capacity_, int room_, int n)
      : capacity(capacity_), room(room_) {
    const long long matrices = capacity;
    records = reinterpret_cast<Rotation<R>*>(memory);
    d = reinterpret_cast<R*>(records + matrices * room);
    e = d + matrices * n;
    progress = reinterpret_cast<Progress*>(e + matrices * n);
  }
  BED_DEVICE Rotation<R>* record(int m) const {
    return records + static_cast<long long>(m) * room;
  }
  BED_DEVICE R& diagonal(int m, int i) const { return d[i * capacity + m]; }
  BED_DEVICE R& off_diagonal(int m, int i) const { return e[i * capacity + m]; }

  // Copy T to a matrix in shared memory, and back; by so many threads.
  template <typename Tridiagonal>
  BED_DEVICE void load(int m, const Tridiagonal& t, int n, int thread,
                       int threads) const {
    for (int i = thread; i < n; i += threads) {
      t.diagonal(i) = diagonal(m, i);
      if (i < n - 1) t.off_diagonal(i) = off_diagonal(m, i);
    }
  }
  template <typename Tridiagonal>
  BED_DEVICE void store(int m, const Tridiagonal& t, int n, int thread,
                        int threads) const {
    for (int i = thread; i < n; i += threads) {
      diagonal(m, i) = t.diagonal(i);
      if (i < n - 1) off_diagonal(m, i) = t.off_diagonal(i);
    }
  }
  // Store a matrix that was reduced.
  template <typename Tridiagonal>
  BED_DEVICE void begin(int m, const Tridiagonal& t, int n, const Scaling& scaling,
                        int thread, int threads) const {
    store(m, t, n, thread, threads);
    if (thread != 0) return;
    Window window = Window::bottom(t, n);
    if (!window.shrink(t)) window = {0, 0};
    progress[m] = {window.lo, window.hi, 0, 0, scaling.finite, scaling.exponent};
  }
};

// Besides those of the batch, every kernel has these parameters: the scratch memory,
// and the chunk, `count` matrices from `first` on.
#define BED_SPLIT_PARAMETERS \
  unsigned char *scratch, int capacity, int room, long long first, int count

// Real and imaginary parts are numbers of their own in what follows.
template <typename T>
constexpr int parts = sizeof(T) / sizeof(RealOf<T>);

// Q between the launches: n·parts numbers a column. A thread that rotates has one, in
// every column.
template <typename T>
BED_DEVICE RealOf<T>* columns_of(const Batch<T>& batch, long long index) {
  return reinterpret_cast<RealOf<T>*>(batch.v + index * batch.n * batch.n);
}
// Number j of column i of Q in shared memory, in rows of so many elements.
template <typename T>
BED_DEVICE RealOf<T>& number_of(T* q, int row, int i, int j) {
  return reinterpret_cast<RealOf<T>*>(q + j / parts<T> * row + i)[j % parts<T>];
}

// Sweeps of a chain, until it is done, has had as many as it may have, or the next one
// has no room. In the record come for each sweep its window, and its rotations.
template <typename R, typename Tridiagonal>
BED_DEVICE void record_sweeps(const Tridiagonal& t, int n, Progress& progress,
                              Rotation<R>* record, int room) {
  Window window{progress.lo, progress.hi};
  const int limit = sweeps_per_eigenvalue * n;
  int recorded = 0;
  while (window.hi > 0 && progress.sweeps < limit &&
         recorded + 1 + window.hi - window.lo <= room) {
    const int lo = window.lo, hi = window.hi;
    record[recorded] = {R(lo), R(hi)};
    Rotation<R>* next = record + recorded + 1;
    sweep<R>(t, window, [&](int, const Rotation<R>& rotation) { *next++ = rotation; });
    if (!window.shrink(t)) window = {0, 0};
    recorded += 1 + hi - lo;
    ++progress.sweeps;
  }
  progress.lo = window.lo, progress.hi = window.hi;
  progress.recorded = recorded;
}

// Call f(lo, hi, rotations) for the sweeps of a record, with the rotation of row lo.
template <typename R, typename F>
BED_DEVICE void for_sweeps(const Rotation<R>* record, int recorded, F f) {
  for (int at = 0; at < recorded;) {
    const int lo = static_cast<int>(record[at].t), hi = static_cast<int>(record[at].s);
    f(lo, hi, record + at + 1);
    at += 1 + hi - lo;
  }
}

}  // namespace bed
