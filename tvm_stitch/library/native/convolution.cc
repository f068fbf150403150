// Convolutions and their gradients by cuDNN: output = relu(convolution + residual + bias).
//
// The numbers of a call are those of library/convolution.py. cuDNN is told of every tensor as
// (batch, channels, spatial extents) whatever lies innermost: strides say that.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cudnn_context.h"
#include "stopwatch.h"

namespace tvm_stitch {
namespace {

using namespace cudnn;  // NOLINT

enum What : int64_t { kForward = 0, kData = 1, kWeight = 2 };

// The numbers under which cuDNN knows the tensors of a call.
enum Place : int64_t { kFirst = 1, kSecond, kBias, kResidual, kOutput, kUnfinished, kVirtual };

struct Convolution {
  What what;
  bool channels_last, has_bias, has_residual, relu, tf32, timed;
  int64_t groups;
  Numbers strides, before, after, dilation;

  explicit Convolution(const ffi::Shape& numbers) {
    if (numbers.size() < 9 || static_cast<int64_t>(numbers.size()) != 9 + 4 * numbers[8]) {
      TVM_STITCH_THROW(ValueError) << "these are not the numbers of a convolution: " << numbers;
    }
    what = static_cast<What>(numbers[0]);
    channels_last = numbers[1];
    has_bias = numbers[2];
    has_residual = numbers[3];
    relu = numbers[4];
    tf32 = numbers[5];
    timed = numbers[6];
    groups = numbers[7];
    auto spatial = numbers.begin() + 9;
    // cuDNN knows no fewer than two spatial dimensions.
    for (auto [values, neutral] :
         {std::pair(&strides, 1), {&before, 0}, {&after, 0}, {&dilation, 1}}) {
      if (numbers[8] == 1) values->push_back(neutral);
      values->insert(values->end(), spatial, spatial + numbers[8]);
      spatial += numbers[8];
    }
  }

  bool HasEpilogue() const { return has_bias || has_residual || relu; }

  std::string Text(const std::vector<Tensor>& tensors) const {
    static const char* const names[] = {"convolution", "gradient for the data of a convolution",
                                        "gradient for the weights of a convolution"};
    auto listed = [](const Numbers& numbers) {
      std::string text;
      for (int64_t number : numbers) text += (text.empty() ? "" : "x") + std::to_string(number);
      return text;
    };
    const DataType type = tensors[0].type;
    std::string text = names[what];
    text += type == DATA_FLOAT ? ", float32" : type == DATA_HALF ? ", float16" : ", bfloat16";
    if (tf32) text += " by TF32";
    text += channels_last ? ", channels last:" : ":";
    for (const Tensor& tensor : tensors) text += " " + listed(tensor.extents);
    text += ", strides " + listed(strides) + ", padding " + listed(before) +
            (after == before ? "" : " and " + listed(after)) + ", dilation " + listed(dilation) +
            ", groups " + std::to_string(groups);
    if (has_bias) text += ", bias";
    if (has_residual) text += ", residual";
    if (relu) text += ", ReLU";
    return text;
  }
};

// Strides of a dense tensor of (batch, channels, ...), channels innermost or next to the batch.
Numbers DenseStrides(const Numbers& extents, bool channels_last) {
  Numbers strides(extents.size());
  int64_t step = 1;
  if (channels_last) {
    strides[1] = step;
    step *= extents[1];
  }
  for (size_t axis = extents.size() - 1; axis > 0; --axis) {
    if (channels_last && axis == 1) continue;
    strides[axis] = step;
    step *= extents[axis];
  }
  strides[0] = step;
  return strides;
}

// A tensor of data or weights, told as (batch, channels, ...).
Tensor Described(Place place, const ffi::TensorView& tensor, bool channels_last) {
  const int32_t ndim = tensor.ndim();
  Numbers extents{tensor.size(0), tensor.size(channels_last ? ndim - 1 : 1)};
  if (ndim == 3) extents.push_back(1);
  const int32_t first = channels_last ? 1 : 2, last = ndim - (channels_last ? 1 : 0);
  for (int32_t axis = first; axis < last; ++axis) extents.push_back(tensor.size(axis));
  Numbers strides = DenseStrides(extents, channels_last);
  return {place, TypeOf(tensor.dtype()), extents, strides, Alignment(Data(tensor)), false};
}

// Engines among which the clock chooses where it is asked to.
constexpr size_t kMostTimed = 8;

// How a call is computed: by one engine, or by one for the convolution and one for what follows.
class Way {
 public:
  Way(const Functions& functions, Handle handle, const Convolution& convolution,
      std::vector<Tensor> tensors, int64_t workspace)
      : convolution_(convolution), tensors_(std::move(tensors)) {
    text_ = convolution.Text(tensors_);
    wanted_.workspace = workspace;
    // The heuristics sometimes begin with kernels for float32: 16 x 112 x 14 x 14 halves by 1 x 1 to
    // 672 with a bias and ReLU took 34 us on an H200, by tensor cores 9.
    const bool is_ieee = tensors_[0].type == DATA_FLOAT && !convolution.tf32;
    // Of one channel they multiply seven zeros for each number.
    const bool is_flat = convolution.what == kForward && tensors_[0].extents[1] == 1;
    wanted_.tensor_cores = !is_ieee && convolution.groups == 1 && !is_flat;
    wanted_.without = {NUMERICAL_NOTE_NONDETERMINISTIC};
    // Those that have this note forward are as exact, and twice as fast for images of 3 channels.
    if (convolution.what != kForward) {
      wanted_.without.push_back(NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
    }
    if (is_ieee) {
      wanted_.without.push_back(NUMERICAL_NOTE_TENSOR_CORE);
      wanted_.without.push_back(NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    } else {  // their transforms would round halves
      wanted_.without.push_back(NUMERICAL_NOTE_FFT);
      wanted_.without.push_back(NUMERICAL_NOTE_WINOGRAD);
    }
    std::string reason;
    if (Fused(functions, handle, &reason)) return;
    std::string other;
    if (convolution.HasEpilogue() && Apart(functions, handle, &other)) return;
    if (!other.empty()) reason += "\n  and apart: " + other;
    TVM_STITCH_THROW(RuntimeError) << "cuDNN cannot compute this " << text_ << ": " << reason
                                << "\n  Options(schemes=...) without library leaves convolutions to TVM";
  }

  // `addresses` are those of the first and second tensor, bias, residual and output.
  void Run(Handle handle, const std::vector<void*>& addresses, void* workspace, Stream stream) {
    if (!is_chosen_) TakeFastest(handle, addresses, workspace, stream);
    for (Step& step : steps_) step.Run(0, handle, addresses, workspace, text_);
  }

 private:
  struct Step {
    std::vector<std::unique_ptr<Plan>> plans;  // the first is taken
    Numbers numbers;

    void Run(size_t plan, Handle handle, const std::vector<void*>& addresses, void* workspace,
             const std::string& of) {
      std::vector<void*> own;
      for (int64_t number : numbers) {
        own.push_back(addresses[number == kUnfinished ? kOutput - 1 : number - 1]);
      }
      plans[plan]->Run(handle, numbers, own, workspace, of);
    }
  };

  // Leaves the fastest plan of each step. What they write meanwhile is written once more.
  void TakeFastest(Handle handle, const std::vector<void*>& addresses, void* workspace,
                   Stream stream) {
    Stopwatch stopwatch(stream);
    if (!stopwatch.works()) return;
    for (Step& step : steps_) {
      size_t fastest = 0;
      float least = std::numeric_limits<float>::infinity();
      for (size_t n = 0; n < step.plans.size(); ++n) {
        auto run = [&] { step.Run(n, handle, addresses, workspace, text_); };
        try {
          const float took = stopwatch.Time(run, workspace, wanted_.workspace);
          if (took < least) {
            least = took;
            fastest = n;
          }
        } catch (const ffi::Error&) {  // there are engines that only say that they run
        }
      }
      std::swap(step.plans.front(), step.plans[fastest]);
      step.plans.resize(1);
    }
    is_chosen_ = true;
  }

  Tensor Of(Place place) const {
    for (const Tensor& tensor : tensors_) {
      if (tensor.number == place) return tensor;
    }
    TVM_STITCH_THROW(InternalError) << "there is no tensor " << place;
  }

  Tensor Virtual(int64_t number) const {
    Tensor tensor = Of(kOutput);
    tensor.number = number;
    tensor.type = DATA_FLOAT;
    tensor.is_virtual = true;
    return tensor;
  }

  bool Fused(const Functions& functions, Handle handle, std::string* reason) {
    Graph graph(functions, handle, text_);
    Numbers numbers = {kFirst, kSecond};
    if (!convolution_.HasEpilogue()) {
      Convolve(&graph, graph.Add(Of(kOutput)));
    } else {
      const Node& convolved = graph.Add(Virtual(kVirtual));
      Convolve(&graph, convolved);
      Finish(&graph, convolved, &numbers);
    }
    numbers.push_back(kOutput);
    return Take(&graph, std::move(numbers), reason);
  }

  // The result of the convolution rounded to memory, and finished there.
  bool Apart(const Functions& functions, Handle handle, std::string* reason) {
    Graph first(functions, handle, text_);
    Convolve(&first, first.Add(Of(kOutput)));
    if (!Take(&first, {kFirst, kSecond, kOutput}, reason)) return false;
    Graph second(functions, handle, text_);
    Tensor unfinished = Of(kOutput);
    unfinished.number = kUnfinished;
    Numbers numbers = {kUnfinished};
    Finish(&second, second.Add(unfinished), &numbers);
    numbers.push_back(kOutput);
    return Take(&second, std::move(numbers), reason);
  }

  bool Take(Graph* graph, Numbers numbers, std::string* reason) {
    std::vector<std::unique_ptr<Plan>> plans =
        graph->Best(wanted_, convolution_.timed ? kMostTimed : 1, reason);
    if (plans.empty()) return false;
    is_chosen_ &= plans.size() == 1;
    steps_.push_back({std::move(plans), std::move(numbers)});
    return true;
  }

  void Convolve(Graph* graph, const Node& output) const {
    const Node& first = graph->Add(Of(kFirst));
    const Node& second = graph->Add(Of(kSecond));
    static const DescriptorType types[] = {
        BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    };
    static const std::array<AttributeName, 6> names[] = {
        {ATTR_OPERATION_CONVOLUTION_FORWARD_X, ATTR_OPERATION_CONVOLUTION_FORWARD_W,
         ATTR_OPERATION_CONVOLUTION_FORWARD_Y, ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
         ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
         ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
         ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    graph->Convolution(types[convolution_.what], names[convolution_.what],
                       {&first, &second, &output}, convolution_.strides, convolution_.before,
                       convolution_.after, convolution_.dilation);
  }

  // Residual, bias and ReLU behind what is convolved; in the order that cuDNN has kernels for.
  void Finish(Graph* graph, const Node& convolved, Numbers* numbers) const {
    std::vector<std::pair<PointwiseMode, Place>> operators;
    if (convolution_.has_residual) operators.emplace_back(POINTWISE_ADD, kResidual);
    if (convolution_.has_bias) operators.emplace_back(POINTWISE_ADD, kBias);
    if (convolution_.relu) operators.emplace_back(POINTWISE_RELU_FWD, kOutput);
    const Node* before = &convolved;
    for (size_t n = 0; n < operators.size(); ++n) {
      const auto [mode, place] = operators[n];
      const bool is_last = n + 1 == operators.size();
      std::vector<const Node*> inputs = {before};
      if (mode == POINTWISE_ADD) {
        inputs.push_back(&graph->Add(Of(place)));
        numbers->push_back(place);
      }
      const int64_t inner = kVirtual + 1 + static_cast<int64_t>(n);
      const Node& after = graph->Add(is_last ? Of(kOutput) : Virtual(inner));
      graph->Pointwise({mode}, inputs, after);
      before = &after;
    }
  }

  Convolution convolution_;
  std::vector<Tensor> tensors_;
  std::string text_;
  Wanted wanted_;
  std::vector<Step> steps_;
  bool is_chosen_ = true;  // each step has but one plan
};

// Everything that the choice of an engine depends on.
Numbers KeyOf(const ffi::Shape& numbers, const std::vector<Tensor>& tensors, int64_t workspace) {
  Numbers key(numbers.begin(), numbers.end());
  key.push_back(workspace);
  for (const Tensor& tensor : tensors) {
    key.push_back(tensor.type);
    key.push_back(tensor.alignment);
    key.insert(key.end(), tensor.extents.begin(), tensor.extents.end());
  }
  return key;
}

// The channels of what a convolution gives, from the extents of its result.
Tensor BiasOf(const ffi::TensorView& bias, const Tensor& output, bool channels_last) {
  Numbers extents(output.extents.size(), 1);
  extents[1] = output.extents[1];
  if (bias.numel() != extents[1]) {
    TVM_STITCH_THROW(ValueError) << "a bias of " << bias.numel() << " elements for " << extents[1]
                              << " channels";
  }
  Numbers strides = DenseStrides(extents, channels_last);
  return {kBias, TypeOf(bias.dtype()), extents, strides, Alignment(Data(bias)), false};
}

// Tensors, numbers, result, workspace.
void Convolve(const ffi::Arguments& args) {
  const int32_t count = args.count();
  if (count < 5) TVM_STITCH_THROW(TypeError) << "a convolution takes 5 to 7 arguments, not " << count;
  const auto output = args.Tensor(count - 2);
  const auto workspace = args.Tensor(count - 1);
  const auto numbers = args.Numbers(count - 3);
  const Convolution convolution(numbers);
  if (count != 5 + convolution.has_bias + convolution.has_residual) {
    TVM_STITCH_THROW(TypeError) << "a convolution with " << count << " arguments";
  }
  std::vector<Tensor> tensors;
  std::vector<void*> addresses(kOutput, nullptr);
  auto take = [&](Place place, const ffi::TensorView& tensor) {
    tensors.push_back(Described(place, tensor, convolution.channels_last));
    addresses[place - 1] = Data(tensor);
  };
  take(kFirst, args.Tensor(0));
  take(kSecond, args.Tensor(1));
  take(kOutput, output);
  int32_t next = 2;
  if (convolution.has_bias) {
    const auto bias = args.Tensor(next++);
    tensors.push_back(BiasOf(bias, tensors[2], convolution.channels_last));
    addresses[kBias - 1] = Data(bias);
  }
  if (convolution.has_residual) take(kResidual, args.Tensor(next));
  if (output.numel() == 0) return;
  const int64_t bytes = workspace.numel() * (workspace.dtype().bits / 8);
  const DLDevice device = output.device();
  Context<Way>& context = OfThisThread<Context<Way>>(Library(), device);
  std::unique_ptr<Way>& way = context.ways()[KeyOf(numbers, tensors, bytes)];
  if (way == nullptr) {
    way = std::make_unique<Way>(context.functions(), context.handle(), convolution,
                                std::move(tensors), bytes);
  }
  const Stream stream = context.TakeStream(device);
  way->Run(context.handle(), addresses, Data(workspace), stream);
}

void UseCudnn(const ffi::Arguments& args) { cudnn::Library().Use(args.Text(0)); }

}  // namespace
}  // namespace tvm_stitch

TVM_STITCH_EXPORT(convolution, tvm_stitch::Convolve)
TVM_STITCH_EXPORT(use_cudnn, tvm_stitch::UseCudnn)
