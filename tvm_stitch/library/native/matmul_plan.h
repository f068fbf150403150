// A product by cuBLASLt: what it depends on, and how it is computed.
//
// Everything is row-major here. cuBLASLt multiplies column-major matrices, which are the transposed
// row-major ones: it is asked for right^T * left^T, which is the transposed output.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cublaslt_api.h"
#include "shared_library.h"
#include "stopwatch.h"

namespace tvm_stitch {
namespace cublaslt {

enum Activation : int64_t { kNone = 0, kReLU = 1, kGELU = 2 };

// Algorithms among which the clock chooses where it is asked to.
constexpr int kMostTimed = 8;
// Milliseconds of a product beyond which the heuristics' first stays: what such ones draw of a GPU's
// power decides, which a few calls do not show. 8192 x 8192 x 8192 halves take 1.44 ms on an H200 by
// the first, 1.69 by the one that was fastest in three calls.
constexpr float kLongestTimed = 0.5f;

inline SharedLibrary& Library() {
  static SharedLibrary* library = new SharedLibrary(
      "cuBLASLt", "nvidia-cublas", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  return *library;
}

// One product but for its pointers: what the choice of an algorithm depends on.
struct Product {
  int64_t batch, rows, columns, depth;
  // Of a factor: whether neighbours along the depth are neighbours in memory; elements from line to
  // line, and from entry to entry of the batch.
  int64_t left_by_depth, left_line, left_stride, right_by_depth, right_line, right_stride;
  int64_t output_line, output_stride;
  int64_t factors, output;  // DataType
  int64_t has_bias, has_residual, activation, tf32;
  int64_t left_alignment, right_alignment, residual_alignment, output_alignment;
  int64_t workspace;  // bytes
  int64_t timed;      // whether the clock chooses the algorithm

  bool operator==(const Product& other) const { return Fields() == other.Fields(); }

  size_t Hash() const {
    size_t hash = 0;
    for (int64_t field : Fields()) hash = hash * 1000003u ^ static_cast<size_t>(field);
    return hash;
  }

  std::string Text() const {
    auto name = [](int64_t type) {
      return type == R_16F ? "float16" : type == R_16BF ? "bfloat16" : "float32";
    };
    std::string text = batch == 1 ? "" : std::to_string(batch) + " times ";
    text += std::to_string(rows) + "x" + std::to_string(depth) + " by " + std::to_string(depth) +
            "x" + std::to_string(columns) + ", " + name(factors) + " to " + name(output);
    if (tf32) text += " by TF32";
    if (has_residual) text += ", residual";
    if (has_bias) text += ", bias";
    if (activation != kNone) text += activation == kReLU ? ", ReLU" : ", GELU";
    return text;
  }

 private:
  std::array<int64_t, 24> Fields() const {
    return {batch,          rows,           columns,      depth,          left_by_depth,
            left_line,      left_stride,    right_by_depth, right_line,   right_stride,
            output_line,    output_stride,  factors,      output,         has_bias,
            has_residual,   activation,     tf32,         left_alignment, right_alignment,
            residual_alignment, output_alignment, workspace, timed};
  }
};

struct ProductHash {
  size_t operator()(const Product& product) const { return product.Hash(); }
};

// cuBLASLt's functions, looked up together.
struct Functions {
  Create create = Library().Symbol<Create>("cublasLtCreate");
  Destroy destroy = Library().Symbol<Destroy>("cublasLtDestroy");
  GetStatusString status_string = Library().Symbol<GetStatusString>("cublasLtGetStatusString");
  MatmulDescCreate desc_create = Library().Symbol<MatmulDescCreate>("cublasLtMatmulDescCreate");
  DescSetAttribute desc_set = Library().Symbol<DescSetAttribute>("cublasLtMatmulDescSetAttribute");
  Destroyer desc_destroy = Library().Symbol<Destroyer>("cublasLtMatmulDescDestroy");
  LayoutCreate layout_create = Library().Symbol<LayoutCreate>("cublasLtMatrixLayoutCreate");
  LayoutSetAttribute layout_set =
      Library().Symbol<LayoutSetAttribute>("cublasLtMatrixLayoutSetAttribute");
  Destroyer layout_destroy = Library().Symbol<Destroyer>("cublasLtMatrixLayoutDestroy");
  PreferenceCreate preference_create =
      Library().Symbol<PreferenceCreate>("cublasLtMatmulPreferenceCreate");
  PreferenceSetAttribute preference_set =
      Library().Symbol<PreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute");
  Destroyer preference_destroy = Library().Symbol<Destroyer>("cublasLtMatmulPreferenceDestroy");
  GetHeuristic heuristic = Library().Symbol<GetHeuristic>("cublasLtMatmulAlgoGetHeuristic");
  Matmul matmul = Library().Symbol<Matmul>("cublasLtMatmul");

  void Check(Status status, const char* doing, const Product& product) const {
    if (status == 0) return;
    TVM_STITCH_THROW(RuntimeError) << "cuBLASLt, " << doing << " (" << product.Text()
                                << "): " << status_string(status) << " (status " << status << ")";
  }
};

// A descriptor, which its library destroys.
using Owned = std::unique_ptr<void, Destroyer>;

// How a product is computed: found once, kept as long as its thread lives.
class Plan {
 public:
  Plan(const Functions& functions, Handle handle, const Product& product)
      : functions_(functions),
        product_(product),
        desc_(nullptr, functions.desc_destroy),
        a_(Layout(product.factors, product.right_by_depth, product.columns, product.right_line,
                  product.right_stride)),
        b_(Layout(product.factors, product.left_by_depth, product.rows, product.left_line,
                  product.left_stride)),
        d_(Layout(product.output, false, product.columns, product.output_line,
                  product.output_stride, product.rows)) {
    Describe();
    Choose(handle);
  }

  void Run(Handle handle, float alpha, const void* left, const void* right, const void* bias,
           const void* residual, void* output, void* workspace, Stream stream) {
    const float beta = product_.has_residual ? 1.0f : 0.0f;
    if (product_.has_bias) Set(DESC_BIAS_POINTER, bias);
    const void* added = product_.has_residual ? residual : output;
    auto run = [&](const Algo& algo) {
      functions_.Check(
          functions_.matmul(handle, desc_.get(), &alpha, right, a_.get(), left, b_.get(), &beta,
                            added, d_.get(), output, d_.get(), &algo, workspace,
                            static_cast<size_t>(product_.workspace), stream),
          "a product", product_);
    };
    // Once it has been computed in place, what was to be added is gone.
    const bool is_in_place = product_.has_residual && residual == output;
    if (algos_.size() > 1 && !is_in_place) TakeFastest(run, workspace, stream);
    run(algos_.front());
  }

 private:
  // Leaves the fastest algorithm. What they write meanwhile is written once more.
  template <typename Run>
  void TakeFastest(const Run& run, void* workspace, Stream stream) {
    Stopwatch stopwatch(stream);
    if (!stopwatch.works()) return;
    size_t fastest = 0;
    float least = std::numeric_limits<float>::infinity();
    for (size_t n = 0; n < algos_.size(); ++n) {
      try {
        const float took =
            stopwatch.Time([&] { run(algos_[n]); }, workspace, product_.workspace);
        if (n == 0 && took > kLongestTimed) break;
        if (took < least) {
          least = took;
          fastest = n;
        }
      } catch (const ffi::Error&) {  // the heuristics' first is asked again, and says why
      }
    }
    std::swap(algos_.front(), algos_[fastest]);
    algos_.resize(1);
  }

  // A column-major matrix of `side` by the depth, or the other way around, or of stated columns.
  Owned Layout(int64_t type, bool is_transposed, int64_t side, int64_t line, int64_t stride,
               int64_t columns = 0) const {
    int64_t across = columns ? columns : product_.depth;
    if (is_transposed) std::swap(side, across);
    void* made = nullptr;
    functions_.Check(functions_.layout_create(&made, static_cast<int>(type),
                                              static_cast<uint64_t>(side),
                                              static_cast<uint64_t>(across), line),
                     "describing a matrix", product_);
    Owned layout(made, functions_.layout_destroy);
    if (product_.batch != 1) {
      const int32_t batch = static_cast<int32_t>(product_.batch);
      functions_.Check(
          functions_.layout_set(made, LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
          "describing a batch", product_);
      functions_.Check(
          functions_.layout_set(made, LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
          "describing a batch", product_);
    }
    return layout;
  }

  template <typename T>
  void Set(DescAttribute attribute, const T& value) const {
    functions_.Check(functions_.desc_set(desc_.get(), attribute, &value, sizeof(value)),
                     "describing a product", product_);
  }

  void Describe() {
    void* made = nullptr;
    const int compute = product_.tf32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F;
    functions_.Check(functions_.desc_create(&made, compute, R_32F), "describing a product",
                     product_);
    desc_.reset(made);
    Set(DESC_TRANSA, static_cast<int32_t>(product_.right_by_depth ? OP_T : OP_N));
    Set(DESC_TRANSB, static_cast<int32_t>(product_.left_by_depth ? OP_N : OP_T));
    int32_t epilogue = product_.activation == kReLU   ? EPILOGUE_RELU
                       : product_.activation == kGELU ? EPILOGUE_GELU
                                                      : 0;
    if (product_.has_bias) {
      epilogue |= EPILOGUE_BIAS;
      Set(DESC_BIAS_DATA_TYPE, static_cast<int32_t>(product_.output));
    }
    Set(DESC_EPILOGUE, epilogue ? epilogue : static_cast<int32_t>(EPILOGUE_DEFAULT));
  }

  void Choose(Handle handle) {
    void* made = nullptr;
    functions_.Check(functions_.preference_create(&made), "choosing an algorithm", product_);
    Owned preference(made, functions_.preference_destroy);
    auto prefer = [&](PreferenceAttribute attribute, auto value) {
      functions_.Check(functions_.preference_set(made, attribute, &value, sizeof(value)),
                       "choosing an algorithm", product_);
    };
    prefer(PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(product_.workspace));
    prefer(PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(REDUCTION_COMPUTE_TYPE));
    prefer(PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(product_.right_alignment));
    prefer(PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(product_.left_alignment));
    prefer(PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(product_.residual_alignment));
    prefer(PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(product_.output_alignment));
    std::array<HeuristicResult, kMostTimed> found;
    const int most = product_.timed ? kMostTimed : 1;
    int count = 0;
    functions_.Check(functions_.heuristic(handle, desc_.get(), a_.get(), b_.get(), d_.get(),
                                          d_.get(), made, most, found.data(), &count),
                     "choosing an algorithm", product_);
    if (count == 0) {
      TVM_STITCH_THROW(RuntimeError) << "cuBLASLt has no algorithm for this product: "
                                  << product_.Text();
    }
    for (int n = 0; n < count; ++n) {
      if (n == 0 || found[n].state == 0) algos_.push_back(found[n].algo);
    }
  }

  const Functions& functions_;
  Product product_;
  Owned desc_, a_, b_, d_;
  std::vector<Algo> algos_;  // the first is taken
};

}  // namespace cublaslt
}  // namespace tvm_stitch
