// What a warp does with matrices of halves (ldmatrix, mma.sync), in the fragments that PTX defines.
//
// In: what every lane brings. The last lane to come works for all; each then takes its own away.
// Neither instruction orders memory: a lane's row is read, and looked at for races, as an access
// of the lane that gave its address.
#include <string.h>

#include "convert.h"
#include "shadow.h"

namespace simt {
namespace {

constexpr uint32_t kRowBytes = 16;

// Where the first of a lane's accumulators lies: its others are to the right and 8 rows below.
uint32_t row_of(uint32_t lane) { return lane / 4; }
uint32_t column_of(uint32_t lane) { return lane % 4 * 2; }

void bring_factors(Matrices& m, uint32_t lane, const uint32_t* a, const uint32_t* b, int depth,
                   bool bfloat) {
  const uint32_t outer = row_of(lane), inner = column_of(lane);
  for (int word = 0; word < depth / 4; ++word) {
    float* to = &m.a[outer + word % 2 * 8][inner + word / 2 * 8];
    to[0] = widened(a[word], bfloat);
    to[1] = widened(a[word] >> 16, bfloat);
  }
  for (int word = 0; word < depth / 8; ++word) {
    m.b[inner + word * 8][outer] = widened(b[word], bfloat);
    m.b[inner + word * 8 + 1][outer] = widened(b[word] >> 16, bfloat);
  }
}

// A product of halves is exact in float32. The device adds with at least float32's precision, in
// an order that is nowhere specified: here one after the other.
void multiply(Matrices& m, int depth) {
  for (uint32_t row = 0; row < 16; ++row) {
    MatrixRow sum = m.sums[row];
    for (int k = 0; k < depth; ++k) sum += m.a[row][k] * m.b[k];
    m.sums[row] = sum;
  }
}

void distribute(Matrices& m, int count, bool transposed) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t outer = row_of(lane), inner = column_of(lane);
    for (int i = 0; i < count; ++i) {
      const auto* matrix = m.rows + 8 * i;
      const uint32_t low = transposed ? matrix[inner][outer] : matrix[outer][inner];
      const uint32_t high = transposed ? matrix[inner + 1][outer] : matrix[outer][inner + 1];
      m.words[lane][i] = low | high << 16;
    }
  }
}

}  // namespace

float widened(uint32_t bits, bool bfloat) {
  const auto half = static_cast<uint16_t>(bits);
  return bfloat ? widened_bfloat(half) : widened_half(half);
}

void complete_matrices(Warp* warp, const Fiber& lane) {
  if (lane.kind == SIMT_LOAD_MATRICES) {
    distribute(warp->matrices, lane.operand, lane.width);
  } else {
    multiply(warp->matrices, lane.operand);
  }
}

}  // namespace simt

using namespace simt;

#define CALLER reinterpret_cast<uint64_t>(__builtin_return_address(0))

#pragma GCC visibility push(default)
extern "C" {

void simt_load_matrices(uint32_t* words, const void* row, int count, int transposed) {
  const uint32_t lane = now.fiber->lane;
  Matrices& m = now.warp->matrices;
  if (lane < 8u * count) {
    const auto address = reinterpret_cast<uint64_t>(row);
    if (address % kRowBytes) refuse_misaligned(address, kRowBytes, CALLER);
    if (machine.request->check) touch(row, kRowBytes, false, CALLER);
    memcpy(m.rows[lane], row, kRowBytes);
  }
  meet(SIMT_LOAD_MATRICES, ~0u, 0, count, transposed, CALLER);
  memcpy(words, m.words[lane], count * sizeof *words);
}

void simt_multiply_matrices(float* sums, const uint32_t* a, const uint32_t* b, int depth,
                            int bfloat) {
  const uint32_t lane = now.fiber->lane, row = row_of(lane), column = column_of(lane);
  Matrices& m = now.warp->matrices;
  bring_factors(m, lane, a, b, depth, bfloat);
  for (int i = 0; i < 4; ++i) m.sums[row + i / 2 * 8][column + i % 2] = sums[i];
  meet(SIMT_MULTIPLY_MATRICES, ~0u, 0, depth, 0, CALLER);
  for (int i = 0; i < 4; ++i) sums[i] = m.sums[row + i / 2 * 8][column + i % 2];
}

}  // extern "C"
#pragma GCC visibility pop
