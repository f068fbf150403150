// Matrix products by cuBLASLt: output = activation(scale * left * right + residual + bias).
//
// Everything is row-major here. cuBLASLt multiplies column-major matrices, which are the transposed
// row-major ones: it is asked for right^T * left^T, which is the transposed output.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "cublaslt_api.h"
#include "shared_library.h"

namespace tvm_stitch {
namespace {

using namespace cublaslt;  // NOLINT

// Plans that a thread keeps for a device: each takes about 2 KiB, and tens of microseconds to make.
constexpr size_t kMostPlans = 4096;

enum Activation : int64_t { kNone = 0, kReLU = 1, kGELU = 2 };

SharedLibrary& Library() {
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
  int64_t has_bias, has_residual, activation;
  int64_t left_alignment, right_alignment, residual_alignment, output_alignment;
  int64_t workspace;  // bytes

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
    if (has_residual) text += ", residual";
    if (has_bias) text += ", bias";
    if (activation != kNone) text += activation == kReLU ? ", ReLU" : ", GELU";
    return text;
  }

 private:
  std::array<int64_t, 22> Fields() const {
    return {batch,          rows,           columns,      depth,          left_by_depth,
            left_line,      left_stride,    right_by_depth, right_line,   right_stride,
            output_line,    output_stride,  factors,      output,         has_bias,
            has_residual,   activation,     left_alignment, right_alignment, residual_alignment,
            output_alignment, workspace};
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
           const void* residual, void* output, void* workspace, Stream stream) const {
    const float beta = product_.has_residual ? 1.0f : 0.0f;
    if (product_.has_bias) Set(DESC_BIAS_POINTER, bias);
    const void* added = product_.has_residual ? residual : output;
    functions_.Check(
        functions_.matmul(handle, desc_.get(), &alpha, right, a_.get(), left, b_.get(), &beta,
                          added, d_.get(), output, d_.get(), &algo_, workspace,
                          static_cast<size_t>(product_.workspace), stream),
        "a product", product_);
  }

 private:
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
    functions_.Check(functions_.desc_create(&made, COMPUTE_32F, R_32F), "describing a product",
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
    HeuristicResult found;
    int count = 0;
    functions_.Check(functions_.heuristic(handle, desc_.get(), a_.get(), b_.get(), d_.get(),
                                          d_.get(), made, 1, &found, &count),
                     "choosing an algorithm", product_);
    if (count == 0) {
      TVM_STITCH_THROW(RuntimeError) << "cuBLASLt has no algorithm for this product: "
                                  << product_.Text();
    }
    algo_ = found.algo;
  }

  const Functions& functions_;
  Product product_;
  Owned desc_, a_, b_, d_;
  Algo algo_;
};

// What a thread keeps for a device.
class Context {
 public:
  explicit Context(int generation) : generation_(generation) {
    Status status = functions_.create(&handle_);
    if (status != 0) {
      TVM_STITCH_THROW(RuntimeError) << "cuBLASLt does not start: "
                                  << functions_.status_string(status);
    }
  }
  ~Context() {
    plans_.clear();
    functions_.destroy(handle_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Plan& PlanOf(const Product& product) {
    auto found = plans_.find(product);
    if (found == plans_.end()) {
      if (plans_.size() == kMostPlans) plans_.clear();  // sizes may change from call to call
      found = plans_.try_emplace(product, functions_, handle_, product).first;
    }
    return found->second;
  }
  Handle handle() const { return handle_; }
  int generation() const { return generation_; }

 private:
  Functions functions_;
  Handle handle_ = nullptr;
  int generation_;
  std::unordered_map<Product, Plan, ProductHash> plans_;
};

// The types are told beside the tensors: TVM's lowering gives a bfloat16 tensor another one.
DataType TypeOf(int64_t bits, bool is_bfloat) {
  return bits == 32 ? R_32F : is_bfloat ? R_16BF : R_16F;
}

void CheckType(const ffi::TensorView& tensor, int64_t bits, const Product& product) {
  if (tensor.dtype().bits != bits || tensor.dtype().lanes != 1) {
    TVM_STITCH_THROW(TypeError) << "a tensor of another type than its product: " << product.Text();
  }
}

char* Data(const ffi::TensorView& tensor, int64_t start = 0) {
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset() +
         start * (tensor.dtype().bits / 8);
}

// Where a tensor's matrices are, all in elements: from line to line, from matrix to matrix of a
// batch, and from batch to batch.
struct Place {
  int64_t start, by_depth, line, stride, leap;

  // How many elements lie between the first and behind the last.
  int64_t End(int64_t calls, int64_t batch, int64_t side, int64_t depth) const {
    const int64_t lines = by_depth ? side : depth, across = by_depth ? depth : side;
    return start + (calls - 1) * leap + (batch - 1) * stride + (lines - 1) * line + across;
  }
};

// The largest power of two that divides the address of every matrix, as far as cuBLASLt cares.
int64_t Alignment(const void* address, int64_t stride, int64_t leap, int64_t element) {
  const uint64_t steps = static_cast<uint64_t>((stride | leap) * element);
  const uint64_t bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address)) | steps | 256u;
  return static_cast<int64_t>(bits & (~bits + 1));
}

// Arguments one after the other.
class Reader {
 public:
  explicit Reader(const ffi::Arguments& args) : args_(args) {}

  ffi::TensorView Tensor() { return args_.Tensor(next_++); }
  std::optional<ffi::TensorView> TensorOrNone() {
    if (!args_.IsNone(next_)) return Tensor();
    ++next_;
    return std::nullopt;
  }
  int64_t Integer() { return args_.Integer(next_++); }
  double Number() { return args_.Number(next_++); }
  Place Where() {
    Place place;
    for (int64_t* each : {&place.start, &place.by_depth, &place.line, &place.stride, &place.leap}) {
      *each = Integer();
    }
    return place;
  }

 private:
  const ffi::Arguments& args_;
  int32_t next_ = 0;
};

// Sizes and strides are in elements. Each of the calls multiplies a batch.
void Multiply(const ffi::Arguments& args) {
  Reader next(args);
  const ffi::TensorView left = next.Tensor(), right = next.Tensor();
  const std::optional<ffi::TensorView> bias = next.TensorOrNone(), residual = next.TensorOrNone();
  const ffi::TensorView output = next.Tensor(), workspace = next.Tensor();
  const int64_t factor_bits = next.Integer(), output_bits = next.Integer();
  const bool is_bfloat = next.Integer();
  const int64_t calls = next.Integer(), batch = next.Integer();
  const int64_t rows = next.Integer(), columns = next.Integer(), depth = next.Integer();
  const Place left_place = next.Where(), right_place = next.Where();
  const int64_t line = next.Integer(), stride = next.Integer(), leap = next.Integer();
  const int64_t activation = next.Integer();
  const double scale = next.Number();
  if (calls == 0 || batch == 0 || rows == 0 || columns == 0) return;
  const int64_t factor_bytes = factor_bits / 8, output_bytes = output_bits / 8;
  const char* left_data = Data(left, left_place.start);
  const char* right_data = Data(right, right_place.start);
  char* output_data = Data(output);
  const char* bias_data = bias ? Data(bias.value()) : nullptr;
  const char* residual_data = residual ? Data(residual.value()) : output_data;
  const Product product{batch,
                        rows,
                        columns,
                        depth,
                        left_place.by_depth,
                        left_place.line,
                        left_place.stride,
                        right_place.by_depth,
                        right_place.line,
                        right_place.stride,
                        line,
                        stride,
                        TypeOf(factor_bits, is_bfloat),
                        TypeOf(output_bits, is_bfloat),
                        bias.has_value(),
                        residual.has_value(),
                        activation,
                        Alignment(left_data, left_place.stride, left_place.leap, factor_bytes),
                        Alignment(right_data, right_place.stride, right_place.leap, factor_bytes),
                        Alignment(residual_data, stride, leap, output_bytes),
                        Alignment(output_data, stride, leap, output_bytes),
                        workspace.numel() * (workspace.dtype().bits / 8)};
  CheckType(left, factor_bits, product);
  CheckType(right, factor_bits, product);
  CheckType(output, output_bits, product);
  if (bias) CheckType(bias.value(), output_bits, product);
  if (residual) CheckType(residual.value(), output_bits, product);
  const int64_t results = calls * batch * rows * columns;
  const bool fits = left_place.End(calls, batch, rows, depth) <= left.numel() &&
                    right_place.End(calls, batch, columns, depth) <= right.numel() &&
                    (calls - 1) * leap + (batch - 1) * stride + (rows - 1) * line + columns <=
                        results &&
                    output.numel() == results && (!bias || bias.value().numel() == columns) &&
                    (!residual || residual.value().numel() == results);
  if (!fits) {
    TVM_STITCH_THROW(ValueError) << "tensors have other sizes than their product: " << product.Text();
  }
  const DLDevice device = output.device();
  Context& context = OfThisThread<Context>(Library(), device);
  const Plan& plan = context.PlanOf(product);
  const Stream stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
  for (int64_t call = 0; call < calls; ++call) {
    const int64_t moved = call * leap * output_bytes;
    plan.Run(context.handle(), static_cast<float>(scale),
             left_data + call * left_place.leap * factor_bytes,
             right_data + call * right_place.leap * factor_bytes, bias_data, residual_data + moved,
             output_data + moved, Data(workspace), stream);
  }
}

void UseCublasLt(const ffi::Arguments& args) { Library().Use(args.Text(0)); }

}  // namespace
}  // namespace tvm_stitch

TVM_STITCH_EXPORT(matmul, tvm_stitch::Multiply)
TVM_STITCH_EXPORT(use_cublaslt, tvm_stitch::UseCublasLt)
