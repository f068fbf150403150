// The shadow of memory: for every granule the last write and the reads that nothing orders.
//
// An access races with an earlier one if no synchronisation lies in between; machine.h says how
// ticks make that a comparison.
#pragma once
#include "machine.h"

namespace simt {

// Flags in Access::pc. What is delivered is ordered by waiting for its mbarrier only. What is
// issued may be stored from now on: it must not meet others, and leaves nothing to be met yet.
constexpr uint32_t kAtomic = 1u << 31, kDelivered = 1u << 30, kIssued = 1u << 29;

struct Touch {  // one access of the running thread, as the slow paths need it
  const char* address;
  uint32_t size;
  bool write;
  uint32_t pc;
  uint32_t place;
  int32_t region;
  int64_t offset;
};

// shadow.cc: the paths taken rarely.
bool ordered_slowly(const Access& earlier);
simt_hazard describe(const Touch& touch, uint32_t kind);
void report_race(const Touch& touch, const Access& other, bool other_writes);
const Fiber* fiber_of(uint32_t thread);
uint64_t code_address(uint32_t pc);
void refine(Cell* cells, uint64_t bytes, uint32_t from, uint32_t to);

inline bool happened_before(const Access& earlier) {
  if ((earlier.pc & (kAtomic | kDelivered)) == kDelivered) {
    return earlier.time <= now.fiber->acquired;
  }
  const uint32_t differs = earlier.thread ^ now.thread;
  if (!differs) return true;
  if (!(differs >> kThreadBits) && earlier.time < now.block_time) return true;
  return ordered_slowly(earlier);
}

inline uint32_t distance(uint32_t left, uint32_t right) {
  const uint32_t differs = left ^ right;
  return differs < kLanes ? 0 : differs >> kThreadBits ? 2 : 1;
}

inline void note_read(Cell& cell, const Touch& touch, uint32_t since) {
  const Access self = {now.thread, now.time, touch.pc};
  if (cell.write.time > since && !happened_before(cell.write)) {
    report_race(touch, cell.write, true);
  }
  if (cell.read.time <= since || happened_before(cell.read)) {
    cell.read = self;
  } else if (cell.other.time <= since || happened_before(cell.other)) {
    cell.other = self;
  } else if (distance(cell.read.thread, now.thread) >
             distance(cell.read.thread, cell.other.thread)) {
    // Of many readers two far apart stand for all: what orders both orders those in between.
    cell.other = self;
  }
}

inline void check_write(const Cell& cell, const Touch& touch, uint32_t since) {
  if (cell.write.time > since && !happened_before(cell.write)) {
    report_race(touch, cell.write, true);
  }
  if (cell.read.time > since && !happened_before(cell.read)) {
    report_race(touch, cell.read, false);
  } else if (cell.other.time > since && !happened_before(cell.other)) {
    report_race(touch, cell.other, false);
  }
}

inline void note_write(Cell& cell, const Touch& touch, uint32_t since) {
  check_write(cell, touch, since);
  cell.write = {now.thread, now.time, touch.pc};
  cell.read.time = cell.other.time = 0;
}

// The granule that elements of an array start with, as a power of two.
inline uint32_t granule_of(uint32_t element_bytes) {
  return element_bytes >= 8 ? 3 : element_bytes >= 4 ? 2 : element_bytes >= 2 ? 1 : 0;
}

// The widest granule this access consists of.
inline uint32_t narrowest(uint64_t offset, uint32_t size) {
  return __builtin_ctzll(offset | size | 8);
}

template <class Note>
inline void each_cell(Cell* cells, uint32_t shift, const Touch& touch, Note note) {
  const uint64_t last = (touch.offset + touch.size - 1) >> shift;
  for (uint64_t i = touch.offset >> shift; i <= last; ++i) note(cells[i]);
}

// Whether a read met a granule that was not written since that tick.
inline bool note_cells(Cell* cells, uint32_t shift, const Touch& touch, uint32_t since,
                       bool shared) {
  bool unwritten = false;
  if (touch.pc & kIssued) {
    each_cell(cells, shift, touch, [&](Cell& cell) { check_write(cell, touch, since); });
  } else if (touch.write) {
    each_cell(cells, shift, touch, [&](Cell& cell) { note_write(cell, touch, since); });
  } else {
    each_cell(cells, shift, touch, [&](Cell& cell) {
      if (shared && cell.write.time <= since) unwritten = true;
      note_read(cell, touch, since);
    });
  }
  return unwritten;
}

}  // namespace simt
