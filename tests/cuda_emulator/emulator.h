// CUDA C++ for g++: include this before a .cu file, and it compiles as host C++17 and
// runs on the CPU, one fiber per thread. build.py writes the file that does so.
#pragma once
#define BED_EMULATOR 1

#include "checks.h"
#include "float32.h"
#include "float_mode.h"
#include "half.h"
#include "maths.h"
#include "rendezvous.h"
#include "scheduler.h"
#include "vector_types.h"
#include "warp.h"
// Before the keywords below: the standard library uses some of them as attribute names.
#include "launch.h"

// The device's, and not the host's.
#define float ::bed_emulator::Float
#define exp bed_exp
#define expm1 bed_expm1
#define log bed_log
#define log1p bed_log1p
#define pow bed_pow

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static_shared_variables_are_not_emulated_use_BED_DYNAMIC_SHARED

// On the device: extern __shared__ __align__(16) unsigned char name[]
#define BED_DYNAMIC_SHARED(name) \
  unsigned char* const name = ::bed_emulator::block.shared

#define threadIdx (::bed_emulator::current->index)
#define blockIdx (::bed_emulator::block_index)
#define blockDim (::bed_emulator::block_dim)
#define gridDim (::bed_emulator::grid_dim)
constexpr int warpSize = 32;
