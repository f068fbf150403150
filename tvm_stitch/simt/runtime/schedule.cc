// Runs a launch: which blocks are resident together, which fiber runs next, what ends it.
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "machine.h"

namespace simt {

Machine machine;
Now now;

namespace {

constexpr uint64_t kPolls = 64;          // atomic or volatile reads before others get a turn
constexpr uint64_t kIdlePolls = 1 << 24;  // as many without any progress mean a wait for ever

constexpr uint64_t kKeptFibers = 1 << 14;  // a whole grid's stacks are given back at once

sigjmp_buf escape;
volatile sig_atomic_t in_fiber = 0;
volatile int caught_signal = 0;
uint64_t caught_address = 0;

void push_ready(Fiber* fiber) {
  const size_t capacity = machine.ready.size();
  machine.ready[(machine.ready_head + machine.ready_count++) % capacity] = fiber;
}

Fiber* pop_ready() {
  const size_t capacity = machine.ready.size();
  if (!machine.natural) {  // bring a random one to the head
    const size_t pick = (machine.ready_head + draw() % machine.ready_count) % capacity;
    Fiber* chosen = machine.ready[pick];
    machine.ready[pick] = machine.ready[machine.ready_head];
    machine.ready[machine.ready_head] = chosen;
  }
  Fiber* fiber = machine.ready[machine.ready_head];
  machine.ready_head = (machine.ready_head + 1) % capacity;
  --machine.ready_count;
  return fiber;
}

void become(Fiber* fiber) {
  now.fiber = fiber;
  now.warp = fiber->warp;
  now.block = fiber->block;
  refresh_now();
}

void run_next_instead_of(Fiber* self) {
  settle_pending_store();
  if (!machine.ready_count) {
    switch_fiber(&self->stack_pointer, machine.scheduler_stack_pointer);
    return;
  }
  Fiber* next = pop_ready();
  become(next);
  if (next == self) return;
  ++machine.request->switches;
  switch_fiber(&self->stack_pointer, next->stack_pointer);
}

#ifdef __x86_64__
// CUDA's integer division never traps: by zero it gives what it gives, here all ones and the
// dividend as rest; the least number by -1 is itself. Returns whether the instruction was one.
bool step_over_division(ucontext_t* context) {
  greg_t* registers = context->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  bool wide = false;
  for (; *code == 0x66 || (*code & 0xf0) == 0x40; ++code) wide = *code != 0x66 && (*code & 8);
  const unsigned form = code[1], mode = form >> 6, operand = form & 7, which = form >> 3 & 7;
  if (code[0] != 0xf7 || which < 6) return false;
  const bool indexed = mode != 3 && operand == 4;
  const bool far = mode == 2 || (mode == 0 && (operand == 5 || (indexed && (code[2] & 7) == 5)));
  const uint64_t least = wide ? uint64_t{1} << 63 : uint64_t{1} << 31;
  const uint64_t all = least | (least - 1);
  const uint64_t dividend = static_cast<uint64_t>(registers[REG_RAX]) & all;
  const bool itself = which == 7 && dividend == least;
  registers[REG_RAX] = static_cast<greg_t>(itself ? dividend : all);
  registers[REG_RDX] = static_cast<greg_t>(itself ? 0 : dividend);
  code += 2 + indexed + (far ? 4 : mode == 1);
  registers[REG_RIP] = reinterpret_cast<greg_t>(code);
  return true;
}
#else
bool step_over_division(ucontext_t*) { return false; }  // other processors do not trap
#endif

void on_signal(int number, siginfo_t* info, void* context) {
  if (in_fiber && number == SIGFPE && step_over_division(static_cast<ucontext_t*>(context))) return;
  if (!in_fiber) {  // not ours: let the default action happen where it was raised
    signal(number, SIG_DFL);
    return;
  }
  caught_signal = number;
  caught_address = reinterpret_cast<uint64_t>(info->si_addr);
  siglongjmp(escape, 1);
}

// Faults inside a kernel become hazards; the handlers of the process are put back afterwards.
class SignalGuard {
 public:
  SignalGuard() {
    stack_t alternate = {};
    alternate.ss_sp = stack_;
    alternate.ss_size = sizeof stack_;
    sigaltstack(&alternate, &old_stack_);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < kSignals; ++i) sigaction(numbers_[i], &action, &old_[i]);
  }
  ~SignalGuard() {
    for (int i = 0; i < kSignals; ++i) sigaction(numbers_[i], &old_[i], nullptr);
    sigaltstack(&old_stack_, nullptr);
  }

 private:
  static constexpr int kSignals = 4;
  const int numbers_[kSignals] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct sigaction old_[kSignals];
  stack_t old_stack_;
  static char stack_[1 << 16];
};
char SignalGuard::stack_[1 << 16];

void report_signal() {
  simt_hazard hazard = {};
  hazard.kind = stack_guard_holds(caught_address) ? SIMT_STACK_OVERFLOW : SIMT_SIGNAL;
  hazard.thread = now.thread;
  hazard.detail = static_cast<uint32_t>(caught_signal);
  hazard.offset = static_cast<int64_t>(caught_address);
  hazard.place = SIMT_UNKNOWN;
  report(hazard);
  machine.stopped = true;
}

simt_index block_at(uint64_t cluster, uint32_t rank) {
  const simt_launch_request& r = *machine.request;
  const uint64_t nx = r.grid[0] / r.cluster[0], ny = r.grid[1] / r.cluster[1];
  simt_index index;
  index.x = static_cast<unsigned>(cluster % nx * r.cluster[0] + rank % r.cluster[0]);
  index.y = static_cast<unsigned>(cluster / nx % ny * r.cluster[1] +
                                  rank / r.cluster[0] % r.cluster[1]);
  index.z = static_cast<unsigned>(cluster / nx / ny * r.cluster[2] +
                                  rank / r.cluster[0] / r.cluster[1]);
  return index;
}

void start_block(uint32_t resident, uint64_t first_cluster) {
  Block& block = machine.blocks[resident];
  const simt_launch_request& r = *machine.request;
  const uint32_t threads = machine.block_threads;
  block.cluster = resident / machine.cluster_blocks;
  block.rank = resident % machine.cluster_blocks;
  block.index = block_at(first_cluster + block.cluster, block.rank);
  block.linear = block.index.x + r.grid[0] * (block.index.y + r.grid[1] * block.index.z);
  block.threads = block.live = threads;
  block.exited = 0;
  block.time = block.started = tick();
  block.remote = Access{};
  memset(block.barriers, 0, sizeof block.barriers);
  for (uint32_t w = 0; w < block.warps.size(); ++w) {
    Warp& warp = block.warps[w];
    const uint32_t lanes = threads - w * kLanes < kLanes ? threads - w * kLanes : kLanes;
    warp.born = warp.live = warp.runnable = lanes == kLanes ? ~0u : (1u << lanes) - 1;
    warp.time = 0;
    warp.actives = 0;
    warp.pending.clear();
  }
  for (uint32_t t = 0; t < threads; ++t) {
    Fiber& fiber = block.fibers[t];
    fiber.thread = block.linear << kThreadBits | t;
    fiber.time = block.time;
    fiber.state = State::Runnable;
    fiber.lane = t % kLanes;
    fiber.released[0] = fiber.released[1] = fiber.phase = fiber.acquired = 0;
    fiber.arrived = false;
    fiber.warp = &block.warps[t / kLanes];
    fiber.block = &block;
    fiber.index = {t % r.block[0], t / r.block[0] % r.block[1], t / (r.block[0] * r.block[1])};
    fiber.copies.clear();
    fiber.committed.clear();
    fiber.multiplications.clear();
    fiber.multiplied.clear();
    fiber.accumulators.clear();
    reset_fiber(&fiber, uint64_t{resident} * threads + t);
    push_ready(&fiber);
  }
  begin_block_memory(block);
}

// Runs the blocks resident together from start to end.
void run_resident(uint64_t first_cluster) {
  machine.alive = machine.blocks.size() * machine.block_threads;
  machine.grid_arrived = machine.ready_head = machine.ready_count = 0;
  for (Cluster& cluster : machine.clusters) {
    cluster = {machine.cluster_blocks * machine.block_threads, 0, 0, machine.cluster_blocks};
  }
  for (uint32_t i = 0; i < machine.blocks.size(); ++i) start_block(i, first_cluster);
  while (machine.alive && !machine.stopped) {
    if (!machine.ready_count) {
      report_waiting();
      machine.stopped = true;
      return;
    }
    Fiber* fiber = pop_ready();
    become(fiber);
    ++machine.request->switches;
    in_fiber = 1;
    switch_fiber(&machine.scheduler_stack_pointer, fiber->stack_pointer);
    in_fiber = 0;
  }
}

void prepare_blocks(uint64_t resident) {
  machine.blocks.resize(resident);
  machine.clusters.resize(resident / machine.cluster_blocks);
  for (Block& block : machine.blocks) {
    block.fibers.resize(machine.block_threads);
    block.warps.resize((machine.block_threads + kLanes - 1) / kLanes);
    // Ticks start anew with every launch.
    memset(block.met, 0, sizeof block.met);
    for (Warp& warp : block.warps) memset(warp.seen, 0, sizeof warp.seen);
  }
  machine.ready.resize(resident * machine.block_threads);
}

std::vector<uint32_t> group_order(uint64_t groups) {
  std::vector<uint32_t> order(groups);
  for (uint64_t i = 0; i < groups; ++i) order[i] = i;
  if (machine.natural) return order;
  for (uint64_t i = groups; i > 1; --i) {
    const uint64_t other = draw() % i;
    const uint32_t swapped = order[i - 1];
    order[i - 1] = order[other], order[other] = swapped;
  }
  return order;
}

// Keeps C++ objects out of the frame that siglongjmp comes back to.
__attribute__((noinline)) void run_groups(const uint32_t* order, uint64_t groups,
                                          uint64_t clusters_each) {
  if (sigsetjmp(escape, 1)) {
    in_fiber = 0;
    report_signal();
    return;
  }
  for (uint64_t i = 0; i < groups && !machine.stopped; ++i) {
    run_resident(order[i] * clusters_each);
  }
}

}  // namespace

void refresh_now() {
  now.thread = now.fiber->thread;
  now.time = now.fiber->time;
  now.block_time = now.block->time;
}

void make_runnable(Fiber* fiber) {
  fiber->state = State::Runnable;
  fiber->warp->runnable |= 1u << fiber->lane;
  push_ready(fiber);
}

void block_and_yield(State state, uint64_t pc) {
  Fiber* self = now.fiber;
  self->state = state;
  self->pc = pc;
  self->warp->runnable &= ~(1u << self->lane);
  if (!self->warp->runnable && self->warp->actives) resolve_activemask(self->warp, self->block);
  run_next_instead_of(self);
}

void yield_released() { run_next_instead_of(now.fiber); }

void let_others_run() {
  if (++machine.polls % kPolls) return;
  static uint32_t last_tick = 0;
  if (last_tick != machine.clock) machine.idle_polls = 0;
  last_tick = machine.clock;
  machine.idle_polls += kPolls;
  if (machine.idle_polls > kIdlePolls) {
    simt_hazard hazard = {};
    hazard.kind = SIMT_DEADLOCK;
    hazard.thread = now.thread;
    hazard.detail = 1;
    report(hazard);
    stop();
  }
  push_ready(now.fiber);
  run_next_instead_of(now.fiber);
}

void stop() {
  machine.stopped = true;
  switch_fiber(&now.fiber->stack_pointer, machine.scheduler_stack_pointer);
  abort();  // a stopped launch resumes no fiber
}

void fiber_body() {
  machine.request->entry(machine.request->arguments);
  Fiber* self = now.fiber;
  settle_pending_store();
  self->state = State::Done;
  --machine.alive;
  leave_warp(self);
  leave_block(self);
  machine.idle_polls = 0;
  run_next_instead_of(self);
  abort();  // a finished fiber is in no queue
}

}  // namespace simt

using namespace simt;

extern "C" int simt_launch(simt_launch_request* request) {
  machine.request = request;
  const uint32_t* block = request->block;
  machine.block_threads = block[0] * block[1] * block[2];
  const uint32_t* cluster = request->cluster;
  machine.cluster_blocks = cluster[0] * cluster[1] * cluster[2];
  const uint64_t blocks = uint64_t{request->grid[0]} * request->grid[1] * request->grid[2];
  const uint64_t resident = request->cooperative ? blocks : machine.cluster_blocks;
  machine.natural = request->seed == 0;
  machine.random = request->seed * 0x9E3779B97F4A7C15ull | 1;
  machine.clock = machine.grid_time = 0;
  machine.polls = machine.idle_polls = machine.accesses = 0;
  machine.global_bytes = machine.barriers = 0;
  machine.code_begin = request->code_begin;
  machine.stopped = false;
  machine.multi_block = blocks > 1;
  request->hazard_count = request->switches = request->accesses = 0;
  request->global_bytes = request->barriers = 0;
  prepare_blocks(resident);
  prepare_stacks(resident * machine.block_threads, request->stack_bytes);
  const bool enough = machine.stacks && prepare_memory();
  const uint64_t groups = blocks / resident;
  const std::vector<uint32_t> order = group_order(groups);
  if (enough) {
    SignalGuard guard;
    run_groups(order.data(), groups, resident / machine.cluster_blocks);
  }
  release_memory();
  if (resident * machine.block_threads > kKeptFibers) release_stacks();
  request->accesses = machine.accesses;
  request->global_bytes = machine.global_bytes;
  request->barriers = machine.barriers;
  machine.request = nullptr;
  return enough ? 0 : 1;
}

extern "C" {
simt_index simt_thread_index() { return now.fiber->index; }
simt_index simt_block_index() { return now.block->index; }
simt_index simt_block_shape() {
  const uint32_t* b = machine.request->block;
  return {b[0], b[1], b[2]};
}
simt_index simt_grid_shape() {
  const uint32_t* g = machine.request->grid;
  return {g[0], g[1], g[2]};
}
unsigned simt_special_register(int which) {
  switch (which) {
    case SIMT_LANE: return now.fiber->lane;
    case SIMT_WARP: return (now.thread & ((1u << kThreadBits) - 1)) / kLanes;
    case SIMT_CLUSTER_RANK: return now.block->rank;
    case SIMT_CLUSTER_SIZE: return machine.cluster_blocks;
    default: return machine.clock;
  }
}
}
