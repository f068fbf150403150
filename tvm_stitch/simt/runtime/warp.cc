// What the lanes of a warp do together: shuffles, votes, reductions.
#include <string.h>

#include "machine.h"

namespace simt {
namespace {

Fiber* lane_of(Warp* warp, Block* block, uint32_t lane) {
  return &block->fibers[(warp - block->warps.data()) * kLanes + lane];
}

// Orders everything the lanes of `mask` did before this tick, for each other and transitively.
void order_lanes(Warp* warp, Block* block, uint32_t mask, uint32_t time) {
  for (uint32_t left = mask; left; left &= left - 1) {
    lane_of(warp, block, __builtin_ctz(left))->time = time;
  }
  if (mask == warp->born) {
    warp->time = time;
    return;
  }
  join(warp->seen, mask, time);
}

uint64_t shuffle(const Fiber& self, const uint64_t* values, uint32_t mask) {
  const int lane = self.lane, width = self.width, base = lane & ~(width - 1);
  int source = lane;
  switch (self.kind) {
    case SIMT_SHUFFLE_INDEX: source = base + (self.operand & (width - 1)); break;
    case SIMT_SHUFFLE_UP: source = lane - self.operand < base ? lane : lane - self.operand; break;
    case SIMT_SHUFFLE_DOWN:
      source = lane + self.operand >= base + width ? lane : lane + self.operand;
      break;
    default:
      source = lane ^ self.operand;
      // A partner in a higher segment is out of reach; one in a lower segment may be read.
      if (source >= base + width) source = lane;
  }
  // Undefined on the device. Reductions of fewer lanes compute such values and throw them away,
  // so it is no hazard by itself: all ones are NaN in every format and show where it is used.
  return mask >> source & 1 ? values[source] : ~uint64_t{0};
}

uint64_t fold(int kind, uint64_t left, uint64_t right) {
  const auto a = static_cast<uint32_t>(left), b = static_cast<uint32_t>(right);
  const auto x = static_cast<int32_t>(a), y = static_cast<int32_t>(b);
  switch (kind) {
    case SIMT_REDUCE_ADD: return a + b;
    case SIMT_REDUCE_MIN: return static_cast<uint32_t>(x < y ? x : y);
    case SIMT_REDUCE_MAX: return static_cast<uint32_t>(x > y ? x : y);
    case SIMT_REDUCE_UMIN: return a < b ? a : b;
    case SIMT_REDUCE_UMAX: return a > b ? a : b;
    case SIMT_REDUCE_AND: return a & b;
    case SIMT_REDUCE_OR: return a | b;
    default: return a ^ b;
  }
}

// The same answer for every lane: votes and reductions.
uint64_t uniform_result(int kind, const uint64_t* values, uint32_t mask) {
  uint32_t ballot = 0;
  uint64_t folded = values[__builtin_ctz(mask)];
  bool equal = true;
  for (uint32_t left = mask; left; left &= left - 1) {
    const uint32_t lane = __builtin_ctz(left);
    ballot |= (values[lane] != 0) << lane;
    equal &= values[lane] == values[__builtin_ctz(mask)];
    if (left != mask && kind >= SIMT_REDUCE_ADD) folded = fold(kind, folded, values[lane]);
  }
  switch (kind) {
    case SIMT_BALLOT: return ballot;
    case SIMT_ANY: return ballot != 0;
    case SIMT_ALL: return ballot == mask;
    case SIMT_UNIFORM: return ballot == mask || !ballot;
    case SIMT_MATCH_ALL: return equal ? mask : 0;
    default: return folded;
  }
}

uint64_t matching(uint64_t value, const uint64_t* values, uint32_t mask) {
  uint64_t lanes = 0;
  for (uint32_t left = mask; left; left &= left - 1) {
    const uint32_t lane = __builtin_ctz(left);
    if (values[lane] == value) lanes |= uint64_t{1} << lane;
  }
  return lanes;
}

// An instruction of the whole warp that some lanes will never reach.
[[noreturn]] void refuse_partial_warp(Warp* warp, Block* block, const Collective& op) {
  const uint32_t thread = lane_of(warp, block, __builtin_ctz(op.arrived))->thread;
  const uint32_t left = warp->born & ~op.arrived;
  if (left) {
    report_divergent(op.pc, thread, 0, lane_of(warp, block, __builtin_ctz(left))->thread,
                     SIMT_EXITED, __builtin_popcount(left));
  } else {
    report_divergent(op.pc, thread, 0, 0, 0, 5);
  }
  stop();
}

// All live lanes of the mask have come: compute every lane's result and let them go on.
void complete(Warp* warp, Block* block, const Collective& op, const Fiber* running) {
  if (op.kind >= SIMT_LOAD_MATRICES) {
    if (op.arrived != ~0u) refuse_partial_warp(warp, block, op);
    Fiber* first = lane_of(warp, block, 0);
    if (op.kind == SIMT_MULTIPLY_WARPGROUP) {
      complete_warpgroup(first);
    } else {
      complete_matrices(warp, *first);
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      Fiber* fiber = lane_of(warp, block, lane);
      if (fiber != running) make_runnable(fiber);
    }
    return;
  }
  uint64_t values[kLanes];
  for (uint32_t left = op.arrived; left; left &= left - 1) {
    const uint32_t lane = __builtin_ctz(left);
    values[lane] = lane_of(warp, block, lane)->value;
  }
  const bool shuffles = op.kind >= SIMT_SHUFFLE_INDEX && op.kind <= SIMT_SHUFFLE_XOR;
  const bool same = !shuffles && op.kind != SIMT_SYNCWARP && op.kind != SIMT_MATCH_ANY;
  const uint64_t uniform = same ? uniform_result(op.kind, values, op.arrived) : 0;
  for (uint32_t left = op.arrived; left; left &= left - 1) {
    Fiber* fiber = lane_of(warp, block, __builtin_ctz(left));
    fiber->result = shuffles                      ? shuffle(*fiber, values, op.arrived)
                    : op.kind == SIMT_MATCH_ANY ? matching(fiber->value, values, op.arrived)
                                                  : uniform;
    if (fiber != running) make_runnable(fiber);
  }
  order_lanes(warp, block, op.arrived, tick());
}

}  // namespace

void join(uint32_t (&seen)[kLanes][kLanes], uint32_t members, uint32_t time) {
  uint32_t joined[kLanes] = {};
  for (uint32_t left = members; left; left &= left - 1) {
    const uint32_t* own = seen[__builtin_ctz(left)];
    for (uint32_t i = 0; i < kLanes; ++i) joined[i] = own[i] > joined[i] ? own[i] : joined[i];
  }
  for (uint32_t left = members; left; left &= left - 1) joined[__builtin_ctz(left)] = time;
  for (uint32_t left = members; left; left &= left - 1) {
    memcpy(seen[__builtin_ctz(left)], joined, sizeof joined);
  }
}

void resolve_activemask(Warp* warp, Block* block) {
  while (warp->actives) {  // lanes at one place in the program have converged
    const uint64_t pc = lane_of(warp, block, __builtin_ctz(warp->actives))->pc;
    uint32_t mask = 0;
    for (uint32_t left = warp->actives; left; left &= left - 1) {
      const uint32_t lane = __builtin_ctz(left);
      if (lane_of(warp, block, lane)->pc == pc) mask |= 1u << lane;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
      Fiber* fiber = lane_of(warp, block, __builtin_ctz(left));
      fiber->result = mask;
      make_runnable(fiber);
    }
    warp->actives &= ~mask;
  }
}

void leave_warp(Fiber* fiber) {
  Warp* warp = fiber->warp;
  const uint32_t bit = 1u << fiber->lane;
  warp->live &= ~bit;
  warp->runnable &= ~bit;
  for (size_t i = 0; i < warp->pending.size();) {
    const Collective op = warp->pending[i];
    if (!(op.mask & bit) || op.arrived != (op.mask & warp->live)) {
      ++i;
      continue;
    }
    warp->pending.erase(warp->pending.begin() + i);
    complete(warp, fiber->block, op, nullptr);
  }
  if (!warp->runnable && warp->actives) resolve_activemask(warp, fiber->block);
}

uint64_t meet(int kind, uint32_t mask, uint64_t value, int operand, int width, uint64_t pc) {
  Fiber* self = now.fiber;
  Warp* warp = self->warp;
  const uint32_t bit = 1u << self->lane;
  if (!(mask & bit)) {
    report_divergent(pc, self->thread, pc, self->thread, 0, 2);
    mask |= bit;
  }
  self->value = value;
  self->kind = kind;
  self->operand = operand;
  self->width = width;
  size_t i = 0;
  while (i < warp->pending.size() &&
         (warp->pending[i].mask != mask || warp->pending[i].kind != kind)) {
    ++i;
  }
  if (i == warp->pending.size()) warp->pending.push_back({mask, 0, kind, pc});
  Collective& op = warp->pending[i];
  if (op.pc != pc) {
    Fiber* other = lane_of(warp, self->block, __builtin_ctz(op.arrived));
    report_divergent(pc, self->thread, op.pc, other->thread, 0, 0);
  }
  op.arrived |= bit;
  if (op.arrived != (mask & warp->live)) {
    block_and_yield(State::Warp, pc);
    return self->result;
  }
  const Collective whole = op;
  warp->pending.erase(warp->pending.begin() + i);
  settle_pending_store();
  complete(warp, self->block, whole, self);
  refresh_now();
  return self->result;
}

}  // namespace simt

using namespace simt;

#define CALLER reinterpret_cast<uint64_t>(__builtin_return_address(0))

extern "C" {

uint64_t simt_warp(int kind, unsigned mask, uint64_t value, int operand, int width) {
  return meet(kind, mask, value, operand, width, CALLER);
}

unsigned simt_activemask() {
  now.warp->actives |= 1u << now.fiber->lane;
  block_and_yield(State::ActiveMask, CALLER);
  return static_cast<unsigned>(now.fiber->result);
}

}  // extern "C"
