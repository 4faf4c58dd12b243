// The batch as a kernel sees it: where matrices are, and what is written.
//
// Only the lower triangle i ≥ j of a matrix is read. For the upper triangle the host
// swaps the two strides and asks for conjugates, for A = conj(Aᵀ).
#pragma once
#include "exponent.cuh"

namespace bed {

// Values of bed.Status; a test compares the two.
enum Status : int {
  ok = 0,
  not_finite = 1,
  no_convergence = 2,
  overflow = 3,
  domain = 4,
  not_definite = 5
};

// What the numbers of the input are; half types are read here and nowhere else.
enum Storage : int { native = 0, float16 = 1, bfloat16 = 2 };

template <typename T>
struct Batch {
  const void* a;         // (batch, n, n) with the strides below, never written
  RealOf<T>* w;          // (batch, n), C order
  T* v;                  // (batch, n, n), C order, unused for eigenvalues alone
  int* status;           // (batch,)
  long long size;        // number of matrices
  long long stride;      // from matrix to matrix, in elements
  long long row_stride;  // in elements
  long long column_stride;
  int n;
  int storage;    // a Storage
  int conjugate;  // whether what is read is conjugated
};

// A kernel takes the members one by one, as plain numbers and pointers, and puts them
// together: a host need not know how the struct is laid out.
#define BED_BATCH_PARAMETERS(T)                                                      \
  const void *input, bed::RealOf<T>*values, T *vectors, int *status, long long size, \
      long long stride, long long row_stride, long long column_stride, int n,        \
      int storage, int conjugate
#define BED_BATCH                                                 \
  {input,      values,        vectors, status,  size,     stride, \
   row_stride, column_stride, n,       storage, conjugate}

BED_DEVICE float widen_half(unsigned short bits) {
#ifdef BED_EMULATOR
  return __half2float(__half{bits});
#else
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
#endif
}

// One number of the input. STORAGE is batch.storage, tested once outside the loops.
template <int STORAGE, typename T>
BED_DEVICE T load(const Batch<T>& batch, long long offset) {
  if constexpr (STORAGE == native) {
    return static_cast<const T*>(batch.a)[offset];
  } else {
    const unsigned short bits = static_cast<const unsigned short*>(batch.a)[offset];
    if constexpr (STORAGE == float16) return widen_half(bits);
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  }
}

// What x, read from the lower triangle, stands for; the diagonal is real.
template <typename T>
BED_DEVICE T lower(const Batch<T>& batch, T x, bool on_diagonal) {
  if constexpr (Traits<T>::is_complex) {
    if (on_diagonal) return make<T>(real(x));
    if (batch.conjugate) return conj_exactly(x);
  }
  return x;
}
template <int STORAGE, typename T>
BED_DEVICE T load_lower(const Batch<T>& batch, long long offset, bool on_diagonal) {
  return lower(batch, load<STORAGE>(batch, offset), on_diagonal);
}
// Number (i, j) of a matrix as it is in memory, and element (i, j), i ≥ j.
template <int STORAGE, typename T>
BED_DEVICE T load_element(const Batch<T>& batch, long long matrix, int i, int j) {
  return load<STORAGE>(
      batch, matrix * batch.stride + i * batch.row_stride + j * batch.column_stride);
}
template <int STORAGE, typename T>
BED_DEVICE T load_lower(const Batch<T>& batch, long long matrix, int i, int j) {
  return lower(batch, load_element<STORAGE>(batch, matrix, i, j), i == j);
}

// Call f with the storage of the batch as a compile-time constant, f(s): s.value.
template <int STORAGE_>
struct StorageOf {
  static constexpr int value = STORAGE_;
};
template <typename T, typename F>
BED_DEVICE void with_storage(const Batch<T>& batch, F f) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (batch.storage == float16) return f(StorageOf<float16>{});
    if (batch.storage == bfloat16) return f(StorageOf<bfloat16>{});
  }
  f(StorageOf<native>{});
}

}  // namespace bed
