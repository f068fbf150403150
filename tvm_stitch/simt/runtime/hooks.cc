// What a kernel calls about memory: the sanitizers' entry points, and the runtime's own.
//
// Kernels are compiled with -fsanitize=thread and -fsanitize=alignment,bounds, but linked against
// these instead of the sanitizers' runtimes: every access comes here with its address and caller.
#include <string.h>

#include "shadow.h"

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
  if (valid < 0 || valid > bytes) trap(CALLER);
  for (const void* end : {static_cast<const void*>(to), valid ? from : to}) {
    const auto address = reinterpret_cast<uint64_t>(end);
    if (address % bytes) refuse_misaligned(address, bytes, CALLER);
  }
  if (machine.request->check) touch(to, bytes, true, CALLER, kIssued);
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
  refuse_misaligned(address, 1u << data->log_alignment, CALLER, data->location.line);
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
