// Barriers that lie in shared memory (mbarrier), and the stores that arrive at them.
#include <string.h>

#include "shadow.h"

using namespace simt;

#define CALLER reinterpret_cast<uint64_t>(__builtin_return_address(0))

namespace {

constexpr int kBarrierBytes = 8;

MBarrier* find(void* address) {
  for (MBarrier& barrier : block_of_shared(reinterpret_cast<uint64_t>(address))->mbarriers) {
    if (barrier.address == address) return &barrier;
  }
  return nullptr;
}

// The stores land when nothing else is missing, so that a missing wait shows.
void complete_if_due(MBarrier& barrier) {
  if (barrier.missing || barrier.expected > barrier.sent) return;
  barrier.time = tick();
  const uint32_t own_time = now.time;
  now.time = barrier.time;
  for (const Delivery& store : barrier.deliveries) {
    if (machine.request->check) touch(store.to, store.bytes, true, store.pc, kDelivered);
    memcpy(store.to, store.value, store.bytes);
  }
  now.time = own_time;
  barrier.deliveries.clear();
  barrier.missing = barrier.count;
  barrier.expected = barrier.sent = 0;
  ++barrier.phase;
}

// Whoever uses a barrier must know that it has been made, as a reader knows of a write.
void touch_barrier(void* address, uint64_t caller) {
  if (machine.request->check) touch(address, kBarrierBytes, false, caller, kAtomic | kDelivered);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void simt_mbarrier_init(void* address, unsigned count) {
  if (machine.request->check) touch(address, kBarrierBytes, true, CALLER);
  memset(address, 0, kBarrierBytes);
  if (MBarrier* old = find(address)) {
    *old = {address, count, count};
  } else {
    now.block->mbarriers.push_back({address, count, count});
  }
}

void simt_mbarrier_arrive(void* address, unsigned bytes) {
  touch_barrier(address, CALLER);
  MBarrier* barrier = find(address);
  if (!barrier) trap(CALLER);
  barrier->expected += bytes;
  --barrier->missing;
  complete_if_due(*barrier);
}

int simt_mbarrier_test(void* address, unsigned parity) {
  touch_barrier(address, CALLER);
  MBarrier* barrier = find(address);
  if (!barrier) trap(CALLER);
  if ((barrier->phase & 1) == parity) {
    let_others_run();
    return 0;
  }
  if (now.fiber->acquired < barrier->time) now.fiber->acquired = barrier->time;
  return 1;
}

void simt_store_async(void* to, const void* value, int bytes, void* address) {
  touch_barrier(address, CALLER);
  MBarrier* barrier = find(address);
  if (!barrier) trap(CALLER);
  Delivery store = {to, {}, bytes, CALLER};
  memcpy(store.value, value, bytes);
  barrier->deliveries.push_back(store);
  barrier->sent += bytes;
  complete_if_due(*barrier);
}

}  // extern "C"
#pragma GCC visibility pop
