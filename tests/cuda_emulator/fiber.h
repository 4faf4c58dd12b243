// Fibers: stacks with a guard page below each, and the switch from one to another.
//
// x86-64 and aarch64 switch in a dozen instructions; other machines use ucontext, whose
// system calls make it about fifteen times slower.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && \
    !defined(BED_EMULATOR_UCONTEXT)
#define BED_FIBER_ASSEMBLY 1
#else
#define BED_FIBER_ASSEMBLY 0
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace bed_emulator {

struct Fiber {
#if BED_FIBER_ASSEMBLY
  void* stack_pointer;
#else
  ucontext_t context;
#endif
  // The stack, lowest address first; AddressSanitizer wants it at every switch.
  const void* low;
  size_t size;
  void* fake_stack;
};

#if BED_FIBER_ASSEMBLY

// Saves the registers that a call keeps and the stack pointer in `*from`, then goes on
// where `to` was saved.
extern "C" __attribute__((visibility("hidden"))) void bed_fiber_swap(void** from,
                                                                     void* to);
// First code of a fiber.
extern "C" __attribute__((visibility("hidden"))) void bed_fiber_start();

#if defined(__x86_64__)
// The return address 0 that a new fiber finds on its stack ends backtraces.
asm(R"(
.text
.p2align 4
bed_fiber_swap:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
bed_fiber_start:
  jmp *%rbx
)");
constexpr size_t saved_words = 8, entry_word = 4, start_word = 6;
#else
asm(R"(
.text
.p2align 4
bed_fiber_swap:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
bed_fiber_start:
  mov x29, xzr
  mov x30, xzr
  br x19
)");
constexpr size_t saved_words = 20, entry_word = 0, start_word = 11;
#endif

#endif  // BED_FIBER_ASSEMBLY

// Leaves `from` and goes on with `to`; returns when somebody switches back.
inline void switch_fiber(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.low, to.size);
#endif
#if BED_FIBER_ASSEMBLY
  bed_fiber_swap(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// To be called first on a new fiber; gives the bounds of the stack that it came from.
inline void arrive_on_fiber(Fiber& origin) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &origin.low, &origin.size);
#else
  (void)origin;
#endif
}

// The stacks of all threads of a block. They are mapped once and reused by every block
// and every launch; fibers that a failed launch left behind are simply overwritten.
class Stacks {
 public:
  static constexpr size_t capacity = 1024, stack_bytes = size_t(256) << 10;

  // Makes the first `count` stacks usable.
  bool provide(size_t count) {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    slot_ = stack_bytes + page_;
    if (base_ == nullptr) {
      void* memory = mmap(nullptr, capacity * slot_, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) return false;
      base_ = static_cast<char*>(memory);
    }
    for (; usable_ < count; ++usable_)
      if (mprotect(low(usable_), stack_bytes, PROT_READ | PROT_WRITE)) return false;
    return true;
  }

  bool contains(const void* address) const {
    auto p = static_cast<const char*>(address);
    return base_ != nullptr && p >= base_ && p < base_ + capacity * slot_;
  }

  // Lets `fiber` start at `entry`, which never returns, on stack `index`.
  void create(Fiber& fiber, size_t index, void (*entry)()) {
    fiber.low = low(index);
    fiber.fake_stack = nullptr;
    // Tops at equal page offsets would fight for the same few cache sets.
    fiber.size = stack_bytes - (index % 64) * 1088;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(low(index), stack_bytes);
#endif
#if BED_FIBER_ASSEMBLY
    auto top = reinterpret_cast<void**>(low(index) + fiber.size);
    void** words = top - saved_words;
    for (size_t i = 0; i < saved_words; ++i) words[i] = nullptr;
    words[entry_word] = reinterpret_cast<void*>(entry);
    words[start_word] = reinterpret_cast<void*>(&bed_fiber_start);
    fiber.stack_pointer = words;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = low(index);
    fiber.context.uc_stack.ss_size = fiber.size;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
#endif
  }

 private:
  char* low(size_t index) const { return base_ + index * slot_ + page_; }

  char* base_ = nullptr;
  size_t page_ = 0, slot_ = 0, usable_ = 0;
};

}  // namespace bed_emulator
