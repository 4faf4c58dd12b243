// What the compiler's checks for undefined behaviour call, in place of their library:
// the launch ends with a message that names the line.
#pragma once
#include "rendezvous.h"

namespace bed_emulator {

// As the compiler lays them out; every check's description starts with the place.
struct CheckedType {
  uint16_t kind,
      info;  // of an integer, kind 0: twice the log2 of its bits, +1 if signed
};

struct Checked {
  const char* file;
  uint32_t line, column;
  const CheckedType* types[2];
};

inline long long checked_value(uint64_t value, const CheckedType* type) {
  if (type->kind != 0 || !(type->info & 1)) return value;
  int unused = 64 - (1 << (type->info >> 1));
  return unused > 0 ? int64_t(value << unused) >> unused : int64_t(value);
}

[[noreturn, gnu::cold]] inline void report_check(const Checked* check,
                                                 const char* what) {
  append("%s at %s:%u", what, base_name(check->file), check->line);
  give_up();
}

}  // namespace bed_emulator

#define BED_CHECK(name)                                           \
  extern "C" __attribute__((visibility("hidden"), cold, noreturn, \
                            used)) inline void __ubsan_handle_##name

BED_CHECK(out_of_bounds_abort)(bed_emulator::Checked* check, uint64_t index) {
  bed_emulator::append("index %lld, ",
                       bed_emulator::checked_value(index, check->types[1]));
  report_check(check, "outside an array of the thread,");
}
BED_CHECK(type_mismatch_v1_abort)(bed_emulator::Checked* check, uint64_t address) {
  bed_emulator::append("address %#llx: ", static_cast<unsigned long long>(address));
  report_check(check, address ? "misaligned access" : "null pointer");
}
BED_CHECK(shift_out_of_bounds_abort)(bed_emulator::Checked* check, uint64_t,
                                     uint64_t amount) {
  bed_emulator::append("shift by %lld, ",
                       bed_emulator::checked_value(amount, check->types[1]));
  report_check(check, "not less than the width,");
}

#define BED_PLAIN_CHECK(name, what)                                    \
  BED_CHECK(name)(bed_emulator::Checked * check, uint64_t, uint64_t) { \
    report_check(check, what);                                         \
  }

// Only a sanitized build has these.
BED_PLAIN_CHECK(add_overflow_abort, "signed overflow")
BED_PLAIN_CHECK(sub_overflow_abort, "signed overflow")
BED_PLAIN_CHECK(mul_overflow_abort, "signed overflow")
BED_PLAIN_CHECK(negate_overflow_abort, "signed overflow")
BED_PLAIN_CHECK(divrem_overflow_abort, "division by zero or overflow in a division")
BED_PLAIN_CHECK(pointer_overflow_abort, "overflow of an address")
BED_PLAIN_CHECK(load_invalid_value_abort, "invalid value of a bool")
BED_PLAIN_CHECK(vla_bound_not_positive_abort, "array without a positive size")
BED_PLAIN_CHECK(nonnull_arg_abort, "null argument")
BED_PLAIN_CHECK(invalid_builtin_abort, "argument 0 of a function that needs another")
BED_PLAIN_CHECK(builtin_unreachable, "unreachable code")
BED_PLAIN_CHECK(missing_return, "end of a function that has to return a value")
#undef BED_PLAIN_CHECK
#undef BED_CHECK
