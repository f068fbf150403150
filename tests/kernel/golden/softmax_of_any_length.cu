extern "C" __global__ void __launch_bounds__(128, 4) main_kernel(float* __restrict__ T_divide_intermediate_ptr, float* __restrict__ x_ptr, int64_t cse_v1, int64_t m, int64_t n) {
  alignas(64) int last_row_ptr[1];
  int64_t cse_v38 = (((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4);
  last_row_ptr[0] = ((int)min(((n - (((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4)) - (int64_t)1), (int64_t)3));
  alignas(64) int row_of_block_ptr[1];
  int cse_v2 = (((int)threadIdx.x) >> 5);
  row_of_block_ptr[0] = min((((int)threadIdx.x) >> 5), max(last_row_ptr[0], -16777216));
  alignas(64) int64_t first_vector_ptr[1];
  first_vector_ptr[0] = ((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4) + ((int64_t)row_of_block_ptr[0])) * m) >> (int64_t)2);
  alignas(64) int first_column_ptr[1];
  first_column_ptr[0] = ((int)((int64_t)0 - ((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4) + ((int64_t)row_of_block_ptr[0])) * m) & (int64_t)3)));
  alignas(64) int columns_ptr[1];
  columns_ptr[0] = ((int)min(m, (int64_t)1149));
  alignas(64) float compute_intermediate_kept_ptr[36];
  #pragma unroll
  for (int element = 0; element < 36; ++element) {
    compute_intermediate_kept_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) float x_kept_ptr[36];
  #pragma unroll
  for (int element_1 = 0; element_1 < 36; ++element_1) {
    x_kept_ptr[element_1] = 0x0p+0f/*0.000000e+00*/;
  }
  int64_t cse_v39 = ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4);
  #pragma unroll
  for (int64_t step = (int64_t)0; step < (int64_t)9; ++step) {
    int64_t cse_v3 = (step * (int64_t)128);
    int64_t cse_v4 = (step * (int64_t)4);
    int64_t cse_v50 = ((step * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4));
    if (((int64_t)0 <= (((step * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3)))) && (((((step * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + (int64_t)3) < ((int64_t)(columns_ptr[0] & 2047)))) {
      *(float4*)(x_kept_ptr + (step * (int64_t)4)) = *(float4*)(x_ptr + (((step * (int64_t)128) + (((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4) + ((int64_t)row_of_block_ptr[0])) * m) >> (int64_t)2) * (int64_t)4)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)));
    } else {
      #pragma unroll
      for (int64_t lane = (int64_t)0; lane < (int64_t)4; ++lane) {
        if (((int64_t)0 <= ((((step * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane)) && (((((step * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane) < ((int64_t)(columns_ptr[0] & 2047)))) {
          x_kept_ptr[((step * (int64_t)4) + lane)] = x_ptr[((((step * (int64_t)128) + (((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4) + ((int64_t)row_of_block_ptr[0])) * m) >> (int64_t)2) * (int64_t)4)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + lane)];
        }
      }
    }
  }
  alignas(64) float x_red_partial_ptr[4];
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
    x_red_partial_ptr[lane_1] = -0x1.fffffep+127f/*-3.402823e+38*/;
  }
  int cse_v28 = ((((int)threadIdx.x) & 31) * 4);
  #pragma unroll
  for (int step_1 = 0; step_1 < 9; ++step_1) {
    #pragma unroll
    for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
      int cse_v40 = ((step_1 * 128) + ((((int)threadIdx.x) & 31) * 4));
      if ((0 <= ((((step_1 * 128) + ((((int)threadIdx.x) & 31) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_2)) && (((((step_1 * 128) + ((((int)threadIdx.x) & 31) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_2) < (columns_ptr[0] & 2047))) {
        x_red_partial_ptr[lane_2] = max(x_red_partial_ptr[lane_2], x_kept_ptr[((step_1 * 4) + lane_2)]);
      }
    }
  }
  alignas(64) float x_red_all_ptr[1];
  x_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_max_32(max(max(max(x_red_partial_ptr[0], x_red_partial_ptr[1]), x_red_partial_ptr[2]), x_red_partial_ptr[3]));
  alignas(64) float x_red_ptr[1];
  x_red_ptr[0] = x_red_all_ptr[0];
  alignas(64) float lv2_red_partial_ptr[4];
  #pragma unroll
  for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
    lv2_red_partial_ptr[lane_3] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int step_2 = 0; step_2 < 9; ++step_2) {
    #pragma unroll
    for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
      int cse_v41 = ((step_2 * 128) + ((((int)threadIdx.x) & 31) * 4));
      if ((0 <= ((((step_2 * 128) + ((((int)threadIdx.x) & 31) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_4)) && (((((step_2 * 128) + ((((int)threadIdx.x) & 31) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_4) < (columns_ptr[0] & 2047))) {
        alignas(64) float T_subtract_ptr[1];
        int cse_v29 = ((step_2 * 4) + lane_4);
        T_subtract_ptr[0] = (x_kept_ptr[((step_2 * 4) + lane_4)] - x_red_ptr[0]);
        alignas(64) float compute_ptr[1];
        compute_ptr[0] = expf(T_subtract_ptr[0]);
        compute_intermediate_kept_ptr[((step_2 * 4) + lane_4)] = compute_ptr[0];
        lv2_red_partial_ptr[lane_4] = (lv2_red_partial_ptr[lane_4] + compute_ptr[0]);
      }
    }
  }
  alignas(64) float lv2_red_all_ptr[1];
  lv2_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv2_red_partial_ptr[0] + lv2_red_partial_ptr[1]) + lv2_red_partial_ptr[2]) + lv2_red_partial_ptr[3]));
  alignas(64) float lv2_red_ptr[1];
  lv2_red_ptr[0] = lv2_red_all_ptr[0];
  #pragma unroll
  for (int64_t step_3 = (int64_t)0; step_3 < (int64_t)9; ++step_3) {
    alignas(64) float T_divide_intermediate_out_ptr[4];
    int64_t cse_v5 = (step_3 * (int64_t)128);
    int64_t cse_v51 = ((step_3 * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4));
    #pragma unroll
    for (int lane_5 = 0; lane_5 < 4; ++lane_5) {
      int64_t cse_v6 = ((int64_t)lane_5);
      if (((int64_t)0 <= ((((step_3 * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + ((int64_t)lane_5))) && (((((step_3 * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + ((int64_t)lane_5)) < ((int64_t)(columns_ptr[0] & 2047)))) {
        alignas(64) float T_divide_ptr[1];
        T_divide_ptr[0] = (compute_intermediate_kept_ptr[((step_3 * (int64_t)4) + ((int64_t)lane_5))] / lv2_red_ptr[0]);
        T_divide_intermediate_out_ptr[lane_5] = T_divide_ptr[0];
      }
    }
    if ((((int)threadIdx.x) >> 5) <= last_row_ptr[0]) {
      if (((int64_t)0 <= (((step_3 * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3)))) && (((((step_3 * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + (int64_t)3) < ((int64_t)(columns_ptr[0] & 2047)))) {
        *(float4*)(T_divide_intermediate_ptr + (((step_3 * (int64_t)128) + (((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4) + ((int64_t)row_of_block_ptr[0])) * m) >> (int64_t)2) * (int64_t)4)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4))) = *(float4*)(T_divide_intermediate_out_ptr + (int64_t)0);
      } else {
        #pragma unroll
        for (int64_t lane_6 = (int64_t)0; lane_6 < (int64_t)4; ++lane_6) {
          if (((int64_t)0 <= ((((step_3 * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_6)) && (((((step_3 * (int64_t)128) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_6) < ((int64_t)(columns_ptr[0] & 2047)))) {
            T_divide_intermediate_ptr[((((step_3 * (int64_t)128) + (((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)4) + ((int64_t)row_of_block_ptr[0])) * m) >> (int64_t)2) * (int64_t)4)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)31) * (int64_t)4)) + lane_6)] = T_divide_intermediate_out_ptr[lane_6];
          }
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(1024, 2) main_kernel_1(float* __restrict__ T_divide_intermediate_ptr, float* __restrict__ x_ptr, int64_t cse_v1, int64_t m, int64_t n) {
  extern __shared__ __align__(64) uchar buf_dyn_shmem_ptr[];
  alignas(64) int first_column_ptr[1];
  int64_t cse_v42 = (((int64_t)((int)((int64_t)blockIdx.x))) * m);
  first_column_ptr[0] = ((int)((int64_t)0 - ((((int64_t)((int)((int64_t)blockIdx.x))) * m) & (int64_t)3)));
  alignas(64) int columns_ptr[1];
  columns_ptr[0] = ((int)min(m, (int64_t)20477));
  alignas(64) float x_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    x_red_partial_ptr[lane] = -0x1.fffffep+127f/*-3.402823e+38*/;
  }
  alignas(64) float x_in_ptr[16];
  int64_t cse_v30 = (((int64_t)((int)threadIdx.x)) * (int64_t)4);
  int64_t cse_v52 = (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4);
  #pragma unroll
  for (int64_t load = (int64_t)0; load < (int64_t)4; ++load) {
    int64_t cse_v7 = (load * (int64_t)4096);
    int64_t cse_v8 = (load * (int64_t)4);
    int64_t cse_v43 = ((load * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
    int64_t cse_v55 = (((load * (int64_t)4096) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
    if (((int64_t)0 <= (((load * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3)))) && (((((load * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + (int64_t)3) < ((int64_t)(columns_ptr[0] & 32767)))) {
      *(float4*)(x_in_ptr + (load * (int64_t)4)) = *(float4*)(x_ptr + (((load * (int64_t)4096) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)));
    } else {
      #pragma unroll
      for (int64_t lane_1 = (int64_t)0; lane_1 < (int64_t)4; ++lane_1) {
        if (((int64_t)0 <= ((((load * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_1)) && (((((load * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_1) < ((int64_t)(columns_ptr[0] & 32767)))) {
          x_in_ptr[((load * (int64_t)4) + lane_1)] = x_ptr[((((load * (int64_t)4096) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_1)];
        }
      }
    }
  }
  int cse_v9 = (((int)threadIdx.x) * 4);
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
    #pragma unroll
    for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
      int cse_v31 = ((step * 4096) + (((int)threadIdx.x) * 4));
      if ((0 <= ((((step * 4096) + (((int)threadIdx.x) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_2)) && (((((step * 4096) + (((int)threadIdx.x) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_2) < (columns_ptr[0] & 32767))) {
        int cse_v32 = ((step * 4) + lane_2);
        x_red_partial_ptr[lane_2] = max(x_red_partial_ptr[lane_2], x_in_ptr[((step * 4) + lane_2)]);
        ((float*)buf_dyn_shmem_ptr)[((((step * 4096) + (((int)threadIdx.x) * 4)) + lane_2) + 32)] = x_in_ptr[((step * 4) + lane_2)];
      }
    }
  }
  alignas(64) float x_in_ptr_1[4];
  int64_t cse_v54 = ((((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
  int64_t cse_v56 = (((((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + (int64_t)16384);
  if ((((((int)threadIdx.x) * 4) + max(min(first_column_ptr[0], 0), -3)) + 16387) < (columns_ptr[0] & 32767)) {
    *(float4*)(x_in_ptr_1 + (int64_t)0) = *(float4*)(x_ptr + (((((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + (int64_t)16384));
  } else {
    #pragma unroll
    for (int64_t lane_3 = (int64_t)0; lane_3 < (int64_t)4; ++lane_3) {
      if (((((((int64_t)((int)threadIdx.x)) * (int64_t)4) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_3) + (int64_t)16384) < ((int64_t)(columns_ptr[0] & 32767))) {
        x_in_ptr_1[lane_3] = x_ptr[((((((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_3) + (int64_t)16384)];
      }
    }
  }
  #pragma unroll
  for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
    if (((((((int)threadIdx.x) * 4) + max(min(first_column_ptr[0], 0), -3)) + lane_4) + 16384) < (columns_ptr[0] & 32767)) {
      x_red_partial_ptr[lane_4] = max(x_red_partial_ptr[lane_4], x_in_ptr_1[lane_4]);
      ((float*)buf_dyn_shmem_ptr)[(((((int)threadIdx.x) * 4) + lane_4) + 16416)] = x_in_ptr_1[lane_4];
    }
  }
  alignas(64) float x_red_all_ptr[1];
  x_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_max_32(max(max(max(x_red_partial_ptr[0], x_red_partial_ptr[1]), x_red_partial_ptr[2]), x_red_partial_ptr[3]));
  int cse_v10 = (((int)threadIdx.x) & 31);
  int cse_v11 = (((int)threadIdx.x) >> 5);
  if ((((int)threadIdx.x) % 32) == 0) {
    ((float*)buf_dyn_shmem_ptr)[(((int)threadIdx.x) >> 5)] = x_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float x_red_of_warp_ptr[1];
  x_red_of_warp_ptr[0] = ((float*)buf_dyn_shmem_ptr)[(((int)threadIdx.x) & 31)];
  alignas(64) float x_red_all_ptr_1[1];
  x_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_max_32(x_red_of_warp_ptr[0]);
  alignas(64) float x_red_ptr[1];
  x_red_ptr[0] = x_red_all_ptr_1[0];
  alignas(64) float lv2_red_partial_ptr[4];
  #pragma unroll
  for (int lane_5 = 0; lane_5 < 4; ++lane_5) {
    lv2_red_partial_ptr[lane_5] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int step_1 = 0; step_1 < 4; ++step_1) {
    #pragma unroll
    for (int lane_6 = 0; lane_6 < 4; ++lane_6) {
      int cse_v33 = ((step_1 * 4096) + (((int)threadIdx.x) * 4));
      if ((0 <= ((((step_1 * 4096) + (((int)threadIdx.x) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_6)) && (((((step_1 * 4096) + (((int)threadIdx.x) * 4)) + max(min(first_column_ptr[0], 0), -3)) + lane_6) < (columns_ptr[0] & 32767))) {
        alignas(64) float T_subtract_ptr[1];
        T_subtract_ptr[0] = (((float*)buf_dyn_shmem_ptr)[((((step_1 * 4096) + (((int)threadIdx.x) * 4)) + lane_6) + 32)] - x_red_ptr[0]);
        alignas(64) float compute_ptr[1];
        compute_ptr[0] = expf(T_subtract_ptr[0]);
        lv2_red_partial_ptr[lane_6] = (lv2_red_partial_ptr[lane_6] + compute_ptr[0]);
      }
    }
  }
  #pragma unroll
  for (int lane_7 = 0; lane_7 < 4; ++lane_7) {
    if (((((((int)threadIdx.x) * 4) + max(min(first_column_ptr[0], 0), -3)) + lane_7) + 16384) < (columns_ptr[0] & 32767)) {
      alignas(64) float T_subtract_ptr_1[1];
      T_subtract_ptr_1[0] = (((float*)buf_dyn_shmem_ptr)[(((((int)threadIdx.x) * 4) + lane_7) + 16416)] - x_red_ptr[0]);
      alignas(64) float compute_ptr_1[1];
      compute_ptr_1[0] = expf(T_subtract_ptr_1[0]);
      lv2_red_partial_ptr[lane_7] = (lv2_red_partial_ptr[lane_7] + compute_ptr_1[0]);
    }
  }
  alignas(64) float lv2_red_all_ptr[1];
  lv2_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv2_red_partial_ptr[0] + lv2_red_partial_ptr[1]) + lv2_red_partial_ptr[2]) + lv2_red_partial_ptr[3]));
  __syncthreads();
  if ((((int)threadIdx.x) % 32) == 0) {
    ((float*)buf_dyn_shmem_ptr)[(((int)threadIdx.x) >> 5)] = lv2_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float lv2_red_of_warp_ptr[1];
  lv2_red_of_warp_ptr[0] = ((float*)buf_dyn_shmem_ptr)[(((int)threadIdx.x) & 31)];
  alignas(64) float lv2_red_all_ptr_1[1];
  lv2_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_32(lv2_red_of_warp_ptr[0]);
  alignas(64) float lv2_red_ptr[1];
  lv2_red_ptr[0] = lv2_red_all_ptr_1[0];
  #pragma unroll
  for (int64_t step_2 = (int64_t)0; step_2 < (int64_t)4; ++step_2) {
    alignas(64) float T_divide_intermediate_out_ptr[4];
    int64_t cse_v12 = (step_2 * (int64_t)4096);
    int64_t cse_v44 = ((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
    #pragma unroll
    for (int lane_8 = 0; lane_8 < 4; ++lane_8) {
      int64_t cse_v13 = ((int64_t)lane_8);
      if (((int64_t)0 <= ((((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + ((int64_t)lane_8))) && (((((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + ((int64_t)lane_8)) < ((int64_t)(columns_ptr[0] & 32767)))) {
        alignas(64) float T_subtract_ptr_2[1];
        T_subtract_ptr_2[0] = (((float*)buf_dyn_shmem_ptr)[((((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)lane_8)) + (int64_t)32)] - x_red_ptr[0]);
        alignas(64) float compute_ptr_2[1];
        compute_ptr_2[0] = expf(T_subtract_ptr_2[0]);
        alignas(64) float T_divide_ptr[1];
        T_divide_ptr[0] = (compute_ptr_2[0] / lv2_red_ptr[0]);
        T_divide_intermediate_out_ptr[lane_8] = T_divide_ptr[0];
      }
    }
    int64_t cse_v57 = (((step_2 * (int64_t)4096) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
    if (((int64_t)0 <= (((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3)))) && (((((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + (int64_t)3) < ((int64_t)(columns_ptr[0] & 32767)))) {
      *(float4*)(T_divide_intermediate_ptr + (((step_2 * (int64_t)4096) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4))) = *(float4*)(T_divide_intermediate_out_ptr + (int64_t)0);
    } else {
      #pragma unroll
      for (int64_t lane_9 = (int64_t)0; lane_9 < (int64_t)4; ++lane_9) {
        if (((int64_t)0 <= ((((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_9)) && (((((step_2 * (int64_t)4096) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_9) < ((int64_t)(columns_ptr[0] & 32767)))) {
          T_divide_intermediate_ptr[((((step_2 * (int64_t)4096) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_9)] = T_divide_intermediate_out_ptr[lane_9];
        }
      }
    }
  }
  alignas(64) float T_divide_intermediate_out_ptr_1[4];
  #pragma unroll
  for (int lane_10 = 0; lane_10 < 4; ++lane_10) {
    if (((((((int)threadIdx.x) * 4) + max(min(first_column_ptr[0], 0), -3)) + lane_10) + 16384) < (columns_ptr[0] & 32767)) {
      alignas(64) float T_subtract_ptr_3[1];
      T_subtract_ptr_3[0] = (((float*)buf_dyn_shmem_ptr)[(((((int)threadIdx.x) * 4) + lane_10) + 16416)] - x_red_ptr[0]);
      alignas(64) float compute_ptr_3[1];
      compute_ptr_3[0] = expf(T_subtract_ptr_3[0]);
      alignas(64) float T_divide_ptr_1[1];
      T_divide_ptr_1[0] = (compute_ptr_3[0] / lv2_red_ptr[0]);
      T_divide_intermediate_out_ptr_1[lane_10] = T_divide_ptr_1[0];
    }
  }
  if ((((((int)threadIdx.x) * 4) + max(min(first_column_ptr[0], 0), -3)) + 16387) < (columns_ptr[0] & 32767)) {
    *(float4*)(T_divide_intermediate_ptr + (((((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + (int64_t)16384)) = *(float4*)(T_divide_intermediate_out_ptr_1 + (int64_t)0);
  } else {
    #pragma unroll
    for (int64_t lane_11 = (int64_t)0; lane_11 < (int64_t)4; ++lane_11) {
      if (((((((int64_t)((int)threadIdx.x)) * (int64_t)4) + ((int64_t)max(min(first_column_ptr[0], 0), -3))) + lane_11) + (int64_t)16384) < ((int64_t)(columns_ptr[0] & 32767))) {
        T_divide_intermediate_ptr[((((((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_11) + (int64_t)16384)] = T_divide_intermediate_out_ptr_1[lane_11];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(512) main_kernel_2(float* __restrict__ T_divide_intermediate_ptr, float* __restrict__ x_ptr, int64_t cse_v1, int64_t m, int64_t n) {
  __shared__ alignas(64) float x_red_warps_ptr[16];
  __shared__ alignas(64) float lv2_red_warps_ptr[16];
  alignas(64) int first_column_ptr[1];
  int64_t cse_v45 = (((int64_t)((int)((int64_t)blockIdx.x))) * m);
  first_column_ptr[0] = ((int)((int64_t)0 - ((((int64_t)((int)((int64_t)blockIdx.x))) * m) & (int64_t)3)));
  alignas(64) float x_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    x_red_partial_ptr[lane] = -0x1.fffffep+127f/*-3.402823e+38*/;
  }
  int64_t cse_v14 = (m + (int64_t)2047);
  int64_t cse_v35 = (((int64_t)((int)threadIdx.x)) * (int64_t)4);
  int64_t cse_v53 = (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4);
  for (int64_t batch = (int64_t)0; batch < (((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13); ++batch) {
    alignas(64) float x_in_ptr[16];
    int64_t cse_v15 = (batch * (int64_t)8192);
    #pragma unroll
    for (int64_t load = (int64_t)0; load < (int64_t)4; ++load) {
      int64_t cse_v16 = (load * (int64_t)4);
      int64_t cse_v34 = ((batch * (int64_t)8192) + (load * (int64_t)2048));
      int64_t cse_v46 = (((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
      int64_t cse_v58 = ((((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
      if (((int64_t)0 <= ((((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && ((((((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
        *(float4*)(x_in_ptr + (load * (int64_t)4)) = *(float4*)(x_ptr + ((((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)));
      } else {
        #pragma unroll
        for (int64_t lane_1 = (int64_t)0; lane_1 < (int64_t)4; ++lane_1) {
          if (((int64_t)0 <= (((((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_1)) && ((((((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_1) < m)) {
            x_in_ptr[((load * (int64_t)4) + lane_1)] = x_ptr[(((((batch * (int64_t)8192) + (load * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_1)];
          }
        }
      }
    }
    #pragma unroll
    for (int64_t step = (int64_t)0; step < (int64_t)4; ++step) {
      #pragma unroll
      for (int64_t lane_2 = (int64_t)0; lane_2 < (int64_t)4; ++lane_2) {
        int64_t cse_v47 = (((batch * (int64_t)8192) + (step * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
        if (((int64_t)0 <= (((((batch * (int64_t)8192) + (step * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_2)) && ((((((batch * (int64_t)8192) + (step * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_2) < m)) {
          x_red_partial_ptr[lane_2] = max(x_red_partial_ptr[lane_2], x_in_ptr[((step * (int64_t)4) + lane_2)]);
        }
      }
    }
  }
  for (int64_t last = (int64_t)0; last < ((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) & (int64_t)8191) >> (int64_t)11); ++last) {
    alignas(64) float x_in_ptr_1[4];
    int64_t cse_v17 = (last * (int64_t)2048);
    if (((int64_t)0 <= (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
      *(float4*)(x_in_ptr_1 + (int64_t)0) = *(float4*)(x_ptr + (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)));
    } else {
      #pragma unroll
      for (int64_t lane_3 = (int64_t)0; lane_3 < (int64_t)4; ++lane_3) {
        if (((int64_t)0 <= ((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_3)) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_3) < m)) {
          x_in_ptr_1[lane_3] = x_ptr[((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_3)];
        }
      }
    }
    #pragma unroll
    for (int64_t lane_4 = (int64_t)0; lane_4 < (int64_t)4; ++lane_4) {
      if (((int64_t)0 <= ((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_4)) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_4) < m)) {
        x_red_partial_ptr[lane_4] = max(x_red_partial_ptr[lane_4], x_in_ptr_1[lane_4]);
      }
    }
  }
  alignas(64) float x_red_all_ptr[1];
  x_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_max_32(max(max(max(x_red_partial_ptr[0], x_red_partial_ptr[1]), x_red_partial_ptr[2]), x_red_partial_ptr[3]));
  int cse_v18 = (((int)threadIdx.x) & 31);
  int cse_v19 = (((int)threadIdx.x) >> 5);
  if ((((int)threadIdx.x) % 32) == 0) {
    x_red_warps_ptr[(((int)threadIdx.x) >> 5)] = x_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float x_red_of_warp_ptr[1];
  int cse_v20 = (((int)threadIdx.x) & 15);
  x_red_of_warp_ptr[0] = x_red_warps_ptr[(((int)threadIdx.x) & 15)];
  alignas(64) float x_red_all_ptr_1[1];
  x_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_max_16(x_red_of_warp_ptr[0]);
  alignas(64) float x_red_ptr[1];
  x_red_ptr[0] = x_red_all_ptr_1[0];
  alignas(64) float lv2_red_partial_ptr[4];
  #pragma unroll
  for (int lane_5 = 0; lane_5 < 4; ++lane_5) {
    lv2_red_partial_ptr[lane_5] = 0x0p+0f/*0.000000e+00*/;
  }
  for (int64_t last_1 = (int64_t)0; last_1 < ((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) & (int64_t)8191) >> (int64_t)11); ++last_1) {
    alignas(64) float x_in_ptr_2[4];
    int64_t cse_v21 = (last_1 * (int64_t)2048);
    if (((int64_t)0 <= (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
      *(float4*)(x_in_ptr_2 + (int64_t)0) = *(float4*)(x_ptr + (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)));
    } else {
      #pragma unroll
      for (int64_t lane_6 = (int64_t)0; lane_6 < (int64_t)4; ++lane_6) {
        if (((int64_t)0 <= ((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_6)) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_6) < m)) {
          x_in_ptr_2[lane_6] = x_ptr[((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_6)];
        }
      }
    }
    #pragma unroll
    for (int64_t lane_7 = (int64_t)0; lane_7 < (int64_t)4; ++lane_7) {
      if (((int64_t)0 <= ((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_7)) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_7) < m)) {
        alignas(64) float T_subtract_ptr[1];
        T_subtract_ptr[0] = (x_in_ptr_2[lane_7] - x_red_ptr[0]);
        alignas(64) float compute_ptr[1];
        compute_ptr[0] = expf(T_subtract_ptr[0]);
        lv2_red_partial_ptr[lane_7] = (lv2_red_partial_ptr[lane_7] + compute_ptr[0]);
      }
    }
  }
  for (int64_t batch_1 = (int64_t)0; batch_1 < (((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13); ++batch_1) {
    alignas(64) int64_t from_end_ptr[1];
    from_end_ptr[0] = (((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) - batch_1) - (int64_t)1);
    alignas(64) float x_in_ptr_3[16];
    #pragma unroll
    for (int64_t load_1 = (int64_t)0; load_1 < (int64_t)4; ++load_1) {
      int64_t cse_v22 = (load_1 * (int64_t)2048);
      int64_t cse_v23 = (load_1 * (int64_t)4);
      if ((((int64_t)0 <= ((((from_end_ptr[0] * (int64_t)8192) + (load_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && ((int64_t)-3 <= ((((from_end_ptr[0] * (int64_t)8192) + (load_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)))) && ((((((from_end_ptr[0] * (int64_t)8192) + (load_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
        *(float4*)(x_in_ptr_3 + (load_1 * (int64_t)4)) = *(float4*)(x_ptr + ((((from_end_ptr[0] * (int64_t)8192) + (load_1 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)));
      } else {
        #pragma unroll
        for (int64_t lane_8 = (int64_t)0; lane_8 < (int64_t)4; ++lane_8) {
          if (((int64_t)0 <= (((((from_end_ptr[0] * (int64_t)8192) + (load_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_8)) && ((((((from_end_ptr[0] * (int64_t)8192) + (load_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_8) < m)) {
            x_in_ptr_3[((load_1 * (int64_t)4) + lane_8)] = x_ptr[(((((from_end_ptr[0] * (int64_t)8192) + (load_1 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_8)];
          }
        }
      }
    }
    #pragma unroll
    for (int64_t step_1 = (int64_t)0; step_1 < (int64_t)4; ++step_1) {
      #pragma unroll
      for (int64_t lane_9 = (int64_t)0; lane_9 < (int64_t)4; ++lane_9) {
        int64_t cse_v24 = (step_1 * (int64_t)2048);
        if (((int64_t)0 <= (((((from_end_ptr[0] * (int64_t)8192) + (step_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_9)) && ((((((from_end_ptr[0] * (int64_t)8192) + (step_1 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_9) < m)) {
          alignas(64) float T_subtract_ptr_1[1];
          T_subtract_ptr_1[0] = (x_in_ptr_3[((step_1 * (int64_t)4) + lane_9)] - x_red_ptr[0]);
          alignas(64) float compute_ptr_1[1];
          compute_ptr_1[0] = expf(T_subtract_ptr_1[0]);
          lv2_red_partial_ptr[lane_9] = (lv2_red_partial_ptr[lane_9] + compute_ptr_1[0]);
        }
      }
    }
  }
  alignas(64) float lv2_red_all_ptr[1];
  lv2_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv2_red_partial_ptr[0] + lv2_red_partial_ptr[1]) + lv2_red_partial_ptr[2]) + lv2_red_partial_ptr[3]));
  if ((((int)threadIdx.x) % 32) == 0) {
    lv2_red_warps_ptr[(((int)threadIdx.x) >> 5)] = lv2_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float lv2_red_of_warp_ptr[1];
  lv2_red_of_warp_ptr[0] = lv2_red_warps_ptr[(((int)threadIdx.x) & 15)];
  alignas(64) float lv2_red_all_ptr_1[1];
  lv2_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_16(lv2_red_of_warp_ptr[0]);
  alignas(64) float lv2_red_ptr[1];
  lv2_red_ptr[0] = lv2_red_all_ptr_1[0];
  for (int64_t batch_2 = (int64_t)0; batch_2 < (((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13); ++batch_2) {
    alignas(64) float x_in_ptr_4[16];
    int64_t cse_v25 = (batch_2 * (int64_t)8192);
    #pragma unroll
    for (int64_t load_2 = (int64_t)0; load_2 < (int64_t)4; ++load_2) {
      int64_t cse_v26 = (load_2 * (int64_t)4);
      int64_t cse_v36 = ((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048));
      int64_t cse_v48 = (((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
      int64_t cse_v59 = ((((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
      if (((int64_t)0 <= ((((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && ((((((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
        *(float4*)(x_in_ptr_4 + (load_2 * (int64_t)4)) = *(float4*)(x_ptr + ((((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)));
      } else {
        #pragma unroll
        for (int64_t lane_10 = (int64_t)0; lane_10 < (int64_t)4; ++lane_10) {
          if (((int64_t)0 <= (((((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_10)) && ((((((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_10) < m)) {
            x_in_ptr_4[((load_2 * (int64_t)4) + lane_10)] = x_ptr[(((((batch_2 * (int64_t)8192) + (load_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_10)];
          }
        }
      }
    }
    #pragma unroll
    for (int64_t step_2 = (int64_t)0; step_2 < (int64_t)4; ++step_2) {
      alignas(64) float T_divide_intermediate_out_ptr[4];
      int64_t cse_v37 = ((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048));
      int64_t cse_v49 = (((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
      #pragma unroll
      for (int64_t lane_11 = (int64_t)0; lane_11 < (int64_t)4; ++lane_11) {
        if (((int64_t)0 <= (((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_11)) && ((((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_11) < m)) {
          alignas(64) float T_subtract_ptr_2[1];
          T_subtract_ptr_2[0] = (x_in_ptr_4[((step_2 * (int64_t)4) + lane_11)] - x_red_ptr[0]);
          alignas(64) float compute_ptr_2[1];
          compute_ptr_2[0] = expf(T_subtract_ptr_2[0]);
          alignas(64) float T_divide_ptr[1];
          T_divide_ptr[0] = (compute_ptr_2[0] / lv2_red_ptr[0]);
          T_divide_intermediate_out_ptr[lane_11] = T_divide_ptr[0];
        }
      }
      int64_t cse_v60 = ((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4));
      if (((int64_t)0 <= ((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && ((((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
        *(float4*)(T_divide_intermediate_ptr + ((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4))) = *(float4*)(T_divide_intermediate_out_ptr + (int64_t)0);
      } else {
        #pragma unroll
        for (int64_t lane_12 = (int64_t)0; lane_12 < (int64_t)4; ++lane_12) {
          if (((int64_t)0 <= (((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_12)) && ((((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_12) < m)) {
            T_divide_intermediate_ptr[(((((batch_2 * (int64_t)8192) + (step_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_12)] = T_divide_intermediate_out_ptr[lane_12];
          }
        }
      }
    }
  }
  for (int64_t last_2 = (int64_t)0; last_2 < ((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) & (int64_t)8191) >> (int64_t)11); ++last_2) {
    alignas(64) float x_in_ptr_5[4];
    int64_t cse_v27 = (last_2 * (int64_t)2048);
    if (((int64_t)0 <= (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
      *(float4*)(x_in_ptr_5 + (int64_t)0) = *(float4*)(x_ptr + (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)));
    } else {
      #pragma unroll
      for (int64_t lane_13 = (int64_t)0; lane_13 < (int64_t)4; ++lane_13) {
        if (((int64_t)0 <= ((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_13)) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_13) < m)) {
          x_in_ptr_5[lane_13] = x_ptr[((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_13)];
        }
      }
    }
    alignas(64) float T_divide_intermediate_out_ptr_1[4];
    #pragma unroll
    for (int64_t lane_14 = (int64_t)0; lane_14 < (int64_t)4; ++lane_14) {
      if (((int64_t)0 <= ((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_14)) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_14) < m)) {
        alignas(64) float T_subtract_ptr_3[1];
        T_subtract_ptr_3[0] = (x_in_ptr_5[lane_14] - x_red_ptr[0]);
        alignas(64) float compute_ptr_3[1];
        compute_ptr_3[0] = expf(T_subtract_ptr_3[0]);
        alignas(64) float T_divide_ptr_1[1];
        T_divide_ptr_1[0] = (compute_ptr_3[0] / lv2_red_ptr[0]);
        T_divide_intermediate_out_ptr_1[lane_14] = T_divide_ptr_1[0];
      }
    }
    if (((int64_t)0 <= (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3))) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + (int64_t)3) < m)) {
      *(float4*)(T_divide_intermediate_ptr + (((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4))) = *(float4*)(T_divide_intermediate_out_ptr_1 + (int64_t)0);
    } else {
      #pragma unroll
      for (int64_t lane_15 = (int64_t)0; lane_15 < (int64_t)4; ++lane_15) {
        if (((int64_t)0 <= ((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_15)) && (((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) + lane_15) < m)) {
          T_divide_intermediate_ptr[((((((((m + (int64_t)2047) - max(min(((int64_t)first_column_ptr[0]), (int64_t)0), (int64_t)-3)) >> (int64_t)13) * (int64_t)8192) + (last_2 * (int64_t)2048)) + (((((int64_t)((int)((int64_t)blockIdx.x))) * m) >> (int64_t)2) * (int64_t)4)) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) + lane_15)] = T_divide_intermediate_out_ptr_1[lane_15];
        }
      }
    }
  }
  (&(x_red_warps_ptr[0]));
  (&(lv2_red_warps_ptr[0]));
}
