// A graph of cuDNN's operations, and how it is computed.
//
// Graph describes operations on tensors, each with a number; Choose asks cuDNN's heuristics for
// engines and returns the first that computes as exactly and as reproducibly as is wanted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cudnn_api.h"
#include "shared_library.h"

namespace tvm_stitch {
namespace cudnn {

inline SharedLibrary& Library() {
  static SharedLibrary* library =
      new SharedLibrary("cuDNN", "nvidia-cudnn-cu13", {"libcudnn.so.9", "libcudnn.so"});
  return *library;
}

// cuDNN's functions, looked up together.
struct Functions {
  Create create = Library().Symbol<Create>("cudnnCreate");
  Destroy destroy = Library().Symbol<Destroy>("cudnnDestroy");
  SetStream set_stream = Library().Symbol<SetStream>("cudnnSetStream");
  GetErrorString error_string = Library().Symbol<GetErrorString>("cudnnGetErrorString");
  GetLastErrorString last_error = Library().Symbol<GetLastErrorString>("cudnnGetLastErrorString");
  BackendCreateDescriptor make =
      Library().Symbol<BackendCreateDescriptor>("cudnnBackendCreateDescriptor");
  BackendDestroyDescriptor unmake =
      Library().Symbol<BackendDestroyDescriptor>("cudnnBackendDestroyDescriptor");
  BackendFinalize finalize = Library().Symbol<BackendFinalize>("cudnnBackendFinalize");
  BackendSetAttribute set = Library().Symbol<BackendSetAttribute>("cudnnBackendSetAttribute");
  BackendGetAttribute get = Library().Symbol<BackendGetAttribute>("cudnnBackendGetAttribute");
  BackendExecute execute = Library().Symbol<BackendExecute>("cudnnBackendExecute");

  // What cuDNN says of a failure.
  std::string Reason(Status status) const {
    std::array<char, 512> text{};
    last_error(text.data(), text.size());
    return std::string(error_string(status)) + " (status " + std::to_string(status) + ") " +
           text.data();
  }

  void Check(Status status, const char* doing, const std::string& of) const {
    if (status == STATUS_SUCCESS) return;
    TVM_STITCH_THROW(RuntimeError) << "cuDNN, " << doing << " (" << of << "): " << Reason(status);
  }
};

// A descriptor of the graph API, which lives as long as this.
class Node {
 public:
  Node(const Functions& functions, DescriptorType type) : functions_(&functions) {
    functions.Check(functions.make(type, &descriptor_), "describing", "a descriptor");
  }
  ~Node() {
    if (descriptor_ != nullptr) functions_->unmake(descriptor_);
  }
  Node(Node&& other) noexcept
      : functions_(other.functions_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Node& operator=(Node&& other) noexcept {
    std::swap(functions_, other.functions_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  Descriptor get() const { return descriptor_; }

  template <typename T>
  Node& Set(AttributeName name, AttributeType type, const std::vector<T>& values) {
    Status status = functions_->set(descriptor_, name, type, static_cast<int64_t>(values.size()),
                                    values.data());
    functions_->Check(status, "describing", "attribute " + std::to_string(name));
    return *this;
  }
  Node& Set(AttributeName name, const std::vector<int64_t>& values) {
    return Set(name, TYPE_INT64, values);
  }
  Node& Set(AttributeName name, const Node& value) {
    return Set(name, TYPE_BACKEND_DESCRIPTOR, std::vector<Descriptor>{value.get()});
  }

  Status TryFinish() { return functions_->finalize(descriptor_); }
  Node& Finish(const char* doing, const std::string& of) {
    functions_->Check(TryFinish(), doing, of);
    return *this;
  }

 private:
  const Functions* functions_;
  Descriptor descriptor_ = nullptr;
};

// A tensor of a graph, by the number under which its address is given.
struct Tensor {
  int64_t number;
  DataType type;
  std::vector<int64_t> extents, strides;
  int64_t alignment;
  bool is_virtual;  // it never lies in memory
  bool is_by_value = false;  // a number of the host's, at the address that is given
};

// An operator on elements, which computes in `precision`; GEN_INDEX counts along `axis`.
struct Elementwise {
  PointwiseMode mode;
  DataType precision = DATA_FLOAT;
  int64_t axis = -1;
};

// What must hold of an engine.
struct Wanted {
  std::vector<NumericalNote> without;
  bool tensor_cores;  // rather than without, whatever comes first
  int64_t workspace;  // bytes at most
};

// An engine for a graph, ready to run.
class Plan {
 public:
  Plan(const Functions& functions, Node config, Node plan)
      : functions_(&functions), config_(std::move(config)), plan_(std::move(plan)) {}

  // Computes with the tensors of these numbers at these addresses.
  void Run(Handle handle, const std::vector<int64_t>& numbers, const std::vector<void*>& addresses,
           void* workspace, const std::string& of) {
    if (addresses != addresses_ || workspace != workspace_) {
      Node pack(*functions_, BACKEND_VARIANT_PACK_DESCRIPTOR);
      pack.Set(ATTR_VARIANT_PACK_UNIQUE_IDS, numbers)
          .Set(ATTR_VARIANT_PACK_DATA_POINTERS, TYPE_VOID_PTR, addresses)
          .Set(ATTR_VARIANT_PACK_WORKSPACE, TYPE_VOID_PTR, std::vector<void*>{workspace})
          .Finish("passing tensors", of);
      pack_ = std::make_unique<Node>(std::move(pack));
      addresses_ = addresses;
      workspace_ = workspace;
    }
    functions_->Check(functions_->execute(handle, plan_.get(), pack_->get()), "computing", of);
  }

 private:
  const Functions* functions_;
  Node config_, plan_;
  // Tensors mostly lie where they lay in the call before.
  std::unique_ptr<Node> pack_;
  std::vector<void*> addresses_;
  void* workspace_ = nullptr;
};

class Graph {
 public:
  Graph(const Functions& functions, Handle handle, std::string text)
      : functions_(functions), handle_(handle), text_(std::move(text)) {}

  // Tensors and operations; what is returned lives as long as the graph.
  const Node& Add(const Tensor& tensor) {
    Node& node = Make(BACKEND_TENSOR_DESCRIPTOR);
    node.Set(ATTR_TENSOR_DATA_TYPE, TYPE_DATA_TYPE, std::vector<int>{tensor.type})
        .Set(ATTR_TENSOR_DIMENSIONS, tensor.extents)
        .Set(ATTR_TENSOR_STRIDES, tensor.strides)
        .Set(ATTR_TENSOR_UNIQUE_ID, std::vector<int64_t>{tensor.number})
        .Set(ATTR_TENSOR_BYTE_ALIGNMENT, std::vector<int64_t>{tensor.alignment});
    if (tensor.is_virtual) {
      node.Set(ATTR_TENSOR_IS_VIRTUAL, TYPE_BOOLEAN, std::vector<char>{1});
    }
    if (tensor.is_by_value) {
      node.Set(ATTR_TENSOR_IS_BY_VALUE, TYPE_BOOLEAN, std::vector<char>{1});
    }
    return node.Finish("describing a tensor", text_);
  }

  // Of one tensor, of two, or of two and a third that says which of them to take.
  void Pointwise(const Elementwise& op, const std::vector<const Node*>& inputs,
                 const Node& output) {
    static const AttributeName names[] = {ATTR_OPERATION_POINTWISE_XDESC,
                                          ATTR_OPERATION_POINTWISE_BDESC,
                                          ATTR_OPERATION_POINTWISE_TDESC};
    Node& what = Make(BACKEND_POINTWISE_DESCRIPTOR);
    what.Set(ATTR_POINTWISE_MODE, TYPE_POINTWISE_MODE, std::vector<int>{op.mode})
        .Set(ATTR_POINTWISE_MATH_PREC, TYPE_DATA_TYPE, std::vector<int>{op.precision});
    if (op.axis >= 0) what.Set(ATTR_POINTWISE_AXIS, std::vector<int64_t>{op.axis});
    what.Finish("describing an operator", text_);
    Node& node = Make(BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    node.Set(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what)
        .Set(ATTR_OPERATION_POINTWISE_YDESC, output);
    for (size_t n = 0; n < inputs.size(); ++n) node.Set(names[n], *inputs[n]);
    node.Finish("describing an operator", text_);
    operations_.push_back(node.get());
  }

  // A product of matrices for each of the leading extents, summed in float32.
  void Matmul(const Node& left, const Node& right, const Node& output) {
    Node& what = Make(BACKEND_MATMUL_DESCRIPTOR);
    what.Set(ATTR_MATMUL_COMP_TYPE, TYPE_DATA_TYPE, std::vector<int>{DATA_FLOAT})
        .Finish("describing a product", text_);
    Node& node = Make(BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    node.Set(ATTR_OPERATION_MATMUL_DESC, what)
        .Set(ATTR_OPERATION_MATMUL_ADESC, left)
        .Set(ATTR_OPERATION_MATMUL_BDESC, right)
        .Set(ATTR_OPERATION_MATMUL_CDESC, output)
        .Finish("describing a product", text_);
    operations_.push_back(node.get());
  }

  // Over the extents that `output` has as 1.
  void Reduction(ReductionMode mode, const Node& input, const Node& output) {
    Node& what = Make(BACKEND_REDUCTION_DESCRIPTOR);
    what.Set(ATTR_REDUCTION_COMP_TYPE, TYPE_DATA_TYPE, std::vector<int>{DATA_FLOAT})
        .Set(ATTR_REDUCTION_OPERATOR, TYPE_REDUCTION_OPERATOR, std::vector<int>{mode})
        .Finish("describing a reduction", text_);
    Node& node = Make(BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    node.Set(ATTR_OPERATION_REDUCTION_DESC, what)
        .Set(ATTR_OPERATION_REDUCTION_XDESC, input)
        .Set(ATTR_OPERATION_REDUCTION_YDESC, output)
        .Finish("describing a reduction", text_);
    operations_.push_back(node.get());
  }

  // One of the three convolutions; `names` are the attributes of its tensors, of the convolution's
  // descriptor, and of the two factors.
  void Convolution(DescriptorType type, const std::array<AttributeName, 6>& names,
                   const std::array<const Node*, 3>& tensors, const std::vector<int64_t>& strides,
                   const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                   const std::vector<int64_t>& dilation) {
    Node& what = Make(BACKEND_CONVOLUTION_DESCRIPTOR);
    what.Set(ATTR_CONVOLUTION_COMP_TYPE, TYPE_DATA_TYPE, std::vector<int>{DATA_FLOAT})
        .Set(ATTR_CONVOLUTION_CONV_MODE, TYPE_CONVOLUTION_MODE, std::vector<int>{CROSS_CORRELATION})
        .Set(ATTR_CONVOLUTION_SPATIAL_DIMS,
             std::vector<int64_t>{static_cast<int64_t>(strides.size())})
        .Set(ATTR_CONVOLUTION_FILTER_STRIDES, strides)
        .Set(ATTR_CONVOLUTION_PRE_PADDINGS, before)
        .Set(ATTR_CONVOLUTION_POST_PADDINGS, after)
        .Set(ATTR_CONVOLUTION_DILATIONS, dilation)
        .Finish("describing a convolution", text_);
    Node& node = Make(type);
    for (size_t n = 0; n < tensors.size(); ++n) node.Set(names[n], *tensors[n]);
    node.Set(names[3], what)
        .Set(names[4], TYPE_FLOAT, std::vector<float>{1.0f})
        .Set(names[5], TYPE_FLOAT, std::vector<float>{0.0f})
        .Finish("describing a convolution", text_);
    operations_.push_back(node.get());
  }

  // The best engine by cuDNN's heuristics; none if it has none, and then `reason` says why.
  std::unique_ptr<Plan> Choose(const Wanted& wanted, std::string* reason) {
    std::vector<std::unique_ptr<Plan>> found = Best(wanted, 1, reason);
    return found.empty() ? nullptr : std::move(found.front());
  }

  // So many at most, the best first.
  std::vector<std::unique_ptr<Plan>> Best(const Wanted& wanted, size_t most, std::string* reason) {
    std::vector<std::unique_ptr<Plan>> found;
    Node& graph = Make(BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.Set(ATTR_OPERATIONGRAPH_HANDLE, TYPE_HANDLE, std::vector<Handle>{handle_})
        .Set(ATTR_OPERATIONGRAPH_OPS, TYPE_BACKEND_DESCRIPTOR, operations_);
    Status status = graph.TryFinish();
    if (status != STATUS_SUCCESS) {
      *reason = functions_.Reason(status);
      return found;
    }
    *reason = "no engine for it that is reproducible, as exact as wanted, and small enough";
    auto take = [&](Node config) {
      std::unique_ptr<Plan> plan = Planned(std::move(config), wanted, reason);
      if (plan != nullptr) found.push_back(std::move(plan));
      return found.size() == most;
    };
    for (HeuristicMode mode : {HEUR_MODE_A, HEUR_MODE_FALLBACK}) {
      std::vector<Node> rest;
      for (Node& config : Configurations(graph, mode)) {
        const std::vector<int> notes = Notes(config);
        if (!Suits(notes, wanted)) continue;
        if (wanted.tensor_cores && !Holds(notes, NUMERICAL_NOTE_TENSOR_CORE)) {
          rest.push_back(std::move(config));
        } else if (take(std::move(config))) {
          return found;
        }
      }
      for (Node& config : rest) {
        if (take(std::move(config))) return found;
      }
    }
    return found;
  }

 private:
  Node& Make(DescriptorType type) {
    nodes_.push_back(std::make_unique<Node>(functions_, type));
    return *nodes_.back();
  }

  std::vector<Node> Configurations(const Node& graph, HeuristicMode mode) {
    std::vector<Node> found;
    Node heuristic(functions_, BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.Set(ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .Set(ATTR_ENGINEHEUR_MODE, TYPE_HEUR_MODE, std::vector<int>{mode});
    if (heuristic.TryFinish() != STATUS_SUCCESS) return found;
    int64_t count = 0;
    functions_.get(heuristic.get(), ATTR_ENGINEHEUR_RESULTS, TYPE_BACKEND_DESCRIPTOR, 0, &count,
                   nullptr);
    std::vector<Descriptor> descriptors;
    for (int64_t n = 0; n < count; ++n) {
      found.emplace_back(functions_, BACKEND_ENGINECFG_DESCRIPTOR);
      descriptors.push_back(found.back().get());
    }
    functions_.Check(functions_.get(heuristic.get(), ATTR_ENGINEHEUR_RESULTS,
                                    TYPE_BACKEND_DESCRIPTOR, count, &count, descriptors.data()),
                     "choosing an engine", text_);
    while (static_cast<int64_t>(found.size()) > count) found.pop_back();
    return found;
  }

  // What cuDNN says of an engine's arithmetic.
  std::vector<int> Notes(const Node& config) {
    Node engine(functions_, BACKEND_ENGINE_DESCRIPTOR);
    Descriptor descriptor = engine.get();
    std::vector<int> notes(32);
    int64_t count = 0;
    functions_.Check(functions_.get(config.get(), ATTR_ENGINECFG_ENGINE, TYPE_BACKEND_DESCRIPTOR, 1,
                                    &count, &descriptor),
                     "choosing an engine", text_);
    functions_.Check(functions_.get(descriptor, ATTR_ENGINE_NUMERICAL_NOTE, TYPE_NUMERICAL_NOTE,
                                    static_cast<int64_t>(notes.size()), &count, notes.data()),
                     "choosing an engine", text_);
    notes.resize(static_cast<size_t>(count));
    return notes;
  }

  static bool Holds(const std::vector<int>& notes, NumericalNote note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  }

  static bool Suits(const std::vector<int>& notes, const Wanted& wanted) {
    return std::none_of(wanted.without.begin(), wanted.without.end(),
                        [&](NumericalNote note) { return Holds(notes, note); });
  }

  std::unique_ptr<Plan> Planned(Node config, const Wanted& wanted, std::string* reason) {
    Node plan(functions_, BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.Set(ATTR_EXECUTION_PLAN_HANDLE, TYPE_HANDLE, std::vector<Handle>{handle_})
        .Set(ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    Status status = plan.TryFinish();
    if (status != STATUS_SUCCESS) {
      *reason = functions_.Reason(status);
      return nullptr;
    }
    int64_t bytes = 0, count = 0;
    functions_.Check(functions_.get(plan.get(), ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, TYPE_INT64, 1,
                                    &count, &bytes),
                     "choosing an engine", text_);
    if (bytes > wanted.workspace) return nullptr;
    return std::make_unique<Plan>(functions_, std::move(config), std::move(plan));
  }

  const Functions& functions_;
  Handle handle_;
  std::string text_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Descriptor> operations_;
};

}  // namespace cudnn
}  // namespace tvm_stitch
