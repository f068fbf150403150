// Where threads wait for each other: barriers of blocks, clusters and grids.
#include "machine.h"

namespace simt {
namespace {

void release_barrier(Block* block, uint32_t id) {
  Barrier& barrier = block->barriers[id];
  const uint32_t time = tick();
  const bool whole = barrier.arrived == block->live;
  ++machine.barriers;
  const uint64_t count = barrier.ones;
  const uint64_t result =
      count << 2 | uint64_t{count != 0} << 1 | uint64_t{count == barrier.arrived};
  if (block->exited && !barrier.needed) {
    report_divergent(barrier.pc, barrier.first, 0,
                     block->linear << kThreadBits | block->first_exited, SIMT_EXITED,
                     block->exited);
  }
  if (whole) block->time = time;
  uint32_t warps = 0;
  for (Fiber& fiber : block->fibers) {
    if (fiber.state != State::Block || fiber.barrier != id) continue;
    warps |= 1u << (fiber.warp - block->warps.data());
    fiber.result = result;
    fiber.time = time;
    make_runnable(&fiber);
  }
  if (!whole) join(block->met, warps, time);  // only some warps take part in it
  barrier = Barrier{};
}

bool barrier_is_full(const Block* block, const Barrier& barrier) {
  if (barrier.needed) return barrier.arrived >= barrier.needed;
  return barrier.arrived && barrier.arrived == block->live;
}

void release_cluster(uint32_t index) {
  Cluster& cluster = machine.clusters[index];
  ++cluster.phase;
  cluster.arrived = 0;
  machine.barriers += cluster.size;
  const uint32_t time = tick();
  for (uint32_t rank = 0; rank < cluster.size; ++rank) {
    Block& block = machine.blocks[index * cluster.size + rank];
    for (Fiber& fiber : block.fibers) {
      // What an exited thread did, it did before any later barrier.
      fiber.released[cluster.phase & 1] = fiber.state == State::Done ? time : fiber.arrival;
      fiber.arrived = false;
      if (fiber.state != State::ClusterWait) continue;
      fiber.phase = cluster.phase;
      fiber.time = time;
      make_runnable(&fiber);
    }
  }
}

void release_grid(uint64_t pc, uint32_t thread) {
  const uint64_t exited = machine.blocks.size() * machine.block_threads - machine.alive;
  if (exited) {
    uint32_t other = 0;
    for (Block& block : machine.blocks) {
      if (block.exited) other = block.linear << kThreadBits | block.first_exited;
    }
    report_divergent(pc, thread, 0, other, SIMT_EXITED, static_cast<uint32_t>(exited));
  }
  machine.grid_arrived = 0;
  machine.grid_time = tick();
  machine.barriers += machine.blocks.size();
  for (Block& block : machine.blocks) {
    block.time = machine.grid_time;
    for (Fiber& fiber : block.fibers) {
      if (fiber.state != State::Grid) continue;
      fiber.time = machine.grid_time;
      make_runnable(&fiber);
    }
  }
}

}  // namespace

void leave_block(Fiber* fiber) {
  Block* block = fiber->block;
  --block->live;
  if (!block->exited++) block->first_exited = fiber->thread & ((1u << kThreadBits) - 1);
  for (uint32_t id = 0; id < kBarriers; ++id) {
    if (!block->barriers[id].needed && barrier_is_full(block, block->barriers[id])) {
      release_barrier(block, id);
    }
  }
  Cluster& cluster = machine.clusters[block->cluster];
  --cluster.live;
  if (fiber->arrived) --cluster.arrived;
  if (cluster.arrived && cluster.arrived == cluster.live) release_cluster(block->cluster);
  if (!block->live) end_block_memory(*block);
  if (machine.grid_arrived && machine.grid_arrived == machine.alive) release_grid(0, 0);
}

}  // namespace simt

using namespace simt;

#define CALLER reinterpret_cast<uint64_t>(__builtin_return_address(0))

extern "C" {

uint64_t simt_block_barrier(int id, int threads, int predicate) {
  Fiber* self = now.fiber;
  Block* block = self->block;
  Barrier& barrier = block->barriers[id & (kBarriers - 1)];
  const uint64_t pc = CALLER;
  if (!barrier.arrived) {
    barrier = {0, threads < static_cast<int>(block->threads) ? static_cast<uint32_t>(threads) : 0,
               self->thread, pc, 0};
  } else if (barrier.pc != pc) {
    report_divergent(pc, self->thread, barrier.pc, barrier.first, 0, 0);
  }
  ++barrier.arrived;
  barrier.ones += predicate != 0;
  self->barrier = id & (kBarriers - 1);
  if (barrier_is_full(block, barrier)) {
    settle_pending_store();
    self->state = State::Block;
    release_barrier(block, self->barrier);
    yield_released();
  } else {
    block_and_yield(State::Block, pc);
  }
  return self->result;
}

void simt_grid_barrier() {
  const uint64_t pc = CALLER;
  if (!machine.request->cooperative && machine.multi_block) {
    simt_hazard hazard = {};
    hazard.kind = SIMT_DEADLOCK;
    hazard.thread = now.thread;
    hazard.pc = pc;
    hazard.detail = 2;
    report(hazard);
    stop();
  }
  ++machine.grid_arrived;
  if (machine.grid_arrived == machine.alive) {
    settle_pending_store();
    now.fiber->state = State::Grid;
    release_grid(pc, now.thread);
    yield_released();
  } else {
    block_and_yield(State::Grid, pc);
  }
}

void simt_cluster_arrive() {
  Fiber* self = now.fiber;
  Cluster& cluster = machine.clusters[self->block->cluster];
  settle_pending_store();
  if (self->arrived) {
    report_divergent(CALLER, self->thread, CALLER, self->thread, 0, 3);
    return;
  }
  self->arrived = true;
  self->pc = CALLER;
  self->arrival = self->time = tick();
  refresh_now();
  if (++cluster.arrived == cluster.live) release_cluster(self->block->cluster);
}

void simt_cluster_wait() {
  Fiber* self = now.fiber;
  Cluster& cluster = machine.clusters[self->block->cluster];
  if (!self->arrived) {  // the phase is over, or this thread never arrived
    if (self->phase == cluster.phase) report_divergent(CALLER, self->thread, 0, 0, 0, 4);
    self->phase = cluster.phase;
    self->time = tick();
    refresh_now();
    return;
  }
  block_and_yield(State::ClusterWait, CALLER);
}

}  // extern "C"
