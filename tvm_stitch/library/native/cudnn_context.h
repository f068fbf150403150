// What calls of cuDNN have in common: how tensors are told, and what a thread keeps of a device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cudnn_graph.h"

namespace tvm_stitch {
namespace cudnn {

using Numbers = std::vector<int64_t>;

constexpr int64_t kMostAlignment = 16;  // more is of no use to any engine

inline DataType TypeOf(DLDataType type) {
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 32) return DATA_FLOAT;
  if (type.lanes == 1 && type.code == kDLFloat && type.bits == 16) return DATA_HALF;
  if (type.lanes == 1 && type.code == kDLBfloat && type.bits == 16) return DATA_BFLOAT16;
  TVM_STITCH_THROW(TypeError) << "cuDNN is called here for float32, float16 and bfloat16 only";
}

inline void* Data(const ffi::TensorView& tensor) {
  return static_cast<char*>(tensor.data_ptr()) + tensor.byte_offset();
}

inline int64_t Alignment(const void* address) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address) | kMostAlignment;
  return static_cast<int64_t>(bits & (~bits + 1));
}

// What a thread keeps for a device: a handle, and how calls are computed, by what tells them apart.
template <typename Way>
class Context {
 public:
  explicit Context(int generation) : generation_(generation) {
    Status status = functions_.create(&handle_);
    if (status != STATUS_SUCCESS) {
      TVM_STITCH_THROW(RuntimeError) << "cuDNN does not start: " << functions_.Reason(status);
    }
  }
  ~Context() {
    ways_.clear();
    functions_.destroy(handle_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Functions& functions() const { return functions_; }
  Handle handle() const { return handle_; }
  int generation() const { return generation_; }
  std::map<Numbers, std::unique_ptr<Way>>& ways() { return ways_; }

  // What is computed next comes after what its caller has queued on the stream.
  Stream TakeStream(const DLDevice& device) {
    Stream stream = TVMFFIEnvGetStream(device.device_type, device.device_id);
    functions_.Check(functions_.set_stream(handle_, stream), "taking a stream", "a call");
    return stream;
  }

 private:
  Functions functions_;
  Handle handle_ = nullptr;
  int generation_;
  std::map<Numbers, std::unique_ptr<Way>> ways_;
};

}  // namespace cudnn
}  // namespace tvm_stitch
