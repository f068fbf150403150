extern "C" __global__ void __launch_bounds__(128, 4) main_kernel(nv_bfloat16* __restrict__ b_ptr, nv_bfloat16* __restrict__ compute_intermediate_1_2_ptr, nv_bfloat16* __restrict__ w_ptr, nv_bfloat16* __restrict__ x_ptr, int64_t n) {
  int64_t cse_v1 = (n * (int64_t)60);
  alignas(64) int last_row_ptr[1];
  int64_t cse_v4 = ((int64_t)((int)((int64_t)blockIdx.x)));
  int64_t cse_v8 = (n - (((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16));
  last_row_ptr[0] = ((int)min(((n - (((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16)) - (int64_t)1), (int64_t)7));
  alignas(64) int row_of_block_ptr[1];
  int cse_v2 = (((int)threadIdx.x) >> 4);
  row_of_block_ptr[0] = min((((int)threadIdx.x) >> 4), max(last_row_ptr[0], -16777216));
  alignas(64) int64_t first_vector_ptr[1];
  int64_t cse_v6 = (((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)240);
  first_vector_ptr[0] = ((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)240) + (((int64_t)row_of_block_ptr[0]) * (int64_t)15));
  alignas(64) int last_row_ptr_1[1];
  last_row_ptr_1[0] = ((int)min(((n - (((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16)) - (int64_t)9), (int64_t)7));
  alignas(64) int row_of_block_ptr_1[1];
  row_of_block_ptr_1[0] = min((((int)threadIdx.x) >> 4), max(last_row_ptr_1[0], -16777216));
  alignas(64) int64_t first_vector_ptr_1[1];
  first_vector_ptr_1[0] = (((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)240) + (((int64_t)row_of_block_ptr_1[0]) * (int64_t)15)) + (int64_t)120);
  alignas(64) nv_bfloat16 x_kept_ptr[4];
  int cse_v3 = (((int)threadIdx.x) & 15);
  int64_t cse_v7 = ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4);
  if ((((int)threadIdx.x) & 15) < 15) {
    *(nv_bfloat164*)(x_kept_ptr + (int64_t)0) = *(nv_bfloat164*)(x_ptr + ((first_vector_ptr[0] * (int64_t)4) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4)));
  }
  alignas(64) nv_bfloat16 w_vector_ptr[4];
  alignas(64) nv_bfloat16 b_vector_ptr[4];
  if ((((int)threadIdx.x) & 15) < 15) {
    int cse_v5 = ((((int)threadIdx.x) & 15) * 4);
    *(nv_bfloat164*)(w_vector_ptr + 0) = *(nv_bfloat164*)(w_ptr + ((((int)threadIdx.x) & 15) * 4));
    *(nv_bfloat164*)(b_vector_ptr + 0) = *(nv_bfloat164*)(b_ptr + ((((int)threadIdx.x) & 15) * 4));
  }
  alignas(64) nv_bfloat16 x_kept_ptr_1[4];
  if ((((int)threadIdx.x) & 15) < 15) {
    *(nv_bfloat164*)(x_kept_ptr_1 + (int64_t)0) = *(nv_bfloat164*)(x_ptr + ((first_vector_ptr_1[0] * (int64_t)4) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4)));
  }
  alignas(64) float lv_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    lv_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
  }
  if ((((int)threadIdx.x) & 15) < 15) {
    #pragma unroll
    for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
      alignas(64) float compute_ptr[1];
      compute_ptr[0] = tvm_stitch_widen((&(x_kept_ptr[0])), lane_1);
      lv_red_partial_ptr[lane_1] = (lv_red_partial_ptr[lane_1] + compute_ptr[0]);
    }
  }
  alignas(64) float lv_red_all_ptr[1];
  lv_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_16((((lv_red_partial_ptr[0] + lv_red_partial_ptr[1]) + lv_red_partial_ptr[2]) + lv_red_partial_ptr[3]));
  alignas(64) float lv_red_ptr[1];
  lv_red_ptr[0] = lv_red_all_ptr[0];
  alignas(64) float lv_red_partial_ptr_1[4];
  #pragma unroll
  for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
    lv_red_partial_ptr_1[lane_2] = 0x0p+0f/*0.000000e+00*/;
  }
  if ((((int)threadIdx.x) & 15) < 15) {
    #pragma unroll
    for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
      alignas(64) float compute_ptr_1[1];
      compute_ptr_1[0] = tvm_stitch_widen((&(x_kept_ptr_1[0])), lane_3);
      lv_red_partial_ptr_1[lane_3] = (lv_red_partial_ptr_1[lane_3] + compute_ptr_1[0]);
    }
  }
  alignas(64) float lv_red_all_ptr_1[1];
  lv_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_16((((lv_red_partial_ptr_1[0] + lv_red_partial_ptr_1[1]) + lv_red_partial_ptr_1[2]) + lv_red_partial_ptr_1[3]));
  alignas(64) float lv_red_ptr_1[1];
  lv_red_ptr_1[0] = lv_red_all_ptr_1[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (lv_red_ptr[0] / 0x1.ep+5f/*6.000000e+01*/);
  alignas(64) float lv_red1_partial_ptr[4];
  #pragma unroll
  for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
    lv_red1_partial_ptr[lane_4] = 0x0p+0f/*0.000000e+00*/;
  }
  if ((((int)threadIdx.x) & 15) < 15) {
    #pragma unroll
    for (int lane_5 = 0; lane_5 < 4; ++lane_5) {
      alignas(64) float compute_ptr_2[1];
      compute_ptr_2[0] = tvm_stitch_widen((&(x_kept_ptr[0])), lane_5);
      alignas(64) float T_subtract_ptr[1];
      T_subtract_ptr[0] = (compute_ptr_2[0] - T_divide_ptr[0]);
      alignas(64) float T_multiply_ptr[1];
      T_multiply_ptr[0] = (T_subtract_ptr[0] * T_subtract_ptr[0]);
      lv_red1_partial_ptr[lane_5] = (lv_red1_partial_ptr[lane_5] + T_multiply_ptr[0]);
    }
  }
  alignas(64) float lv_red1_all_ptr[1];
  lv_red1_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_16((((lv_red1_partial_ptr[0] + lv_red1_partial_ptr[1]) + lv_red1_partial_ptr[2]) + lv_red1_partial_ptr[3]));
  alignas(64) float lv_red1_ptr[1];
  lv_red1_ptr[0] = lv_red1_all_ptr[0];
  alignas(64) float T_divide_ptr_1[1];
  T_divide_ptr_1[0] = (lv_red_ptr_1[0] / 0x1.ep+5f/*6.000000e+01*/);
  alignas(64) float lv_red1_partial_ptr_1[4];
  #pragma unroll
  for (int lane_6 = 0; lane_6 < 4; ++lane_6) {
    lv_red1_partial_ptr_1[lane_6] = 0x0p+0f/*0.000000e+00*/;
  }
  if ((((int)threadIdx.x) & 15) < 15) {
    #pragma unroll
    for (int lane_7 = 0; lane_7 < 4; ++lane_7) {
      alignas(64) float compute_ptr_3[1];
      compute_ptr_3[0] = tvm_stitch_widen((&(x_kept_ptr_1[0])), lane_7);
      alignas(64) float T_subtract_ptr_1[1];
      T_subtract_ptr_1[0] = (compute_ptr_3[0] - T_divide_ptr_1[0]);
      alignas(64) float T_multiply_ptr_1[1];
      T_multiply_ptr_1[0] = (T_subtract_ptr_1[0] * T_subtract_ptr_1[0]);
      lv_red1_partial_ptr_1[lane_7] = (lv_red1_partial_ptr_1[lane_7] + T_multiply_ptr_1[0]);
    }
  }
  alignas(64) float lv_red1_all_ptr_1[1];
  lv_red1_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_16((((lv_red1_partial_ptr_1[0] + lv_red1_partial_ptr_1[1]) + lv_red1_partial_ptr_1[2]) + lv_red1_partial_ptr_1[3]));
  alignas(64) float lv_red1_ptr_1[1];
  lv_red1_ptr_1[0] = lv_red1_all_ptr_1[0];
  alignas(64) float T_divide1_ptr[1];
  T_divide1_ptr[0] = (lv_red1_ptr[0] / 0x1.ep+5f/*6.000000e+01*/);
  alignas(64) float T_add_ptr[1];
  T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute1_ptr[1];
  compute1_ptr[0] = rsqrtf(T_add_ptr[0]);
  if ((((int)threadIdx.x) & 15) < 15) {
    alignas(64) nv_bfloat16 compute_intermediate_1_2_out_ptr[4];
    #pragma unroll
    for (int lane_8 = 0; lane_8 < 4; ++lane_8) {
      alignas(64) float compute_ptr_4[1];
      compute_ptr_4[0] = tvm_stitch_widen((&(x_kept_ptr[0])), lane_8);
      alignas(64) float T_subtract_ptr_2[1];
      T_subtract_ptr_2[0] = (compute_ptr_4[0] - T_divide_ptr[0]);
      alignas(64) float T_multiply1_ptr[1];
      T_multiply1_ptr[0] = (T_subtract_ptr_2[0] * compute1_ptr[0]);
      alignas(64) float T_multiply2_ptr[1];
      T_multiply2_ptr[0] = (T_multiply1_ptr[0] * tvm_stitch_widen((&(w_vector_ptr[0])), lane_8));
      alignas(64) float T_add1_ptr[1];
      T_add1_ptr[0] = (T_multiply2_ptr[0] + tvm_stitch_widen((&(b_vector_ptr[0])), lane_8));
      alignas(64) nv_bfloat16 compute2_ptr[1];
      compute2_ptr[0] = ((nv_bfloat16)T_add1_ptr[0]);
      compute_intermediate_1_2_out_ptr[lane_8] = compute2_ptr[0];
    }
    if ((((int)threadIdx.x) >> 4) <= last_row_ptr[0]) {
      *(nv_bfloat164*)(compute_intermediate_1_2_ptr + ((first_vector_ptr[0] * (int64_t)4) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4))) = *(nv_bfloat164*)(compute_intermediate_1_2_out_ptr + (int64_t)0);
    }
  }
  alignas(64) float T_divide1_ptr_1[1];
  T_divide1_ptr_1[0] = (lv_red1_ptr_1[0] / 0x1.ep+5f/*6.000000e+01*/);
  alignas(64) float T_add_ptr_1[1];
  T_add_ptr_1[0] = (T_divide1_ptr_1[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute1_ptr_1[1];
  compute1_ptr_1[0] = rsqrtf(T_add_ptr_1[0]);
  if ((((int)threadIdx.x) & 15) < 15) {
    alignas(64) nv_bfloat16 compute_intermediate_1_2_out_ptr_1[4];
    #pragma unroll
    for (int lane_9 = 0; lane_9 < 4; ++lane_9) {
      alignas(64) float compute_ptr_5[1];
      compute_ptr_5[0] = tvm_stitch_widen((&(x_kept_ptr_1[0])), lane_9);
      alignas(64) float T_subtract_ptr_3[1];
      T_subtract_ptr_3[0] = (compute_ptr_5[0] - T_divide_ptr_1[0]);
      alignas(64) float T_multiply1_ptr_1[1];
      T_multiply1_ptr_1[0] = (T_subtract_ptr_3[0] * compute1_ptr_1[0]);
      alignas(64) float T_multiply2_ptr_1[1];
      T_multiply2_ptr_1[0] = (T_multiply1_ptr_1[0] * tvm_stitch_widen((&(w_vector_ptr[0])), lane_9));
      alignas(64) float T_add1_ptr_1[1];
      T_add1_ptr_1[0] = (T_multiply2_ptr_1[0] + tvm_stitch_widen((&(b_vector_ptr[0])), lane_9));
      alignas(64) nv_bfloat16 compute2_ptr_1[1];
      compute2_ptr_1[0] = ((nv_bfloat16)T_add1_ptr_1[0]);
      compute_intermediate_1_2_out_ptr_1[lane_9] = compute2_ptr_1[0];
    }
    if ((((int)threadIdx.x) >> 4) <= last_row_ptr_1[0]) {
      *(nv_bfloat164*)(compute_intermediate_1_2_ptr + ((first_vector_ptr_1[0] * (int64_t)4) + ((((int64_t)((int)threadIdx.x)) & (int64_t)15) * (int64_t)4))) = *(nv_bfloat164*)(compute_intermediate_1_2_out_ptr_1 + (int64_t)0);
    }
  }
}
