// Subnormal numbers, which the device flushes to zero when compiled with -ftz=true.
#pragma once
#include "float32.h"

namespace bed_emulator {

// Sets whether they are flushed for as long as it lives. It is a mode of the processor,
// which holds for doubles too.
class FloatMode {
 public:
  explicit FloatMode(bool flush) : saved_(read()) {
    write(flush ? saved_ | flush_bits : saved_ & ~flush_bits);
  }
  ~FloatMode() { write(saved_); }
  FloatMode(const FloatMode&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint64_t flush_bits = 0x8040;  // results and operands
  static uint64_t read() { return __builtin_ia32_stmxcsr(); }
  static void write(uint64_t mode) { __builtin_ia32_ldmxcsr(unsigned(mode)); }
#elif defined(__aarch64__)
  static constexpr uint64_t flush_bits = 1 << 24;
  static uint64_t read() {
    uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void write(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }
#else
  static constexpr uint64_t flush_bits = 0;
  static uint64_t read() { return 0; }
  static void write(uint64_t) {}
#endif

  uint64_t saved_;
};

}  // namespace bed_emulator

// mul.rn.f32: a product that keeps subnormal numbers in whatever mode. The volatile
// variables hold the multiplication between the two changes of the mode.
inline bed_emulator::Float bed_mul_rn(bed_emulator::Float x, bed_emulator::Float y) {
  volatile float a = x.raw(), b = y.raw(), product;
  {
    bed_emulator::FloatMode mode(false);
    product = a * b;
  }
  return product;
}
