// Attention by cuDNN: output = softmax(scale * query . keys + bias, masked) . values.
//
// The numbers of a call are those of library/attention.py. cuDNN has kernels that keep the scores on
// the chip for exactly the operations that Way describes, the logarithm of the sums among them.
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "cudnn_context.h"

namespace tvm_stitch {
namespace {

using namespace cudnn;  // NOLINT

enum Mask : int64_t { kNone = 0, kTopLeft = 1, kBottomRight = 2 };

// The numbers under which cuDNN knows the tensors of a call.
enum Place : int64_t { kQuery = 1, kKey, kValue, kBias, kOutput, kFirstOther };

// Where a tensor begins in the one that is passed, and the steps along its extents.
struct View {
  int64_t start;
  Numbers strides;
};

struct Attention {
  Mask mask;
  float scale;
  int64_t batch, heads, key_heads, queries, keys, depth, value_depth;
  View query, key, value, output, bias;
  bool has_bias;

  explicit Attention(const ffi::Shape& numbers) {
    constexpr size_t kWithout = 9 + 4 * 4, kWith = kWithout + 5;
    if (numbers.size() != kWithout && numbers.size() != kWith) {
      TVM_STITCH_THROW(ValueError) << "these are not the numbers of attention: " << numbers;
    }
    auto next = numbers.begin();
    mask = static_cast<Mask>(*next++);
    const int32_t bits = static_cast<int32_t>(*next++);
    std::memcpy(&scale, &bits, sizeof(scale));
    for (int64_t* extent :
         {&batch, &heads, &key_heads, &queries, &keys, &depth, &value_depth}) {
      *extent = *next++;
    }
    for (View* view : {&query, &key, &value, &output}) {
      view->start = *next++;
      view->strides = {next[0], next[1], next[2], 1};
      next += 3;
    }
    has_bias = numbers.size() == kWith;
    if (has_bias) bias = {next[0], {next[1], next[2], next[3], next[4]}};
  }

  std::string Text(DataType type) const {
    std::string text = "attention, ";
    text += type == DATA_HALF ? "float16" : "bfloat16";
    auto add = [&](const char* name, int64_t extent) {
      text += std::string(", ") + name + " " + std::to_string(extent);
    };
    add("batch", batch);
    add("heads", heads);
    if (key_heads != heads) add("heads of keys", key_heads);
    add("queries", queries);
    add("keys", keys);
    add("depth", depth);
    if (value_depth != depth) add("depth of values", value_depth);
    if (has_bias) text += ", bias";
    if (mask != kNone) text += mask == kTopLeft ? ", causal" : ", causal from the last key";
    return text;
  }
};

// The graph of a call, ready to run.
class Way {
 public:
  Way(const Functions& functions, Handle handle, const Attention& attention, DataType type,
      const Tensor* bias, int64_t workspace)
      : attention_(attention), text_(attention.Text(type)), graph_(functions, handle, text_) {
    numbers_ = {kQuery, kKey, kValue, kOutput};
    Describe(type, bias);
    std::string reason;
    plan_ = graph_.Choose({{NUMERICAL_NOTE_NONDETERMINISTIC}, true, workspace}, &reason);
    if (plan_ == nullptr) {
      TVM_STITCH_THROW(RuntimeError) << "cuDNN cannot compute this " << text_ << ": " << reason
                                  << "\n  Options(schemes=...) without library leaves attention to this "
                                     "package";
    }
  }

  // `addresses` are those of query, keys, values and output, then of the bias.
  void Run(Handle handle, std::vector<void*> addresses, void* workspace) {
    for (int32_t& bits : values_) addresses.push_back(&bits);
    plan_->Run(handle, numbers_, addresses, workspace, text_);
  }

 private:
  void Describe(DataType type, const Tensor* bias) {
    const Attention& a = attention_;
    if (bias != nullptr) numbers_.push_back(bias->number);
    const Numbers turned = {a.key.strides[0], a.key.strides[1], 1, a.key.strides[2]};
    const Node& query = Given(kQuery, type, {a.batch, a.heads, a.queries, a.depth}, a.query.strides);
    const Node& key = Given(kKey, type, {a.batch, a.key_heads, a.depth, a.keys}, turned);
    const Node* scores = &Scores(DATA_FLOAT);
    graph_.Matmul(query, key, *scores);
    scores = &Computed({POINTWISE_MUL}, {scores, &ByValue(a.scale)});
    if (bias != nullptr) scores = &Computed({POINTWISE_ADD}, {scores, &graph_.Add(*bias)});
    if (a.mask != kNone) scores = &Masked(*scores);
    const Node& weights = Softmax(*scores, type);
    const Node& value =
        Given(kValue, type, {a.batch, a.key_heads, a.keys, a.value_depth}, a.value.strides);
    const Node& output =
        Given(kOutput, type, {a.batch, a.heads, a.queries, a.value_depth}, a.output.strides);
    graph_.Matmul(weights, value, output);
  }

  // Scores of keys behind the diagonal are as good as none.
  const Node& Masked(const Node& scores) {
    const Node* row = &Scores(DATA_INT32);
    graph_.Pointwise({POINTWISE_GEN_INDEX, DATA_INT32, 2}, {&scores}, *row);
    if (attention_.mask == kBottomRight) {
      const Node& moved = Scores(DATA_INT32);
      graph_.Pointwise({POINTWISE_ADD, DATA_INT32}, {row, &ByValue(static_cast<int32_t>(attention_.keys))}, moved);
      row = &Scores(DATA_INT32);
      graph_.Pointwise({POINTWISE_SUB, DATA_INT32}, {&moved, &ByValue(static_cast<int32_t>(attention_.queries))},
                       *row);
    }
    const Node& column = Scores(DATA_INT32);
    graph_.Pointwise({POINTWISE_GEN_INDEX, DATA_INT32, 3}, {&scores}, column);
    const Node& seen = Scores(DATA_BOOLEAN);
    graph_.Pointwise({POINTWISE_CMP_GE}, {row, &column}, seen);
    const Node& none = ByValue(-std::numeric_limits<float>::infinity());
    return Computed({POINTWISE_BINARY_SELECT}, {&scores, &none, &seen});
  }

  // Only with what a backward pass would want of the rows do the kernels know it.
  const Node& Softmax(const Node& scores, DataType type) {
    const Node& most = OfRows();
    graph_.Reduction(REDUCE_MAX, scores, most);
    const Node& below = Computed({POINTWISE_SUB}, {&scores, &most});
    const Node& powers = Computed({POINTWISE_EXP}, {&below});
    const Node& sum = OfRows();
    graph_.Reduction(REDUCE_ADD, powers, sum);
    const Node& logarithm = OfRows();
    graph_.Pointwise({POINTWISE_LOG}, {&sum}, logarithm);
    graph_.Pointwise({POINTWISE_ADD}, {&most, &logarithm}, OfRows());
    const Node& weights = Scores(type);
    graph_.Pointwise({POINTWISE_DIV}, {&powers, &sum}, weights);
    return weights;
  }

  const Node& Computed(const Elementwise& op, const std::vector<const Node*>& inputs) {
    const Node& output = Scores(DATA_FLOAT);
    graph_.Pointwise(op, inputs, output);
    return output;
  }

  const Node& Given(Place place, DataType type, const Numbers& extents, const Numbers& strides) {
    return graph_.Add({place, type, extents, strides, kMostAlignment, false});
  }

  // A number of the host's, which lies here until the call.
  template <typename Number>
  const Node& ByValue(Number number) {
    static_assert(sizeof(Number) == sizeof(int32_t));
    constexpr DataType type = std::is_same_v<Number, float> ? DATA_FLOAT : DATA_INT32;
    const Numbers ones(4, 1);
    int32_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    values_.push_back(bits);
    numbers_.push_back(next_);
    return graph_.Add({next_++, type, ones, ones, kMostAlignment, false, true});
  }

  const Node& Scores(DataType type) { return Virtual(type, attention_.keys); }
  const Node& OfRows() { return Virtual(DATA_FLOAT, 1); }

  const Node& Virtual(DataType type, int64_t columns) {
    const Attention& a = attention_;
    const Numbers strides = {a.heads * a.queries * columns, a.queries * columns, columns, 1};
    return graph_.Add(
        {next_++, type, {a.batch, a.heads, a.queries, columns}, strides, kMostAlignment, true});
  }

  Attention attention_;
  std::string text_;
  Graph graph_;
  Numbers numbers_;
  std::vector<int32_t> values_;  // the bits of numbers of the host's
  int64_t next_ = kFirstOther;
  std::unique_ptr<Plan> plan_;
};

void* At(const ffi::TensorView& tensor, const View& view) {
  return static_cast<char*>(Data(tensor)) + view.start * (tensor.dtype().bits / 8);
}

// The bias as cuDNN is told of it: extents along which it does not change are 1.
Tensor BiasOf(const Attention& attention, const ffi::TensorView& tensor) {
  const View& view = attention.bias;
  Numbers extents = {attention.batch, attention.heads, attention.queries, attention.keys};
  Numbers strides = view.strides;
  int64_t apart = kMostAlignment * 8;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (strides[axis] == 0) extents[axis] = 1;
    if (axis < 3) apart |= strides[axis] * tensor.dtype().bits;
  }
  for (size_t axis = extents.size(); axis-- > 0;) {  // steps of no consequence, as of dense tensors
    if (strides[axis] == 0) {
      strides[axis] = axis == 3 ? 1 : strides[axis + 1] * extents[axis + 1];
    }
  }
  const int64_t lines = (apart & -apart) / 8;
  return {kBias, TypeOf(tensor.dtype()), extents, strides,
          std::min(lines, Alignment(At(tensor, view))), false};
}

// Query, keys, values, the bias if there is one, numbers, output, workspace.
void Attend(const ffi::Arguments& args) {
  const int32_t count = args.count();
  if (count != 6 && count != 7) {
    TVM_STITCH_THROW(TypeError) << "attention takes 6 or 7 arguments, not " << count;
  }
  const auto numbers = args.Numbers(count - 3);
  const auto output = args.Tensor(count - 2);
  const auto workspace = args.Tensor(count - 1);
  const Attention attention(numbers);
  if (count != 6 + attention.has_bias) {
    TVM_STITCH_THROW(TypeError) << "attention with " << count << " arguments";
  }
  const DataType type = TypeOf(output.dtype());
  std::vector<void*> addresses;
  const View* views[] = {&attention.query, &attention.key, &attention.value};
  for (int32_t n = 0; n < 3; ++n) {
    addresses.push_back(At(args.Tensor(n), *views[n]));
  }
  addresses.push_back(At(output, attention.output));
  for (void* address : addresses) {
    if (Alignment(address) == kMostAlignment) continue;
    TVM_STITCH_THROW(ValueError) << "cuDNN's attention wants tensors at multiples of "
                              << kMostAlignment << " bytes";
  }
  Tensor bias{};
  if (attention.has_bias) {
    const auto tensor = args.Tensor(3);
    bias = BiasOf(attention, tensor);
    addresses.push_back(At(tensor, attention.bias));
  }
  const int64_t bytes = workspace.numel() * (workspace.dtype().bits / 8);
  Numbers key(numbers.begin(), numbers.end());
  key.insert(key.end(), {bytes, type, bias.type, bias.alignment});
  const DLDevice device = output.device();
  Context<Way>& context = OfThisThread<Context<Way>>(Library(), device);
  std::unique_ptr<Way>& way = context.ways()[key];
  if (way == nullptr) {
    way = std::make_unique<Way>(context.functions(), context.handle(), attention, type,
                                attention.has_bias ? &bias : nullptr, bytes);
  }
  context.TakeStream(device);
  way->Run(context.handle(), std::move(addresses), Data(workspace));
}

}  // namespace
}  // namespace tvm_stitch

TVM_STITCH_EXPORT(attention, tvm_stitch::Attend)
