// What is ordered before what, beyond a block's barriers, and the reports of races.
#include <string.h>

#include "shadow.h"

namespace simt {
namespace {

struct PendingStore {  // a store that collided: compare the bytes once it has happened
  const char* address;
  uint32_t size;
  simt_hazard* hazard;
  char before[16];
} pending;

// Whether the cluster's barrier (its last phase this thread has waited for) lies in between.
bool ordered_by_cluster(const Access& earlier) {
  const Fiber* self = now.fiber;
  if (!self->phase) return false;
  const Fiber* other = (earlier.thread ^ now.thread) >> kThreadBits
                           ? fiber_of(earlier.thread)
                           : &now.block->fibers[earlier.thread & ((1u << kThreadBits) - 1)];
  return other && other->block->cluster == now.block->cluster &&
         earlier.time < other->released[self->phase & 1];
}

}  // namespace

const Fiber* fiber_of(uint32_t thread) {
  for (const Block& block : machine.blocks) {
    if (block.linear == thread >> kThreadBits) {
      return &block.fibers[thread & ((1u << kThreadBits) - 1)];
    }
  }
  return nullptr;
}

bool ordered_slowly(const Access& earlier) {
  if (earlier.time < machine.grid_time) return true;
  const uint32_t differs = earlier.thread ^ now.thread;
  if (!(differs >> kThreadBits)) {
    if (differs < kLanes) {
      const uint32_t lane = earlier.thread % kLanes;
      if (earlier.time < now.warp->time) return true;
      if (earlier.time < now.warp->seen[now.fiber->lane][lane]) return true;
    }
    constexpr uint32_t mask = (1u << kThreadBits) - 1;
    const uint32_t warp = (now.thread & mask) / kLanes, other = (earlier.thread & mask) / kLanes;
    if (earlier.time < now.block->met[warp][other]) return true;
  }
  return ordered_by_cluster(earlier);
}

uint64_t code_address(uint32_t pc) {
  const uint32_t offset = pc & ~(kAtomic | kDelivered | kIssued);
  return offset ? machine.code_begin + offset : 0;
}

simt_hazard describe(const Touch& touch, uint32_t kind) {
  simt_hazard hazard = {};
  hazard.kind = kind;
  hazard.flags = touch.write ? uint32_t{SIMT_WRITE} : 0;
  hazard.place = touch.place;
  hazard.region = touch.region;
  hazard.thread = now.thread;
  hazard.pc = code_address(touch.pc);
  hazard.offset = touch.offset;
  hazard.size = touch.size;
  return hazard;
}

void report_race(const Touch& touch, const Access& other,
                 bool other_writes) {
  if ((touch.pc & other.pc & kAtomic) != 0) return;  // atomics do not race with each other
  simt_hazard hazard = describe(touch, SIMT_RACE);
  hazard.other_thread = other.thread;
  hazard.other_pc = code_address(other.pc);
  if (other_writes) hazard.flags |= SIMT_OTHER_WRITE;
  if ((touch.pc | other.pc) & kAtomic) hazard.flags |= SIMT_ATOMIC;
  simt_hazard* kept = report(hazard);
  if (!kept || !touch.write || !other_writes || touch.pc & kIssued) return;
  if (kept->count == 1) kept->flags |= SIMT_SAME_VALUE;  // until a store shows otherwise
  if (!(kept->flags & SIMT_SAME_VALUE) || touch.size > sizeof pending.before) return;
  pending.address = touch.address;
  pending.size = touch.size;
  pending.hazard = kept;
  machine.store_pending = true;
  memcpy(pending.before, touch.address, touch.size);
}

// A narrower access than any before: split the cells, backwards in place.
void refine(Cell* cells, uint64_t bytes, uint32_t from, uint32_t to) {
  const uint64_t count = (bytes + (1u << from) - 1) >> from;
  const uint32_t parts = 1u << (from - to);
  for (uint64_t i = count; i-- > 0;) {
    const Cell cell = cells[i];
    for (uint32_t j = 0; j < parts; ++j) cells[i * parts + j] = cell;
  }
}

void settle_pending_store() {
  if (!machine.store_pending) return;
  if (memcmp(pending.before, pending.address, pending.size) != 0) {
    pending.hazard->flags &= ~SIMT_SAME_VALUE;
  }
  machine.store_pending = false;
}

}  // namespace simt
