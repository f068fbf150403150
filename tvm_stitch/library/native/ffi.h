// What functions that TVM's modules call have of their callers: arguments, errors, streams.
//
// It is made of the C interface of TVM's FFI alone, which is stable. The C++ one takes a compiler
// several times as long as all that is computed here.
#pragma once

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>

namespace tvm_stitch {
namespace ffi {

struct Error {
  const char* kind;
  std::string message;
};

// Tensors in memory of another's.
class TensorView {
 public:
  explicit TensorView(const DLTensor* tensor) : tensor_(tensor) {}

  void* data_ptr() const { return tensor_->data; }
  int64_t byte_offset() const { return static_cast<int64_t>(tensor_->byte_offset); }
  DLDataType dtype() const { return tensor_->dtype; }
  DLDevice device() const { return tensor_->device; }
  int32_t ndim() const { return tensor_->ndim; }
  int64_t size(int32_t axis) const { return tensor_->shape[axis]; }
  int64_t numel() const {
    int64_t count = 1;
    for (int32_t axis = 0; axis < ndim(); ++axis) count *= size(axis);
    return count;
  }

 private:
  const DLTensor* tensor_;
};

// Numbers in memory of another's.
class Shape {
 public:
  explicit Shape(const TVMFFIShapeCell& cell) : cell_(cell) {}

  const int64_t* begin() const { return cell_.data; }
  const int64_t* end() const { return cell_.data + cell_.size; }
  size_t size() const { return cell_.size; }
  int64_t operator[](size_t index) const { return cell_.data[index]; }

 private:
  TVMFFIShapeCell cell_;
};

// Throws what it has been told, as soon as the statement ends.
class Thrower {
 public:
  explicit Thrower(const char* kind) : kind_(kind) {}
  Thrower(const Thrower&) = delete;
  Thrower& operator=(const Thrower&) = delete;
  [[noreturn]] ~Thrower() noexcept(false) { throw Error{kind_, std::move(message_)}; }

  Thrower& operator<<(const char* text) { return Add(text); }
  Thrower& operator<<(const std::string& text) { return Add(text.c_str()); }
  Thrower& operator<<(const Shape& numbers) {
    for (const int64_t& number : numbers) {
      Add(&number == numbers.begin() ? "(" : ", ").Add(std::to_string(number).c_str());
    }
    return Add(numbers.size() ? ")" : "()");
  }
  template <typename Number,
            typename = std::enable_if_t<std::is_integral_v<Number> || std::is_enum_v<Number>>>
  Thrower& operator<<(Number number) {
    return Add(std::to_string(static_cast<int64_t>(number)).c_str());
  }

 private:
  Thrower& Add(const char* text) {
    message_ += text;
    return *this;
  }

  const char* kind_;
  std::string message_;
};

#define TVM_STITCH_THROW(kind) ::tvm_stitch::ffi::Thrower(#kind)

// What a function is called with.
class Arguments {
 public:
  Arguments(const TVMFFIAny* values, int32_t count) : values_(values), count_(count) {}

  int32_t count() const { return count_; }
  bool IsNone(int32_t place) const { return At(place).type_index == kTVMFFINone; }

  TensorView Tensor(int32_t place) const {
    const TVMFFIAny& value = At(place);
    if (value.type_index == kTVMFFIDLTensorPtr) {
      return TensorView(static_cast<const DLTensor*>(value.v_ptr));
    }
    if (value.type_index != kTVMFFITensor) Refuse(place, "a tensor");
    return TensorView(&Cell<DLTensor>(value));
  }

  Shape Numbers(int32_t place) const {
    const TVMFFIAny& value = At(place);
    if (value.type_index != kTVMFFIShape) Refuse(place, "a shape");
    return Shape(Cell<TVMFFIShapeCell>(value));
  }

  int64_t Integer(int32_t place) const {
    const TVMFFIAny& value = At(place);
    if (value.type_index != kTVMFFIInt && value.type_index != kTVMFFIBool) {
      Refuse(place, "an integer");
    }
    return value.v_int64;
  }

  double Number(int32_t place) const {
    const TVMFFIAny& value = At(place);
    return value.type_index == kTVMFFIFloat ? value.v_float64
                                            : static_cast<double>(Integer(place));
  }

  std::string Text(int32_t place) const {
    const TVMFFIAny& value = At(place);
    if (value.type_index == kTVMFFIRawStr) return value.v_c_str;
    if (value.type_index == kTVMFFISmallStr) return {value.v_bytes, value.small_str_len};
    if (value.type_index != kTVMFFIStr) Refuse(place, "a string");
    const TVMFFIByteArray& text = Cell<TVMFFIByteArray>(value);
    return {text.data, text.size};
  }

 private:
  const TVMFFIAny& At(int32_t place) const {
    if (place >= count_) {
      TVM_STITCH_THROW(TypeError) << "argument " << place << " of " << count_ << " is missing";
    }
    return values_[place];
  }

  // What an object has behind the header of all objects.
  template <typename T>
  static const T& Cell(const TVMFFIAny& value) {
    return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(value.v_obj) +
                                       sizeof(TVMFFIObject));
  }

  [[noreturn]] static void Refuse(int32_t place, const char* wanted) {
    TVM_STITCH_THROW(TypeError) << "argument " << place << " is not " << wanted;
  }

  const TVMFFIAny* values_;
  int32_t count_;
};

// Makes a device this thread's current one, as TVM's kernels do: libraries create handles for it and
// launch on it, wherever their arguments lie.
inline void SetDevice(const DLDevice& device) {
  static const TVMFFIObjectHandle function = [] {
    const TVMFFIByteArray name{"__tvm_set_device", 16};
    TVMFFIObjectHandle found = nullptr;
    return TVMFFIFunctionGetGlobal(&name, &found) == 0 ? found : nullptr;
  }();
  TVMFFIAny numbers[2] = {}, result = {};
  for (TVMFFIAny& number : numbers) number.type_index = kTVMFFIInt;
  numbers[0].v_int64 = device.device_type;
  numbers[1].v_int64 = device.device_id;
  if (function == nullptr || TVMFFIFunctionCall(function, numbers, 2, &result) != 0) {
    TVM_STITCH_THROW(RuntimeError) << "TVM cannot take device " << device.device_id;
  }
}

// Calls a function for C, which knows no exceptions.
inline int Guarded(void (*function)(const Arguments&), const TVMFFIAny* values,
                   int32_t count) noexcept {
  try {
    function(Arguments(values, count));
    return 0;
  } catch (const Error& error) {
    TVMFFIErrorSetRaisedFromCStr(error.kind, error.message.c_str());
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
  }
  return -1;
}

// Lets others find a function of Arguments under a name.
#define TVM_STITCH_EXPORT(name, function)                                                    \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_tvm_stitch_##name(         \
      void*, const TVMFFIAny* values, int32_t count, TVMFFIAny*) {                           \
    return ::tvm_stitch::ffi::Guarded(function, values, count);                              \
  }

}  // namespace ffi
}  // namespace tvm_stitch
