// Opens NVIDIA's libraries at run time, so that neither building nor importing needs them.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ffi.h"

namespace tvm_stitch {

// One of NVIDIA's libraries: where it is said to be, else under the names that the loader knows.
class SharedLibrary {
 public:
  SharedLibrary(std::string title, std::string package, std::vector<std::string> names)
      : title_(std::move(title)), package_(std::move(package)), names_(std::move(names)) {}

  // Opens this file from now on, or with "" what the loader finds.
  void Use(const std::string& path) {
    std::lock_guard<std::mutex> lock(mutex_);
    path_ = path;
    handle_ = nullptr;
    ++generation_;
  }

  // Changes whenever functions must be looked up again.
  int Generation() const { return generation_.load(std::memory_order_acquire); }

  // A function of the library; an error with the loader's reasons if there is none.
  template <typename Function>
  Function Symbol(const char* name) {
    void* found = dlsym(Open(), name);
    if (found == nullptr) {
      TVM_STITCH_THROW(RuntimeError) << title_ << " (" << opened_ << ") has no function " << name
                                  << ": it is older than this package works with";
    }
    return reinterpret_cast<Function>(found);
  }

 private:
  void* Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (handle_ != nullptr) return handle_;
    std::string reasons;
    for (const std::string& name : Candidates()) {
      handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        opened_ = name;
        return handle_;
      }
      const char* reason = dlerror();
      reasons += std::string("\n  ") + (reason != nullptr ? reason : name.c_str());
    }
    TVM_STITCH_THROW(RuntimeError)
        << "this module calls " << title_ << ", which cannot be opened here: pip install "
        << package_ << ", or name the folder that has it in TVM_STITCH_LIBRARIES" << reasons;
  }

  // Files to try: the one that was said, else those of the folder that the environment names, or
  // what the loader knows where it names none.
  std::vector<std::string> Candidates() const {
    if (!path_.empty()) return {path_};
    const char* named = std::getenv("TVM_STITCH_LIBRARIES");
    const std::string folder = named != nullptr ? named : "";
    if (folder.empty()) return names_;
    if (folder == "off") {
      TVM_STITCH_THROW(RuntimeError) << "this module calls " << title_
                                  << ", which TVM_STITCH_LIBRARIES=off forbids";
    }
    std::vector<std::string> found;
    for (const std::string& name : names_) found.push_back(folder + "/" + name);
    return found;
  }

  std::string title_, package_, path_, opened_;
  std::vector<std::string> names_;
  void* handle_ = nullptr;
  std::atomic<int> generation_{0};
  std::mutex mutex_;
};

// What threads that are over have left, for those to come. It is never destroyed: threads end while
// the process does, when the library and the driver may be gone.
template <typename Context>
class LeftBehind {
 public:
  static LeftBehind& All() {
    static auto* all = new LeftBehind();
    return *all;
  }

  void Put(int device, std::unique_ptr<Context> context) {
    std::lock_guard<std::mutex> lock(mutex_);
    contexts_[device].push_back(std::move(context));
  }

  std::unique_ptr<Context> Take(int device) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::unique_ptr<Context>>& left = contexts_[device];
    if (left.empty()) return nullptr;
    std::unique_ptr<Context> taken = std::move(left.back());
    left.pop_back();
    return taken;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<std::unique_ptr<Context>>> contexts_;
};

// What a thread has of each device while it runs.
template <typename Context>
struct OwnContexts {
  std::map<int, std::unique_ptr<Context>> by_device;

  ~OwnContexts() {
    for (auto& [device, context] : by_device) {
      if (context != nullptr) LeftBehind<Context>::All().Put(device, std::move(context));
    }
  }
};

// What a library wants once for each thread and device, which becomes the current one; made anew
// where another file is opened.
template <typename Context>
Context& OfThisThread(const SharedLibrary& library, const DLDevice& device) {
  static thread_local OwnContexts<Context> own;
  ffi::SetDevice(device);
  std::unique_ptr<Context>& context = own.by_device[device.device_id];
  const int generation = library.Generation();
  if (context == nullptr) context = LeftBehind<Context>::All().Take(device.device_id);
  if (context == nullptr || context->generation() != generation) {
    context.reset();
    context = std::make_unique<Context>(generation);
  }
  return *context;
}

}  // namespace tvm_stitch
