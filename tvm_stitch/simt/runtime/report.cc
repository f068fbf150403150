// Hazards: kept once for every pair of places in the program, counted after that.
#include "machine.h"

namespace simt {
namespace {

bool same(const simt_hazard& a, const simt_hazard& b) {
  return a.kind == b.kind && a.pc == b.pc && a.other_pc == b.other_pc && a.place == b.place &&
         a.region == b.region && a.detail == b.detail &&
         (a.flags & (SIMT_WRITE | SIMT_OTHER_WRITE | SIMT_LOCAL_INDEX | SIMT_EXITED)) ==
             (b.flags & (SIMT_WRITE | SIMT_OTHER_WRITE | SIMT_LOCAL_INDEX | SIMT_EXITED));
}

// What a blocked thread waits for, for the text of a deadlock.
uint32_t waits_for(const Fiber& fiber) { return static_cast<uint32_t>(fiber.state); }

}  // namespace

// Returns the entry that holds it, or null when there is no room left.
simt_hazard* report(simt_hazard hazard) {
  simt_launch_request& r = *machine.request;
  for (uint64_t i = 0; i < r.hazard_count; ++i) {
    if (!same(r.hazards[i], hazard)) continue;
    ++r.hazards[i].count;
    return &r.hazards[i];
  }
  if (r.hazard_count == r.hazard_capacity) return nullptr;
  hazard.count = 1;
  r.hazards[r.hazard_count] = hazard;
  return &r.hazards[r.hazard_count++];
}

// No fiber can run: one deadlock, then the groups of threads that wait and where.
void report_waiting() {
  simt_hazard deadlock = {};
  deadlock.kind = SIMT_DEADLOCK;
  bool first = true;
  for (const Block& block : machine.blocks) {
    for (const Fiber& fiber : block.fibers) {
      if (fiber.state == State::Done) continue;
      if (first) {
        deadlock.thread = fiber.thread;
        deadlock.pc = fiber.pc;
        report(deadlock);
        first = false;
      }
      simt_hazard waiting = {};
      waiting.kind = SIMT_WAITING;
      waiting.thread = fiber.thread;
      waiting.pc = fiber.pc;
      waiting.detail = waits_for(fiber);
      report(waiting);
    }
  }
}

// Threads that meet, or wait for each other, at different places; hazards.py reads the detail.
void report_divergent(uint64_t pc, uint32_t thread, uint64_t other_pc, uint32_t other_thread,
                      uint32_t flags, uint32_t detail) {
  simt_hazard hazard = {};
  hazard.kind = SIMT_DIVERGENT;
  hazard.flags = flags;
  hazard.thread = thread;
  hazard.other_thread = other_thread;
  hazard.pc = pc;
  hazard.other_pc = other_pc;
  hazard.detail = detail;
  report(hazard);
}

void trap(uint64_t pc) {
  simt_hazard hazard = {};
  hazard.kind = SIMT_SIGNAL;
  hazard.thread = now.thread;
  hazard.pc = pc;
  hazard.place = SIMT_UNKNOWN;
  report(hazard);
  stop();
}

}  // namespace simt

extern "C" void simt_trap() {
  simt::trap(reinterpret_cast<uint64_t>(__builtin_return_address(0)));
}
