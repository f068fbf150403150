// What inline assembly is rewritten to; ptx.py knows the instructions.
#pragma once

template <class T>
SIMT_INLINE T simt_load(const void* address) {
  return *static_cast<const T*>(address);
}
template <class T>
SIMT_INLINE void simt_store(void* address, T value) {
  *static_cast<T*>(address) = value;
}
template <class T>
SIMT_UNCHECKED T simt_load_unchecked(const void* address) {
  return *static_cast<const volatile T*>(address);
}
template <class T>
SIMT_UNCHECKED void simt_store_unchecked(void* address, T value) {
  *static_cast<volatile T*>(address) = value;
}
// ld.relaxed, ld.acquire, ld.volatile and their stores: ordered, never a race with each other.
template <class T>
SIMT_INLINE T simt_load_strong(const void* address) {
  simt_atomic_load(address, sizeof(T));
  return simt_load_unchecked<T>(address);
}
template <class T>
SIMT_INLINE void simt_store_strong(void* address, T value) {
  simt_atomic_access(address, sizeof(T));
  simt_store_unchecked<T>(address, value);
}

template <class To, class From>
SIMT_INLINE void simt_assign(To& to, const From& from) {
  to = simt_bits<To>(from);
}
template <class T>
SIMT_INLINE void* simt_generic(T address) {
  return (void*)(uint64_t)address;
}
template <class T>
SIMT_INLINE void* simt_shared_address(T address) {
  return sizeof(T) == 4 ? simt_from_shared_window((unsigned)(uint64_t)address)
                        : (void*)(uint64_t)address;
}

// The elements of an array to as many variables.
template <class T, class... To>
SIMT_INLINE void simt_spread(const T* from, To&... to) {
  (simt_assign(to, *from++), ...);
}
// The last operand of cp.async: how much of the source is there, or a predicate to ignore it.
SIMT_INLINE int simt_valid_bytes(int bytes, bool ignored) { return ignored ? 0 : bytes; }
template <class T>
SIMT_INLINE int simt_valid_bytes(int, T valid) {
  return (int)valid;
}

template <int depth>
SIMT_INLINE void simt_mma(float (&sums)[4], const uint32_t (&a)[depth / 4],
                          const uint32_t (&b)[depth / 8], bool bfloat) {
  simt_multiply_matrices(sums, a, b, depth, bfloat);
}
