extern "C" __global__ void __launch_bounds__(512, 1) main_kernel(float* __restrict__ T_multiply_intermediate_1_2_3_4_5_ptr, float* __restrict__ lv15_red_intermediate_ptr, float* __restrict__ lv15_red_intermediate_1_ptr, float* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ p2_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float rows_ptr[4096];
  __shared__ alignas(64) float lv15_red_partials_ptr[512];
  __shared__ alignas(64) float lv15_red1_partials_ptr[512];
  alignas(64) float lv15_red_sums_ptr[8];
  #pragma unroll
  for (int element = 0; element < 8; ++element) {
    lv15_red_sums_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) float lv15_red1_sums_ptr[8];
  #pragma unroll
  for (int element_1 = 0; element_1 < 8; ++element_1) {
    lv15_red1_sums_ptr[element_1] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) float p0_next_ptr[8];
  alignas(64) float p1_next_ptr[8];
  int cse_v1 = (((int)blockIdx.x) * 32);
  int cse_v2 = (((int)threadIdx.x) >> 4);
  int cse_v3 = (((int)threadIdx.x) & 15);
  int cse_v20 = ((((int)threadIdx.x) & 15) * 4);
  #pragma unroll
  for (int step = 0; step < 2; ++step) {
    int cse_v4 = (step * 4);
    int cse_v28 = (((min(((((int)blockIdx.x) * 32) + (((int)threadIdx.x) >> 4)), 2199) * 128) + (step * 64)) + ((((int)threadIdx.x) & 15) * 4));
    *(float4*)(p0_next_ptr + (step * 4)) = *(float4*)(p0_ptr + (((min(((((int)blockIdx.x) * 32) + (((int)threadIdx.x) >> 4)), 2199) * 128) + (step * 64)) + ((((int)threadIdx.x) & 15) * 4)));
    *(float4*)(p1_next_ptr + (step * 4)) = *(float4*)(p1_ptr + (((min(((((int)blockIdx.x) * 32) + (((int)threadIdx.x) >> 4)), 2199) * 128) + (step * 64)) + ((((int)threadIdx.x) & 15) * 4)));
  }
  alignas(64) float T_multiply_intermediate_1_2_kept_ptr[8];
  alignas(64) float p0_kept_ptr[8];
  alignas(64) float p1_kept_ptr[8];
  #pragma unroll
  for (int element_2 = 0; element_2 < 8; ++element_2) {
    p0_kept_ptr[element_2] = p0_next_ptr[element_2];
  }
  #pragma unroll
  for (int element_3 = 0; element_3 < 8; ++element_3) {
    p1_kept_ptr[element_3] = p1_next_ptr[element_3];
  }
  alignas(64) float p0_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    p0_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) float p0_red2_partial_ptr[4];
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
    p0_red2_partial_ptr[lane_1] = 0x0p+0f/*0.000000e+00*/;
  }
  int cse_v22 = ((((int)blockIdx.x) * 4) + (((int)threadIdx.x) >> 7));
  #pragma unroll
  for (int step_1 = 0; step_1 < 2; ++step_1) {
    alignas(64) float p2_vector_ptr[4];
    *(float4*)(p2_vector_ptr + 0) = *(float4*)(p2_ptr + ((step_1 * 64) + ((((int)threadIdx.x) & 15) * 4)));
    #pragma unroll
    for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
      int cse_v21 = ((step_1 * 4) + lane_2);
      p0_red_partial_ptr[lane_2] = (p0_red_partial_ptr[lane_2] + p0_kept_ptr[((step_1 * 4) + lane_2)]);
      alignas(64) float T_multiply2_ptr[1];
      T_multiply2_ptr[0] = (p1_kept_ptr[((step_1 * 4) + lane_2)] * p2_vector_ptr[lane_2]);
      T_multiply_intermediate_1_2_kept_ptr[((step_1 * 4) + lane_2)] = T_multiply2_ptr[0];
      p0_red2_partial_ptr[lane_2] = (p0_red2_partial_ptr[lane_2] + T_multiply2_ptr[0]);
      if (((((int)blockIdx.x) * 4) + (((int)threadIdx.x) >> 7)) < 275) {
        lv15_red1_sums_ptr[((step_1 * 4) + lane_2)] = (lv15_red1_sums_ptr[((step_1 * 4) + lane_2)] + p1_kept_ptr[((step_1 * 4) + lane_2)]);
      }
    }
  }
  alignas(64) float p0_red_all_ptr[1];
  p0_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_16((((p0_red_partial_ptr[0] + p0_red_partial_ptr[1]) + p0_red_partial_ptr[2]) + p0_red_partial_ptr[3]));
  alignas(64) float p0_red2_all_ptr[1];
  p0_red2_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_16((((p0_red2_partial_ptr[0] + p0_red2_partial_ptr[1]) + p0_red2_partial_ptr[2]) + p0_red2_partial_ptr[3]));
  alignas(64) float p0_red_ptr[1];
  p0_red_ptr[0] = p0_red_all_ptr[0];
  alignas(64) float p0_red2_ptr[1];
  p0_red2_ptr[0] = p0_red2_all_ptr[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (p0_red_ptr[0] / 0x1p+7f/*1.280000e+02*/);
  alignas(64) float T_divide2_ptr[1];
  T_divide2_ptr[0] = (p0_red2_ptr[0] / 0x1p+7f/*1.280000e+02*/);
  alignas(64) float p0_red1_partial_ptr[4];
  #pragma unroll
  for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
    p0_red1_partial_ptr[lane_3] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int step_2 = 0; step_2 < 2; ++step_2) {
    #pragma unroll
    for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
      alignas(64) float T_subtract_ptr[1];
      T_subtract_ptr[0] = (p0_kept_ptr[((step_2 * 4) + lane_4)] - T_divide_ptr[0]);
      alignas(64) float T_multiply_ptr[1];
      T_multiply_ptr[0] = (T_subtract_ptr[0] * T_subtract_ptr[0]);
      p0_red1_partial_ptr[lane_4] = (p0_red1_partial_ptr[lane_4] + T_multiply_ptr[0]);
    }
  }
  alignas(64) float p0_red1_all_ptr[1];
  p0_red1_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_16((((p0_red1_partial_ptr[0] + p0_red1_partial_ptr[1]) + p0_red1_partial_ptr[2]) + p0_red1_partial_ptr[3]));
  alignas(64) float p0_red1_ptr[1];
  p0_red1_ptr[0] = p0_red1_all_ptr[0];
  alignas(64) float T_divide1_ptr[1];
  T_divide1_ptr[0] = (p0_red1_ptr[0] / 0x1p+7f/*1.280000e+02*/);
  alignas(64) float T_add_ptr[1];
  T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute_ptr[1];
  compute_ptr[0] = rsqrtf(T_add_ptr[0]);
  alignas(64) float p0_red3_partial_ptr[4];
  #pragma unroll
  for (int lane_5 = 0; lane_5 < 4; ++lane_5) {
    p0_red3_partial_ptr[lane_5] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int step_3 = 0; step_3 < 2; ++step_3) {
    #pragma unroll
    for (int lane_6 = 0; lane_6 < 4; ++lane_6) {
      alignas(64) float T_subtract_ptr_1[1];
      int cse_v23 = ((step_3 * 4) + lane_6);
      T_subtract_ptr_1[0] = (p0_kept_ptr[((step_3 * 4) + lane_6)] - T_divide_ptr[0]);
      alignas(64) float T_multiply1_ptr[1];
      T_multiply1_ptr[0] = (T_subtract_ptr_1[0] * compute_ptr[0]);
      alignas(64) float T_multiply3_ptr[1];
      T_multiply3_ptr[0] = (T_multiply_intermediate_1_2_kept_ptr[((step_3 * 4) + lane_6)] * T_multiply1_ptr[0]);
      p0_red3_partial_ptr[lane_6] = (p0_red3_partial_ptr[lane_6] + T_multiply3_ptr[0]);
      alignas(64) float T_multiply6_ptr[1];
      T_multiply6_ptr[0] = (p1_kept_ptr[((step_3 * 4) + lane_6)] * T_multiply1_ptr[0]);
      if (((((int)blockIdx.x) * 4) + (((int)threadIdx.x) >> 7)) < 275) {
        lv15_red_sums_ptr[((step_3 * 4) + lane_6)] = (lv15_red_sums_ptr[((step_3 * 4) + lane_6)] + T_multiply6_ptr[0]);
      }
    }
  }
  alignas(64) float p0_red3_all_ptr[1];
  p0_red3_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_16((((p0_red3_partial_ptr[0] + p0_red3_partial_ptr[1]) + p0_red3_partial_ptr[2]) + p0_red3_partial_ptr[3]));
  alignas(64) float p0_red3_ptr[1];
  p0_red3_ptr[0] = p0_red3_all_ptr[0];
  alignas(64) float T_divide3_ptr[1];
  T_divide3_ptr[0] = (p0_red3_ptr[0] / 0x1p+7f/*1.280000e+02*/);
  int cse_v25 = ((((int)threadIdx.x) >> 4) * 128);
  #pragma unroll
  for (int step_4 = 0; step_4 < 2; ++step_4) {
    alignas(64) float T_multiply_intermediate_1_2_3_4_5_out_ptr[4];
    #pragma unroll
    for (int lane_7 = 0; lane_7 < 4; ++lane_7) {
      alignas(64) float T_subtract_ptr_2[1];
      int cse_v24 = ((step_4 * 4) + lane_7);
      T_subtract_ptr_2[0] = (p0_kept_ptr[((step_4 * 4) + lane_7)] - T_divide_ptr[0]);
      alignas(64) float T_multiply1_ptr_1[1];
      T_multiply1_ptr_1[0] = (T_subtract_ptr_2[0] * compute_ptr[0]);
      alignas(64) float T_subtract1_ptr[1];
      T_subtract1_ptr[0] = (T_multiply_intermediate_1_2_kept_ptr[((step_4 * 4) + lane_7)] - T_divide2_ptr[0]);
      alignas(64) float T_multiply4_ptr[1];
      T_multiply4_ptr[0] = (T_multiply1_ptr_1[0] * T_divide3_ptr[0]);
      alignas(64) float T_subtract2_ptr[1];
      T_subtract2_ptr[0] = (T_subtract1_ptr[0] - T_multiply4_ptr[0]);
      alignas(64) float T_multiply5_ptr[1];
      T_multiply5_ptr[0] = (T_subtract2_ptr[0] * compute_ptr[0]);
      T_multiply_intermediate_1_2_3_4_5_out_ptr[lane_7] = T_multiply5_ptr[0];
    }
    if (((((int)blockIdx.x) * 4) + (((int)threadIdx.x) >> 7)) < 275) {
      *(float4*)(T_multiply_intermediate_1_2_3_4_5_ptr + ((((((int)blockIdx.x) * 4096) + ((((int)threadIdx.x) >> 4) * 128)) + (step_4 * 64)) + ((((int)threadIdx.x) & 15) * 4))) = *(float4*)(T_multiply_intermediate_1_2_3_4_5_out_ptr + 0);
    }
  }
  #pragma unroll
  for (int element_4 = 0; element_4 < 8; ++element_4) {
    rows_ptr[((((((int)threadIdx.x) >> 4) * 128) + (element_4 * 16)) + (((int)threadIdx.x) & 15))] = lv15_red_sums_ptr[element_4];
  }
  __syncthreads();
  int cse_v5 = (((int)threadIdx.x) + 512);
  int cse_v6 = (((int)threadIdx.x) + 1024);
  int cse_v7 = (((int)threadIdx.x) + 1536);
  int cse_v8 = (((int)threadIdx.x) + 2048);
  int cse_v9 = (((int)threadIdx.x) + 2560);
  int cse_v10 = (((int)threadIdx.x) + 3072);
  int cse_v11 = (((int)threadIdx.x) + 3584);
  rows_ptr[((int)threadIdx.x)] = (((((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 512)]) + rows_ptr[(((int)threadIdx.x) + 1024)]) + rows_ptr[(((int)threadIdx.x) + 1536)]) + rows_ptr[(((int)threadIdx.x) + 2048)]) + rows_ptr[(((int)threadIdx.x) + 2560)]) + rows_ptr[(((int)threadIdx.x) + 3072)]) + rows_ptr[(((int)threadIdx.x) + 3584)]);
  __syncthreads();
  int cse_v12 = (((int)threadIdx.x) + 128);
  int cse_v13 = (((int)threadIdx.x) + 256);
  int cse_v14 = (((int)threadIdx.x) + 384);
  if (((int)threadIdx.x) < 128) {
    rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 128)]) + rows_ptr[(((int)threadIdx.x) + 256)]) + rows_ptr[(((int)threadIdx.x) + 384)]);
  }
  __syncthreads();
  if ((((int)threadIdx.x) >> 4) == 0) {
    #pragma unroll
    for (int element_5 = 0; element_5 < 8; ++element_5) {
      lv15_red_sums_ptr[element_5] = rows_ptr[((element_5 * 16) + ((int)threadIdx.x))];
    }
  }
  __syncthreads();
  #pragma unroll
  for (int element_6 = 0; element_6 < 8; ++element_6) {
    rows_ptr[((((((int)threadIdx.x) >> 4) * 128) + (element_6 * 16)) + (((int)threadIdx.x) & 15))] = lv15_red1_sums_ptr[element_6];
  }
  __syncthreads();
  rows_ptr[((int)threadIdx.x)] = (((((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 512)]) + rows_ptr[(((int)threadIdx.x) + 1024)]) + rows_ptr[(((int)threadIdx.x) + 1536)]) + rows_ptr[(((int)threadIdx.x) + 2048)]) + rows_ptr[(((int)threadIdx.x) + 2560)]) + rows_ptr[(((int)threadIdx.x) + 3072)]) + rows_ptr[(((int)threadIdx.x) + 3584)]);
  __syncthreads();
  if (((int)threadIdx.x) < 128) {
    rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 128)]) + rows_ptr[(((int)threadIdx.x) + 256)]) + rows_ptr[(((int)threadIdx.x) + 384)]);
  }
  __syncthreads();
  if ((((int)threadIdx.x) >> 4) == 0) {
    #pragma unroll
    for (int element_7 = 0; element_7 < 8; ++element_7) {
      lv15_red1_sums_ptr[element_7] = rows_ptr[((element_7 * 16) + ((int)threadIdx.x))];
    }
  }
  __syncthreads();
  if ((((int)threadIdx.x) >> 4) == 0) {
    int cse_v15 = (((int)blockIdx.x) * 128);
    int cse_v16 = (((int)threadIdx.x) * 4);
    #pragma unroll
    for (int step_5 = 0; step_5 < 2; ++step_5) {
      *(float4*)(workspace_ptr + (((((int)blockIdx.x) * 128) + (step_5 * 64)) + (((int)threadIdx.x) * 4))) = *(float4*)(lv15_red_sums_ptr + (step_5 * 4));
    }
    #pragma unroll
    for (int step_6 = 0; step_6 < 2; ++step_6) {
      *(float4*)(workspace_ptr + ((((((int)blockIdx.x) * 128) + (step_6 * 64)) + (((int)threadIdx.x) * 4)) + 8832)) = *(float4*)(lv15_red1_sums_ptr + (step_6 * 4));
    }
  }
  tvm_builtin_cuda_grid_sync();
  for (int task = 0; task < ((72 - ((int)blockIdx.x)) / 69); ++task) {
    alignas(64) float lv15_red_own_ptr[1];
    lv15_red_own_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    int cse_v17 = (((int)threadIdx.x) >> 5);
    int cse_v18 = (task * 2208);
    int cse_v19 = (((int)threadIdx.x) & 31);
    int cse_v26 = ((((int)threadIdx.x) >> 5) * 128);
    for (int iteration = 0; iteration < 5; ++iteration) {
      if (((iteration * 16) + (((int)threadIdx.x) >> 5)) < 69) {
        lv15_red_own_ptr[0] = (lv15_red_own_ptr[0] + workspace_ptr[(((((task * 2208) + (iteration * 2048)) + ((((int)threadIdx.x) >> 5) * 128)) + (((int)blockIdx.x) * 32)) + (((int)threadIdx.x) & 31))]);
      }
    }
    lv15_red_partials_ptr[((int)threadIdx.x)] = lv15_red_own_ptr[0];
    alignas(64) float lv15_red1_own_ptr[1];
    lv15_red1_own_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    for (int iteration_1 = 0; iteration_1 < 5; ++iteration_1) {
      if (((iteration_1 * 16) + (((int)threadIdx.x) >> 5)) < 69) {
        lv15_red1_own_ptr[0] = (lv15_red1_own_ptr[0] + workspace_ptr[((((((task * 2208) + (iteration_1 * 2048)) + ((((int)threadIdx.x) >> 5) * 128)) + (((int)blockIdx.x) * 32)) + (((int)threadIdx.x) & 31)) + 8832)]);
      }
    }
    lv15_red1_partials_ptr[((int)threadIdx.x)] = lv15_red1_own_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 32) {
      alignas(64) float lv15_red_ptr[1];
      lv15_red_ptr[0] = lv15_red_partials_ptr[((int)threadIdx.x)];
      for (int other = 0; other < 15; ++other) {
        lv15_red_ptr[0] = (lv15_red_ptr[0] + lv15_red_partials_ptr[(((other * 32) + ((int)threadIdx.x)) + 32)]);
      }
      alignas(64) float lv15_red1_ptr[1];
      lv15_red1_ptr[0] = lv15_red1_partials_ptr[((int)threadIdx.x)];
      for (int other_1 = 0; other_1 < 15; ++other_1) {
        lv15_red1_ptr[0] = (lv15_red1_ptr[0] + lv15_red1_partials_ptr[(((other_1 * 32) + ((int)threadIdx.x)) + 32)]);
      }
      int cse_v27 = (((task * 2208) + (((int)blockIdx.x) * 32)) + ((int)threadIdx.x));
      lv15_red_intermediate_ptr[(((task * 2208) + (((int)blockIdx.x) * 32)) + ((int)threadIdx.x))] = lv15_red_ptr[0];
      lv15_red_intermediate_1_ptr[(((task * 2208) + (((int)blockIdx.x) * 32)) + ((int)threadIdx.x))] = lv15_red1_ptr[0];
    }
    __syncthreads();
  }
  (&(rows_ptr[0]));
  (&(lv15_red_partials_ptr[0]));
  (&(lv15_red1_partials_ptr[0]));
}
