// The vector types of CUDA with their alignment, and dim3.
#pragma once
#include "float32.h"

#define BED_EMULATOR_VECTOR(T, name, align2, align4)                 \
  struct name##1 { T x; };                                           \
  struct alignas(align2) name##2 { T x, y; };                        \
  struct name##3 { T x, y, z; };                                     \
  struct alignas(align4) name##4 { T x, y, z, w; };                  \
  inline name##1 make_##name##1(T x) { return {x}; }                 \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

BED_EMULATOR_VECTOR(signed char, char, 2, 4)
BED_EMULATOR_VECTOR(unsigned char, uchar, 2, 4)
BED_EMULATOR_VECTOR(short, short, 4, 8)
BED_EMULATOR_VECTOR(unsigned short, ushort, 4, 8)
BED_EMULATOR_VECTOR(int, int, 8, 16)
BED_EMULATOR_VECTOR(unsigned, uint, 8, 16)
BED_EMULATOR_VECTOR(long long, longlong, 16, 16)
BED_EMULATOR_VECTOR(unsigned long long, ulonglong, 16, 16)
BED_EMULATOR_VECTOR(bed_emulator::Float, float, 8, 16)
BED_EMULATOR_VECTOR(double, double, 16, 16)
#undef BED_EMULATOR_VECTOR

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
