extern "C" __global__ void __launch_bounds__(512) main_kernel(half* __restrict__ T_add_intermediate_1_ptr, half* __restrict__ p0_ptr, half* __restrict__ p1_ptr, half* __restrict__ p2_ptr, half* __restrict__ p3_ptr) {
  __shared__ alignas(64) float sums_ptr[2560];
  alignas(64) int64_t entry_ptr[1];
  entry_ptr[0] = (int64_t)0;
  alignas(64) int64_t tile_ptr[1];
  tile_ptr[0] = ((int64_t)((int)blockIdx.x));
  alignas(64) int64_t warp_ptr[1];
  int64_t cse_v1 = ((int64_t)((int)threadIdx.x));
  warp_ptr[0] = (((int64_t)((int)threadIdx.x)) >> (int64_t)5);
  alignas(64) int64_t group_ptr[1];
  group_ptr[0] = ((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)2);
  alignas(64) int64_t within_ptr[1];
  within_ptr[0] = (((int64_t)((int)threadIdx.x)) & (int64_t)3);
  alignas(64) float totals_ptr[4];
  #pragma unroll
  for (int number = 0; number < 4; ++number) {
    totals_ptr[number] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) int64_t turns_ptr[1];
  turns_ptr[0] = (((int64_t)47 - warp_ptr[0]) >> (int64_t)4);
  alignas(64) uint loaded_weights_ptr[32];
  alignas(64) uint loaded_rows_ptr[16];
  alignas(64) uint following_weights_ptr[32];
  alignas(64) uint following_rows_ptr[16];
  #pragma unroll
  for (int64_t chunk = (int64_t)0; chunk < (int64_t)4; ++chunk) {
    #pragma unroll
    for (int64_t lower = (int64_t)0; lower < (int64_t)2; ++lower) {
      *(uint4*)(loaded_weights_ptr + ((chunk * (int64_t)8) + (lower * (int64_t)4))) = *(uint4*)(((uint*)p1_ptr) + ((((min((((tile_ptr[0] * (int64_t)16) + (lower * (int64_t)8)) + group_ptr[0]), (int64_t)999) * (int64_t)2048) + (warp_ptr[0] * (int64_t)64)) + (chunk * (int64_t)16)) + (within_ptr[0] * (int64_t)4)));
    }
  }
  #pragma unroll
  for (int64_t chunk_1 = (int64_t)0; chunk_1 < (int64_t)4; ++chunk_1) {
    *(uint4*)(loaded_rows_ptr + (chunk_1 * (int64_t)4)) = *(uint4*)(((uint*)p0_ptr) + ((((min(group_ptr[0], (int64_t)3) * (int64_t)2048) + (warp_ptr[0] * (int64_t)64)) + (chunk_1 * (int64_t)16)) + (within_ptr[0] * (int64_t)4)));
  }
  #pragma unroll 1
  for (int64_t turn = (int64_t)0; turn < (turns_ptr[0] - (int64_t)1); ++turn) {
    int64_t cse_v2 = (turn * (int64_t)1024);
    #pragma unroll
    for (int64_t chunk_2 = (int64_t)0; chunk_2 < (int64_t)4; ++chunk_2) {
      #pragma unroll
      for (int64_t lower_1 = (int64_t)0; lower_1 < (int64_t)2; ++lower_1) {
        *(uint4*)(following_weights_ptr + ((chunk_2 * (int64_t)8) + (lower_1 * (int64_t)4))) = *(uint4*)(((uint*)p1_ptr) + ((((((min((((tile_ptr[0] * (int64_t)16) + (lower_1 * (int64_t)8)) + group_ptr[0]), (int64_t)999) * (int64_t)2048) + (turn * (int64_t)1024)) + (warp_ptr[0] * (int64_t)64)) + (chunk_2 * (int64_t)16)) + (within_ptr[0] * (int64_t)4)) + (int64_t)1024));
      }
    }
    #pragma unroll
    for (int64_t chunk_3 = (int64_t)0; chunk_3 < (int64_t)4; ++chunk_3) {
      *(uint4*)(following_rows_ptr + (chunk_3 * (int64_t)4)) = *(uint4*)(((uint*)p0_ptr) + ((((((min(group_ptr[0], (int64_t)3) * (int64_t)2048) + (turn * (int64_t)1024)) + (warp_ptr[0] * (int64_t)64)) + (chunk_3 * (int64_t)16)) + (within_ptr[0] * (int64_t)4)) + (int64_t)1024));
    }
    #pragma unroll
    for (int chunk_4 = 0; chunk_4 < 4; ++chunk_4) {
      int cse_v3 = (chunk_4 * 8);
      int cse_v4 = (chunk_4 * 4);
      tvm_builtin_ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], loaded_weights_ptr[(chunk_4 * 8)], loaded_weights_ptr[((chunk_4 * 8) + 4)], loaded_weights_ptr[((chunk_4 * 8) + 1)], loaded_weights_ptr[((chunk_4 * 8) + 5)], loaded_rows_ptr[(chunk_4 * 4)], loaded_rows_ptr[((chunk_4 * 4) + 1)], totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3]);
      tvm_builtin_ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], loaded_weights_ptr[((chunk_4 * 8) + 2)], loaded_weights_ptr[((chunk_4 * 8) + 6)], loaded_weights_ptr[((chunk_4 * 8) + 3)], loaded_weights_ptr[((chunk_4 * 8) + 7)], loaded_rows_ptr[((chunk_4 * 4) + 2)], loaded_rows_ptr[((chunk_4 * 4) + 3)], totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3]);
    }
    #pragma unroll
    for (int pair = 0; pair < 32; ++pair) {
      loaded_weights_ptr[pair] = following_weights_ptr[pair];
    }
    #pragma unroll
    for (int pair_1 = 0; pair_1 < 16; ++pair_1) {
      loaded_rows_ptr[pair_1] = following_rows_ptr[pair_1];
    }
  }
  #pragma unroll
  for (int chunk_5 = 0; chunk_5 < 4; ++chunk_5) {
    int cse_v5 = (chunk_5 * 8);
    int cse_v6 = (chunk_5 * 4);
    tvm_builtin_ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], loaded_weights_ptr[(chunk_5 * 8)], loaded_weights_ptr[((chunk_5 * 8) + 4)], loaded_weights_ptr[((chunk_5 * 8) + 1)], loaded_weights_ptr[((chunk_5 * 8) + 5)], loaded_rows_ptr[(chunk_5 * 4)], loaded_rows_ptr[((chunk_5 * 4) + 1)], totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3]);
    tvm_builtin_ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3], loaded_weights_ptr[((chunk_5 * 8) + 2)], loaded_weights_ptr[((chunk_5 * 8) + 6)], loaded_weights_ptr[((chunk_5 * 8) + 3)], loaded_weights_ptr[((chunk_5 * 8) + 7)], loaded_rows_ptr[((chunk_5 * 4) + 2)], loaded_rows_ptr[((chunk_5 * 4) + 3)], totals_ptr[0], totals_ptr[1], totals_ptr[2], totals_ptr[3]);
  }
  sums_ptr[(((warp_ptr[0] * (int64_t)160) + (within_ptr[0] * (int64_t)40)) + group_ptr[0])] = totals_ptr[0];
  sums_ptr[((((warp_ptr[0] * (int64_t)160) + (within_ptr[0] * (int64_t)40)) + group_ptr[0]) + (int64_t)20)] = totals_ptr[1];
  sums_ptr[((((warp_ptr[0] * (int64_t)160) + (within_ptr[0] * (int64_t)40)) + group_ptr[0]) + (int64_t)8)] = totals_ptr[2];
  sums_ptr[((((warp_ptr[0] * (int64_t)160) + (within_ptr[0] * (int64_t)40)) + group_ptr[0]) + (int64_t)28)] = totals_ptr[3];
  __syncthreads();
  int64_t cse_v7 = (((int64_t)((int)threadIdx.x)) & (int64_t)15);
  if ((((int)threadIdx.x) < 64) && (((tile_ptr[0] * (int64_t)2) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) >> (int64_t)3)) < (int64_t)125)) {
    alignas(64) half total_ptr[1];
    int cse_v8 = (((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15));
    total_ptr[0] = ((half)(((((((((((((((sums_ptr[(((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15))] + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 160)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 320)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 480)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 640)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 800)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 960)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 1120)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 1280)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 1440)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 1600)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 1760)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 1920)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 2080)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 2240)]) + sums_ptr[((((((int)threadIdx.x) >> 4) * 20) + (((int)threadIdx.x) & 15)) + 2400)]));
    alignas(64) half T_add_ptr[1];
    T_add_ptr[0] = (total_ptr[0] + p2_ptr[((tile_ptr[0] * (int64_t)16) + (((int64_t)((int)threadIdx.x)) & (int64_t)15))]);
    alignas(64) half T_add1_ptr[1];
    int64_t cse_v9 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1000);
    T_add1_ptr[0] = (T_add_ptr[0] + p3_ptr[((((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1000) + (tile_ptr[0] * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) & (int64_t)15))]);
    T_add_intermediate_1_ptr[((((entry_ptr[0] * (int64_t)4000) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)1000)) + (tile_ptr[0] * (int64_t)16)) + (((int64_t)((int)threadIdx.x)) & (int64_t)15))] = T_add1_ptr[0];
  }
}
