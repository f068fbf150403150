// Matrix products by cuBLASLt: output = activation(scale * left * right + residual + bias).
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "matmul_plan.h"
#include "shared_library.h"

namespace tvm_stitch {
namespace {

using namespace cublaslt;  // NOLINT

// Plans that a thread keeps for a device: each takes about 2 KiB, and tens of microseconds to make.
constexpr size_t kMostPlans = 4096;

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

  Plan& PlanOf(const Product& product) {
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
  const bool tf32 = next.Integer(), timed = next.Integer();
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
                        tf32,
                        Alignment(left_data, left_place.stride, left_place.leap, factor_bytes),
                        Alignment(right_data, right_place.stride, right_place.leap, factor_bytes),
                        Alignment(residual_data, stride, leap, output_bytes),
                        Alignment(output_data, stride, leap, output_bytes),
                        workspace.numel() * (workspace.dtype().bits / 8),
                        timed};
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
  Plan& plan = context.PlanOf(product);
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
