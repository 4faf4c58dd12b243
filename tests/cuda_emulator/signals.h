// Signals during a launch: what faults, traps or runs out of time becomes a report.
#pragma once
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "scheduler.h"

#ifndef sigev_notify_thread_id  // older C libraries have the field but not its name
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace bed_emulator {

constexpr int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGVTALRM};
constexpr int caught_count = sizeof caught / sizeof *caught;
static struct sigaction previous[caught_count];
static sigjmp_buf landing;
static pthread_t launching_thread;
static volatile bool in_handler;

inline uint64_t object_base() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(&object_base), &info)
             ? reinterpret_cast<uint64_t>(info.dli_fbase)
             : 0;
}

struct Trace {
  uint64_t base, fault;
  bool started;
};

// Notes the frames of this object, from the faulting one outwards.
inline _Unwind_Reason_Code note_frame(_Unwind_Context* context, void* data) {
  Trace& trace = *static_cast<Trace*>(data);
  int exact = 0;
  uint64_t ip = _Unwind_GetIPInfo(context, &exact);
  trace.started = trace.started || ip == trace.fault;
  Dl_info info;
  if (trace.started && dladdr(reinterpret_cast<void*>(ip), &info) &&
      reinterpret_cast<uint64_t>(info.dli_fbase) == trace.base) {
    // A return address is already one instruction too far.
    report->frames[report->frame_count++] = ip - !exact - trace.base;
  }
  return report->frame_count < 16 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

inline void describe_fault(int number, const siginfo_t* info, void* context) {
  report->kind = number == SIGVTALRM ? Report::timeout : Report::fault;
  report->signal = number;
  report->code = info->si_code;
  report->address = reinterpret_cast<uint64_t>(info->si_addr);
  report->on_stack = stacks.contains(info->si_addr);
  report->is_store = -1;  // unknown
  uint64_t pc = 0;
#if defined(__linux__) && defined(__x86_64__)
  auto registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  pc = registers[REG_RIP];
  if (number == SIGSEGV) report->is_store = registers[REG_ERR] >> 1 & 1;
#elif defined(__linux__) && defined(__aarch64__)
  pc = static_cast<ucontext_t*>(context)->uc_mcontext.pc;
#endif
  uint64_t base = object_base();
  report->frames[0] = pc - base;
  if (!report->on_stack) {
    Trace trace{base, pc, false};
    _Unwind_Backtrace(note_frame, &trace);
  }
  if (report->frame_count == 0) report->frame_count = 1;
}

inline void handle(int number, siginfo_t* info, void* context) {
  if (!pthread_equal(pthread_self(), launching_thread)) {
    // Not ours: the instruction runs again and finds the handler of before.
    for (int i = 0; i < caught_count; ++i)
      if (caught[i] == number) sigaction(number, &previous[i], nullptr);
    return;
  }
  // A backtrace that itself faults, on a stack the kernel has overwritten, comes here.
  if (!in_handler) {
    in_handler = true;
    describe_fault(number, info, context);
  }
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, launcher.low, launcher.size);
#endif
  siglongjmp(landing, 1);
}

// Catches signals for as long as it lives.
class SignalGuard {
 public:
  SignalGuard() {
    launching_thread = pthread_self();
    in_handler = false;
    stack_t stack{};
    stack.ss_sp = alternate_;
    stack.ss_size = sizeof alternate_;
    sigaltstack(&stack, &previous_stack_);
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < caught_count; ++i) sigaction(caught[i], &action, &previous[i]);
  }
  SignalGuard(const SignalGuard&) = delete;
  ~SignalGuard() {
    if (has_timer_) timer_delete(timer_);
    for (int i = 0; i < caught_count; ++i) sigaction(caught[i], &previous[i], nullptr);
    sigaltstack(&previous_stack_, nullptr);
  }

  // Lets SIGVTALRM come when this thread has used so much time; `landing` has to be
  // set.
  void limit(double seconds) {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGVTALRM;
    event.sigev_notify_thread_id = pid_t(syscall(SYS_gettid));
    has_timer_ = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
    itimerspec time{};
    time.it_value.tv_sec = time_t(seconds);
    time.it_value.tv_nsec = long((seconds - time_t(seconds)) * 1e9) + 1;
    if (has_timer_) timer_settime(timer_, 0, &time, nullptr);
  }

 private:
  static inline char alternate_[1 << 17];
  stack_t previous_stack_;
  timer_t timer_;
  bool has_timer_ = false;
};

}  // namespace bed_emulator
