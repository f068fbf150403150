// What a warpgroup does with matrices of halves in shared memory (wgmma), by PTX's descriptors.
//
// In: what every lane asks for. Nothing happens before the lanes wait for it, as late as the device
// may take: until then the accumulators are NaN, and what is read is looked at for races twice, when
// it is asked for and when it is read. Each warp computes its own 16 of the 64 rows.
#include <string.h>

#include "shadow.h"

namespace simt {
namespace {

constexpr uint32_t kDepth = 16, kRows = 16, kWarps = 4, kColumns = 256;
constexpr uint32_t kChunk = 16, kLine = 128;  // bytes: what is swizzled, and within what
constexpr uint64_t kSwizzle128 = 1;           // of the modes the only one that is known here

// Where an element of a factor lies in the block's shared memory.
uint32_t place(uint64_t descriptor, bool turned, uint32_t side, uint32_t depth) {
  const auto field = [&](int bit) { return static_cast<uint32_t>(descriptor >> bit & 0x3fff) << 4; };
  const uint32_t start = field(0), leading = field(16), stride = field(32);
  const uint32_t at = turned ? start + side / 64 * leading + depth / 8 * stride +
                                   depth % 8 * kLine + side % 64 * 2
                             : start + side / 8 * stride + side % 8 * kLine + depth * 2;
  return at ^ (at / kLine % 8) * kChunk;
}

uint32_t first_row(const Fiber& lane) {
  return (lane.warp - lane.block->warps.data()) % kWarps * kRows;
}

// A lane's share of the chunks that its warp reads of a factor.
void touch_factor(uint64_t descriptor, bool turned, uint32_t first, uint32_t count, uint64_t pc) {
  for (uint32_t chunk = now.fiber->lane; chunk < 2 * count; chunk += kLanes) {
    const uint32_t side = turned ? chunk / kDepth * 8 : chunk / 2;
    const uint32_t depth = turned ? chunk % kDepth : chunk % 2 * 8;
    touch(now.block->shared + place(descriptor, turned, first + side, depth), kChunk, false, pc);
  }
}

void touch_factors(const Multiplication& m) {
  if (!machine.request->check) return;
  touch_factor(m.a, m.how & SIMT_TURN_A, first_row(*now.fiber), kRows, m.pc);
  touch_factor(m.b, m.how & SIMT_TURN_B, 0, m.columns, m.pc);
}

float element(const Block& block, uint64_t descriptor, bool turned, uint32_t side, uint32_t depth,
              bool bfloat) {
  uint16_t bits;
  memcpy(&bits, block.shared + place(descriptor, turned, side, depth), sizeof bits);
  return widened(bits, bfloat);
}

Accumulators& lent(Fiber& lane, const float* first) {
  size_t i = 0;
  while (lane.accumulators[i].places[0] != first) ++i;
  return lane.accumulators[i];
}

void lend(Fiber& lane, float* const* sums, int count) {
  for (Accumulators& known : lane.accumulators) {
    if (known.places[0] == sums[0]) {
      ++known.users;
      return;
    }
  }
  Accumulators added = {{sums, sums + count}, {}, 1};
  for (float* sum : added.places) {
    added.sums.push_back(*sum);
    *sum = __builtin_nanf("");
  }
  lane.accumulators.push_back(added);
}

void give_back(Fiber& lane, const float* first) {
  Accumulators& ours = lent(lane, first);
  if (--ours.users) return;
  for (size_t i = 0; i < ours.places.size(); ++i) *ours.places[i] = ours.sums[i];
  lane.accumulators.erase(lane.accumulators.begin() + (&ours - lane.accumulators.data()));
}

}  // namespace

void complete_warpgroup(Fiber* lanes) {
  const Block& block = *lanes->block;
  const Multiplication m = lanes->multiplications[0];
  const bool bfloat = m.how & SIMT_BFLOAT;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const Multiplication& other = lanes[lane].multiplications[0];
    if (other.a != m.a || other.b != m.b || other.how != m.how) trap(m.pc);
  }
  static float a[kDepth][kRows], b[kDepth][kColumns], sums[kRows][kColumns];  // stacks are small
  for (uint32_t k = 0; k < kDepth; ++k) {
    for (uint32_t row = 0; row < kRows; ++row) {
      a[k][row] = element(block, m.a, m.how & SIMT_TURN_A, first_row(*lanes) + row, k, bfloat);
    }
    for (int column = 0; column < m.columns; ++column) {
      b[k][column] = element(block, m.b, m.how & SIMT_TURN_B, column, k, bfloat);
    }
  }
  // A lane has two neighbours in every eight columns, and the same eight rows below.
  const auto each_sum = [&](auto&& visit) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      float* own = lent(lanes[lane], lanes[lane].multiplications[0].sums).sums.data();
      for (int i = 0; i < m.columns / 2; ++i) {
        visit(own[i], sums[lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2]);
      }
    }
  };
  each_sum([&](float& own, float& sum) { sum = m.how & SIMT_KEEP_SUMS ? own : 0; });
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t k = 0; k < kDepth; ++k) {
      for (int column = 0; column < m.columns; ++column) {
        sums[row][column] += a[k][row] * b[k][column];
      }
    }
  }
  each_sum([](float& own, float& sum) { own = sum; });
}

}  // namespace simt

using namespace simt;

#define CALLER reinterpret_cast<uint64_t>(__builtin_return_address(0))

#pragma GCC visibility push(default)
extern "C" {

void simt_warpgroup_multiply(float* const* sums, int columns, uint64_t a, uint64_t b, int how) {
  for (uint64_t descriptor : {a, b}) {
    if (descriptor >> 62 != kSwizzle128) trap(CALLER);
  }
  Fiber* self = now.fiber;
  self->multiplications.push_back({a, b, columns, how, sums[0], CALLER});
  lend(*self, sums, columns / 2);
  touch_factors(self->multiplications.back());
}

void simt_warpgroup_commit() {
  uint32_t grouped = 0;
  for (uint32_t size : now.fiber->multiplied) grouped += size;
  now.fiber->multiplied.push_back(now.fiber->multiplications.size() - grouped);
}

void simt_warpgroup_wait(int pending_groups) {
  Fiber* self = now.fiber;
  while (static_cast<int>(self->multiplied.size()) > pending_groups) {
    for (uint32_t i = 0; i < self->multiplied[0]; ++i) {
      const Multiplication next = self->multiplications[0];
      touch_factors(next);
      meet(SIMT_MULTIPLY_WARPGROUP, ~0u, 0, 0, 0, next.pc);
      give_back(*self, next.sums);
      self->multiplications.erase(self->multiplications.begin());
    }
    self->multiplied.erase(self->multiplied.begin());
  }
}

}  // extern "C"
#pragma GCC visibility pop
