// What the shim uses of cuDNN's graph API, computed plainly on the CPU: for tests where there is no
// GPU.
//
// It takes what the documentation of the descriptors states, and refuses the rest. It knows three
// engines: one that is not reproducible, one by tensor cores, and a plain one.
#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cudnn_api.h"

using namespace tvm_stitch::cudnn;  // NOLINT

namespace {

constexpr Status kBadParameter = 2000, kNotSupported = 3000, kFailed = 5000;

// What tests ask for: how often something was done, and with which values last.
struct {
  int64_t created, planned, executed, packs, stream, engine, operations, alignment;
} seen;
thread_local std::string last_error;

Status Refuse(Status status, const std::string& why) {
  last_error = why;
  return status;
}

bool Fails(const char* what) {
  const char* named = std::getenv("STAND_IN_FAILS");
  return named != nullptr && std::strcmp(named, what) == 0;
}

struct Node;
using Shared = std::shared_ptr<Node>;

struct Node {
  DescriptorType type;
  bool finished = false;
  int engine = 0;  // of an engine or its configuration
  std::map<int, std::vector<char>> values;
  std::map<int, std::vector<Shared>> nodes;

  bool Has(int name) const { return values.count(name) || nodes.count(name); }
  template <typename T>
  std::vector<T> All(int name) const {
    const std::vector<char>& bytes = values.at(name);
    std::vector<T> found(bytes.size() / sizeof(T));
    std::memcpy(found.data(), bytes.data(), bytes.size());
    return found;
  }
  template <typename T>
  T One(int name) const {
    return All<T>(name).at(0);
  }
  const Node& At(int name) const { return *nodes.at(name).at(0); }
};

Shared& Of(Descriptor descriptor) { return *static_cast<Shared*>(descriptor); }

size_t SizeOf(AttributeType type) {
  switch (type) {
    case TYPE_BOOLEAN:
      return 1;
    case TYPE_INT64:
    case TYPE_HANDLE:
    case TYPE_VOID_PTR:
      return 8;
    default:
      return 4;
  }
}

double HalfToDouble(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25)
                          : std::ldexp(mantissa, -24));
}

double Load(DataType type, const void* data, int64_t at) {
  if (type == DATA_FLOAT) return static_cast<const float*>(data)[at];
  if (type == DATA_INT32) return static_cast<const int32_t*>(data)[at];
  const uint16_t bits = static_cast<const uint16_t*>(data)[at];
  if (type == DATA_HALF) return HalfToDouble(bits);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

void Store(DataType type, void* data, int64_t at, double given) {
  const float value = static_cast<float>(given);
  if (type == DATA_FLOAT) {
    static_cast<float*>(data)[at] = value;
  } else if (type == DATA_HALF) {
    const _Float16 half = static_cast<_Float16>(value);
    std::memcpy(static_cast<uint16_t*>(data) + at, &half, 2);
  } else {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits += 0x7FFF + (bits >> 16 & 1);
    static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(bits >> 16);
  }
}

using Extents = std::vector<int64_t>;

// A tensor's elements, in the order of its extents.
struct Values {
  Extents extents;
  std::vector<double> elements;

  explicit Values(Extents given) : extents(std::move(given)) {
    int64_t count = 1;
    for (int64_t extent : extents) count *= extent;
    elements.assign(count, 0);
  }
};

// Calls with the indices of every element, and its number.
template <typename Function>
void Each(const Extents& extents, Function function) {
  Extents at(extents.size(), 0);
  int64_t number = 0;
  for (int64_t extent : extents) {
    if (extent == 0) return;
  }
  while (true) {
    function(at, number++);
    size_t axis = extents.size();
    while (axis > 0 && ++at[axis - 1] == extents[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

int64_t Offset(const Extents& at, const Extents& strides) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < at.size(); ++axis) offset += at[axis] * strides[axis];
  return offset;
}

// Runs a graph on tensors in memory.
class Machine {
 public:
  Machine(const Node& graph, const Node& pack) {
    const auto numbers = pack.All<int64_t>(ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto addresses = pack.All<void*>(ATTR_VARIANT_PACK_DATA_POINTERS);
    for (size_t n = 0; n < numbers.size(); ++n) memory_[numbers[n]] = addresses[n];
    for (const Shared& operation : graph.nodes.at(ATTR_OPERATIONGRAPH_OPS)) Run(*operation);
  }

 private:
  void Run(const Node& node) {
    if (node.type == BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return Pointwise(node);
    if (node.type == BACKEND_OPERATION_MATMUL_DESCRIPTOR) return Matmul(node);
    if (node.type == BACKEND_OPERATION_REDUCTION_DESCRIPTOR) return Reduction(node);
    const bool forward = node.type == BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool data = node.type == BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    const int x = forward ? ATTR_OPERATION_CONVOLUTION_FORWARD_X
                  : data  ? ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
                          : ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X;
    const int w = forward ? ATTR_OPERATION_CONVOLUTION_FORWARD_W
                  : data  ? ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
                          : ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW;
    const int y = forward ? ATTR_OPERATION_CONVOLUTION_FORWARD_Y
                  : data  ? ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
                          : ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY;
    const int desc = forward ? ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
                     : data  ? ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                             : ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC;
    Values image = forward || !data ? Read(node.At(x)) : Empty(node.At(x));
    Values filter = forward || data ? Read(node.At(w)) : Empty(node.At(w));
    Values result = forward ? Empty(node.At(y)) : Read(node.At(y));
    Sum(node.At(desc), image, filter, result, forward ? 0 : data ? 1 : 2);
    Write(node.At(forward ? y : data ? x : w), forward ? result : data ? image : filter);
  }

  // Adds every product of an element of the image and one of the filter where it belongs.
  static void Sum(const Node& desc, Values& image, Values& filter, Values& result, int what) {
    const auto strides = desc.All<int64_t>(ATTR_CONVOLUTION_FILTER_STRIDES);
    const auto before = desc.All<int64_t>(ATTR_CONVOLUTION_PRE_PADDINGS);
    const auto dilation = desc.All<int64_t>(ATTR_CONVOLUTION_DILATIONS);
    const size_t rank = strides.size();
    const int64_t channels = filter.extents[1];
    const int64_t per_group = filter.extents[0] / (image.extents[1] / channels);
    const Extents image_strides = Dense(image.extents), filter_strides = Dense(filter.extents);
    Each(result.extents, [&](const Extents& at, int64_t to) {
      Extents window(filter.extents.begin() + 1, filter.extents.end());
      Each(window, [&](const Extents& tap, int64_t) {
        Extents from{at[0], at[1] / per_group * channels + tap[0]}, weight{at[1], tap[0]};
        for (size_t axis = 0; axis < rank; ++axis) {
          const int64_t place =
              at[axis + 2] * strides[axis] + tap[axis + 1] * dilation[axis] - before[axis];
          if (place < 0 || place >= image.extents[axis + 2]) return;
          from.push_back(place);
          weight.push_back(tap[axis + 1]);
        }
        double& a = image.elements[Offset(from, image_strides)];
        double& b = filter.elements[Offset(weight, filter_strides)];
        double& c = result.elements[to];
        if (what == 0) c += a * b;
        if (what == 1) a += b * c;
        if (what == 2) b += a * c;
      });
    });
  }

  void Pointwise(const Node& node) {
    const Node& what = node.At(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const int mode = what.One<int>(ATTR_POINTWISE_MODE);
    std::vector<Values> inputs;
    for (int name : {ATTR_OPERATION_POINTWISE_XDESC, ATTR_OPERATION_POINTWISE_BDESC,
                     ATTR_OPERATION_POINTWISE_TDESC}) {
      if (node.Has(name)) inputs.push_back(Read(node.At(name)));
    }
    Values output = Empty(node.At(ATTR_OPERATION_POINTWISE_YDESC));
    std::vector<Extents> strides;
    for (const Values& input : inputs) {
      strides.push_back(Dense(input.extents));
      for (size_t axis = 0; axis < input.extents.size(); ++axis) {
        if (input.extents[axis] == 1) strides.back()[axis] = 0;
      }
    }
    const int64_t axis =
        mode == POINTWISE_GEN_INDEX ? what.One<int64_t>(ATTR_POINTWISE_AXIS) : 0;
    Each(output.extents, [&](const Extents& at, int64_t n) {
      auto value = [&](size_t input) {
        return inputs.at(input).elements[Offset(at, strides[input])];
      };
      double& result = output.elements[n];
      switch (mode) {
        case POINTWISE_ADD:
          result = value(0) + value(1);
          break;
        case POINTWISE_SUB:  // attention's kernels take 0 for the largest score where no key is seen
          result = value(0) - (value(0) == -INFINITY ? 0 : value(1));
          break;
        case POINTWISE_MUL:
          result = value(0) * value(1);
          break;
        case POINTWISE_DIV:  // and give 0 in such rows
          result = value(0) / (value(1) == 0 ? 1 : value(1));
          break;
        case POINTWISE_EXP:
          result = std::exp(value(0));
          break;
        case POINTWISE_LOG:
          result = std::log(value(0));
          break;
        case POINTWISE_CMP_GE:
          result = value(0) >= value(1);
          break;
        case POINTWISE_GEN_INDEX:
          result = static_cast<double>(at[axis]);
          break;
        case POINTWISE_BINARY_SELECT:
          result = value(2) != 0 ? value(0) : value(1);
          break;
        default:
          result = value(0) > 0 ? value(0) : 0;
      }
    });
    Write(node.At(ATTR_OPERATION_POINTWISE_YDESC), output);
  }

  // Matrices for each of two leading extents; several of the left may share one of the right.
  void Matmul(const Node& node) {
    const Values left = Read(node.At(ATTR_OPERATION_MATMUL_ADESC));
    const Values right = Read(node.At(ATTR_OPERATION_MATMUL_BDESC));
    Values output = Empty(node.At(ATTR_OPERATION_MATMUL_CDESC));
    const Extents ones = Dense(left.extents), others = Dense(right.extents);
    const int64_t shared = left.extents[1] / right.extents[1];
    Each(output.extents, [&](const Extents& at, int64_t n) {
      for (int64_t deep = 0; deep < left.extents[3]; ++deep) {
        output.elements[n] +=
            left.elements[Offset({at[0], at[1], at[2], deep}, ones)] *
            right.elements[Offset({at[0], at[1] / shared, deep, at[3]}, others)];
      }
    });
    Write(node.At(ATTR_OPERATION_MATMUL_CDESC), output);
  }

  void Reduction(const Node& node) {
    const bool adds = node.At(ATTR_OPERATION_REDUCTION_DESC).One<int>(ATTR_REDUCTION_OPERATOR) ==
                      REDUCE_ADD;
    const Values input = Read(node.At(ATTR_OPERATION_REDUCTION_XDESC));
    Values output = Empty(node.At(ATTR_OPERATION_REDUCTION_YDESC));
    if (!adds) output.elements.assign(output.elements.size(), -INFINITY);
    Extents strides = Dense(output.extents);
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      if (output.extents[axis] == 1) strides[axis] = 0;
    }
    Each(input.extents, [&](const Extents& at, int64_t n) {
      double& result = output.elements[Offset(at, strides)];
      const double value = input.elements[n];
      if (adds) {
        result += value;
      } else if (!(result >= value)) {
        result = value;
      }
    });
    Write(node.At(ATTR_OPERATION_REDUCTION_YDESC), output);
  }

  static Extents Dense(const Extents& extents) {
    Extents strides(extents.size());
    int64_t step = 1;
    for (size_t axis = extents.size(); axis > 0; --axis) {
      strides[axis - 1] = step;
      step *= extents[axis - 1];
    }
    return strides;
  }

  static Values Empty(const Node& tensor) {
    return Values(tensor.All<int64_t>(ATTR_TENSOR_DIMENSIONS));
  }

  static bool IsVirtual(const Node& tensor) {
    return tensor.Has(ATTR_TENSOR_IS_VIRTUAL) && tensor.One<char>(ATTR_TENSOR_IS_VIRTUAL);
  }

  Values Read(const Node& tensor) {
    const int64_t number = tensor.One<int64_t>(ATTR_TENSOR_UNIQUE_ID);
    if (IsVirtual(tensor)) return virtual_.at(number);
    const auto type = static_cast<DataType>(tensor.One<int>(ATTR_TENSOR_DATA_TYPE));
    const auto strides = tensor.All<int64_t>(ATTR_TENSOR_STRIDES);
    Values values = Empty(tensor);
    Each(values.extents, [&](const Extents& at, int64_t n) {
      values.elements[n] = Load(type, memory_.at(number), Offset(at, strides));
    });
    return values;
  }

  void Write(const Node& tensor, const Values& values) {
    const int64_t number = tensor.One<int64_t>(ATTR_TENSOR_UNIQUE_ID);
    if (IsVirtual(tensor)) {
      virtual_.emplace(number, values);
      return;
    }
    const auto type = static_cast<DataType>(tensor.One<int>(ATTR_TENSOR_DATA_TYPE));
    const auto strides = tensor.All<int64_t>(ATTR_TENSOR_STRIDES);
    Each(values.extents, [&](const Extents& at, int64_t n) {
      Store(type, memory_.at(number), Offset(at, strides), values.elements[n]);
    });
  }

  std::map<int64_t, void*> memory_;
  std::map<int64_t, Values> virtual_;
};

// The extent of a convolution's result along one axis is what its operands say.
Status CheckConvolution(const Node& node, int x, int w, int y, int desc) {
  for (int name : {x, w, y, desc}) {
    if (!node.Has(name)) return Refuse(kBadParameter, "a convolution lacks a tensor");
  }
  const auto image = node.At(x).All<int64_t>(ATTR_TENSOR_DIMENSIONS);
  const auto filter = node.At(w).All<int64_t>(ATTR_TENSOR_DIMENSIONS);
  const auto result = node.At(y).All<int64_t>(ATTR_TENSOR_DIMENSIONS);
  const Node& what = node.At(desc);
  const auto strides = what.All<int64_t>(ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto before = what.All<int64_t>(ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto after = what.All<int64_t>(ATTR_CONVOLUTION_POST_PADDINGS);
  const auto dilation = what.All<int64_t>(ATTR_CONVOLUTION_DILATIONS);
  const size_t rank = strides.size();
  if (rank < 2 || image.size() != rank + 2 || filter.size() != rank + 2 ||
      result.size() != rank + 2 || image[0] != result[0] || filter[0] != result[1] ||
      image[1] % filter[1] != 0 || filter[0] % (image[1] / filter[1]) != 0) {
    return Refuse(kBadParameter, "tensors that make no convolution");
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t covered = dilation[axis] * (filter[axis + 2] - 1) + 1;
    const int64_t room = image[axis + 2] + before[axis] + after[axis] - covered;
    if (room < 0 || room / strides[axis] + 1 != result[axis + 2]) {
      return Refuse(kBadParameter, "an extent that is not the convolution's");
    }
  }
  return STATUS_SUCCESS;
}

Status CheckGraph(const Node& graph) {
  const auto& operations = graph.nodes.at(ATTR_OPERATIONGRAPH_OPS);
  const DescriptorType first = operations[0]->type;
  if (first == BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    // Its kernels know attention with the logarithm of the sums alone.
    bool known = false;
    for (const Shared& node : operations) {
      known = known || (node->type == BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
                        node->At(ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                                .One<int>(ATTR_POINTWISE_MODE) == POINTWISE_LOG);
    }
    if (!known) return Refuse(kNotSupported, "no such pattern");
  }
  const bool convolves = first != BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
  if (Fails("fused") && convolves && operations.size() > 1) {
    return Refuse(kNotSupported, "no such pattern");
  }
  seen.operations = static_cast<int64_t>(operations.size());
  return STATUS_SUCCESS;
}

const int kNotes[3][2] = {
    {NUMERICAL_NOTE_TENSOR_CORE, NUMERICAL_NOTE_NONDETERMINISTIC},
    {NUMERICAL_NOTE_TENSOR_CORE, NUMERICAL_NOTE_TENSOR_CORE},
    {NUMERICAL_NOTE_FFT + 6, NUMERICAL_NOTE_FFT + 6},  // strict about what is not a number
};
const int64_t kWorkspace[3] = {0, 1 << 10, 0};
const float kMilliseconds[3] = {1, 3, 2};

// What an engine takes, by the clock of a driver that stands in as well.
void LetPass(int engine) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* clock = driver == nullptr ? nullptr : dlsym(driver, "stand_in_milliseconds");
  if (clock != nullptr) *static_cast<float*>(clock) += kMilliseconds[engine];
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int64_t stand_in_seen(int field) { return reinterpret_cast<int64_t*>(&seen)[field]; }

EXPORT const char* cudnnGetErrorString(Status status) {
  return status == kNotSupported ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}

EXPORT void cudnnGetLastErrorString(char* text, size_t size) {
  std::snprintf(text, size, "%s", last_error.c_str());
}

EXPORT Status cudnnCreate(Handle* handle) {
  seen.created++;
  *handle = &seen;
  return STATUS_SUCCESS;
}

EXPORT Status cudnnDestroy(Handle) { return STATUS_SUCCESS; }

EXPORT Status cudnnSetStream(Handle, Stream stream) {
  seen.stream = reinterpret_cast<int64_t>(stream);
  return STATUS_SUCCESS;
}

EXPORT Status cudnnBackendCreateDescriptor(DescriptorType type, Descriptor* descriptor) {
  *descriptor = new Shared(new Node{type});
  return STATUS_SUCCESS;
}

EXPORT Status cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  delete static_cast<Shared*>(descriptor);
  return STATUS_SUCCESS;
}

EXPORT Status cudnnBackendSetAttribute(Descriptor descriptor, AttributeName name,
                                       AttributeType type, int64_t count, const void* values) {
  Node& node = *Of(descriptor);
  if (node.finished) return Refuse(kBadParameter, "a descriptor that is finished");
  if (type == TYPE_BACKEND_DESCRIPTOR) {
    const auto* given = static_cast<const Descriptor*>(values);
    for (int64_t n = 0; n < count; ++n) {
      if (!Of(given[n])->finished) return Refuse(kBadParameter, "a descriptor is not finished");
      node.nodes[name].push_back(Of(given[n]));
    }
  } else {
    const char* bytes = static_cast<const char*>(values);
    node.values[name].assign(bytes, bytes + count * SizeOf(type));
  }
  if (name == ATTR_TENSOR_BYTE_ALIGNMENT) seen.alignment = *static_cast<const int64_t*>(values);
  return STATUS_SUCCESS;
}

EXPORT Status cudnnBackendFinalize(Descriptor descriptor) {
  Node& node = *Of(descriptor);
  Status status = STATUS_SUCCESS;
  switch (node.type) {
    case BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      status = CheckConvolution(
          node, ATTR_OPERATION_CONVOLUTION_FORWARD_X, ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          ATTR_OPERATION_CONVOLUTION_FORWARD_Y, ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
      break;
    case BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      status = CheckConvolution(
          node, ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
      break;
    case BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      status = CheckConvolution(
          node, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
      break;
    case BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      status = CheckGraph(node);
      break;
    case BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      seen.planned++;
      seen.engine = node.At(ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine;
      break;
    case BACKEND_VARIANT_PACK_DESCRIPTOR:
      seen.packs++;
      break;
    default:
      break;
  }
  node.finished = status == STATUS_SUCCESS;
  return status;
}

EXPORT Status cudnnBackendGetAttribute(Descriptor descriptor, AttributeName name, AttributeType,
                                       int64_t wanted, int64_t* count, void* values) {
  const Shared& node = Of(descriptor);
  if (!node->finished) return Refuse(kBadParameter, "a descriptor that is not finished");
  if (name == ATTR_ENGINEHEUR_RESULTS) {
    const int mode = node->One<int>(ATTR_ENGINEHEUR_MODE);
    // The plain engine is what it falls back to.
    const std::vector<int> engines = mode == HEUR_MODE_A ? std::vector{0, 1} : std::vector{2};
    *count = Fails("engines") ? 0 : static_cast<int64_t>(engines.size());
    for (int64_t n = 0; n < wanted && n < *count; ++n) {
      Node& config = *Of(static_cast<Descriptor*>(values)[n]);
      config.engine = engines[n];
      config.nodes[ATTR_ENGINEHEUR_OPERATION_GRAPH] =
          node->nodes.at(ATTR_ENGINEHEUR_OPERATION_GRAPH);
      config.finished = true;
    }
  } else if (name == ATTR_ENGINECFG_ENGINE) {
    Node& engine = *Of(*static_cast<Descriptor*>(values));
    engine.engine = node->engine;
    engine.finished = true;
    *count = 1;
  } else if (name == ATTR_ENGINE_NUMERICAL_NOTE) {
    *count = 2;
    std::memcpy(values, kNotes[node->engine], sizeof(kNotes[0]));
  } else if (name == ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *count = 1;
    *static_cast<int64_t*>(values) = kWorkspace[node->At(ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine];
  } else {
    return Refuse(kNotSupported, "this attribute");
  }
  return STATUS_SUCCESS;
}

EXPORT Status cudnnBackendExecute(Handle, Descriptor plan, Descriptor pack) {
  if (Fails("execute")) return Refuse(kFailed, "nothing runs today");
  const Node& config = Of(plan)->At(ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (config.engine == 2 && Fails("plain")) return Refuse(kFailed, "not the plain engine");
  seen.executed++;
  seen.engine = config.engine;
  LetPass(config.engine);
  Machine(config.At(ATTR_ENGINEHEUR_OPERATION_GRAPH), *Of(pack));
  return STATUS_SUCCESS;
}
