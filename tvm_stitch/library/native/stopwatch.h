// How long what is queued on a stream takes, by events of the driver that the process has loaded.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tvm_stitch {

class Stopwatch {
 public:
  explicit Stopwatch(void* stream) : stream_(stream) {
    // Whoever has something queued on a stream has loaded it.
    void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == nullptr) return;
    auto find = [&](auto* function, const char* name) {
      *reinterpret_cast<void**>(function) = dlsym(driver, name);
      return *function != nullptr;
    };
    int status = 1;  // no event can be waited for while a graph is captured
    int (*is_capturing)(void*, int*) = nullptr;
    works_ = find(&create_, "cuEventCreate") && find(&destroy_, "cuEventDestroy_v2") &&
             find(&record_, "cuEventRecord") && find(&wait_, "cuEventSynchronize") &&
             find(&elapsed_, "cuEventElapsedTime") && find(&write_, "cuMemsetD8Async") &&
             find(&is_capturing, "cuStreamIsCapturing") && is_capturing(stream, &status) == 0 &&
             status == 0 && create_(&begin_, 0) == 0 && create_(&end_, 0) == 0;
  }
  ~Stopwatch() {
    for (void* event : {begin_, end_}) {
      if (event != nullptr) destroy_(event);
    }
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // Whether it can time anything now.
  bool works() const { return works_; }

  // The shortest of some runs, in milliseconds, behind one that nobody times. Each begins when
  // memory that nobody needs has been written: what a run reads is no longer in the L2 then, and
  // the host has queued it meanwhile.
  template <typename Run>
  float Time(const Run& run, void* memory, int64_t bytes) {
    constexpr int kRuns = 3, kWrites = 2;
    float least = std::numeric_limits<float>::infinity();
    run();
    for (int n = 0; n < kRuns; ++n) {
      float took = 0;
      for (int write = 0; write < kWrites; ++write) {
        write_(reinterpret_cast<uintptr_t>(memory), 0, static_cast<size_t>(bytes), stream_);
      }
      record_(begin_, stream_);
      run();
      record_(end_, stream_);
      if (wait_(end_) == 0 && elapsed_(&took, begin_, end_) == 0) least = std::min(least, took);
    }
    return least;
  }

 private:
  void* stream_;
  bool works_ = false;
  void *begin_ = nullptr, *end_ = nullptr;
  int (*create_)(void**, unsigned) = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*record_)(void*, void*) = nullptr;
  int (*wait_)(void*) = nullptr;
  int (*elapsed_)(float*, void*, void*) = nullptr;
  int (*write_)(uintptr_t, unsigned char, size_t, void*) = nullptr;
};

}  // namespace tvm_stitch
