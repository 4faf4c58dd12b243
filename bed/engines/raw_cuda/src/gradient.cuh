// The batch as a kernel of gradients sees it:
//
//     V [L ∘ (Vᴴ herm(G) V)] Vᴴ              of a function, differences L
//     V [diag(w̄) + F ∘ (X − Xᴴ)/2] Vᴴ        of the decomposition, X = Vᴴ V̄
//
// (bed/_functions.py, bed/_derivative/eigh.py).
#pragma once
#include "spectrum.cuh"

namespace bed {

// What a launch makes the gradient of; codes are those of spectral_vjp.py.
enum Kind : int { of_function = 0, of_differences = 1, of_eigh = 2 };

// What comes out of a matrix.
enum Gradient : int { all_zero = 0, regular = 1, all_nan = 2 };

template <typename T>
struct Gradients {
  using R = RealOf<T>;
  Strided<R> w;
  Strided<T> v;
  Strided<T> g;       // G or V̄; no data where that is zero
  Strided<R> beside;  // L where it is given, or w̄; no data where that is zero
  T* result;          // (batch, n, n), C order
  long long size;     // number of matrices
  int n;
  int matrices;  // of a block
  int kind;      // a Kind
  R cutoff;      // gaps below, in the largest |w|, count as none
  Spectral<R> spectral;

  BED_DEVICE R grad_w(long long index, int i) const {
    return beside.data ? beside.at(index, i) : R(0);
  }
  BED_DEVICE Gradient kind_of(const Spectrum<R>& spectrum, bool used) const {
    return !used ? all_zero : spectrum.known && !spectrum.outside ? regular : all_nan;
  }
  // Element (i, j), i ≥ j, of what is between V and Vᴴ, of elements (i, j) and (j, i)
  // of Vᴴ herm(G) V or X.
  BED_DEVICE T inner(long long index, int i, int j, R wi, R wj, R largest, T x,
                     T mirrored) const {
    if (kind != of_eigh) {
      const R slope = kind == of_function ? spectral.slope(wi, wj, largest)
                                          : beside.at(index, i, j);
      return i == j ? make<T>(slope * real(x)) : scale(x, slope);
    }
    if (i == j) return make<T>(grad_w(index, i));
    const R s = largest > R(0) ? largest : R(1), gap = (wj - wi) / s;
    const R inverse = magnitude(gap) > cutoff ? R(1) / gap / s : R(0);
    return scale(axpy(scale(x, R(0.5)), R(-0.5), conj(mirrored)), inverse);
  }
};

template <typename T>
BED_DEVICE T stored(Gradient kind, T x) {
  using R = RealOf<T>;
  return kind == regular    ? x
         : kind == all_zero ? make<T>(0)
                            : make<T>(not_a_number<R>(), not_a_number<R>());
}

#define BED_GRADIENT_PARAMETERS(T)                                                \
  const bed::RealOf<T>*w, long long w_stride, long long w_step, const T *v,       \
      long long v_stride, long long v_row, long long v_column, const T *g,        \
      long long g_stride, long long g_row, long long g_column,                    \
      const bed::RealOf<T>*beside, long long beside_stride, long long beside_row, \
      long long beside_column, T *result, long long size, int n, int matrices,    \
      int kind, double cutoff, BED_SPECTRAL_PARAMETERS
#define BED_GRADIENT(T)                                \
  {{w, w_stride, w_step, 0},                           \
   {v, v_stride, v_row, v_column},                     \
   {g, g_stride, g_row, g_column},                     \
   {beside, beside_stride, beside_row, beside_column}, \
   result,                                             \
   size,                                               \
   n,                                                  \
   matrices,                                           \
   kind,                                               \
   static_cast<bed::RealOf<T>>(cutoff),                \
   BED_SPECTRAL(bed::RealOf<T>)}

}  // namespace bed
