extern "C" __global__ void __launch_bounds__(128, 4) main_kernel(nv_bfloat16* __restrict__ b_ptr, nv_bfloat16* __restrict__ compute_intermediate_1_2_3_4_ptr, nv_bfloat16* __restrict__ w_ptr, nv_bfloat16* __restrict__ x_ptr, int64_t n) {
  int64_t cse_v1 = (n * (int64_t)64);
  alignas(64) nv_bfloat16 x_kept_ptr[8];
  int64_t cse_v2 = ((int64_t)((int)threadIdx.x));
  int64_t cse_v3 = (n - (int64_t)1);
  int64_t cse_v13 = ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8);
  int64_t cse_v14 = ((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3));
  int64_t cse_v18 = ((min(((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8));
  *(uint4*)(x_kept_ptr + (int64_t)0) = *(uint4*)(x_ptr + ((min(((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
  alignas(64) nv_bfloat16 w_along_ptr[8];
  alignas(64) nv_bfloat16 b_along_ptr[8];
  int cse_v12 = ((((int)threadIdx.x) & 7) * 8);
  *(uint4*)(w_along_ptr + 0) = *(uint4*)(w_ptr + ((((int)threadIdx.x) & 7) * 8));
  *(uint4*)(b_along_ptr + 0) = *(uint4*)(b_ptr + ((((int)threadIdx.x) & 7) * 8));
  alignas(64) nv_bfloat16 x_kept_ptr_1[8];
  int64_t cse_v15 = (((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)16);
  int64_t cse_v19 = ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)16), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8));
  *(uint4*)(x_kept_ptr_1 + (int64_t)0) = *(uint4*)(x_ptr + ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)16), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
  alignas(64) nv_bfloat16 x_kept_ptr_2[8];
  int64_t cse_v16 = (((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)32);
  int64_t cse_v20 = ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)32), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8));
  *(uint4*)(x_kept_ptr_2 + (int64_t)0) = *(uint4*)(x_ptr + ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)32), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
  alignas(64) nv_bfloat16 x_kept_ptr_3[8];
  int64_t cse_v17 = (((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)48);
  int64_t cse_v21 = ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)48), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8));
  *(uint4*)(x_kept_ptr_3 + (int64_t)0) = *(uint4*)(x_ptr + ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)48), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
  alignas(64) float lv_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    lv_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 8; ++lane_1) {
    alignas(64) float compute_ptr[1];
    compute_ptr[0] = ((float)x_kept_ptr[lane_1]);
    int cse_v4 = (lane_1 & 3);
    lv_red_partial_ptr[(lane_1 & 3)] = (lv_red_partial_ptr[(lane_1 & 3)] + compute_ptr[0]);
  }
  alignas(64) float lv_red_all_ptr[1];
  lv_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red_partial_ptr[0] + lv_red_partial_ptr[1]) + lv_red_partial_ptr[2]) + lv_red_partial_ptr[3]));
  alignas(64) float lv_red_ptr[1];
  lv_red_ptr[0] = lv_red_all_ptr[0];
  alignas(64) float lv_red_partial_ptr_1[4];
  #pragma unroll
  for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
    lv_red_partial_ptr_1[lane_2] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_3 = 0; lane_3 < 8; ++lane_3) {
    alignas(64) float compute_ptr_1[1];
    compute_ptr_1[0] = ((float)x_kept_ptr_1[lane_3]);
    int cse_v5 = (lane_3 & 3);
    lv_red_partial_ptr_1[(lane_3 & 3)] = (lv_red_partial_ptr_1[(lane_3 & 3)] + compute_ptr_1[0]);
  }
  alignas(64) float lv_red_all_ptr_1[1];
  lv_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red_partial_ptr_1[0] + lv_red_partial_ptr_1[1]) + lv_red_partial_ptr_1[2]) + lv_red_partial_ptr_1[3]));
  alignas(64) float lv_red_ptr_1[1];
  lv_red_ptr_1[0] = lv_red_all_ptr_1[0];
  alignas(64) float lv_red_partial_ptr_2[4];
  #pragma unroll
  for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
    lv_red_partial_ptr_2[lane_4] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_5 = 0; lane_5 < 8; ++lane_5) {
    alignas(64) float compute_ptr_2[1];
    compute_ptr_2[0] = ((float)x_kept_ptr_2[lane_5]);
    int cse_v6 = (lane_5 & 3);
    lv_red_partial_ptr_2[(lane_5 & 3)] = (lv_red_partial_ptr_2[(lane_5 & 3)] + compute_ptr_2[0]);
  }
  alignas(64) float lv_red_all_ptr_2[1];
  lv_red_all_ptr_2[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red_partial_ptr_2[0] + lv_red_partial_ptr_2[1]) + lv_red_partial_ptr_2[2]) + lv_red_partial_ptr_2[3]));
  alignas(64) float lv_red_ptr_2[1];
  lv_red_ptr_2[0] = lv_red_all_ptr_2[0];
  alignas(64) float lv_red_partial_ptr_3[4];
  #pragma unroll
  for (int lane_6 = 0; lane_6 < 4; ++lane_6) {
    lv_red_partial_ptr_3[lane_6] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_7 = 0; lane_7 < 8; ++lane_7) {
    alignas(64) float compute_ptr_3[1];
    compute_ptr_3[0] = ((float)x_kept_ptr_3[lane_7]);
    int cse_v7 = (lane_7 & 3);
    lv_red_partial_ptr_3[(lane_7 & 3)] = (lv_red_partial_ptr_3[(lane_7 & 3)] + compute_ptr_3[0]);
  }
  alignas(64) float lv_red_all_ptr_3[1];
  lv_red_all_ptr_3[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red_partial_ptr_3[0] + lv_red_partial_ptr_3[1]) + lv_red_partial_ptr_3[2]) + lv_red_partial_ptr_3[3]));
  alignas(64) float lv_red_ptr_3[1];
  lv_red_ptr_3[0] = lv_red_all_ptr_3[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (lv_red_ptr[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float lv_red1_partial_ptr[4];
  #pragma unroll
  for (int lane_8 = 0; lane_8 < 4; ++lane_8) {
    lv_red1_partial_ptr[lane_8] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_9 = 0; lane_9 < 8; ++lane_9) {
    alignas(64) float compute_ptr_4[1];
    compute_ptr_4[0] = ((float)x_kept_ptr[lane_9]);
    alignas(64) float T_subtract_ptr[1];
    T_subtract_ptr[0] = (compute_ptr_4[0] - T_divide_ptr[0]);
    alignas(64) float T_multiply_ptr[1];
    T_multiply_ptr[0] = (T_subtract_ptr[0] * T_subtract_ptr[0]);
    int cse_v8 = (lane_9 & 3);
    lv_red1_partial_ptr[(lane_9 & 3)] = (lv_red1_partial_ptr[(lane_9 & 3)] + T_multiply_ptr[0]);
  }
  alignas(64) float lv_red1_all_ptr[1];
  lv_red1_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red1_partial_ptr[0] + lv_red1_partial_ptr[1]) + lv_red1_partial_ptr[2]) + lv_red1_partial_ptr[3]));
  alignas(64) float lv_red1_ptr[1];
  lv_red1_ptr[0] = lv_red1_all_ptr[0];
  alignas(64) float T_divide_ptr_1[1];
  T_divide_ptr_1[0] = (lv_red_ptr_1[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float lv_red1_partial_ptr_1[4];
  #pragma unroll
  for (int lane_10 = 0; lane_10 < 4; ++lane_10) {
    lv_red1_partial_ptr_1[lane_10] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_11 = 0; lane_11 < 8; ++lane_11) {
    alignas(64) float compute_ptr_5[1];
    compute_ptr_5[0] = ((float)x_kept_ptr_1[lane_11]);
    alignas(64) float T_subtract_ptr_1[1];
    T_subtract_ptr_1[0] = (compute_ptr_5[0] - T_divide_ptr_1[0]);
    alignas(64) float T_multiply_ptr_1[1];
    T_multiply_ptr_1[0] = (T_subtract_ptr_1[0] * T_subtract_ptr_1[0]);
    int cse_v9 = (lane_11 & 3);
    lv_red1_partial_ptr_1[(lane_11 & 3)] = (lv_red1_partial_ptr_1[(lane_11 & 3)] + T_multiply_ptr_1[0]);
  }
  alignas(64) float lv_red1_all_ptr_1[1];
  lv_red1_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red1_partial_ptr_1[0] + lv_red1_partial_ptr_1[1]) + lv_red1_partial_ptr_1[2]) + lv_red1_partial_ptr_1[3]));
  alignas(64) float lv_red1_ptr_1[1];
  lv_red1_ptr_1[0] = lv_red1_all_ptr_1[0];
  alignas(64) float T_divide_ptr_2[1];
  T_divide_ptr_2[0] = (lv_red_ptr_2[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float lv_red1_partial_ptr_2[4];
  #pragma unroll
  for (int lane_12 = 0; lane_12 < 4; ++lane_12) {
    lv_red1_partial_ptr_2[lane_12] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_13 = 0; lane_13 < 8; ++lane_13) {
    alignas(64) float compute_ptr_6[1];
    compute_ptr_6[0] = ((float)x_kept_ptr_2[lane_13]);
    alignas(64) float T_subtract_ptr_2[1];
    T_subtract_ptr_2[0] = (compute_ptr_6[0] - T_divide_ptr_2[0]);
    alignas(64) float T_multiply_ptr_2[1];
    T_multiply_ptr_2[0] = (T_subtract_ptr_2[0] * T_subtract_ptr_2[0]);
    int cse_v10 = (lane_13 & 3);
    lv_red1_partial_ptr_2[(lane_13 & 3)] = (lv_red1_partial_ptr_2[(lane_13 & 3)] + T_multiply_ptr_2[0]);
  }
  alignas(64) float lv_red1_all_ptr_2[1];
  lv_red1_all_ptr_2[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red1_partial_ptr_2[0] + lv_red1_partial_ptr_2[1]) + lv_red1_partial_ptr_2[2]) + lv_red1_partial_ptr_2[3]));
  alignas(64) float lv_red1_ptr_2[1];
  lv_red1_ptr_2[0] = lv_red1_all_ptr_2[0];
  alignas(64) float T_divide_ptr_3[1];
  T_divide_ptr_3[0] = (lv_red_ptr_3[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float lv_red1_partial_ptr_3[4];
  #pragma unroll
  for (int lane_14 = 0; lane_14 < 4; ++lane_14) {
    lv_red1_partial_ptr_3[lane_14] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_15 = 0; lane_15 < 8; ++lane_15) {
    alignas(64) float compute_ptr_7[1];
    compute_ptr_7[0] = ((float)x_kept_ptr_3[lane_15]);
    alignas(64) float T_subtract_ptr_3[1];
    T_subtract_ptr_3[0] = (compute_ptr_7[0] - T_divide_ptr_3[0]);
    alignas(64) float T_multiply_ptr_3[1];
    T_multiply_ptr_3[0] = (T_subtract_ptr_3[0] * T_subtract_ptr_3[0]);
    int cse_v11 = (lane_15 & 3);
    lv_red1_partial_ptr_3[(lane_15 & 3)] = (lv_red1_partial_ptr_3[(lane_15 & 3)] + T_multiply_ptr_3[0]);
  }
  alignas(64) float lv_red1_all_ptr_3[1];
  lv_red1_all_ptr_3[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red1_partial_ptr_3[0] + lv_red1_partial_ptr_3[1]) + lv_red1_partial_ptr_3[2]) + lv_red1_partial_ptr_3[3]));
  alignas(64) float lv_red1_ptr_3[1];
  lv_red1_ptr_3[0] = lv_red1_all_ptr_3[0];
  alignas(64) float T_divide1_ptr[1];
  T_divide1_ptr[0] = (lv_red1_ptr[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float T_add_ptr[1];
  T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute3_ptr[1];
  compute3_ptr[0] = rsqrtf(T_add_ptr[0]);
  alignas(64) nv_bfloat16 compute_intermediate_1_2_3_4_out_ptr[8];
  #pragma unroll
  for (int lane_16 = 0; lane_16 < 8; ++lane_16) {
    alignas(64) float compute_ptr_8[1];
    compute_ptr_8[0] = ((float)x_kept_ptr[lane_16]);
    alignas(64) float T_subtract_ptr_4[1];
    T_subtract_ptr_4[0] = (compute_ptr_8[0] - T_divide_ptr[0]);
    alignas(64) float T_multiply1_ptr[1];
    T_multiply1_ptr[0] = (T_subtract_ptr_4[0] * compute3_ptr[0]);
    alignas(64) float T_multiply2_ptr[1];
    T_multiply2_ptr[0] = (T_multiply1_ptr[0] * ((float)w_along_ptr[lane_16]));
    alignas(64) float T_add1_ptr[1];
    T_add1_ptr[0] = (T_multiply2_ptr[0] + ((float)b_along_ptr[lane_16]));
    alignas(64) nv_bfloat16 compute4_ptr[1];
    compute4_ptr[0] = ((nv_bfloat16)T_add1_ptr[0]);
    compute_intermediate_1_2_3_4_out_ptr[lane_16] = compute4_ptr[0];
  }
  if (((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) < n) {
    *(uint4*)(compute_intermediate_1_2_3_4_ptr + ((min(((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(compute_intermediate_1_2_3_4_out_ptr + (int64_t)0);
  }
  alignas(64) float T_divide1_ptr_1[1];
  T_divide1_ptr_1[0] = (lv_red1_ptr_1[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float T_add_ptr_1[1];
  T_add_ptr_1[0] = (T_divide1_ptr_1[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute3_ptr_1[1];
  compute3_ptr_1[0] = rsqrtf(T_add_ptr_1[0]);
  alignas(64) nv_bfloat16 compute_intermediate_1_2_3_4_out_ptr_1[8];
  #pragma unroll
  for (int lane_17 = 0; lane_17 < 8; ++lane_17) {
    alignas(64) float compute_ptr_9[1];
    compute_ptr_9[0] = ((float)x_kept_ptr_1[lane_17]);
    alignas(64) float T_subtract_ptr_5[1];
    T_subtract_ptr_5[0] = (compute_ptr_9[0] - T_divide_ptr_1[0]);
    alignas(64) float T_multiply1_ptr_1[1];
    T_multiply1_ptr_1[0] = (T_subtract_ptr_5[0] * compute3_ptr_1[0]);
    alignas(64) float T_multiply2_ptr_1[1];
    T_multiply2_ptr_1[0] = (T_multiply1_ptr_1[0] * ((float)w_along_ptr[lane_17]));
    alignas(64) float T_add1_ptr_1[1];
    T_add1_ptr_1[0] = (T_multiply2_ptr_1[0] + ((float)b_along_ptr[lane_17]));
    alignas(64) nv_bfloat16 compute4_ptr_1[1];
    compute4_ptr_1[0] = ((nv_bfloat16)T_add1_ptr_1[0]);
    compute_intermediate_1_2_3_4_out_ptr_1[lane_17] = compute4_ptr_1[0];
  }
  if ((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)16) < n) {
    *(uint4*)(compute_intermediate_1_2_3_4_ptr + ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)16), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(compute_intermediate_1_2_3_4_out_ptr_1 + (int64_t)0);
  }
  alignas(64) float T_divide1_ptr_2[1];
  T_divide1_ptr_2[0] = (lv_red1_ptr_2[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float T_add_ptr_2[1];
  T_add_ptr_2[0] = (T_divide1_ptr_2[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute3_ptr_2[1];
  compute3_ptr_2[0] = rsqrtf(T_add_ptr_2[0]);
  alignas(64) nv_bfloat16 compute_intermediate_1_2_3_4_out_ptr_2[8];
  #pragma unroll
  for (int lane_18 = 0; lane_18 < 8; ++lane_18) {
    alignas(64) float compute_ptr_10[1];
    compute_ptr_10[0] = ((float)x_kept_ptr_2[lane_18]);
    alignas(64) float T_subtract_ptr_6[1];
    T_subtract_ptr_6[0] = (compute_ptr_10[0] - T_divide_ptr_2[0]);
    alignas(64) float T_multiply1_ptr_2[1];
    T_multiply1_ptr_2[0] = (T_subtract_ptr_6[0] * compute3_ptr_2[0]);
    alignas(64) float T_multiply2_ptr_2[1];
    T_multiply2_ptr_2[0] = (T_multiply1_ptr_2[0] * ((float)w_along_ptr[lane_18]));
    alignas(64) float T_add1_ptr_2[1];
    T_add1_ptr_2[0] = (T_multiply2_ptr_2[0] + ((float)b_along_ptr[lane_18]));
    alignas(64) nv_bfloat16 compute4_ptr_2[1];
    compute4_ptr_2[0] = ((nv_bfloat16)T_add1_ptr_2[0]);
    compute_intermediate_1_2_3_4_out_ptr_2[lane_18] = compute4_ptr_2[0];
  }
  if ((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)32) < n) {
    *(uint4*)(compute_intermediate_1_2_3_4_ptr + ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)32), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(compute_intermediate_1_2_3_4_out_ptr_2 + (int64_t)0);
  }
  alignas(64) float T_divide1_ptr_3[1];
  T_divide1_ptr_3[0] = (lv_red1_ptr_3[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float T_add_ptr_3[1];
  T_add_ptr_3[0] = (T_divide1_ptr_3[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute3_ptr_3[1];
  compute3_ptr_3[0] = rsqrtf(T_add_ptr_3[0]);
  alignas(64) nv_bfloat16 compute_intermediate_1_2_3_4_out_ptr_3[8];
  #pragma unroll
  for (int lane_19 = 0; lane_19 < 8; ++lane_19) {
    alignas(64) float compute_ptr_11[1];
    compute_ptr_11[0] = ((float)x_kept_ptr_3[lane_19]);
    alignas(64) float T_subtract_ptr_7[1];
    T_subtract_ptr_7[0] = (compute_ptr_11[0] - T_divide_ptr_3[0]);
    alignas(64) float T_multiply1_ptr_3[1];
    T_multiply1_ptr_3[0] = (T_subtract_ptr_7[0] * compute3_ptr_3[0]);
    alignas(64) float T_multiply2_ptr_3[1];
    T_multiply2_ptr_3[0] = (T_multiply1_ptr_3[0] * ((float)w_along_ptr[lane_19]));
    alignas(64) float T_add1_ptr_3[1];
    T_add1_ptr_3[0] = (T_multiply2_ptr_3[0] + ((float)b_along_ptr[lane_19]));
    alignas(64) nv_bfloat16 compute4_ptr_3[1];
    compute4_ptr_3[0] = ((nv_bfloat16)T_add1_ptr_3[0]);
    compute_intermediate_1_2_3_4_out_ptr_3[lane_19] = compute4_ptr_3[0];
  }
  if ((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)48) < n) {
    *(uint4*)(compute_intermediate_1_2_3_4_ptr + ((min((((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)64) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) + (int64_t)48), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(compute_intermediate_1_2_3_4_out_ptr_3 + (int64_t)0);
  }
}
