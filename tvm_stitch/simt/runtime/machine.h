// The simulated machine: fibers, warps, blocks and clusters of one launch, shared by the .cc files.
//
// Time is one counter for the whole launch; every synchronisation that completes takes the next
// tick. An access carries the tick of its thread's last synchronisation, so "happened before" is a
// comparison with the tick at which the reader's block (warp, cluster, grid) last synchronised.
#pragma once
#include <stddef.h>

#include <vector>

#include "abi.h"

namespace simt {

constexpr unsigned kLanes = 32, kThreadBits = 10, kBarriers = 16;

enum class State : uint8_t { Runnable, Warp, ActiveMask, Block, ClusterWait, Grid, Done };

struct Access {
  uint32_t thread, time, pc;  // pc: offset in the object with shadow.h's flags; time 0: none
};

struct Cell {  // shadow of one granule: the last write and up to two reads that no other orders
  Access write, read, other;
};

struct Block;

struct Collective {  // a warp operation some lanes have reached
  uint32_t mask, arrived;
  int kind;
  uint64_t pc;
};

typedef float MatrixRow __attribute__((vector_size(32)));

struct Matrices {  // what the lanes of a warp have brought to an instruction on matrices
  float a[16][16];
  MatrixRow b[16], sums[16];
  uint16_t rows[kLanes][8];    // of ldmatrix, by the lane that gave the address
  uint32_t words[kLanes][4];   // and what every lane gets
};

struct Warp {
  uint32_t born, live, runnable;  // all lanes; those not exited; those not blocked either
  uint32_t time;            // tick of the last operation of the whole warp
  uint32_t actives;         // lanes inside __activemask
  std::vector<Collective> pending;
  Matrices matrices;
  uint32_t seen[kLanes][kLanes];  // [lane][other]: what `other` did before this tick is ordered
};

struct CopyGroup {
  void* to;
  const void* from;
  int bytes, valid;
  uint64_t pc;
};

struct Multiplication {  // a warpgroup's that has not happened yet, as one lane asked for it
  uint64_t a, b;  // descriptors
  int columns, how;
  float* sums;  // the first of the lane's accumulators
  uint64_t pc;
};

struct Accumulators {  // of a lane, on loan to multiplications that have not happened yet
  std::vector<float*> places;
  std::vector<float> sums;
  uint32_t users;
};

struct Delivery {  // a store that has not landed yet
  void* to;
  char value[8];
  int bytes;
  uint64_t pc;
};

struct MBarrier {  // one that lies in shared memory
  void* address;
  uint32_t count, missing;   // threads that must arrive; that have not yet
  uint64_t expected, sent;   // bytes of stores in this phase
  uint32_t phase, time;      // phases that are over; tick at which the last one was
  std::vector<Delivery> deliveries;
};

struct Fiber {
  void* stack_pointer;
  uint32_t thread, time;
  State state;
  uint8_t lane, barrier;
  uint32_t mask;
  int kind, operand, width;
  uint64_t value, result, pc;
  uint32_t arrival, released[2], phase;  // cluster barrier: own arrival, ticks released by phase
  uint32_t acquired;  // tick of the last phase of an mbarrier that it has waited for
  bool arrived;
  Warp* warp;
  Block* block;
  simt_index index;
  std::vector<CopyGroup> copies;
  std::vector<uint32_t> committed;  // sizes of the committed copy groups, oldest first
  std::vector<Multiplication> multiplications;
  std::vector<uint32_t> multiplied;  // as `committed`
  std::vector<Accumulators> accumulators;
};

struct Barrier {
  uint32_t arrived, needed, first;
  uint64_t pc, ones;
};

struct Cluster {
  uint32_t live, arrived, phase, size;
};

struct Block {
  uint32_t linear, threads, live, exited, first_exited, time, started;
  uint32_t rank, cluster;  // rank within the cluster, index of the cluster within the group
  simt_index index;
  char* shared;
  Access remote;  // the last access another block made to this block's shared memory
  Barrier barriers[kBarriers];
  uint32_t met[kLanes][kLanes];  // [warp][other]: as Warp::seen, for barriers of some warps
  std::vector<MBarrier> mbarriers;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
};

struct Now {  // of the running fiber, flat for the access hook
  uint32_t thread, time, block_time;
  Fiber* fiber;
  Warp* warp;
  Block* block;
};

struct Slot {
  uint64_t offset, bytes;
  uint32_t shift;  // granule of the shadow as a power of two
};

struct Region {
  char* base;
  uint64_t bytes;
  Cell* cells;
  uint32_t shift, index;
};

struct Machine {
  simt_launch_request* request;  // null between launches
  std::vector<Block> blocks;  // those resident at once: one, a cluster, or the whole grid
  std::vector<Cluster> clusters;
  uint32_t block_threads, cluster_blocks, clock, grid_time, grid_arrived, alive;
  uint64_t random, polls, idle_polls, accesses, global_bytes, code_begin;
  uint64_t barriers;  // that blocks have passed
  bool natural, stopped, multi_block;
  bool store_pending;  // a store that raced is about to happen; its value is looked at later
  // Fibers ready to run: a ring in order, or a pool drawn from when a seed shuffles.
  std::vector<Fiber*> ready;
  size_t ready_head, ready_count;
  void* scheduler_stack_pointer;
  char* stacks;
  uint64_t stacks_bytes, stack_stride;
  // Shared memory of the resident blocks, one stride each, and its shadow.
  char* shared;
  uint64_t shared_bytes, shared_stride, shared_used;
  uint32_t shared_stride_bits;
  Cell* shared_cells;
  std::vector<Slot> slots;         // the last one is dynamic shared memory
  std::vector<int16_t> slot_at;    // by offset / 64
  std::vector<Region> regions;
};

extern Machine machine __attribute__((visibility("hidden")));
extern Now now __attribute__((visibility("hidden")));

// fiber.cc
void prepare_stacks(uint64_t fibers, uint64_t bytes);
void release_stacks();
void reset_fiber(Fiber* fiber, uint64_t index);
void switch_fiber(void** save, void* to);
bool stack_guard_holds(uint64_t address);
void fiber_body();  // schedule.cc; what a fresh fiber runs

// schedule.cc
void block_and_yield(State state, uint64_t pc);
void yield_released();  // for the fiber whose arrival released the others and itself
void make_runnable(Fiber* fiber);
void let_others_run();  // called where a program may wait for another thread's store
void refresh_now();
[[noreturn]] void stop();
inline uint32_t tick() { return ++machine.clock; }
inline uint64_t draw() {  // xorshift64*
  uint64_t x = machine.random;
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  machine.random = x;
  return x * 0x2545F4914F6CDD1Dull;
}

// warp.cc
// Orders what `members` of a table of ticks, such as Warp::seen, did before, for each of them.
void join(uint32_t (&seen)[kLanes][kLanes], uint32_t members, uint32_t time);
// Waits for the other lanes of the mask; `pc` is where in the kernel. Returns this lane's result.
uint64_t meet(int kind, uint32_t mask, uint64_t value, int operand, int width, uint64_t pc);
void leave_warp(Fiber* fiber);
void resolve_activemask(Warp* warp, Block* block);

// barrier.cc
void leave_block(Fiber* fiber);

// matrix.cc
void complete_matrices(Warp* warp, const Fiber& lane);
float widened(uint32_t bits, bool bfloat);

// warpgroup.cc
void complete_warpgroup(Fiber* lanes);

// shadow.cc
void settle_pending_store();

// memory.cc
bool prepare_memory();  // false: the system gave none
void begin_block_memory(Block& block);
void end_block_memory(Block& block);
void release_memory();
Region* find_region(uint64_t address);
Block* block_of_shared(uint64_t address);
// One access of the running fiber; `caller` is where in the kernel it comes from.
void touch(const volatile void* address, uint32_t size, bool write, uint64_t caller,
           uint32_t flags = 0);

// Stops the launch, as the device would; `line` is for where the program's own are not known.
[[noreturn]] void refuse_misaligned(uint64_t address, uint32_t to, uint64_t pc, uint32_t line = 0);

// report.cc
simt_hazard* report(simt_hazard hazard);
void report_waiting();
void report_divergent(uint64_t pc, uint32_t thread, uint64_t other_pc, uint32_t other_thread,
                      uint32_t flags, uint32_t detail);
[[noreturn]] void trap(uint64_t pc);

}  // namespace simt
