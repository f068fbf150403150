// Runs a model that `tvm-stitch compile` wrote: ./run_model MODEL.so cpu|cuda ROWS COLUMNS
// Its main takes a float32 matrix of this shape and a float32 vector of COLUMNS elements.
#include <dlfcn.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::ffi::Shape;
using tvm::ffi::Tensor;

// A tensor on a device, every element of it the same.
Tensor Filled(const Shape& shape, float value, DLDevice device) {
  static const Function empty = Function::GetGlobalRequired("runtime.TVMTensorAllocWithScope");
  static const Function copy = Function::GetGlobalRequired("runtime.TVMTensorCopyFromBytes");
  std::vector<float> host(shape.Product(), value);
  Tensor tensor = empty(shape, DLDataType{kDLFloat, 32, 1}, device, nullptr).cast<Tensor>();
  copy(tensor, static_cast<void*>(host.data()), static_cast<int64_t>(host.size() * sizeof(float)));
  return tensor;
}

int main(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "usage: run_model MODEL.so cpu|cuda ROWS COLUMNS\n";
    return 2;
  }
  const DLDevice cpu{kDLCPU, 0};
  const bool on_gpu = std::string(arguments[2]) == "cuda";
  const DLDevice device = on_gpu ? DLDevice{kDLCUDA, 0} : cpu;
  const int64_t rows = std::atoll(arguments[3]), columns = std::atoll(arguments[4]);
  if (on_gpu && !dlopen("libtvm_runtime_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
    std::cerr << dlerror() << "\n";
    return 1;
  }

  // The virtual machine that calls the kernels, with its pooling allocator.
  constexpr int kPooled = 2;
  Module library = Module::LoadFromFile(arguments[1]);
  Module machine = library->GetFunction("vm_load_executable").value()().cast<Module>();
  machine->GetFunction("vm_initialization").value()(
      static_cast<int>(device.device_type), device.device_id, kPooled,
      static_cast<int>(cpu.device_type), cpu.device_id, kPooled);

  Tensor x = Filled({rows, columns}, 1, device), mask = Filled({columns}, 0, device);
  Tensor result = machine->GetFunction("main").value()(x, mask).cast<Tensor>();

  std::vector<float> found(rows * columns);
  Function::GetGlobalRequired("runtime.TVMTensorCopyToBytes")(
      result, static_cast<void*>(found.data()), static_cast<int64_t>(found.size() * sizeof(float)));
  std::cout << "first element: " << found[0] << "\n";
}
