// Warp collectives and block barriers, with the meaning that the PTX manual gives them.
//
// The default arguments name the caller's source line. A shuffle that reads from a lane
// which takes no part gives all bits set, which is NaN.
#pragma once
#include <type_traits>

#include "rendezvous.h"

#define BED_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace bed_emulator {

template <typename T>
inline uint64_t pack(T value) {
  static_assert(
      (std::is_integral_v<T> || is_floating<T>) && (sizeof(T) >= 4 || sizeof(T) == 1),
      "CUDA has no shuffle for this type");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

template <typename T>
inline T unpack(uint64_t bits) {
  if constexpr (std::is_same_v<T, bool>) return bits != 0;
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The part of the lane number that a shuffle within `width` lanes leaves alone.
inline int segment_mask(int width, const char* file, int line) {
  if (width < 1 || width > 32 || (width & (width - 1))) {
    append("a shuffle has width %d at %s:%d; a power of two up to 32 is needed", width,
           base_name(file), line);
    give_up();
  }
  return 32 - width;
}

template <typename T>
inline T shuffle(Kind kind, unsigned mask, T value, int source, const char* file,
                 int line) {
  Rendezvous* r = meet(kind, mask, pack(value), file, line);
  uint64_t bits = r->arrived >> source & 1 ? r->value[source] : ~uint64_t(0);
  leave(r);
  return unpack<T>(bits);
}

// Lanes of `mask` whose predicate holds.
inline unsigned vote(Kind kind, unsigned mask, bool predicate, unsigned& voters,
                     const char* file, int line) {
  Rendezvous* r = meet(kind, mask, predicate, file, line);
  unsigned result = 0;
  voters = r->arrived;
  for (uint32_t lanes = voters; lanes; lanes &= lanes - 1) {
    int i = __builtin_ctz(lanes);
    result |= uint32_t(r->value[i]) << i;
  }
  leave(r);
  return result;
}

struct BarrierVotes {
  int truths, voters;
};

inline BarrierVotes block_barrier(Kind kind, bool predicate, const char* file,
                                  int line) {
  Rendezvous* r = meet(kind, all_lanes, predicate, file, line);
  BarrierVotes votes{int(r->value[0]), int(r->value[1])};
  leave(r);
  return votes;
}

inline void named_barrier(Kind kind, int id, int threads, const char* file, int line) {
  // Number 0 is __syncthreads().
  if (id < 1 || id >= barrier_count || threads < 32 || threads > 1024 || threads % 32) {
    append(
        "%s(%d, %d) at %s:%d: the barrier has to be 1 to 15, and the threads whole "
        "warps",
        name_of(kind), id, threads, base_name(file), line);
    give_up();
  }
  leave(meet(kind, all_lanes, 0, file, line, threads << 16 | id));
}

}  // namespace bed_emulator

template <typename T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, BED_HERE) {
  int lane = bed_emulator::current->number;
  int keep = bed_emulator::segment_mask(width, file, line);
  return bed_emulator::shuffle(bed_emulator::Kind::shfl, mask, value,
                               (lane & keep) | (source & 31 & ~keep), file, line);
}

template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                        BED_HERE) {
  int lane = bed_emulator::current->number;
  int first = lane & bed_emulator::segment_mask(width, file, line);
  int source = lane - int(delta & 31);
  return bed_emulator::shuffle(bed_emulator::Kind::shfl_up, mask, value,
                               source >= first ? source : lane, file, line);
}

template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                          BED_HERE) {
  int lane = bed_emulator::current->number;
  int last = lane | (31 & ~bed_emulator::segment_mask(width, file, line));
  int source = lane + int(delta & 31);
  return bed_emulator::shuffle(bed_emulator::Kind::shfl_down, mask, value,
                               source <= last ? source : lane, file, line);
}

template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                         BED_HERE) {
  int lane = bed_emulator::current->number;
  int last = lane | (31 & ~bed_emulator::segment_mask(width, file, line));
  int source = lane ^ (lane_mask & 31);
  return bed_emulator::shuffle(bed_emulator::Kind::shfl_xor, mask, value,
                               source <= last ? source : lane, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, BED_HERE) {
  unsigned voters;
  return bed_emulator::vote(bed_emulator::Kind::ballot, mask, predicate, voters, file,
                            line);
}

inline int __all_sync(unsigned mask, int predicate, BED_HERE) {
  unsigned voters;
  return bed_emulator::vote(bed_emulator::Kind::all, mask, predicate, voters, file,
                            line) == voters;
}

inline int __any_sync(unsigned mask, int predicate, BED_HERE) {
  unsigned voters;
  return bed_emulator::vote(bed_emulator::Kind::any, mask, predicate, voters, file,
                            line) != 0;
}

template <typename T>
inline unsigned __match_any_sync(unsigned mask, T value, BED_HERE) {
  using namespace bed_emulator;
  Rendezvous* r = meet(Kind::match_any, mask, pack(value), file, line);
  unsigned result = 0;
  for (uint32_t lanes = r->arrived; lanes; lanes &= lanes - 1)
    if (r->value[__builtin_ctz(lanes)] == pack(value)) result |= lanes & -lanes;
  leave(r);
  return result;
}

inline void __syncwarp(unsigned mask = bed_emulator::all_lanes, BED_HERE) {
  using namespace bed_emulator;
  leave(meet(Kind::syncwarp, mask, 0, file, line));
}

// Every lane that has not exited: in divergent code the device may give fewer, so a
// kernel that takes this for the lanes which run with it ends in a deadlock.
inline unsigned __activemask() { return bed_emulator::current->warp->alive; }

inline void __syncthreads(BED_HERE) {
  bed_emulator::block_barrier(bed_emulator::Kind::syncthreads, false, file, line);
}

inline int __syncthreads_or(int predicate, BED_HERE) {
  using namespace bed_emulator;
  return block_barrier(Kind::syncthreads_or, predicate, file, line).truths != 0;
}

inline int __syncthreads_and(int predicate, BED_HERE) {
  using namespace bed_emulator;
  BarrierVotes votes = block_barrier(Kind::syncthreads_and, predicate, file, line);
  return votes.truths == votes.voters;
}

inline int __syncthreads_count(int predicate, BED_HERE) {
  using namespace bed_emulator;
  return block_barrier(Kind::syncthreads_count, predicate, file, line).truths;
}

// bar.sync and bar.arrive: `threads` of the block, whole warps, meet at barrier `id`.
inline void bed_bar_sync(int id, int threads, BED_HERE) {
  bed_emulator::named_barrier(bed_emulator::Kind::bar_sync, id, threads, file, line);
}

inline void bed_bar_arrive(int id, int threads, BED_HERE) {
  bed_emulator::named_barrier(bed_emulator::Kind::bar_arrive, id, threads, file, line);
}
