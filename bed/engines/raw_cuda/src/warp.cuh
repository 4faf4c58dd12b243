// Sums and maxima over the G lanes that share a matrix, G a power of two up to 32.
#pragma once
#include "scalar.cuh"

namespace bed {

constexpr unsigned all_lanes = 0xffffffffu;

// The sum with the lane whose number is another by OFFSET, a power of two.
template <int OFFSET, typename R>
BED_DEVICE R pair_sum(R x) {
  return x + __shfl_xor_sync(all_lanes, x, OFFSET);
}
template <int OFFSET, typename R>
BED_DEVICE Complex<R> pair_sum(Complex<R> x) {
  return {pair_sum<OFFSET>(x.re), pair_sum<OFFSET>(x.im)};
}

template <int G, typename R>
BED_DEVICE R group_sum(R x) {
#pragma unroll
  for (int offset = G / 2; offset > 0; offset /= 2)
    x += __shfl_xor_sync(all_lanes, x, offset);
  return x;
}
template <int G, typename R>
BED_DEVICE Complex<R> group_sum(Complex<R> x) {
  return {group_sum<G>(x.re), group_sum<G>(x.im)};
}

template <int G>
BED_DEVICE unsigned group_max(unsigned x) {
#pragma unroll
  for (int offset = G / 2; offset > 0; offset /= 2) {
    unsigned other = __shfl_xor_sync(all_lanes, x, offset);
    x = x > other ? x : other;
  }
  return x;
}

}  // namespace bed
