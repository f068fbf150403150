extern "C" __global__ void __launch_bounds__(128, 5) main_kernel(half* __restrict__ T_add_intermediate_1_ptr, half* __restrict__ p0_ptr, half* __restrict__ p1_ptr, half* __restrict__ p2_ptr, half* __restrict__ p3_ptr) {
  extern __shared__ __align__(64) float arena_ptr[];
  (&(arena_ptr[13311]));
  alignas(64) int64_t entry_ptr[1];
  entry_ptr[0] = (int64_t)0;
  alignas(64) int64_t tile_row_ptr[1];
  tile_row_ptr[0] = (int64_t)0;
  alignas(64) int64_t tile_column_ptr[1];
  tile_column_ptr[0] = ((int64_t)((int)blockIdx.x));
  alignas(64) float totals_ptr[64];
  int64_t cse_v1 = ((int64_t)((int)threadIdx.x));
  int64_t cse_v7 = (((int64_t)((int)threadIdx.x)) >> (int64_t)3);
  int64_t cse_v8 = (((int64_t)((int)threadIdx.x)) & (int64_t)7);
  int64_t cse_v9 = (((int64_t)((int)threadIdx.x)) >> (int64_t)6);
  int64_t cse_v13 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)36);
  int64_t cse_v14 = ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)4);
  int64_t cse_v15 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)128);
  int64_t cse_v16 = ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8);
  #pragma unroll
  for (int64_t copy = (int64_t)0; copy < (int64_t)4; ++copy) {
    tvm_builtin_ptx_cp_async_cg_src_size_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((copy * (int64_t)576) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)36)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)4))]))), (&(p0_ptr[((((tile_row_ptr[0] * (int64_t)8192) + (copy * (int64_t)2048)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))])), (((((tile_row_ptr[0] * (int64_t)8) + (copy * (int64_t)2)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)6)) < (int64_t)5) ? (uint)16 : (uint)0));
  }
  int64_t cse_v10 = (((int64_t)((int)threadIdx.x)) >> (int64_t)4);
  int64_t cse_v11 = (((int64_t)((int)threadIdx.x)) & (int64_t)15);
  int64_t cse_v17 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)68);
  int64_t cse_v18 = ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4);
  int64_t cse_v19 = ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)264);
  int64_t cse_v20 = ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8);
  #pragma unroll
  for (int64_t copy_1 = (int64_t)0; copy_1 < (int64_t)8; ++copy_1) {
    tvm_builtin_ptx_cp_async_cg_src_size_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_1 * (int64_t)544) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)68)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4)) + (int64_t)4608)]))), (&(p1_ptr[((((copy_1 * (int64_t)2112) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)264)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8))])), ((((tile_column_ptr[0] * (int64_t)16) + (((int64_t)((int)threadIdx.x)) & (int64_t)15)) < (int64_t)33) ? (uint)16 : (uint)0));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int64_t copy_2 = (int64_t)0; copy_2 < (int64_t)4; ++copy_2) {
    tvm_builtin_ptx_cp_async_cg_src_size_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_2 * (int64_t)576) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)36)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)4)) + (int64_t)2304)]))), (&(p0_ptr[(((((tile_row_ptr[0] * (int64_t)8192) + (copy_2 * (int64_t)2048)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)) + (int64_t)64)])), (((((tile_row_ptr[0] * (int64_t)8) + (copy_2 * (int64_t)2)) + (((int64_t)((int)threadIdx.x)) >> (int64_t)6)) < (int64_t)5) ? (uint)16 : (uint)0));
  }
  #pragma unroll
  for (int64_t copy_3 = (int64_t)0; copy_3 < (int64_t)8; ++copy_3) {
    tvm_builtin_ptx_cp_async_cg_src_size_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((copy_3 * (int64_t)544) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)68)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4)) + (int64_t)8960)]))), (&(p1_ptr[(((((copy_3 * (int64_t)2112) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)264)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)) + (int64_t)16896)])), ((((tile_column_ptr[0] * (int64_t)16) + (((int64_t)((int)threadIdx.x)) & (int64_t)15)) < (int64_t)33) ? (uint)16 : (uint)0));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int number = 0; number < 64; ++number) {
    totals_ptr[number] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) int slots_ptr[2];
  slots_ptr[0] = 0;
  slots_ptr[1] = 0;
  for (int64_t iteration = (int64_t)0; iteration < (int64_t)2; ++iteration) {
    tvm_builtin_ptx_cp_async_wait_group_async_wait_group_1();
    __syncthreads();
    tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
    alignas(64) uint left_ptr[8];
    alignas(64) uint right_ptr[16];
    #pragma unroll
    for (int64_t part = (int64_t)0; part < (int64_t)4; ++part) {
      int64_t cse_v24 = (((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)4) * (int64_t)4);
      #pragma unroll
      for (int64_t height = (int64_t)0; height < (int64_t)2; ++height) {
        int64_t cse_v2 = (height * (int64_t)4);
        tvm_builtin_ptx_ldmatrix_sync_aligned_m8n8_x4_shared_b16(left_ptr[(height * (int64_t)4)], left_ptr[((height * (int64_t)4) + (int64_t)1)], left_ptr[((height * (int64_t)4) + (int64_t)2)], left_ptr[((height * (int64_t)4) + (int64_t)3)], tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[((((((((int64_t)slots_ptr[0]) * (int64_t)2304) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)6) * (int64_t)1152)) + (height * (int64_t)576)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)36)) + (part * (int64_t)8)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)4) * (int64_t)4))]))));
      }
      #pragma unroll
      for (int64_t width = (int64_t)0; width < (int64_t)4; ++width) {
        int64_t cse_v3 = (width * (int64_t)4);
        tvm_builtin_ptx_ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(right_ptr[(width * (int64_t)4)], right_ptr[((width * (int64_t)4) + (int64_t)1)], right_ptr[((width * (int64_t)4) + (int64_t)2)], right_ptr[((width * (int64_t)4) + (int64_t)3)], tvm_builtin_cuda_cvta_generic_to_shared((&(arena_ptr[(((((((((int64_t)slots_ptr[0]) * (int64_t)4352) + (part * (int64_t)1088)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)68)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)63) >> (int64_t)5) * (int64_t)32)) + (width * (int64_t)8)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)4) * (int64_t)4)) + (int64_t)4608)]))));
      }
      #pragma unroll
      for (int height_1 = 0; height_1 < 2; ++height_1) {
        #pragma unroll
        for (int width_1 = 0; width_1 < 8; ++width_1) {
          int cse_v4 = (height_1 * 4);
          int cse_v5 = (width_1 * 2);
          int cse_v12 = ((height_1 * 32) + (width_1 * 4));
          int cse_v21 = (((height_1 * 32) + (width_1 * 4)) + 1);
          int cse_v22 = (((height_1 * 32) + (width_1 * 4)) + 2);
          int cse_v23 = (((height_1 * 32) + (width_1 * 4)) + 3);
          tvm_builtin_ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(totals_ptr[((height_1 * 32) + (width_1 * 4))], totals_ptr[(((height_1 * 32) + (width_1 * 4)) + 1)], totals_ptr[(((height_1 * 32) + (width_1 * 4)) + 2)], totals_ptr[(((height_1 * 32) + (width_1 * 4)) + 3)], left_ptr[(height_1 * 4)], left_ptr[((height_1 * 4) + 1)], left_ptr[((height_1 * 4) + 2)], left_ptr[((height_1 * 4) + 3)], right_ptr[(width_1 * 2)], right_ptr[((width_1 * 2) + 1)], totals_ptr[((height_1 * 32) + (width_1 * 4))], totals_ptr[(((height_1 * 32) + (width_1 * 4)) + 1)], totals_ptr[(((height_1 * 32) + (width_1 * 4)) + 2)], totals_ptr[(((height_1 * 32) + (width_1 * 4)) + 3)]);
        }
      }
    }
    int condval;
    if (slots_ptr[0] == 1) {
      condval = 0;
    } else {
      condval = (slots_ptr[0] + 1);
    }
    slots_ptr[0] = condval;
  }
  tvm_builtin_ptx_cp_async_wait_group_async_wait_group_0();
  __syncthreads();
  #pragma unroll
  for (int height_2 = 0; height_2 < 2; ++height_2) {
    #pragma unroll
    for (int width_2 = 0; width_2 < 8; ++width_2) {
      #pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        half2 __1;
        float2 v_ = *(float2*)(totals_ptr + (((height_2 * 32) + (width_2 * 4)) + (lower * 2)));
        __1.x = (half)(v_.x);
        __1.y = (half)(v_.y);
        *(half2*)(((half*)arena_ptr) + ((((((((((int)threadIdx.x) >> 6) * 4352) + (height_2 * 2176)) + (lower * 1088)) + (((((int)threadIdx.x) & 31) >> 2) * 136)) + (((((int)threadIdx.x) & 63) >> 5) * 64)) + (width_2 * 8)) + ((((int)threadIdx.x) & 3) * 2))) = __1;
      }
    }
  }
  __syncthreads();
  for (int64_t batch = (int64_t)0; batch < (int64_t)8; ++batch) {
    alignas(64) half p2_in_ptr[8];
    alignas(64) half p3_in_ptr[8];
    int64_t cse_v6 = (batch * (int64_t)2112);
    if ((((tile_row_ptr[0] * (int64_t)8) + batch) < (int64_t)5) && (((tile_column_ptr[0] * (int64_t)16) + (((int64_t)((int)threadIdx.x)) & (int64_t)15)) < (int64_t)33)) {
      *(uint4*)(p2_in_ptr + (int64_t)0) = *(uint4*)(p2_ptr + ((tile_column_ptr[0] * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
      *(uint4*)(p3_in_ptr + (int64_t)0) = *(uint4*)(p3_ptr + (((((tile_row_ptr[0] * (int64_t)16896) + (batch * (int64_t)2112)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)264)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
    }
    if ((((tile_row_ptr[0] * (int64_t)8) + batch) < (int64_t)5) && (((tile_column_ptr[0] * (int64_t)16) + (((int64_t)((int)threadIdx.x)) & (int64_t)15)) < (int64_t)33)) {
      alignas(64) half results_ptr[8];
      *(uint4*)(results_ptr + 0) = *(uint4*)(((half*)arena_ptr) + (((batch * (int64_t)1088) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)136)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8)));
      alignas(64) half T_add_intermediate_1_out_ptr[8];
      #pragma unroll
      for (int lane = 0; lane < 8; ++lane) {
        alignas(64) half T_add_ptr[1];
        T_add_ptr[0] = (results_ptr[lane] + p2_in_ptr[lane]);
        alignas(64) half T_add1_ptr[1];
        T_add1_ptr[0] = (T_add_ptr[0] + p3_in_ptr[lane]);
        T_add_intermediate_1_out_ptr[lane] = T_add1_ptr[0];
      }
      *(uint4*)(T_add_intermediate_1_ptr + ((((((tile_row_ptr[0] * (int64_t)16896) + (entry_ptr[0] * (int64_t)10560)) + (batch * (int64_t)2112)) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)4) * (int64_t)264)) + (tile_column_ptr[0] * (int64_t)128)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)8))) = *(uint4*)(T_add_intermediate_1_out_ptr + (int64_t)0);
    }
  }
}
