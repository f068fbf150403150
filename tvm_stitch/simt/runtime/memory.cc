// What threads touch: guarded memory, its shadow, and the hooks the instrumented kernel calls.
//
// Kernels are compiled with -fsanitize=thread and -fsanitize=alignment,bounds, but linked against
// the entry points below instead of the sanitizers' own runtimes.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "machine.h"

namespace simt {
namespace {

constexpr uint64_t kSharedGuard = 1024;  // around every __shared__ array
constexpr uint32_t kAtomic = 1u << 31;   // in Access::pc

struct PendingStore {  // a store that collided: compare the bytes once it has happened
  const char* address;
  uint32_t size;
  simt_hazard* hazard;
  char before[16];
} pending;

Region* recent[256];  // by caller: an instruction nearly always touches the same array

uint64_t shared_cells_bytes = 0, shared_memory_bytes = 0;

void* reserve(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

const Fiber* fiber_of(uint32_t thread) {
  for (const Block& block : machine.blocks) {
    if (block.linear == thread >> kThreadBits) {
      return &block.fibers[thread & ((1u << kThreadBits) - 1)];
    }
  }
  return nullptr;
}

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

inline bool happened_before(const Access& earlier) {
  const uint32_t differs = earlier.thread ^ now.thread;
  if (!differs) return true;
  if (!(differs >> kThreadBits) && earlier.time < now.block_time) return true;
  return ordered_slowly(earlier);
}

uint64_t code_address(uint32_t pc) {
  return pc & ~kAtomic ? machine.code_begin + (pc & ~kAtomic) : 0;
}

struct Touch {  // one access of the running thread, as the slow paths need it
  const char* address;
  uint32_t size;
  bool write;
  uint32_t pc;
  uint32_t place;
  int32_t region;
  int64_t offset;
};

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

__attribute__((noinline)) void report_race(const Touch& touch, const Access& other,
                                           bool other_writes) {
  if ((touch.pc & other.pc & kAtomic) != 0) return;  // atomics do not race with each other
  simt_hazard hazard = describe(touch, SIMT_RACE);
  hazard.other_thread = other.thread;
  hazard.other_pc = code_address(other.pc);
  if (other_writes) hazard.flags |= SIMT_OTHER_WRITE;
  if ((touch.pc | other.pc) & kAtomic) hazard.flags |= SIMT_ATOMIC;
  simt_hazard* kept = report(hazard);
  if (!kept || !touch.write || !other_writes) return;
  if (kept->count == 1) kept->flags |= SIMT_SAME_VALUE;  // until a store shows otherwise
  if (!(kept->flags & SIMT_SAME_VALUE) || touch.size > sizeof pending.before) return;
  pending.address = touch.address;
  pending.size = touch.size;
  pending.hazard = kept;
  memcpy(pending.before, touch.address, touch.size);
}

__attribute__((noinline)) void report_touch(const Touch& touch, uint32_t kind) {
  report(describe(touch, kind));
}

inline uint32_t distance(uint32_t left, uint32_t right) {
  const uint32_t differs = left ^ right;
  return differs < kLanes ? 0 : differs >> kThreadBits ? 2 : 1;
}

void note_read(Cell& cell, const Touch& touch, uint32_t since) {
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

void note_write(Cell& cell, const Touch& touch, uint32_t since) {
  if (cell.write.time > since && !happened_before(cell.write)) {
    report_race(touch, cell.write, true);
  }
  if (cell.read.time > since && !happened_before(cell.read)) {
    report_race(touch, cell.read, false);
  } else if (cell.other.time > since && !happened_before(cell.other)) {
    report_race(touch, cell.other, false);
  }
  cell.write = {now.thread, now.time, touch.pc};
  cell.read.time = cell.other.time = 0;
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

uint32_t granule_of(uint32_t element_bytes) {
  return element_bytes >= 8 ? 3 : element_bytes >= 4 ? 2 : element_bytes >= 2 ? 1 : 0;
}

inline uint32_t narrowest(uint64_t offset, uint32_t size) {
  return __builtin_ctzll(offset | size | 8);
}

template <class Note>
inline void each_cell(Cell* cells, uint32_t shift, const Touch& touch, Note note) {
  const uint64_t last = (touch.offset + touch.size - 1) >> shift;
  for (uint64_t i = touch.offset >> shift; i <= last; ++i) note(cells[i]);
}

bool note_cells(Cell* cells, uint32_t shift, const Touch& touch, uint32_t since, bool shared) {
  bool unwritten = false;
  if (touch.write) {
    each_cell(cells, shift, touch, [&](Cell& cell) { note_write(cell, touch, since); });
  } else {
    each_cell(cells, shift, touch, [&](Cell& cell) {
      if (shared && cell.write.time <= since) unwritten = true;
      note_read(cell, touch, since);
    });
  }
  return unwritten;
}

Block* block_of_shared(uint64_t address) {
  const uint64_t offset = address - reinterpret_cast<uint64_t>(machine.shared);
  return &machine.blocks[offset >> machine.shared_stride_bits];
}

void refine_slot(int index, uint32_t to) {
  Slot& slot = machine.slots[index];
  for (uint64_t i = 0; i < machine.blocks.size(); ++i) {
    refine(machine.shared_cells + i * machine.shared_stride + slot.offset, slot.bytes, slot.shift,
           to);
  }
  slot.shift = to;
}

// Another block's shared memory: that block must still be there, and stay until it is told.
void note_remote(Block* owner, const Touch& touch) {
  if (!owner->live) {
    simt_hazard hazard = describe(touch, SIMT_RACE);
    hazard.flags |= SIMT_EXITED;
    hazard.other_thread = owner->linear << kThreadBits;
    report(hazard);
  }
  owner->remote = {now.thread, now.time, touch.pc};
}

void touch_shared(uint64_t address, uint32_t size, bool write, uint32_t pc) {
  Block* owner = block_of_shared(address);
  const uint64_t local =
      (address - reinterpret_cast<uint64_t>(machine.shared)) & (machine.shared_stride - 1);
  const int index = machine.slot_at[local / 64];
  Touch touch = {reinterpret_cast<char*>(address), size, write, pc, SIMT_SHARED, index, 0};
  // A guard belongs to the array before it; slot_at says which, or -1 ahead of the first.
  const Slot& slot = machine.slots[index < 0 ? 0 : index];
  touch.region = index < 0 ? 0 : index;
  touch.offset = static_cast<int64_t>(local - slot.offset);
  if (index < 0 || static_cast<uint64_t>(touch.offset) + size > slot.bytes) {
    return report_touch(touch, SIMT_OUT_OF_BOUNDS);
  }
  const uint32_t width = narrowest(touch.offset, size);
  if (width < slot.shift) refine_slot(index, width);
  if (owner != now.block) note_remote(owner, touch);
  Cell* cells =
      machine.shared_cells + (owner - machine.blocks.data()) * machine.shared_stride + slot.offset;
  if (note_cells(cells, slot.shift, touch, owner->started - 1, true)) {
    report_touch(touch, SIMT_UNINITIALISED);
  }
}

Region* find_region(uint64_t address) {
  for (Region& region : machine.regions) {
    if (address - reinterpret_cast<uint64_t>(region.base) < region.bytes) return &region;
  }
  return nullptr;
}

// Not in any array: name the nearest one. Memory that is not mapped would fault; stop before.
__attribute__((noinline)) void touch_unknown(uint64_t address, uint32_t size, bool write,
                                             uint32_t pc) {
  if (!machine.request) return;  // initialisers that run while the object is loaded
  if (!write && address >= machine.request->code_begin && address < machine.request->code_end) {
    return;  // constants of the kernel's object
  }
  Touch touch = {reinterpret_cast<char*>(address), size, write, pc, SIMT_UNKNOWN, -1,
                 static_cast<int64_t>(address)};
  uint64_t nearest = 1ull << 30;
  for (const Region& region : machine.regions) {
    const uint64_t base = reinterpret_cast<uint64_t>(region.base);
    const uint64_t gap = address < base ? base - address : address - (base + region.bytes);
    if (gap >= nearest) continue;
    nearest = gap;
    touch.place = SIMT_GLOBAL;
    touch.region = region.index;
    touch.offset = static_cast<int64_t>(address - base);
  }
  report_touch(touch, SIMT_OUT_OF_BOUNDS);
  if (address < machine.request->arena_begin || address + size > machine.request->arena_end) {
    stop();
  }
}

void touch_global(uint64_t address, uint32_t size, bool write, uint32_t pc, uint64_t caller) {
  Region*& hint = recent[caller >> 2 & 255];
  Region* region = hint;
  if (!region || address - reinterpret_cast<uint64_t>(region->base) >= region->bytes) {
    region = find_region(address);
    if (!region) return touch_unknown(address, size, write, pc);
    hint = region;
  }
  const uint64_t offset = address - reinterpret_cast<uint64_t>(region->base);
  const Touch touch = {reinterpret_cast<char*>(address), size, write, pc, SIMT_GLOBAL,
                       static_cast<int32_t>(region->index), static_cast<int64_t>(offset)};
  if (offset + size > region->bytes) return report_touch(touch, SIMT_OUT_OF_BOUNDS);
  region->written |= write;
  const uint32_t width = narrowest(offset, size);
  if (width < region->shift) {
    refine(region->cells, region->bytes, region->shift, width);
    region->shift = width;
  }
  note_cells(region->cells, region->shift, touch, 0, false);
}

inline void touch(const volatile void* pointer, uint32_t size, bool write, uint64_t caller,
                  uint32_t flags = 0) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (address - reinterpret_cast<uint64_t>(machine.stacks) < machine.stacks_bytes) return;
  if (pending.hazard) settle_pending_store();
  ++machine.accesses;
  const auto pc = static_cast<uint32_t>(caller - machine.code_begin) | flags;
  if (address - reinterpret_cast<uint64_t>(machine.shared) < machine.shared_bytes) {
    touch_shared(address, size, write, pc);
  } else {
    touch_global(address, size, write, pc, caller);
  }
}

uint64_t align_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

void lay_out_shared() {
  const simt_launch_request& r = *machine.request;
  machine.slots.clear();
  uint64_t offset = kSharedGuard;
  for (uint64_t i = 0; i <= r.slot_count; ++i) {
    const bool dynamic = i == r.slot_count;
    const uint64_t bytes = dynamic ? r.dynamic_bytes : r.slots[i].bytes;
    offset = align_up(offset, 1024);  // the alignment the hardware gives dynamic shared memory
    machine.slots.push_back({offset, bytes, granule_of(dynamic ? 4 : r.slots[i].element_bytes)});
    offset += bytes + kSharedGuard;
  }
  machine.shared_used = offset;
  machine.shared_stride_bits = 12;
  while ((1ull << machine.shared_stride_bits) < offset) ++machine.shared_stride_bits;
  machine.shared_stride = 1ull << machine.shared_stride_bits;
  machine.slot_at.assign(machine.shared_stride / 64, -1);
  for (uint64_t i = 0; i < machine.slots.size(); ++i) {
    for (uint64_t at = machine.slots[i].offset / 64; at < machine.slot_at.size(); ++at) {
      machine.slot_at[at] = static_cast<int16_t>(i);
    }
  }
}

bool reserve_shared() {
  machine.shared_bytes = machine.blocks.size() * machine.shared_stride;
  if (!machine.shared || shared_memory_bytes < machine.shared_bytes) {
    if (machine.shared) munmap(machine.shared, shared_memory_bytes);
    machine.shared = static_cast<char*>(reserve(machine.shared_bytes));
    shared_memory_bytes = machine.shared_bytes;
    if (!machine.shared) return false;
  }
  if (!machine.request->check) return true;
  shared_cells_bytes = machine.shared_bytes * sizeof(Cell);
  machine.shared_cells = static_cast<Cell*>(reserve(shared_cells_bytes));
  return machine.shared_cells != nullptr;
}

}  // namespace

void prepare_memory() {
  const simt_launch_request& r = *machine.request;
  lay_out_shared();
  if (!reserve_shared()) {
    machine.shared = nullptr;
    return;
  }
  machine.regions.clear();
  pending.hazard = nullptr;
  for (uint64_t i = 0; i < r.array_count; ++i) {
    Region region = {r.arrays[i].base, r.arrays[i].bytes, nullptr,
                     granule_of(r.arrays[i].element_bytes), static_cast<uint32_t>(i), false};
    if (r.check) region.cells = static_cast<Cell*>(reserve((region.bytes + 8) * sizeof(Cell)));
    machine.regions.push_back(region);
  }
}

void release_memory() {
  if (machine.request->check) munmap(machine.shared_cells, shared_cells_bytes);
  for (Region& region : machine.regions) {
    if (region.cells) munmap(region.cells, (region.bytes + 8) * sizeof(Cell));
    machine.request->arrays[region.index].written = region.written;
  }
  machine.regions.clear();
  memset(recent, 0, sizeof recent);
}

void begin_block_memory(Block& block) {
  block.shared = machine.shared + (&block - machine.blocks.data()) * machine.shared_stride;
  memset(block.shared, 0xff, machine.shared_used);  // NaN in every float format
}

void end_block_memory(Block& block) {
  const Access remote = block.remote;
  if (!remote.time) return;
  // A remote access may still be running when the block leaves, unless a cluster barrier that
  // the accessing thread arrived at afterwards has completed.
  const Fiber* reader = fiber_of(remote.thread);
  const Cluster& cluster = machine.clusters[block.cluster];
  if (reader && cluster.phase && remote.time < reader->released[cluster.phase & 1]) return;
  if (remote.time < machine.grid_time) return;
  simt_hazard hazard = {};
  hazard.kind = SIMT_RACE;
  hazard.flags = SIMT_EXITED;
  hazard.place = SIMT_SHARED;
  hazard.thread = remote.thread;
  hazard.pc = code_address(remote.pc);
  hazard.other_thread = block.linear << kThreadBits;
  report(hazard);
}

void settle_pending_store() {
  if (!pending.hazard) return;
  if (memcmp(pending.before, pending.address, pending.size) != 0) {
    pending.hazard->flags &= ~SIMT_SAME_VALUE;
  }
  pending.hazard = nullptr;
}

}  // namespace simt

using namespace simt;

#define CALLER reinterpret_cast<uint64_t>(__builtin_return_address(0))

#pragma GCC visibility push(default)
extern "C" {

void* simt_shared(int slot) { return now.block->shared + machine.slots[slot].offset; }
void* simt_dynamic_shared() { return now.block->shared + machine.slots.back().offset; }

void* simt_map_shared(const void* address, unsigned rank) {
  const Block* owner = block_of_shared(reinterpret_cast<uint64_t>(address));
  const Block* other = &machine.blocks[owner->cluster * machine.cluster_blocks +
                                       rank % machine.cluster_blocks];
  return other->shared + (static_cast<const char*>(address) - owner->shared);
}

// The 32-bit window of the hardware: rank in the cluster and offset.
unsigned simt_shared_window(const void* address) {
  const Block* owner = block_of_shared(reinterpret_cast<uint64_t>(address));
  return owner->rank << 24 | static_cast<unsigned>(static_cast<const char*>(address) -
                                                   owner->shared);
}

void* simt_from_shared_window(unsigned address) {
  const Block* owner = &machine.blocks[now.block->cluster * machine.cluster_blocks +
                                       (address >> 24) % machine.cluster_blocks];
  return owner->shared + (address & 0xffffff);
}

void simt_access(const volatile void* address, int bytes, int write) {
  if (machine.request->check) touch(address, bytes, write, CALLER);
}

void simt_atomic_access(const volatile void* address, int bytes) {
  if (machine.request->check) touch(address, bytes, true, CALLER, kAtomic);
  let_others_run();
}

void simt_atomic_load(const volatile void* address, int bytes) {
  if (machine.request->check) touch(address, bytes, false, CALLER, kAtomic);
  let_others_run();
}

void simt_async_copy(void* to, const void* from, int bytes, int valid) {
  now.fiber->copies.push_back({to, from, bytes, valid, CALLER});
}

void simt_async_commit() {
  uint32_t grouped = 0;
  for (uint32_t size : now.fiber->committed) grouped += size;
  now.fiber->committed.push_back(now.fiber->copies.size() - grouped);
}

// The copies land as late as the program allows, so that a missing wait shows.
void simt_async_wait(int pending_groups) {
  Fiber* self = now.fiber;
  while (static_cast<int>(self->committed.size()) > pending_groups) {
    for (uint32_t i = 0; i < self->committed[0]; ++i) {
      const CopyGroup copy = self->copies[i];
      if (machine.request->check) {
        if (copy.valid) touch(copy.from, copy.valid, false, copy.pc);
        touch(copy.to, copy.bytes, true, copy.pc);
      }
      memcpy(copy.to, copy.from, copy.valid);
      memset(static_cast<char*>(copy.to) + copy.valid, 0, copy.bytes - copy.valid);
    }
    self->copies.erase(self->copies.begin(), self->copies.begin() + self->committed[0]);
    self->committed.erase(self->committed.begin());
  }
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define SIMT_HOOK(BYTES)                                                                  \
  void __tsan_read##BYTES(void* p) { touch(p, BYTES, false, CALLER); }                    \
  void __tsan_write##BYTES(void* p) { touch(p, BYTES, true, CALLER); }                    \
  void __tsan_unaligned_read##BYTES(void* p) { touch(p, BYTES, false, CALLER); }          \
  void __tsan_unaligned_write##BYTES(void* p) { touch(p, BYTES, true, CALLER); }          \
  void __tsan_volatile_read##BYTES(void* p) {                                             \
    touch(p, BYTES, false, CALLER);                                                       \
    let_others_run();                                                                     \
  }                                                                                       \
  void __tsan_volatile_write##BYTES(void* p) { touch(p, BYTES, true, CALLER); }
SIMT_HOOK(1)
SIMT_HOOK(2)
SIMT_HOOK(4)
SIMT_HOOK(8)
SIMT_HOOK(16)

void __tsan_read_range(void* p, uint64_t size) {
  if (size) touch(p, static_cast<uint32_t>(size), false, CALLER);
}
void __tsan_write_range(void* p, uint64_t size) {
  if (size) touch(p, static_cast<uint32_t>(size), true, CALLER);
}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}

// What the compiler passes to the handlers of -fsanitize=alignment and =bounds.
struct SourceLocation {
  const char* file;
  uint32_t line, column;
};
struct TypeMismatch {
  SourceLocation location;
  const void* type;
  unsigned char log_alignment, kind;
};
struct OutOfBounds {
  SourceLocation location;
  const void *array_type, *index_type;
};

void __ubsan_handle_type_mismatch_v1(TypeMismatch* data, uint64_t address) {
  simt_hazard hazard = {};
  hazard.kind = SIMT_MISALIGNED;
  hazard.thread = now.thread;
  hazard.pc = CALLER;
  hazard.place = SIMT_UNKNOWN;
  hazard.offset = static_cast<int64_t>(address);
  hazard.size = 1u << data->log_alignment;
  hazard.detail = data->location.line;
  const uint64_t shared = address - reinterpret_cast<uint64_t>(machine.shared);
  if (shared < machine.shared_bytes) {
    const int slot = machine.slot_at[(shared & (machine.shared_stride - 1)) / 64];
    hazard.place = SIMT_SHARED;
    hazard.region = slot < 0 ? 0 : slot;
    hazard.offset = static_cast<int64_t>((shared & (machine.shared_stride - 1)) -
                                         machine.slots[hazard.region].offset);
  } else if (const Region* region = find_region(address)) {
    hazard.place = SIMT_GLOBAL;
    hazard.region = static_cast<int32_t>(region->index);
    hazard.offset = static_cast<int64_t>(address - reinterpret_cast<uint64_t>(region->base));
  }
  report(hazard);
  stop();  // fatal on the device, and the access itself may fault here
}

void __ubsan_handle_out_of_bounds(OutOfBounds* data, uint64_t index) {
  simt_hazard hazard = {};
  hazard.kind = SIMT_OUT_OF_BOUNDS;
  hazard.flags = SIMT_LOCAL_INDEX;
  hazard.thread = now.thread;
  hazard.pc = CALLER;
  hazard.place = SIMT_UNKNOWN;
  hazard.offset = static_cast<int64_t>(index);
  hazard.detail = data->location.line;
  report(hazard);
}

}  // extern "C"
