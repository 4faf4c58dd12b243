// The batch as a kernel of V diag(f(w)) Vᴴ sees it.
#pragma once
#include "spectrum.cuh"

namespace bed {

template <typename T>
struct Products {
  Strided<RealOf<T>> w;
  Strided<T> v;
  T* result;          // (batch, n, n), C order
  int* status;        // (batch,)
  const int* solved;  // that of the eigenvalues, or null; may be `status`
  long long size;     // number of matrices
  int n;
  int matrices;  // of a block
  Spectral<RealOf<T>> spectral;

  // What is stored of a matrix; `overflows` tells of a value that is infinite.
  BED_DEVICE int status_of(long long index, const Spectrum<RealOf<T>>& spectrum,
                           bool overflows) const {
    if (!spectrum.known) return solved ? solved[index] : not_finite;
    return spectrum.outside ? domain : overflows ? overflow : ok;
  }
};

#define BED_PRODUCT_PARAMETERS(T)                                                      \
  const bed::RealOf<T>*w, long long w_stride, long long w_step, const T *v,            \
      long long v_stride, long long v_row, long long v_column, T *result, int *status, \
      const int *solved, long long size, int n, int matrices, BED_SPECTRAL_PARAMETERS
#define BED_PRODUCT(T)             \
  {{w, w_stride, w_step, 0},       \
   {v, v_stride, v_row, v_column}, \
   result,                         \
   status,                         \
   solved,                         \
   size,                           \
   n,                              \
   matrices,                       \
   BED_SPECTRAL(bed::RealOf<T>)}

}  // namespace bed
