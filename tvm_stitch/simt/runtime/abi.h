// What crosses the borders: kernel object -> runtime, and Python (launch.py mirrors the structs).
#pragma once
#include <stdint.h>

// Stays free of library headers: every kernel includes it, and compile time is the tool's latency.
struct simt_index {
  unsigned x, y, z;
};

enum simt_collective : int {  // what a warp does together; one number per intrinsic
  SIMT_SYNCWARP,
  SIMT_SHUFFLE_INDEX,
  SIMT_SHUFFLE_UP,
  SIMT_SHUFFLE_DOWN,
  SIMT_SHUFFLE_XOR,
  SIMT_BALLOT,
  SIMT_ANY,
  SIMT_ALL,
  SIMT_UNIFORM,
  SIMT_MATCH_ANY,
  SIMT_MATCH_ALL,
  SIMT_REDUCE_ADD,
  SIMT_REDUCE_MIN,
  SIMT_REDUCE_MAX,
  SIMT_REDUCE_UMIN,
  SIMT_REDUCE_UMAX,
  SIMT_REDUCE_AND,
  SIMT_REDUCE_OR,
  SIMT_REDUCE_XOR,
  SIMT_LOAD_MATRICES,  // from here on: all 32 lanes or none, and no memory is ordered
  SIMT_MULTIPLY_MATRICES,
  SIMT_MULTIPLY_WARPGROUP,
};

enum simt_warpgroup : int {  // how a warpgroup multiplies
  SIMT_KEEP_SUMS = 1,  // adds to what the accumulators hold
  SIMT_TURN_A = 2,     // the factor's neighbours in memory are along its side, not its depth
  SIMT_TURN_B = 4,
  SIMT_BFLOAT = 8,
};

enum simt_special : int { SIMT_LANE, SIMT_WARP, SIMT_CLUSTER_RANK, SIMT_CLUSTER_SIZE, SIMT_CLOCK };

struct simt_slot {  // one __shared__ array of a kernel
  const char* name;
  uint64_t bytes, element_bytes;
};

struct simt_array {  // one kernel argument in guarded memory
  char* base;
  uint64_t bytes;
  uint64_t element_bytes;
};

enum simt_hazard_kind : uint32_t {
  SIMT_RACE,
  SIMT_OUT_OF_BOUNDS,
  SIMT_UNINITIALISED,
  SIMT_MISALIGNED,
  SIMT_DIVERGENT,
  SIMT_DEADLOCK,
  SIMT_WAITING,  // detail of a deadlock: a group of threads and where it waits
  SIMT_STACK_OVERFLOW,
  SIMT_SIGNAL,
};

enum simt_flags : uint32_t {
  SIMT_WRITE = 1,         // the access that raised it stores
  SIMT_OTHER_WRITE = 2,   // the access it collides with stores
  SIMT_SAME_VALUE = 4,    // both stores left the same bytes
  SIMT_ATOMIC = 8,        // one side is atomic
  SIMT_LOCAL_INDEX = 16,  // an index beyond a declared array, seen by its type
  SIMT_EXITED = 32,       // the other side has left the kernel
};

enum simt_place : uint32_t { SIMT_GLOBAL, SIMT_SHARED, SIMT_UNKNOWN };

struct simt_hazard {
  uint32_t kind, flags, place;
  int32_t region;  // index of the array or slot; slots + 0 is dynamic shared memory
  uint32_t thread, other_thread;  // block << 10 | thread within the block
  uint64_t pc, other_pc;          // return addresses in the kernel's object; 0 is unknown
  int64_t offset;                 // bytes from the region's start (or a signal's address)
  uint32_t size, detail;
  uint64_t count;
};

struct simt_launch_request {
  void (*entry)(void**);
  void** arguments;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t cooperative, check;
  uint64_t seed;
  simt_array* arrays;
  uint64_t array_count;
  const simt_slot* slots;
  uint64_t slot_count, dynamic_bytes, stack_bytes;
  uint64_t code_begin, code_end;  // the kernel's object, constants included
  uint64_t arena_begin, arena_end;  // the mapping that holds all arrays and their guard zones
  simt_hazard* hazards;
  uint64_t hazard_capacity;
  uint64_t hazard_count, switches, accesses, global_bytes, barriers;  // out
};

#pragma GCC visibility push(default)
extern "C" {
// `const`: the answers never change for the fiber that asks, so the compiler may ask once.
simt_index simt_thread_index() __attribute__((const));
simt_index simt_block_index() __attribute__((const));
simt_index simt_block_shape() __attribute__((const));
simt_index simt_grid_shape() __attribute__((const));
unsigned simt_special_register(int which);
void* simt_shared(int slot) __attribute__((const));
void* simt_dynamic_shared() __attribute__((const));

uint64_t simt_warp(int collective, unsigned mask, uint64_t value, int operand, int width);
// A fragment's words for this lane; `row` is what it gives the warp, if it gives any.
void simt_load_matrices(uint32_t* words, const void* row, int count, int transposed);
// Adds the product of matrices that are `depth` deep to this lane's four accumulators.
void simt_multiply_matrices(float* sums, const uint32_t* a, const uint32_t* b, int depth,
                            int bfloat);
// The same by a warpgroup, of factors in shared memory that descriptors tell, some time before it
// waits; `sums` are where this lane's accumulators lie.
void simt_warpgroup_multiply(float* const* sums, int columns, uint64_t a, uint64_t b, int how);
void simt_warpgroup_commit();
void simt_warpgroup_wait(int pending_groups);
unsigned simt_activemask();
// Returns the three reductions over the predicate: count << 2 | any << 1 | all.
uint64_t simt_block_barrier(int id, int threads, int predicate);
void simt_grid_barrier();
void simt_cluster_arrive();
void simt_cluster_wait();
void* simt_map_shared(const void* address, unsigned rank);
unsigned simt_shared_window(const void* address);
void* simt_from_shared_window(unsigned address);
void simt_atomic_access(const volatile void* address, int bytes);
void simt_atomic_load(const volatile void* address, int bytes);
void simt_access(const volatile void* address, int bytes, int write);
void simt_async_copy(void* shared, const void* global, int bytes, int valid_bytes);
void simt_async_commit();
void simt_async_wait(int pending_groups);
void simt_mbarrier_init(void* barrier, unsigned count);
void simt_mbarrier_arrive(void* barrier, unsigned expected_bytes);
int simt_mbarrier_test(void* barrier, unsigned parity);
void simt_store_async(void* shared, const void* value, int bytes, void* barrier);
void simt_trap() __attribute__((noreturn));

float simt_half_to_float(uint16_t bits);
uint16_t simt_float_to_half(float value);

int simt_launch(simt_launch_request* request);
}
#pragma GCC visibility pop
