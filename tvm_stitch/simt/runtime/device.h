// Forced into every generated kernel: CUDA's keywords, indices, barriers, warp operations, atomics.
#pragma once
#include "abi.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
// Other threads write behind the compiler's back at every barrier: the promise would be a lie here.
#define __restrict__
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9

#define SIMT_INLINE inline __attribute__((always_inline))
#define SIMT_UNCHECKED __attribute__((noinline, no_sanitize("thread", "undefined")))

using size_t = decltype(sizeof 0);
using dim3 = simt_index;
using cudaStream_t = void*;

#define threadIdx simt_thread_index()
#define blockIdx simt_block_index()
#define blockDim simt_block_shape()
#define gridDim simt_grid_shape()
constexpr int warpSize = 32;

template <class T>
struct simt_identity {
  using type = T;
};
template <class T>
using simt_exactly = typename simt_identity<T>::type;  // keeps a parameter out of deduction

template <class To, class From>
SIMT_INLINE To simt_bits(const From& from) {
  To to = To();
  static_assert(sizeof(From) <= 16 && sizeof(To) <= 16, "at most 16 bytes");
  __builtin_memcpy(&to, &from, sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));
  return to;
}

// Barriers and fences. Fences order what barriers order already: fibers never run at once.
SIMT_INLINE void __syncthreads() { simt_block_barrier(0, 1 << 30, 0); }
SIMT_INLINE int __syncthreads_count(int p) { return simt_block_barrier(0, 1 << 30, p) >> 2; }
SIMT_INLINE int __syncthreads_or(int p) { return simt_block_barrier(0, 1 << 30, p) >> 1 & 1; }
SIMT_INLINE int __syncthreads_and(int p) { return simt_block_barrier(0, 1 << 30, p) & 1; }
SIMT_INLINE void __syncwarp(unsigned mask = ~0u) { simt_warp(SIMT_SYNCWARP, mask, 0, 0, 32); }
SIMT_INLINE void __threadfence() {}
SIMT_INLINE void __threadfence_block() {}
SIMT_INLINE void __threadfence_system() {}
SIMT_INLINE void __nanosleep(unsigned) {}
SIMT_INLINE void __trap() { simt_trap(); }
SIMT_INLINE unsigned __activemask() { return simt_activemask(); }
SIMT_INLINE long long clock64() { return simt_special_register(SIMT_CLOCK); }
SIMT_INLINE unsigned clock() { return simt_special_register(SIMT_CLOCK); }

template <class T>
SIMT_INLINE T simt_shuffle(int kind, unsigned mask, T value, int operand, int width) {
  static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
  return simt_bits<T>(simt_warp(kind, mask, simt_bits<uint64_t>(value), operand, width));
}
template <class T>
SIMT_INLINE T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return simt_shuffle(SIMT_SHUFFLE_INDEX, mask, value, lane, width);
}
template <class T>
SIMT_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return simt_shuffle(SIMT_SHUFFLE_UP, mask, value, delta, width);
}
template <class T>
SIMT_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return simt_shuffle(SIMT_SHUFFLE_DOWN, mask, value, delta, width);
}
template <class T>
SIMT_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  return simt_shuffle(SIMT_SHUFFLE_XOR, mask, value, lanes, width);
}

SIMT_INLINE unsigned __ballot_sync(unsigned mask, int p) {
  return simt_warp(SIMT_BALLOT, mask, p != 0, 0, 32);
}
SIMT_INLINE int __any_sync(unsigned mask, int p) {
  return simt_warp(SIMT_ANY, mask, p != 0, 0, 32);
}
SIMT_INLINE int __all_sync(unsigned mask, int p) {
  return simt_warp(SIMT_ALL, mask, p != 0, 0, 32);
}
SIMT_INLINE int __uni_sync(unsigned mask, int p) {
  return simt_warp(SIMT_UNIFORM, mask, p != 0, 0, 32);
}
template <class T>
SIMT_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  return simt_warp(SIMT_MATCH_ANY, mask, simt_bits<uint64_t>(value), 0, 32);
}
template <class T>
SIMT_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all) {
  const unsigned lanes = simt_warp(SIMT_MATCH_ALL, mask, simt_bits<uint64_t>(value), 0, 32);
  *all = lanes != 0;
  return lanes;
}
#define SIMT_REDUCE(NAME, TYPE, KIND)                           \
  SIMT_INLINE TYPE NAME(unsigned mask, TYPE value) {            \
    return simt_warp(KIND, mask, (unsigned)value, 0, 32);       \
  }
SIMT_REDUCE(__reduce_add_sync, unsigned, SIMT_REDUCE_ADD)
SIMT_REDUCE(__reduce_add_sync, int, SIMT_REDUCE_ADD)
SIMT_REDUCE(__reduce_min_sync, unsigned, SIMT_REDUCE_UMIN)
SIMT_REDUCE(__reduce_min_sync, int, SIMT_REDUCE_MIN)
SIMT_REDUCE(__reduce_max_sync, unsigned, SIMT_REDUCE_UMAX)
SIMT_REDUCE(__reduce_max_sync, int, SIMT_REDUCE_MAX)
SIMT_REDUCE(__reduce_and_sync, unsigned, SIMT_REDUCE_AND)
SIMT_REDUCE(__reduce_or_sync, unsigned, SIMT_REDUCE_OR)
SIMT_REDUCE(__reduce_xor_sync, unsigned, SIMT_REDUCE_XOR)

// Atomics. Fibers switch only inside the runtime, so plain code after the check is atomic.
#define SIMT_ATOMIC(NAME, RESULT)                                           \
  template <class T>                                                        \
  SIMT_UNCHECKED T NAME##_unchecked(T* address, T value) {                  \
    const T old = *address;                                                 \
    *address = (RESULT);                                                    \
    return old;                                                             \
  }                                                                         \
  template <class T>                                                        \
  SIMT_INLINE T NAME(T* address, simt_exactly<T> value) {                   \
    simt_atomic_access(address, sizeof(T));                                 \
    return NAME##_unchecked(address, value);                                \
  }
SIMT_ATOMIC(atomicAdd, old + value)
SIMT_ATOMIC(atomicSub, old - value)
SIMT_ATOMIC(atomicExch, value)
SIMT_ATOMIC(atomicMin, value < old ? value : old)
SIMT_ATOMIC(atomicMax, old < value ? value : old)
SIMT_ATOMIC(atomicAnd, old & value)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicXor, old ^ value)
SIMT_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
SIMT_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef SIMT_ATOMIC

template <class T>
SIMT_UNCHECKED T simt_compare_and_swap(T* address, T compare, T value) {
  const T old = *address;
  if (old == compare) *address = value;
  return old;
}
template <class T>
SIMT_INLINE T atomicCAS(T* address, simt_exactly<T> compare, simt_exactly<T> value) {
  simt_atomic_access(address, sizeof(T));
  return simt_compare_and_swap(address, compare, value);
}

// Plain loads and stores with cache hints.
template <class T>
SIMT_INLINE T __ldg(const T* address) {
  return *address;
}
#define SIMT_LOAD(NAME)                 \
  template <class T>                    \
  SIMT_INLINE T NAME(const T* address) { \
    return *address;                    \
  }
#define SIMT_STORE(NAME)                                          \
  template <class T>                                              \
  SIMT_INLINE void NAME(T* address, simt_exactly<T> value) {      \
    *address = value;                                             \
  }
SIMT_LOAD(__ldca) SIMT_LOAD(__ldcg) SIMT_LOAD(__ldcs) SIMT_LOAD(__ldlu) SIMT_LOAD(__ldcv)
SIMT_STORE(__stwb) SIMT_STORE(__stcg) SIMT_STORE(__stcs) SIMT_STORE(__stwt)

// Shared arrays: `__shared__ float a[8]` becomes `auto& a = simt_slot_of<K, float[8]>()`. The type
// tells the runtime its size when the object is loaded.
extern "C" simt_slot simt_slots[];  // generated: as many as the kernel declares, with their names
template <class A>
struct simt_element {
  using type = A;
};
template <class A, size_t N>
struct simt_element<A[N]> : simt_element<A> {};
template <int K, class A>
struct simt_declaration {
  static bool known;
  static bool declare() {
    simt_slots[K].bytes = sizeof(A);
    simt_slots[K].element_bytes = sizeof(typename simt_element<A>::type);
    return true;
  }
};
template <int K, class A>
bool simt_declaration<K, A>::known = declare();
template <int K, class A>
SIMT_INLINE A& simt_slot_of() {
  (void)&simt_declaration<K, A>::known;  // instantiates the declaration
  return *(A*)simt_shared(K);
}

// The compiler's own memcpy and memset are not instrumented.
SIMT_INLINE void* simt_memcpy(void* to, const void* from, size_t bytes) {
  simt_access(from, static_cast<int>(bytes), 0);
  simt_access(to, static_cast<int>(bytes), 1);
  return __builtin_memcpy(to, from, bytes);
}
SIMT_INLINE void* simt_memset(void* to, int value, size_t bytes) {
  simt_access(to, static_cast<int>(bytes), 1);
  return __builtin_memset(to, value, bytes);
}

SIMT_INLINE unsigned __cvta_generic_to_shared(const void* address) {
  return simt_shared_window(address);
}
SIMT_INLINE void* __cvta_shared_to_generic(unsigned address) {
  return simt_from_shared_window(address);
}
template <class T>
SIMT_INLINE T* __cluster_map_shared_rank(T* address, unsigned rank) {
  return (T*)simt_map_shared((const void*)address, rank);
}

#include "vectors.h"
#include "device_math.h"
#include "half.h"
#include "groups.h"
#include "ptx.h"
