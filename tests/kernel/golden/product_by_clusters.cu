extern "C" __global__ void __launch_bounds__(128) main_kernel(nv_bfloat16* __restrict__ T_add_intermediate_1_ptr, nv_bfloat16* __restrict__ p0_ptr, nv_bfloat16* __restrict__ p1_ptr, nv_bfloat16* __restrict__ p2_ptr, nv_bfloat16* __restrict__ p3_ptr) {
  extern __shared__ __align__(64) float arena_ptr[];
  (&(arena_ptr[30719]));
  alignas(64) int64_t entry_ptr[1];
  entry_ptr[0] = (int64_t)0;
  alignas(64) int64_t tile_row_ptr[1];
  int64_t cse_v1 = ((int64_t)((int)blockIdx.x));
  tile_row_ptr[0] = ((((int64_t)((int)blockIdx.x)) & (int64_t)7) >> (int64_t)2);
  alignas(64) int64_t tile_column_ptr[1];
  tile_column_ptr[0] = (((int64_t)((int)blockIdx.x)) >> (int64_t)3);
  alignas(64) float totals_ptr[16];
  int64_t cse_v2 = ((int64_t)((int)threadIdx.x));
  int64_t cse_v6 = (((int64_t)((int)threadIdx.x)) >> (int64_t)3);
  int64_t cse_v7 = (((int64_t)((int)threadIdx.x)) & (int64_t)7);
  int64_t cse_v8 = (((int64_t)((int)blockIdx.x)) & (int64_t)3);
  int64_t cse_v10 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32);
  int64_t cse_v11 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072);
  int64_t cse_v12 = ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64);
  int64_t cse_v13 = ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8);
  int64_t cse_v18 = (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4);
  #pragma unroll
  for (int64_t copy = (int64_t)0; copy < (int64_t)2; ++copy) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((copy * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4))]))), (&(p0_ptr[(((((tile_row_ptr[0] * (int64_t)98304) + (copy * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))])));
  }
  int64_t cse_v14 = ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152);
  int64_t cse_v15 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768);
  #pragma unroll
  for (int64_t copy_1 = (int64_t)0; copy_1 < (int64_t)4; ++copy_1) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_1 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)10240)]))), (&(p1_ptr[((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_1 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_2 = (int64_t)0; copy_2 < (int64_t)2; ++copy_2) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_2 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)1024)]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)98304) + (copy_2 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)256)])));
  }
  #pragma unroll
  for (int64_t copy_3 = (int64_t)0; copy_3 < (int64_t)4; ++copy_3) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_3 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)12288)]))), (&(p1_ptr[(((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_3 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)196608)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_4 = (int64_t)0; copy_4 < (int64_t)2; ++copy_4) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_4 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)2048)]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)98304) + (copy_4 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)512)])));
  }
  #pragma unroll
  for (int64_t copy_5 = (int64_t)0; copy_5 < (int64_t)4; ++copy_5) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_5 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)14336)]))), (&(p1_ptr[(((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_5 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)393216)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_6 = (int64_t)0; copy_6 < (int64_t)2; ++copy_6) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_6 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)3072)]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)98304) + (copy_6 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)768)])));
  }
  #pragma unroll
  for (int64_t copy_7 = (int64_t)0; copy_7 < (int64_t)4; ++copy_7) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_7 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)16384)]))), (&(p1_ptr[(((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_7 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)589824)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_8 = (int64_t)0; copy_8 < (int64_t)2; ++copy_8) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_8 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)4096)]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)98304) + (copy_8 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)1024)])));
  }
  #pragma unroll
  for (int64_t copy_9 = (int64_t)0; copy_9 < (int64_t)4; ++copy_9) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_9 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)18432)]))), (&(p1_ptr[(((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_9 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)786432)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_10 = (int64_t)0; copy_10 < (int64_t)2; ++copy_10) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_10 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)5120)]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)98304) + (copy_10 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)1280)])));
  }
  #pragma unroll
  for (int64_t copy_11 = (int64_t)0; copy_11 < (int64_t)4; ++copy_11) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_11 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)20480)]))), (&(p1_ptr[(((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_11 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)983040)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_12 = (int64_t)0; copy_12 < (int64_t)2; ++copy_12) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_12 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)6144)]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)98304) + (copy_12 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)1536)])));
  }
  #pragma unroll
  for (int64_t copy_13 = (int64_t)0; copy_13 < (int64_t)4; ++copy_13) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_13 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)22528)]))), (&(p1_ptr[(((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_13 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)1179648)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_14 = (int64_t)0; copy_14 < (int64_t)2; ++copy_14) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_14 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)7168)]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)98304) + (copy_14 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)1792)])));
  }
  #pragma unroll
  for (int64_t copy_15 = (int64_t)0; copy_15 < (int64_t)4; ++copy_15) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_15 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)24576)]))), (&(p1_ptr[(((((((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152) + (copy_15 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)1376256)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  alignas(64) uint64_t own_descriptor_ptr[1];
  ptx_wgmma_encode_matrix_descriptor((&(own_descriptor_ptr[0])), (&(arena_ptr[((((int64_t)0 ^ (int64_t)0) * (int64_t)4) + (int64_t)10240)])), 512, 64, 3);
  alignas(64) uint64_t other_descriptor_ptr[1];
  ptx_wgmma_encode_matrix_descriptor((&(other_descriptor_ptr[0])), (&(arena_ptr[0])), 512, 64, 3);
  alignas(64) int slots_ptr[2];
  slots_ptr[0] = 0;
  slots_ptr[1] = 8;
  #pragma unroll 1
  for (int64_t iteration = (int64_t)0; iteration < (int64_t)12; ++iteration) {
    tvm_builtin_ptx_cp_async_wait_group_async_wait_group_7();
    tvm_builtin_ptx_fence_proxy_proxy_async_shared__cta();
    __syncthreads();
    tvm_builtin_ptx_wgmma_fence_fence_sync_aligned();
    tvm_builtin_ptx_wgmma_bf16_ss_mma_async_sync_aligned_m64n32k16_f32_bf16_bf16_1_1_1_0(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], (own_descriptor_ptr[0] + ((uint64_t)(slots_ptr[0] * 512))), (other_descriptor_ptr[0] + ((uint64_t)(slots_ptr[0] * 256))), ((int64_t)0 < iteration));
    tvm_builtin_ptx_wgmma_bf16_ss_mma_async_sync_aligned_m64n32k16_f32_bf16_bf16_1_1_1_0(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], (own_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 512) + 128))), (other_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 256) + 2))), (bool)1);
    tvm_builtin_ptx_wgmma_bf16_ss_mma_async_sync_aligned_m64n32k16_f32_bf16_bf16_1_1_1_0(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], (own_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 512) + 256))), (other_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 256) + 4))), (bool)1);
    tvm_builtin_ptx_wgmma_bf16_ss_mma_async_sync_aligned_m64n32k16_f32_bf16_bf16_1_1_1_0(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], (own_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 512) + 384))), (other_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 256) + 6))), (bool)1);
    tvm_builtin_ptx_wgmma_commit_group_commit_group_sync_aligned();
    if (iteration < (int64_t)4) {
      #pragma unroll
      for (int64_t copy_16 = (int64_t)0; copy_16 < (int64_t)2; ++copy_16) {
        tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((((int64_t)slots_ptr[1]) * (int64_t)1024) + (copy_16 * (int64_t)512)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4))]))), (&(p0_ptr[(((((((tile_row_ptr[0] * (int64_t)98304) + (copy_16 * (int64_t)49152)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + (iteration * (int64_t)256)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)2048)])));
      }
      #pragma unroll
      for (int64_t copy_17 = (int64_t)0; copy_17 < (int64_t)4; ++copy_17) {
        tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((int64_t)slots_ptr[1]) * (int64_t)2048) + (copy_17 * (int64_t)512)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)10240)]))), (&(p1_ptr[(((((((iteration * (int64_t)196608) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)49152)) + (copy_17 * (int64_t)12288)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)1572864)])));
      }
    }
    tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
    tvm_builtin_ptx_wgmma_wait_group_wait_group_sync_aligned_1();
    int condval;
    if (slots_ptr[0] == 9) {
      condval = 0;
    } else {
      condval = (slots_ptr[0] + 1);
    }
    slots_ptr[0] = condval;
    int condval_1;
    if (slots_ptr[1] == 9) {
      condval_1 = 0;
    } else {
      condval_1 = (slots_ptr[1] + 1);
    }
    slots_ptr[1] = condval_1;
  }
  tvm_builtin_ptx_cp_async_wait_group_async_wait_group_0();
  tvm_builtin_ptx_wgmma_wait_group_wait_group_sync_aligned_0();
  __syncthreads();
  #pragma unroll
  for (int width = 0; width < 4; ++width) {
    #pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      int cse_v9 = ((width * 4) + (lower * 2));
      int cse_v19 = (((((width * 576) + ((((int)threadIdx.x) & 3) * 144)) + ((((int)threadIdx.x) >> 5) * 16)) + (lower * 8)) + ((((int)threadIdx.x) & 31) >> 2));
      arena_ptr[(((((width * 576) + ((((int)threadIdx.x) & 3) * 144)) + ((((int)threadIdx.x) >> 5) * 16)) + (lower * 8)) + ((((int)threadIdx.x) & 31) >> 2))] = totals_ptr[((width * 4) + (lower * 2))];
      arena_ptr[((((((width * 576) + ((((int)threadIdx.x) & 3) * 144)) + ((((int)threadIdx.x) >> 5) * 16)) + (lower * 8)) + ((((int)threadIdx.x) & 31) >> 2)) + 72)] = totals_ptr[(((width * 4) + (lower * 2)) + 1)];
    }
  }
  __syncthreads();
  tvm_builtin_ptx_barrier_cluster_arrive_cluster_arrive_release_aligned();
  tvm_builtin_ptx_barrier_cluster_wait_cluster_wait_acquire_aligned();
  alignas(64) nv_bfloat16 p2_in_ptr[8];
  alignas(64) nv_bfloat16 p3_in_ptr[8];
  int64_t cse_v16 = ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)768);
  if (((int)threadIdx.x) < 64) {
    *(uint4*)(p2_in_ptr + (int64_t)0) = *(uint4*)(p2_ptr + ((tile_column_ptr[0] * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
    *(uint4*)(p3_in_ptr + (int64_t)0) = *(uint4*)(p3_ptr + (((((tile_row_ptr[0] * (int64_t)24576) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
  }
  alignas(64) float results_ptr[8];
  if (((int)threadIdx.x) < 64) {
    int cse_v3 = (((int)blockIdx.x) & 3);
    int cse_v17 = ((((((int)threadIdx.x) >> 3) * 288) + ((((int)blockIdx.x) & 3) * 72)) + ((((int)threadIdx.x) & 7) * 8));
    #pragma unroll
    for (int part = 0; part < 2; ++part) {
      int cse_v4 = (part * 4);
      *(float4*)(results_ptr + (part * 4)) = *(float4*)(arena_ptr + (((((((int)threadIdx.x) >> 3) * 288) + ((((int)blockIdx.x) & 3) * 72)) + ((((int)threadIdx.x) & 7) * 8)) + (part * 4)));
    }
    #pragma unroll
    for (int other = 0; other < 3; ++other) {
      #pragma unroll
      for (int part_1 = 0; part_1 < 2; ++part_1) {
        int cse_v5 = (part_1 * 4);
        tvm_stitch_add_4((&(results_ptr[(part_1 * 4)])), (&(arena_ptr[(((((((int)threadIdx.x) >> 3) * 288) + ((((int)blockIdx.x) & 3) * 72)) + ((((int)threadIdx.x) & 7) * 8)) + (part_1 * 4))])), ((uint)(((other + (((int)blockIdx.x) & 3)) + 1) & 3)));
      }
    }
  }
  if (((int)threadIdx.x) < 64) {
    alignas(64) nv_bfloat16 T_add_intermediate_1_out_ptr[8];
    #pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      alignas(64) nv_bfloat16 result_ptr[1];
      result_ptr[0] = ((nv_bfloat16)results_ptr[lane]);
      alignas(64) nv_bfloat16 T_add_ptr[1];
      T_add_ptr[0] = (result_ptr[0] + p2_in_ptr[lane]);
      alignas(64) nv_bfloat16 T_add1_ptr[1];
      T_add1_ptr[0] = (T_add_ptr[0] + p3_in_ptr[lane]);
      T_add_intermediate_1_out_ptr[lane] = T_add1_ptr[0];
    }
    *(uint4*)(T_add_intermediate_1_ptr + ((((((entry_ptr[0] * (int64_t)49152) + (tile_row_ptr[0] * (int64_t)24576)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)3072)) + ((((int64_t)((int)blockIdx.x)) & (int64_t)3) * (int64_t)768)) + (tile_column_ptr[0] * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(T_add_intermediate_1_out_ptr + (int64_t)0);
  }
  tvm_builtin_ptx_barrier_cluster_arrive_cluster_arrive_relaxed_aligned();
  tvm_builtin_ptx_barrier_cluster_wait_cluster_wait_acquire_aligned();
}
