// Fibers: stacks that are allocated once and reused, and the switch between them.
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__) && !defined(SIMT_UCONTEXT)
#define SIMT_UCONTEXT
#endif
#ifdef SIMT_UCONTEXT
#include <ucontext.h>
#endif

#include "machine.h"

namespace simt {

namespace {
// Mappings beyond this many would meet the kernel's limit of about 65,000 per process.
constexpr uint64_t kGuardedFibers = 16384;
uint64_t stack_fibers = 0;
}  // namespace

void release_stacks() {
  if (machine.stacks) munmap(machine.stacks, machine.stacks_bytes);
  machine.stacks = nullptr;
  machine.stacks_bytes = stack_fibers = 0;
}

void prepare_stacks(uint64_t fibers, uint64_t bytes) {
  const uint64_t page = sysconf(_SC_PAGESIZE);
  const uint64_t stride = (bytes + page - 1) / page * page + page;
  if (machine.stacks && stack_fibers >= fibers && machine.stack_stride == stride) return;
  release_stacks();
  void* memory = mmap(nullptr, fibers * stride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  machine.stacks = static_cast<char*>(memory);
  machine.stacks_bytes = fibers * stride;
  machine.stack_stride = stride;
  stack_fibers = fibers;
  for (uint64_t i = 0; i < fibers && i < kGuardedFibers; ++i) {
    mprotect(machine.stacks + i * stride, page, PROT_NONE);
  }
}

bool stack_guard_holds(uint64_t address) {
  const uint64_t offset = address - reinterpret_cast<uint64_t>(machine.stacks);
  return offset < machine.stacks_bytes &&
         offset % machine.stack_stride < static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

#ifndef SIMT_UCONTEXT

extern "C" void simt_switch(void** save, void* to);
asm(R"(
.text
.hidden simt_switch
.globl simt_switch
.type simt_switch,@function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch,.-simt_switch
)");

void reset_fiber(Fiber* fiber, uint64_t index) {
  void** top = reinterpret_cast<void**>(machine.stacks + machine.stack_stride * (index + 1));
  *--top = nullptr;  // keeps the stack aligned as after a call, and ends backtraces
  *--top = reinterpret_cast<void*>(fiber_body);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber->stack_pointer = top;
}

void switch_fiber(void** save, void* to) { simt_switch(save, to); }

#else

// The context lives at the low end of the fiber's own stack; the scheduler's is static.
static ucontext_t scheduler_context;

static ucontext_t* context_of(void* handle) {
  return handle ? static_cast<ucontext_t*>(handle) : &scheduler_context;
}

void reset_fiber(Fiber* fiber, uint64_t index) {
  const uint64_t page = sysconf(_SC_PAGESIZE);
  char* bottom = machine.stacks + machine.stack_stride * index + page;
  auto* context = reinterpret_cast<ucontext_t*>(bottom);
  getcontext(context);
  context->uc_stack.ss_sp = bottom + sizeof(ucontext_t);
  context->uc_stack.ss_size = machine.stack_stride - page - sizeof(ucontext_t);
  context->uc_link = nullptr;
  makecontext(context, fiber_body, 0);
  fiber->stack_pointer = context;
}

void switch_fiber(void** save, void* to) { swapcontext(context_of(*save), context_of(to)); }

#endif

}  // namespace simt
