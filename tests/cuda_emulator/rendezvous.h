// Collectives: lanes of a warp meet, and warps meet at barriers.
#pragma once
#include "scheduler.h"

namespace bed_emulator {

inline uint32_t bit(uint32_t lane) { return 1u << lane; }

// "0-3,8" for the bits 0 to 3 and 8.
struct Bits {
  char text[100];
  explicit Bits(uint32_t bits) {
    int used = 0;
    text[0] = 0;
    for (int i = 0; i < 32; ++i) {
      if (!(bits >> i & 1)) continue;
      int last = i;
      while (last < 31 && bits >> (last + 1) & 1) ++last;
      const char* comma = used ? "," : "";
      used += last == i ? sprintf(text + used, "%s%d", comma, i)
                        : sprintf(text + used, "%s%d-%d", comma, i, last);
      i = last;
    }
  }
};

inline const char* base_name(const char* file) {
  const char* slash = strrchr(file, '/');
  return slash ? slash + 1 : file;
}

inline void append_call(const Rendezvous& r) {
  append("%s", name_of(r.kind));
  if (r.kind == Kind::bar_sync || r.kind == Kind::bar_arrive)
    append("(%d, %d)", r.id(), r.threads());
  append(" at %s:%d", base_name(r.file), r.line);
}

inline void name_call(Rendezvous& r, Kind kind, const char* file, int line,
                      uint32_t detail) {
  r.kind = kind;
  r.file = file;
  r.line = line;
  r.detail = detail;
}

inline bool is_barrier(Kind kind) { return kind >= Kind::syncthreads; }

// Of every wait that cannot end: who, where, and who is missing.
inline void explain_deadlock() {
  report->kind = Report::deadlock;
  append("deadlock, every thread waits:");
  for (int w = 0; w < block.warp_count; ++w) {
    Warp& warp = block.warps[w];
    for (int i = 0; i < warp.open_count; ++i) {
      const Rendezvous& r = *warp.open[i];
      append("\n  warp %d, lanes %s wait in ", w, Bits(r.arrived).text);
      append_call(r);
      append(" for lanes %s", Bits(r.mask & warp.alive & ~r.arrived).text);
    }
  }
  for (const Barrier& barrier : block.barriers) {
    for (int i = 0; i < barrier.holding; ++i) {
      const Rendezvous& r = *barrier.waiting[i];
      append("\n  warp %d waits in ", r.warp->number);
      append_call(r);
      if (r.kind == Kind::bar_sync)
        append(", where %d threads have arrived", barrier.arrived);
      else
        append(" for warps %s", Bits(block.live_warps & ~barrier.warps).text);
    }
  }
}

inline void release_barrier(Barrier& barrier) {
  for (int i = 0; i < barrier.holding; ++i) {
    Rendezvous& r = *barrier.waiting[i];
    r.value[0] = barrier.truths;
    r.value[1] = barrier.voters;
    r.warp->ready |= r.arrived;
  }
  barrier = Barrier{};
}

// What is wrong with `r` arriving at `barrier`, if anything is.
inline bool misuses(const Barrier& barrier, const Rendezvous& r) {
  bool again = barrier.warps & bit(r.warp->number);
  const Rendezvous* other = barrier.holding ? barrier.waiting[0] : nullptr;
  bool elsewhere =
      r.id() == 0 && other &&
      (other->kind != r.kind || other->line != r.line || strcmp(other->file, r.file));
  bool otherwise = barrier.arrived && barrier.threads != r.threads();
  if (!again && !elsewhere && !otherwise) return false;
  append("warp %d calls ", r.warp->number);
  append_call(r);
  if (again) append(" a second time before the barrier is complete");
  if (otherwise) append(", which others use for %d threads", barrier.threads);
  if (elsewhere) {
    append(" while warp %d waits in ", other->warp->number);
    append_call(*other);
  }
  return true;
}

// A whole warp has reached a barrier. As in hardware a warp counts as 32 threads, and
// barrier 0, which is __syncthreads(), waits for all warps that have not exited.
inline void warp_arrives(Warp& warp, Rendezvous& r) {
  Barrier& barrier = block.barriers[r.id()];
  if (misuses(barrier, r)) give_up();
  barrier.warps |= bit(warp.number);
  barrier.arrived += warp_lanes;
  barrier.threads = r.threads();
  for (uint32_t lanes = r.arrived; lanes; lanes &= lanes - 1) {
    barrier.truths += r.value[__builtin_ctz(lanes)] != 0;
    ++barrier.voters;
  }
  if (r.kind == Kind::bar_arrive)
    warp.ready |= r.arrived;
  else
    barrier.waiting[barrier.holding++] = &r;
  if (r.id() == 0 ? barrier.warps == block.live_warps : barrier.arrived == r.threads())
    release_barrier(barrier);
}

inline void complete(Warp& warp, int position) {
  Rendezvous& r = *warp.open[position];
  warp.open[position] = warp.open[--warp.open_count];
  r.readers = __builtin_popcount(r.arrived);
  if (is_barrier(r.kind))
    warp_arrives(warp, r);
  else
    warp.ready |= r.arrived;
}

// Cold, like everything that reports: in `meet` these would only enlarge its frame.
[[noreturn, gnu::cold, gnu::noinline]] inline void report_mismatch(
    const Rendezvous& r, Kind kind, const char* file, int line, uint32_t detail) {
  Rendezvous call = r;
  name_call(call, kind, file, line, detail);
  append("warp %d: lane %d calls ", r.warp->number, current->number);
  append_call(call);
  append(" while lanes %s wait in ", Bits(r.arrived).text);
  append_call(r);
  append(", both for lanes %s", Bits(r.mask & r.warp->alive).text);
  give_up();
}

[[noreturn, gnu::cold, gnu::noinline]] inline void report_stranger(Kind kind,
                                                                   uint32_t mask,
                                                                   const char* file,
                                                                   int line) {
  append("warp %d: lane %d calls %s at %s:%d with mask 0x%08x, which does not name it",
         current->warp->number, current->number, name_of(kind), base_name(file), line,
         mask);
  give_up();
}

// Brings the calling lane to the collective and waits for the other lanes of `mask`
// that have not exited. Every caller passes the result to `leave` once it has read it.
__attribute__((noinline)) static Rendezvous* meet(Kind kind, uint32_t mask,
                                                  uint64_t value, const char* file,
                                                  int line, uint32_t detail = 0) {
  Lane& me = *current;
  Warp& warp = *me.warp;
  if (!(mask & bit(me.number))) report_stranger(kind, mask, file, line);
  int position = 0;
  while (position < warp.open_count && warp.open[position]->mask != mask) ++position;
  Rendezvous* r;
  if (position < warp.open_count) {
    r = warp.open[position];
    // Two calls with the same mask can never both be met.
    if (r->line != line || r->kind != kind || r->detail != detail ||
        (r->file != file && strcmp(r->file, file)))
      report_mismatch(*r, kind, file, line, detail);
  } else {
    r = warp.free;
    warp.free = r->next_free;
    warp.open[warp.open_count++] = r;
    r->mask = mask;
    r->arrived = 0;
    name_call(*r, kind, file, line, detail);
  }
  r->value[me.number] = value;
  r->arrived |= bit(me.number);
  bool hand_over = false;
  if (r->arrived == (mask & warp.alive)) {
    complete(warp, position);
    hand_over = handover && block.warp_count > 1 && dice.below(handover) == 0;
  }
  run_others(me, hand_over);
  return r;
}

inline void leave(Rendezvous* r) {
  if (--r->readers) return;
  r->next_free = r->warp->free;
  r->warp->free = r;
}

// The end of a thread. Nobody waits for it any more, so collectives may be complete.
[[noreturn]] inline void exit_lane() {
  Lane& me = *current;
  Warp& warp = *me.warp;
  warp.alive &= ~bit(me.number);
  for (int i = warp.open_count - 1; i >= 0; --i) {
    const Rendezvous& r = *warp.open[i];
    if (r.mask & bit(me.number) && r.arrived == (r.mask & warp.alive))
      complete(warp, i);
  }
  if (!warp.alive) {
    block.live_warps &= ~bit(warp.number);
    Barrier& barrier = block.barriers[0];
    if (barrier.holding && barrier.warps == block.live_warps) release_barrier(barrier);
  }
  run_others(me);
  __builtin_unreachable();
}

}  // namespace bed_emulator
