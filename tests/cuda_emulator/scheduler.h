// Blocks, warps and lanes, and in which order the lanes run.
//
// One block runs at a time. A lane runs until it has to wait; then another ready lane
// of its warp is drawn at random, and another warp when none is ready. Nothing polls:
// who completes a collective makes its lanes ready. Some warps may be held back: they
// run when no other can.
#pragma once
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fiber.h"
#include "vector_types.h"

namespace bed_emulator {

constexpr int warp_lanes = 32, max_warps = 32, barrier_count = 16;
constexpr uint32_t all_lanes = 0xffffffffu;

// What a launch found wrong; the layout is known to launch.py.
struct Report {
  enum Kind : int32_t { none, misuse, deadlock, fault, timeout };
  int32_t kind, signal, code, is_store, on_stack, thread_known, frame_count;
  uint32_t block[3], thread[3];
  uint64_t address;
  uint64_t frames[16];  // offsets of code addresses in the shared object
  char text[6000];
};

enum class Kind : uint8_t {
  shfl,
  shfl_up,
  shfl_down,
  shfl_xor,
  ballot,
  all,
  any,
  match_any,
  syncwarp,
  syncthreads,
  syncthreads_or,
  syncthreads_and,
  syncthreads_count,
  bar_sync,
  bar_arrive
};

inline const char* name_of(Kind kind) {
  static const char* const names[] = {
      "__shfl_sync",         "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
      "__ballot_sync",       "__all_sync",     "__any_sync",       "__match_any_sync",
      "__syncwarp",          "__syncthreads",  "__syncthreads_or", "__syncthreads_and",
      "__syncthreads_count", "bed_bar_sync",   "bed_bar_arrive"};
  return names[static_cast<int>(kind)];
}

struct Warp;

// A collective that some lanes of a warp have reached. It leaves the warp's list when
// all have, and stays alive until the last of them has read its result.
struct Rendezvous {
  uint64_t value[warp_lanes];
  uint32_t mask, arrived;
  int readers;
  Kind kind;
  int line;
  uint32_t detail;  // number and threads of a named barrier
  const char* file;
  Warp* warp;
  Rendezvous* next_free;

  int id() const { return detail & 0xffff; }
  int threads() const { return detail >> 16; }
};

struct Lane {
  Fiber fiber;
  Warp* warp;
  uint32_t number;
  uint3 index;
};

struct Warp {
  uint32_t ready, alive;
  int number, open_count;
  Rendezvous* open[warp_lanes];
  Rendezvous* free;
  Rendezvous pool[warp_lanes];  // a lane is in at most one
  Lane lanes[warp_lanes];
};

struct Barrier {
  uint32_t warps;  // that have arrived
  int arrived, threads, holding, truths, voters;
  Rendezvous* waiting[max_warps];
};

struct Block {
  Warp warps[max_warps];
  Barrier barriers[barrier_count];
  uint32_t live_warps;
  int warp_count;
  unsigned char* shared;
};

// Random numbers for the order of execution: xorshift64*, five bits at a time.
class Dice {
 public:
  void seed(uint64_t value) {
    state_ = (value + 1) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 4; ++i) word();
    rolls_ = 0;
  }
  uint64_t word() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  uint32_t below(uint32_t bound) { return (word() >> 32) * bound >> 32; }
  uint32_t five_bits() {
    if (rolls_ == 0) {
      rolls_ = 12;
      reserve_ = word();
    }
    --rolls_;
    uint32_t bits = reserve_ & 31;
    reserve_ >>= 5;
    return bits;
  }

 private:
  uint64_t state_ = 1, reserve_ = 0;
  int rolls_ = 0;
};

// Everything below is one per shared object: a launch is never concurrent with another.
static Block block;
static Lane* current;
static Fiber launcher;
static Stacks stacks;
static Dice dice;
static Report* report;
static dim3 block_index, block_dim, grid_dim;
// Of so many completed collectives one hands over to another warp; 0 stands for never.
static uint32_t handover;
// One bit for every warp that is held back.
static uint32_t held_back;

inline void append(const char* format, ...) {
  size_t used = strlen(report->text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(report->text + used, sizeof report->text - used, format, arguments);
  va_end(arguments);
}

// Ends the launch from within a lane; the text is in the report.
[[noreturn]] inline void give_up() {
  if (report->kind == Report::none) report->kind = Report::misuse;
  switch_fiber(current->fiber, launcher);
  __builtin_unreachable();
}

void explain_deadlock();

inline Lane& draw(Warp& warp) {
  uint32_t turn = dice.five_bits();
  uint32_t ready = warp.ready >> turn | warp.ready << (-turn & 31);
  uint32_t number = (turn + __builtin_ctz(ready)) & 31;
  warp.ready &= ~(1u << number);
  return warp.lanes[number];
}

inline bool is_held_back(const Warp& warp) { return held_back >> warp.number & 1; }

inline Warp* draw_warp() {
  uint32_t start = dice.below(block.warp_count);
  Warp* found = nullptr;
  for (int i = 0; i < block.warp_count; ++i) {
    Warp& warp = block.warps[(start + i) % block.warp_count];
    if (!warp.ready) continue;
    if (!is_held_back(warp)) return &warp;
    if (!found) found = &warp;
  }
  return found;
}

// Goes on with some ready lane; returns when the calling one is drawn again.
inline void run_others(Lane& me, bool hand_over = false) {
  bool stays = me.warp->ready && !hand_over && !is_held_back(*me.warp);
  Warp* warp = stays ? me.warp : draw_warp();
  if (warp == nullptr) {
    if (!block.live_warps) switch_fiber(me.fiber, launcher);
    explain_deadlock();
    give_up();
  }
  Lane& next = draw(*warp);
  if (&next == &me) return;
  current = &next;
  switch_fiber(me.fiber, next.fiber);
}

inline void start_warp(Warp& warp, int number, uint32_t threads) {
  warp.number = number;
  warp.alive = threads >= 32 ? all_lanes : (1u << threads) - 1;
  warp.ready = warp.alive;
  warp.open_count = 0;
  warp.free = nullptr;
  for (Rendezvous& r : warp.pool) {
    r.warp = &warp;
    r.next_free = warp.free;
    warp.free = &r;
  }
}

// Lets every thread of the block run to its end, or stops with a report.
inline void run_block(void (*entry)()) {
  uint32_t threads = block_dim.x * block_dim.y * block_dim.z;
  block.warp_count = (threads + warp_lanes - 1) / warp_lanes;
  block.live_warps = all_lanes >> (max_warps - block.warp_count);
  memset(block.barriers, 0, sizeof block.barriers);
  for (uint32_t t = 0; t < threads; ++t) {
    Warp& warp = block.warps[t / warp_lanes];
    if (t % warp_lanes == 0) start_warp(warp, t / warp_lanes, threads - t);
    Lane& lane = warp.lanes[t % warp_lanes];
    lane.warp = &warp;
    lane.number = t % warp_lanes;
    lane.index = uint3{t % block_dim.x, t / block_dim.x % block_dim.y,
                       t / (block_dim.x * block_dim.y)};
    stacks.create(lane.fiber, t, entry);
  }
  current = &draw(*draw_warp());
  switch_fiber(launcher, current->fiber);
}

}  // namespace bed_emulator
