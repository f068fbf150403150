extern "C" __global__ void __launch_bounds__(128) main_kernel(half* __restrict__ T_add_intermediate_1_ptr, half* __restrict__ p0_ptr, half* __restrict__ p1_ptr, half* __restrict__ p2_ptr, half* __restrict__ p3_ptr) {
  extern __shared__ __align__(64) float arena_ptr[];
  (&(arena_ptr[49151]));
  alignas(64) int64_t entry_ptr[1];
  entry_ptr[0] = (int64_t)0;
  alignas(64) int64_t tile_row_ptr[1];
  int64_t cse_v1 = ((int64_t)((int)blockIdx.x));
  tile_row_ptr[0] = (((((int64_t)((int)blockIdx.x)) >> (int64_t)6) * (int64_t)8) + (((int64_t)((int)blockIdx.x)) & (int64_t)7));
  alignas(64) int64_t tile_column_ptr[1];
  tile_column_ptr[0] = ((((int64_t)((int)blockIdx.x)) & (int64_t)63) >> (int64_t)3);
  alignas(64) float totals_ptr[64];
  int64_t cse_v2 = ((int64_t)((int)threadIdx.x));
  int64_t cse_v5 = (((int64_t)((int)threadIdx.x)) >> (int64_t)3);
  int64_t cse_v6 = (((int64_t)((int)threadIdx.x)) & (int64_t)7);
  int64_t cse_v10 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32);
  int64_t cse_v11 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024);
  int64_t cse_v12 = ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8);
  int64_t cse_v18 = (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4);
  #pragma unroll
  for (int64_t copy = (int64_t)0; copy < (int64_t)4; ++copy) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((copy * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4))]))), (&(p0_ptr[((((tile_row_ptr[0] * (int64_t)65536) + (copy * (int64_t)16384)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))])));
  }
  int64_t cse_v7 = (((int64_t)((int)threadIdx.x)) & (int64_t)15);
  int64_t cse_v8 = (((int64_t)((int)threadIdx.x)) >> (int64_t)4);
  int64_t cse_v13 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32);
  int64_t cse_v14 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024);
  int64_t cse_v15 = ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8);
  int64_t cse_v16 = (((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048);
  int64_t cse_v17 = (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4);
  #pragma unroll
  for (int64_t copy_1 = (int64_t)0; copy_1 < (int64_t)8; ++copy_1) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048) + (copy_1 * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4)) + (int64_t)16384)]))), (&(p1_ptr[((((copy_1 * (int64_t)8192) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8))])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_2 = (int64_t)0; copy_2 < (int64_t)4; ++copy_2) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_2 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)2048)]))), (&(p0_ptr[(((((tile_row_ptr[0] * (int64_t)65536) + (copy_2 * (int64_t)16384)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)64)])));
  }
  #pragma unroll
  for (int64_t copy_3 = (int64_t)0; copy_3 < (int64_t)8; ++copy_3) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048) + (copy_3 * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4)) + (int64_t)20480)]))), (&(p1_ptr[(((((copy_3 * (int64_t)8192) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)) + (int64_t)65536)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_4 = (int64_t)0; copy_4 < (int64_t)4; ++copy_4) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_4 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)4096)]))), (&(p0_ptr[(((((tile_row_ptr[0] * (int64_t)65536) + (copy_4 * (int64_t)16384)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)128)])));
  }
  #pragma unroll
  for (int64_t copy_5 = (int64_t)0; copy_5 < (int64_t)8; ++copy_5) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048) + (copy_5 * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4)) + (int64_t)24576)]))), (&(p1_ptr[(((((copy_5 * (int64_t)8192) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)) + (int64_t)131072)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_6 = (int64_t)0; copy_6 < (int64_t)4; ++copy_6) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_6 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)6144)]))), (&(p0_ptr[(((((tile_row_ptr[0] * (int64_t)65536) + (copy_6 * (int64_t)16384)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)192)])));
  }
  #pragma unroll
  for (int64_t copy_7 = (int64_t)0; copy_7 < (int64_t)8; ++copy_7) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048) + (copy_7 * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4)) + (int64_t)28672)]))), (&(p1_ptr[(((((copy_7 * (int64_t)8192) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)) + (int64_t)196608)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_8 = (int64_t)0; copy_8 < (int64_t)4; ++copy_8) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_8 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)8192)]))), (&(p0_ptr[(((((tile_row_ptr[0] * (int64_t)65536) + (copy_8 * (int64_t)16384)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)256)])));
  }
  #pragma unroll
  for (int64_t copy_9 = (int64_t)0; copy_9 < (int64_t)8; ++copy_9) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048) + (copy_9 * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4)) + (int64_t)32768)]))), (&(p1_ptr[(((((copy_9 * (int64_t)8192) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)) + (int64_t)262144)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_10 = (int64_t)0; copy_10 < (int64_t)4; ++copy_10) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_10 * (int64_t)512) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4)) + (int64_t)10240)]))), (&(p0_ptr[(((((tile_row_ptr[0] * (int64_t)65536) + (copy_10 * (int64_t)16384)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)320)])));
  }
  #pragma unroll
  for (int64_t copy_11 = (int64_t)0; copy_11 < (int64_t)8; ++copy_11) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048) + (copy_11 * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4)) + (int64_t)36864)]))), (&(p1_ptr[(((((copy_11 * (int64_t)8192) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)) + (int64_t)327680)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  alignas(64) uint64_t own_descriptor_ptr[1];
  ptx_wgmma_encode_matrix_descriptor((&(own_descriptor_ptr[0])), (&(arena_ptr[(((int64_t)0 ^ (int64_t)0) * (int64_t)4)])), 512, 64, 3);
  alignas(64) uint64_t other_descriptor_ptr[1];
  ptx_wgmma_encode_matrix_descriptor((&(other_descriptor_ptr[0])), (&(arena_ptr[16384])), 512, 64, 3);
  alignas(64) int slots_ptr[2];
  slots_ptr[0] = 0;
  slots_ptr[1] = 6;
  #pragma unroll 1
  for (int64_t iteration = (int64_t)0; iteration < (int64_t)16; ++iteration) {
    tvm_builtin_ptx_cp_async_wait_group_async_wait_group_5();
    tvm_builtin_ptx_fence_proxy_proxy_async_shared__cta();
    __syncthreads();
    tvm_builtin_ptx_wgmma_fence_fence_sync_aligned();
    tvm_builtin_ptx_wgmma_f16_ss_mma_async_sync_aligned_m64n128k16_f32_f16_f16_1_1_0_1(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], totals_ptr[16], totals_ptr[17], totals_ptr[18], totals_ptr[19], totals_ptr[20], totals_ptr[21], totals_ptr[22], totals_ptr[23], totals_ptr[24], totals_ptr[25], totals_ptr[26], totals_ptr[27], totals_ptr[28], totals_ptr[29], totals_ptr[30], totals_ptr[31], totals_ptr[32], totals_ptr[33], totals_ptr[34], totals_ptr[35], totals_ptr[36], totals_ptr[37], totals_ptr[38], totals_ptr[39], totals_ptr[40], totals_ptr[41], totals_ptr[42], totals_ptr[43], totals_ptr[44], totals_ptr[45], totals_ptr[46], totals_ptr[47], totals_ptr[48], totals_ptr[49], totals_ptr[50], totals_ptr[51], totals_ptr[52], totals_ptr[53], totals_ptr[54], totals_ptr[55], totals_ptr[56], totals_ptr[57], totals_ptr[58], totals_ptr[59], totals_ptr[60], totals_ptr[61], totals_ptr[62], totals_ptr[63], (own_descriptor_ptr[0] + ((uint64_t)(slots_ptr[0] * 512))), (other_descriptor_ptr[0] + ((uint64_t)(slots_ptr[0] * 1024))), ((int64_t)0 < iteration));
    tvm_builtin_ptx_wgmma_f16_ss_mma_async_sync_aligned_m64n128k16_f32_f16_f16_1_1_0_1(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], totals_ptr[16], totals_ptr[17], totals_ptr[18], totals_ptr[19], totals_ptr[20], totals_ptr[21], totals_ptr[22], totals_ptr[23], totals_ptr[24], totals_ptr[25], totals_ptr[26], totals_ptr[27], totals_ptr[28], totals_ptr[29], totals_ptr[30], totals_ptr[31], totals_ptr[32], totals_ptr[33], totals_ptr[34], totals_ptr[35], totals_ptr[36], totals_ptr[37], totals_ptr[38], totals_ptr[39], totals_ptr[40], totals_ptr[41], totals_ptr[42], totals_ptr[43], totals_ptr[44], totals_ptr[45], totals_ptr[46], totals_ptr[47], totals_ptr[48], totals_ptr[49], totals_ptr[50], totals_ptr[51], totals_ptr[52], totals_ptr[53], totals_ptr[54], totals_ptr[55], totals_ptr[56], totals_ptr[57], totals_ptr[58], totals_ptr[59], totals_ptr[60], totals_ptr[61], totals_ptr[62], totals_ptr[63], (own_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 512) + 2))), (other_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 1024) + 128))), (bool)1);
    tvm_builtin_ptx_wgmma_f16_ss_mma_async_sync_aligned_m64n128k16_f32_f16_f16_1_1_0_1(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], totals_ptr[16], totals_ptr[17], totals_ptr[18], totals_ptr[19], totals_ptr[20], totals_ptr[21], totals_ptr[22], totals_ptr[23], totals_ptr[24], totals_ptr[25], totals_ptr[26], totals_ptr[27], totals_ptr[28], totals_ptr[29], totals_ptr[30], totals_ptr[31], totals_ptr[32], totals_ptr[33], totals_ptr[34], totals_ptr[35], totals_ptr[36], totals_ptr[37], totals_ptr[38], totals_ptr[39], totals_ptr[40], totals_ptr[41], totals_ptr[42], totals_ptr[43], totals_ptr[44], totals_ptr[45], totals_ptr[46], totals_ptr[47], totals_ptr[48], totals_ptr[49], totals_ptr[50], totals_ptr[51], totals_ptr[52], totals_ptr[53], totals_ptr[54], totals_ptr[55], totals_ptr[56], totals_ptr[57], totals_ptr[58], totals_ptr[59], totals_ptr[60], totals_ptr[61], totals_ptr[62], totals_ptr[63], (own_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 512) + 4))), (other_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 1024) + 256))), (bool)1);
    tvm_builtin_ptx_wgmma_f16_ss_mma_async_sync_aligned_m64n128k16_f32_f16_f16_1_1_0_1(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], totals_ptr[4], totals_ptr[5], totals_ptr[6], totals_ptr[7], totals_ptr[8], totals_ptr[9], totals_ptr[10], totals_ptr[11], totals_ptr[12], totals_ptr[13], totals_ptr[14], totals_ptr[15], totals_ptr[16], totals_ptr[17], totals_ptr[18], totals_ptr[19], totals_ptr[20], totals_ptr[21], totals_ptr[22], totals_ptr[23], totals_ptr[24], totals_ptr[25], totals_ptr[26], totals_ptr[27], totals_ptr[28], totals_ptr[29], totals_ptr[30], totals_ptr[31], totals_ptr[32], totals_ptr[33], totals_ptr[34], totals_ptr[35], totals_ptr[36], totals_ptr[37], totals_ptr[38], totals_ptr[39], totals_ptr[40], totals_ptr[41], totals_ptr[42], totals_ptr[43], totals_ptr[44], totals_ptr[45], totals_ptr[46], totals_ptr[47], totals_ptr[48], totals_ptr[49], totals_ptr[50], totals_ptr[51], totals_ptr[52], totals_ptr[53], totals_ptr[54], totals_ptr[55], totals_ptr[56], totals_ptr[57], totals_ptr[58], totals_ptr[59], totals_ptr[60], totals_ptr[61], totals_ptr[62], totals_ptr[63], (own_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 512) + 6))), (other_descriptor_ptr[0] + ((uint64_t)((slots_ptr[0] * 1024) + 384))), (bool)1);
    tvm_builtin_ptx_wgmma_commit_group_commit_group_sync_aligned();
    if (iteration < (int64_t)10) {
      #pragma unroll
      for (int64_t copy_12 = (int64_t)0; copy_12 < (int64_t)4; ++copy_12) {
        tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((((int64_t)slots_ptr[1]) * (int64_t)2048) + (copy_12 * (int64_t)512)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)3)) * (int64_t)4))]))), (&(p0_ptr[((((((tile_row_ptr[0] * (int64_t)65536) + (copy_12 * (int64_t)16384)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)1024)) + (iteration * (int64_t)64)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)384)])));
      }
      #pragma unroll
      for (int64_t copy_13 = (int64_t)0; copy_13 < (int64_t)8; ++copy_13) {
        tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((((((int64_t)slots_ptr[1]) * (int64_t)4096) + (((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3) * (int64_t)2048)) + (copy_13 * (int64_t)256)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)32)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ (((int64_t)((int)threadIdx.x)) >> (int64_t)4)) * (int64_t)4)) + (int64_t)16384)]))), (&(p1_ptr[((((((iteration * (int64_t)65536) + (copy_13 * (int64_t)8192)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)) + (int64_t)393216)])));
      }
    }
    tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
    tvm_builtin_ptx_wgmma_wait_group_wait_group_sync_aligned_1();
    int condval;
    if (slots_ptr[0] == 7) {
      condval = 0;
    } else {
      condval = (slots_ptr[0] + 1);
    }
    slots_ptr[0] = condval;
    int condval_1;
    if (slots_ptr[1] == 7) {
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
  for (int width = 0; width < 16; ++width) {
    #pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      half2 __1;
      float2 v_ = *(float2*)(totals_ptr + ((width * 4) + (lower * 2)));
      __1.x = (half)(v_.x);
      __1.y = (half)(v_.y);
      *(half2*)(((half*)arena_ptr) + ((((((((int)threadIdx.x) >> 5) * 2176) + (lower * 1088)) + (((((int)threadIdx.x) & 31) >> 2) * 136)) + (width * 8)) + ((((int)threadIdx.x) & 3) * 2))) = __1;
    }
  }
  __syncthreads();
  for (int64_t batch = (int64_t)0; batch < (int64_t)2; ++batch) {
    alignas(64) half p2_in_ptr[32];
    alignas(64) half p3_in_ptr[32];
    int64_t cse_v4 = (batch * (int64_t)32768);
    #pragma unroll
    for (int64_t load = (int64_t)0; load < (int64_t)4; ++load) {
      int64_t cse_v3 = (load * (int64_t)8);
      *(uint4*)(p2_in_ptr + (load * (int64_t)8)) = *(uint4*)(p2_ptr + ((tile_column_ptr[0] * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
      *(uint4*)(p3_in_ptr + (load * (int64_t)8)) = *(uint4*)(p3_ptr + ((((((tile_row_ptr[0] * (int64_t)65536) + (batch * (int64_t)32768)) + (load * (int64_t)8192)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
    }
    #pragma unroll
    for (int64_t iteration_1 = (int64_t)0; iteration_1 < (int64_t)4; ++iteration_1) {
      alignas(64) half results_ptr[8];
      *(uint4*)(results_ptr + 0) = *(uint4*)(((half*)arena_ptr) + ((((batch * (int64_t)4352) + (iteration_1 * (int64_t)1088)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)136)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
      alignas(64) half T_add_intermediate_1_out_ptr[8];
      #pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        alignas(64) half T_add_ptr[1];
        int64_t cse_v9 = ((iteration_1 * (int64_t)8) + ((int64_t)lane));
        T_add_ptr[0] = (results_ptr[lane] + p2_in_ptr[((iteration_1 * (int64_t)8) + ((int64_t)lane))]);
        alignas(64) half T_add1_ptr[1];
        T_add1_ptr[0] = (T_add_ptr[0] + p3_in_ptr[((iteration_1 * (int64_t)8) + ((int64_t)lane))]);
        T_add_intermediate_1_out_ptr[lane] = T_add1_ptr[0];
      }
      *(uint4*)(T_add_intermediate_1_ptr + (((((((entry_ptr[0] * (int64_t)1048576) + (tile_row_ptr[0] * (int64_t)65536)) + (batch * (int64_t)32768)) + (iteration_1 * (int64_t)8192)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1024)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8))) = *(uint4*)(T_add_intermediate_1_out_ptr + (int64_t)0);
    }
  }
}
