// What is used of cuBLASLt's interface, which is the same in CUDA 12 and 13. The names are NVIDIA's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tvm_stitch {
namespace cublaslt {

using Status = int;  // 0: success
using Handle = void*;
using MatmulDesc = void*;
using MatrixLayout = void*;
using Preference = void*;
using Stream = void*;

struct Algo {
  uint64_t data[8];
};

struct HeuristicResult {
  Algo algo;
  size_t workspaceSize;
  Status state;
  float wavesCount;
  int reserved[4];
};

enum DataType : int { R_32F = 0, R_16F = 2, R_16BF = 14 };
// Sums in float32; so are products, or their factors are rounded to TF32.
enum ComputeType : int { COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77 };
enum Operation : int { OP_N = 0, OP_T = 1 };
enum DescAttribute : int {
  DESC_TRANSA = 3,
  DESC_TRANSB = 4,
  DESC_EPILOGUE = 7,
  DESC_BIAS_POINTER = 8,
  DESC_BIAS_DATA_TYPE = 26
};
enum Epilogue : int {
  EPILOGUE_DEFAULT = 1,
  EPILOGUE_RELU = 2,
  EPILOGUE_BIAS = 4,
  EPILOGUE_GELU = 32
};
enum LayoutAttribute : int { LAYOUT_BATCH_COUNT = 5, LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum PreferenceAttribute : int {
  PREF_MAX_WORKSPACE_BYTES = 1,
  PREF_REDUCTION_SCHEME_MASK = 3,
  PREF_MIN_ALIGNMENT_A_BYTES = 5,
  PREF_MIN_ALIGNMENT_B_BYTES = 6,
  PREF_MIN_ALIGNMENT_C_BYTES = 7,
  PREF_MIN_ALIGNMENT_D_BYTES = 8
};
// Partial sums of a divided depth are added in float32, in a fixed order: never in the output.
enum ReductionScheme : uint32_t { REDUCTION_COMPUTE_TYPE = 2 };

using Create = Status (*)(Handle*);
using Destroy = Status (*)(Handle);
using GetStatusString = const char* (*)(Status);
using MatmulDescCreate = Status (*)(MatmulDesc*, int compute, int scale);
using DescSetAttribute = Status (*)(MatmulDesc, int attribute, const void* value, size_t bytes);
using LayoutCreate = Status (*)(MatrixLayout*, int type, uint64_t rows, uint64_t cols, int64_t ld);
using LayoutSetAttribute = Status (*)(MatrixLayout, int attribute, const void*, size_t bytes);
using PreferenceCreate = Status (*)(Preference*);
using PreferenceSetAttribute = Status (*)(Preference, int attribute, const void*, size_t bytes);
using Destroyer = Status (*)(void*);
using GetHeuristic = Status (*)(Handle, MatmulDesc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                                MatrixLayout d, Preference, int requested, HeuristicResult*,
                                int* returned);
using Matmul = Status (*)(Handle, MatmulDesc, const void* alpha, const void* a, MatrixLayout,
                          const void* b, MatrixLayout, const void* beta, const void* c,
                          MatrixLayout, void* d, MatrixLayout, const Algo*, void* workspace,
                          size_t workspace_bytes, Stream);

}  // namespace cublaslt
}  // namespace tvm_stitch
