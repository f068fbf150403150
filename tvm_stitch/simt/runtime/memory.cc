// Guarded memory: where arrays and shared memory lie, and what an access to them means.
#include <string.h>
#include <sys/mman.h>

#include "shadow.h"

namespace simt {
namespace {

constexpr uint64_t kSharedGuard = 1024;  // around every __shared__ array

Region* recent[256];  // by caller: an instruction nearly always touches the same array

uint64_t shared_memory_bytes = 0;

void* reserve(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void report_touch(const Touch& touch, uint32_t kind) { report(describe(touch, kind)); }

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
  // A block that waits for what is delivered to it stays by itself.
  if (!(touch.pc & kDelivered)) owner->remote = {now.thread, now.time, touch.pc};
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
  machine.global_bytes += size;
  const uint64_t offset = address - reinterpret_cast<uint64_t>(region->base);
  const Touch touch = {reinterpret_cast<char*>(address), size, write, pc, SIMT_GLOBAL,
                       static_cast<int32_t>(region->index), static_cast<int64_t>(offset)};
  if (offset + size > region->bytes) return report_touch(touch, SIMT_OUT_OF_BOUNDS);
  const uint32_t width = narrowest(offset, size);
  if (width < region->shift) {
    refine(region->cells, region->bytes, region->shift, width);
    region->shift = width;
  }
  note_cells(region->cells, region->shift, touch, 0, false);
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

void release(void* memory, uint64_t bytes) {
  if (memory) munmap(memory, bytes);
}

// The memory itself is kept from launch to launch; the shadow has to start empty.
bool reserve_shared() {
  machine.shared_bytes = machine.blocks.size() * machine.shared_stride;
  if (shared_memory_bytes < machine.shared_bytes) {
    release(machine.shared, shared_memory_bytes);
    machine.shared = static_cast<char*>(reserve(machine.shared_bytes));
    shared_memory_bytes = machine.shared ? machine.shared_bytes : 0;
    if (!machine.shared) return false;
  }
  if (!machine.request->check) return true;
  machine.shared_cells = static_cast<Cell*>(reserve(machine.shared_bytes * sizeof(Cell)));
  return machine.shared_cells != nullptr;
}

uint64_t shadow_bytes(const Region& region) { return (region.bytes + 8) * sizeof(Cell); }

}  // namespace

Block* block_of_shared(uint64_t address) {
  const uint64_t offset = address - reinterpret_cast<uint64_t>(machine.shared);
  return &machine.blocks[offset >> machine.shared_stride_bits];
}

Region* find_region(uint64_t address) {
  for (Region& region : machine.regions) {
    if (address - reinterpret_cast<uint64_t>(region.base) < region.bytes) return &region;
  }
  return nullptr;
}

void touch(const volatile void* pointer, uint32_t size, bool write, uint64_t caller,
           uint32_t flags) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (address - reinterpret_cast<uint64_t>(machine.stacks) < machine.stacks_bytes) return;
  if (machine.store_pending) settle_pending_store();
  ++machine.accesses;
  const auto pc = static_cast<uint32_t>(caller - machine.code_begin) | flags;
  if (address - reinterpret_cast<uint64_t>(machine.shared) < machine.shared_bytes) {
    touch_shared(address, size, write, pc);
  } else {
    touch_global(address, size, write, pc, caller);
  }
}

void refuse_misaligned(uint64_t address, uint32_t to, uint64_t pc, uint32_t line) {
  simt_hazard hazard = {};
  hazard.kind = SIMT_MISALIGNED;
  hazard.thread = now.thread;
  hazard.pc = pc;
  hazard.place = SIMT_UNKNOWN;
  hazard.offset = static_cast<int64_t>(address);
  hazard.size = to;
  hazard.detail = line;
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
  stop();  // the access itself may fault here
}

bool prepare_memory() {
  const simt_launch_request& r = *machine.request;
  machine.store_pending = false;
  lay_out_shared();
  bool enough = reserve_shared();
  for (uint64_t i = 0; i < r.array_count; ++i) {
    Region region = {r.arrays[i].base, r.arrays[i].bytes, nullptr,
                     granule_of(r.arrays[i].element_bytes), static_cast<uint32_t>(i)};
    if (r.check) region.cells = static_cast<Cell*>(reserve(shadow_bytes(region)));
    enough &= !r.check || region.cells;
    machine.regions.push_back(region);
  }
  return enough;
}

void release_memory() {
  release(machine.shared_cells, machine.shared_bytes * sizeof(Cell));
  machine.shared_cells = nullptr;
  for (const Region& region : machine.regions) release(region.cells, shadow_bytes(region));
  machine.regions.clear();
  memset(recent, 0, sizeof recent);
}

void begin_block_memory(Block& block) {
  block.mbarriers.clear();
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

}  // namespace simt
