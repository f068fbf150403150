// cooperative_groups: grid, cluster, block and tile.
#pragma once

namespace cooperative_groups {

struct thread_block {
  SIMT_INLINE void sync() const { __syncthreads(); }
  SIMT_INLINE static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  SIMT_INLINE static unsigned num_threads() { return size(); }
  SIMT_INLINE static unsigned thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  SIMT_INLINE static dim3 group_index() { return blockIdx; }
  SIMT_INLINE static dim3 thread_index() { return threadIdx; }
};

struct grid_group {
  SIMT_INLINE void sync() const { simt_grid_barrier(); }
  SIMT_INLINE bool is_valid() const { return true; }
  SIMT_INLINE static unsigned long long num_blocks() {
    return 1ull * gridDim.x * gridDim.y * gridDim.z;
  }
  SIMT_INLINE static unsigned long long block_rank() {
    return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
  }
  SIMT_INLINE static unsigned long long size() { return num_blocks() * thread_block::size(); }
  SIMT_INLINE static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }
};

struct cluster_group {
  struct arrival_token {};
  SIMT_INLINE void sync() const { simt_cluster_arrive(), simt_cluster_wait(); }
  SIMT_INLINE arrival_token barrier_arrive() const {
    simt_cluster_arrive();
    return {};
  }
  SIMT_INLINE void barrier_wait() const { simt_cluster_wait(); }
  SIMT_INLINE void barrier_wait(arrival_token&&) const { simt_cluster_wait(); }
  SIMT_INLINE static unsigned block_rank() { return simt_special_register(SIMT_CLUSTER_RANK); }
  SIMT_INLINE static unsigned num_blocks() { return simt_special_register(SIMT_CLUSTER_SIZE); }
  template <class T>
  SIMT_INLINE T* map_shared_rank(T* address, unsigned rank) const {
    return __cluster_map_shared_rank(address, rank);
  }
};

template <unsigned N, class Parent = void>
struct thread_block_tile {
  SIMT_INLINE static unsigned lane() { return simt_special_register(SIMT_LANE); }
  SIMT_INLINE static unsigned mask() {
    return (N == 32 ? ~0u : (1u << (N & 31)) - 1) << (lane() & ~(N - 1));
  }
  SIMT_INLINE static unsigned size() { return N; }
  SIMT_INLINE static unsigned num_threads() { return N; }
  SIMT_INLINE static unsigned thread_rank() { return lane() & (N - 1); }
  SIMT_INLINE static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  SIMT_INLINE static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  SIMT_INLINE void sync() const { __syncwarp(mask()); }
  template <class T>
  SIMT_INLINE T shfl(T v, int lane) const { return __shfl_sync(mask(), v, lane, N); }
  template <class T>
  SIMT_INLINE T shfl_up(T v, unsigned d) const { return __shfl_up_sync(mask(), v, d, N); }
  template <class T>
  SIMT_INLINE T shfl_down(T v, unsigned d) const { return __shfl_down_sync(mask(), v, d, N); }
  template <class T>
  SIMT_INLINE T shfl_xor(T v, unsigned m) const { return __shfl_xor_sync(mask(), v, m, N); }
  SIMT_INLINE int any(int p) const { return __any_sync(mask(), p); }
  SIMT_INLINE int all(int p) const { return __all_sync(mask(), p); }
  SIMT_INLINE unsigned ballot(int p) const {
    return __ballot_sync(mask(), p) >> (lane() & ~(N - 1));
  }
};

SIMT_INLINE thread_block this_thread_block() { return {}; }
SIMT_INLINE grid_group this_grid() { return {}; }
SIMT_INLINE cluster_group this_cluster() { return {}; }
template <unsigned N, class Parent>
SIMT_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent&) { return {}; }
template <class Group>
SIMT_INLINE void sync(const Group& group) { group.sync(); }

}  // namespace cooperative_groups
