// Registers the functions that compiled modules call, wherever this object is loaded: by Python, or
// as part of a library that a module was exported to, which needs nothing of this package then.
#include <dlfcn.h>
#include <tvm/ffi/tvm_ffi.h>

extern "C" {
int __tvm_ffi_tvm_stitch_matmul(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
int __tvm_ffi_tvm_stitch_convolution(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
int __tvm_ffi_tvm_stitch_attention(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
}

namespace tvm_stitch {

namespace ffi = tvm::ffi;

namespace {

// The registry outlives a module that is unloaded, so the code behind it has to as well.
void StayLoaded() {
  Dl_info here;
  if (dladdr(reinterpret_cast<void*>(&StayLoaded), &here) != 0) {
    dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

void Register(const char* name, TVMFFISafeCallType function) {
  if (ffi::Function::GetGlobal(name).has_value()) return;  // another object was first
  ffi::Function::SetGlobal(name, ffi::Function::FromExternC(nullptr, function, nullptr));
}

const bool registered = [] {
  StayLoaded();
  Register("tvm_stitch.library.matmul", __tvm_ffi_tvm_stitch_matmul);
  Register("tvm_stitch.library.convolution", __tvm_ffi_tvm_stitch_convolution);
  Register("tvm_stitch.library.attention", __tvm_ffi_tvm_stitch_attention);
  return true;
}();

}  // namespace
}  // namespace tvm_stitch
