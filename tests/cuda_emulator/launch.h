// The table of kernels of a shared object, and the launch that Python calls.
//
// A launch never raises a signal in its caller: an access that faults, a trap or a
// launch out of time is written to the report, and the fibers are left where they are.
#pragma once
#include <stdlib.h>

#include <type_traits>
#include <utility>

#include "approximate.h"
#include "float_mode.h"
#include "rendezvous.h"
#include "signals.h"

namespace bed_emulator {

// The layout is known to launch.py.
struct Launch {
  uint32_t kernel, grid[3], block[3];
  int32_t flush_subnormals;
  int32_t held;  // warp to hold back, or -1 to leave that to the seed
  void* shared;
  uint64_t shared_bytes, seed, device;
  double seconds;  // of CPU time that the launch may take
  void** arguments;
};

// What Python has to know of a parameter: "const" and "pointer", the class of the value
// or pointee (f, i, u, b, or - for anything else), and its bytes.
template <typename P>
inline void describe(char* text, size_t size) {
  using Value = std::remove_pointer_t<P>;
  constexpr bool pointer = std::is_pointer_v<P>;
  constexpr bool is_void = std::is_void_v<Value>;
  using V = std::conditional_t<is_void, unsigned char, Value>;
  char type = is_floating<std::remove_cv_t<V>>            ? 'f'
              : std::is_same_v<std::remove_cv_t<V>, bool> ? 'b'
              : !std::is_integral_v<V> || is_void         ? '-'
              : std::is_signed_v<V>                       ? 'i'
                                                          : 'u';
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s%c%d ", pointer ? "pointer " : "value ",
           std::is_const_v<Value> ? "const " : "mutable ", type,
           is_void ? 0 : int(sizeof(V)));
}

struct Kernel {
  void (*invoke)(void** arguments);
  void (*describe)(char* text, size_t size);
};

template <auto kernel, typename... P, size_t... I>
inline void invoke_with(void** arguments, void (*)(P...), std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_reference_t<P>*>(arguments[I])...);
}

template <auto kernel, typename... P>
constexpr Kernel make_kernel(void (*)(P...)) {
  return {[](void** arguments) {
            invoke_with<kernel>(arguments, static_cast<void (*)(P...)>(kernel),
                                std::index_sequence_for<P...>{});
          },
          [](char* text, [[maybe_unused]] size_t size) {
            text[0] = 0;
            (describe<P>(text, size), ...);
          }};
}

static void (*invoke)(void**);
static void** arguments;

inline void run_thread() {
  arrive_on_fiber(launcher);
  invoke(arguments);
  exit_lane();
}

inline void run_blocks(const Launch& launch, const uint32_t* order, uint32_t count) {
  for (uint32_t i = 0; i < count && report->kind == Report::none; ++i) {
    block_index = dim3{order[i] % grid_dim.x, order[i] / grid_dim.x % grid_dim.y,
                       order[i] / (grid_dim.x * grid_dim.y)};
    memset(launch.shared, 0xff, launch.shared_bytes);  // NaN of every type
    run_block(run_thread);
  }
}

// Which warps are held back, when nobody says so: in a quarter of the launches one, in
// another all but one.
inline uint32_t draw_held_back() {
  uint32_t threads = block_dim.x * block_dim.y * block_dim.z;
  uint32_t one = 1u << dice.below((threads + warp_lanes - 1) / warp_lanes);
  switch (dice.below(4)) {
    case 0:
      return one;
    case 1:
      return ~one;
    default:
      return 0;
  }
}

inline void run(const Kernel& kernel, const Launch& launch) {
  invoke = kernel.invoke;
  arguments = launch.arguments;
  grid_dim = dim3{launch.grid[0], launch.grid[1], launch.grid[2]};
  block_dim = dim3{launch.block[0], launch.block[1], launch.block[2]};
  block.shared = static_cast<unsigned char*>(launch.shared);
  dice.seed(launch.seed);
  constexpr uint32_t paces[] = {0, 2, 16, 256};
  handover = paces[dice.below(4)];
  held_back = launch.held < 0 ? draw_held_back() : 1u << launch.held;
  device_number = launch.device;
  if (!stacks.provide(block_dim.x * block_dim.y * block_dim.z)) {
    append("no memory for the stacks of the threads");
    report->kind = Report::misuse;
    return;
  }
  uint32_t count = grid_dim.x * grid_dim.y * grid_dim.z;
  auto order = static_cast<uint32_t*>(malloc(count * sizeof(uint32_t)));
  for (uint32_t i = 0; i < count; ++i) order[i] = i;
  for (uint32_t i = count; i > 1; --i) {
    uint32_t other = dice.below(i), last = order[i - 1];
    order[i - 1] = order[other];
    order[other] = last;
  }
  current = nullptr;
  {
    SignalGuard signals;
    FloatMode mode(launch.flush_subnormals);
    if (sigsetjmp(landing, 1) == 0) {
      signals.limit(launch.seconds);
      run_blocks(launch, order, count);
    } else {
#if defined(__SANITIZE_ADDRESS__)
      __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    }
  }
  free(order);
  if (report->kind == Report::none || current == nullptr) return;
  report->thread_known = 1;
  const uint3& t = current->index;
  const uint32_t place[] = {block_index.x, block_index.y, block_index.z, t.x, t.y, t.z};
  memcpy(report->block, place, sizeof report->block);
  memcpy(report->thread, place + 3, sizeof report->thread);
}

}  // namespace bed_emulator

// Closes the generated file: `kernels` is the table of all kernels.
#define BED_EMULATOR_EXPORT(kernels)                                            \
  extern "C" __attribute__((visibility("default"))) void bed_emulator_launch(   \
      const bed_emulator::Launch* launch, bed_emulator::Report* report) {       \
    memset(report, 0, sizeof *report);                                          \
    bed_emulator::report = report;                                              \
    bed_emulator::run(kernels[launch->kernel], *launch);                        \
  }                                                                             \
  extern "C" __attribute__((visibility("default"))) void bed_emulator_describe( \
      int kernel, char* text, int size) {                                       \
    kernels[kernel].describe(text, size);                                       \
  }
