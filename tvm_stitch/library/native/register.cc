// Registers the functions that compiled modules call, wherever this object is loaded: by Python, or
// as part of a library that a module was exported to, which needs nothing of this package then.
#include <dlfcn.h>
#include <tvm/ffi/c_api.h>

#include <cstring>

extern "C" {
int __tvm_ffi_tvm_stitch_matmul(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
int __tvm_ffi_tvm_stitch_convolution(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
int __tvm_ffi_tvm_stitch_attention(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
}

namespace tvm_stitch {
namespace {

// The registry outlives a module that is unloaded, so the code behind it has to as well.
void StayLoaded() {
  Dl_info here;
  if (dladdr(reinterpret_cast<void*>(&StayLoaded), &here) != 0) {
    dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

void Register(const char* name, TVMFFISafeCallType function) {
  const TVMFFIByteArray key{name, std::strlen(name)};
  TVMFFIObjectHandle found = nullptr;
  if (TVMFFIFunctionGetGlobal(&key, &found) == 0 && found == nullptr &&
      TVMFFIFunctionCreate(nullptr, function, nullptr, &found) == 0) {
    TVMFFIFunctionSetGlobal(&key, found, 0);
  }
  if (found != nullptr) TVMFFIObjectDecRef(found);  // the registry's own, or another object's
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
