extern "C" __global__ void __launch_bounds__(128, 4) main_kernel(nv_bfloat16* __restrict__ b_ptr, nv_bfloat16* __restrict__ compute_intermediate_1_2_3_4_ptr, nv_bfloat16* __restrict__ w_ptr, nv_bfloat16* __restrict__ x_ptr, int64_t n) {
  int64_t cse_v1 = (n * (int64_t)64);
  alignas(64) nv_bfloat16 x_kept_ptr[8];
  int64_t cse_v2 = ((int64_t)((int)threadIdx.x));
  int64_t cse_v6 = ((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3));
  int64_t cse_v7 = ((min(((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8));
  *(uint4*)(x_kept_ptr + (int64_t)0) = *(uint4*)(x_ptr + ((min(((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8)));
  alignas(64) nv_bfloat16 w_along_ptr[8];
  alignas(64) nv_bfloat16 b_along_ptr[8];
  int cse_v5 = ((((int)threadIdx.x) & 7) * 8);
  *(uint4*)(w_along_ptr + 0) = *(uint4*)(w_ptr + ((((int)threadIdx.x) & 7) * 8));
  *(uint4*)(b_along_ptr + 0) = *(uint4*)(b_ptr + ((((int)threadIdx.x) & 7) * 8));
  alignas(64) float lv_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    lv_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 8; ++lane_1) {
    alignas(64) float compute_ptr[1];
    compute_ptr[0] = ((float)x_kept_ptr[lane_1]);
    int cse_v3 = (lane_1 & 3);
    lv_red_partial_ptr[(lane_1 & 3)] = (lv_red_partial_ptr[(lane_1 & 3)] + compute_ptr[0]);
  }
  alignas(64) float lv_red_all_ptr[1];
  lv_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red_partial_ptr[0] + lv_red_partial_ptr[1]) + lv_red_partial_ptr[2]) + lv_red_partial_ptr[3]));
  alignas(64) float lv_red_ptr[1];
  lv_red_ptr[0] = lv_red_all_ptr[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (lv_red_ptr[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float lv_red1_partial_ptr[4];
  #pragma unroll
  for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
    lv_red1_partial_ptr[lane_2] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_3 = 0; lane_3 < 8; ++lane_3) {
    alignas(64) float compute_ptr_1[1];
    compute_ptr_1[0] = ((float)x_kept_ptr[lane_3]);
    alignas(64) float T_subtract_ptr[1];
    T_subtract_ptr[0] = (compute_ptr_1[0] - T_divide_ptr[0]);
    alignas(64) float T_multiply_ptr[1];
    T_multiply_ptr[0] = (T_subtract_ptr[0] * T_subtract_ptr[0]);
    int cse_v4 = (lane_3 & 3);
    lv_red1_partial_ptr[(lane_3 & 3)] = (lv_red1_partial_ptr[(lane_3 & 3)] + T_multiply_ptr[0]);
  }
  alignas(64) float lv_red1_all_ptr[1];
  lv_red1_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv_red1_partial_ptr[0] + lv_red1_partial_ptr[1]) + lv_red1_partial_ptr[2]) + lv_red1_partial_ptr[3]));
  alignas(64) float lv_red1_ptr[1];
  lv_red1_ptr[0] = lv_red1_all_ptr[0];
  alignas(64) float T_divide1_ptr[1];
  T_divide1_ptr[0] = (lv_red1_ptr[0] / 0x1p+6f/*6.400000e+01*/);
  alignas(64) float T_add_ptr[1];
  T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute3_ptr[1];
  compute3_ptr[0] = rsqrtf(T_add_ptr[0]);
  alignas(64) nv_bfloat16 compute_intermediate_1_2_3_4_out_ptr[8];
  #pragma unroll
  for (int lane_4 = 0; lane_4 < 8; ++lane_4) {
    alignas(64) float compute_ptr_2[1];
    compute_ptr_2[0] = ((float)x_kept_ptr[lane_4]);
    alignas(64) float T_subtract_ptr_1[1];
    T_subtract_ptr_1[0] = (compute_ptr_2[0] - T_divide_ptr[0]);
    alignas(64) float T_multiply1_ptr[1];
    T_multiply1_ptr[0] = (T_subtract_ptr_1[0] * compute3_ptr[0]);
    alignas(64) float T_multiply2_ptr[1];
    T_multiply2_ptr[0] = (T_multiply1_ptr[0] * ((float)w_along_ptr[lane_4]));
    alignas(64) float T_add1_ptr[1];
    T_add1_ptr[0] = (T_multiply2_ptr[0] + ((float)b_along_ptr[lane_4]));
    alignas(64) nv_bfloat16 compute4_ptr[1];
    compute4_ptr[0] = ((nv_bfloat16)T_add1_ptr[0]);
    compute_intermediate_1_2_3_4_out_ptr[lane_4] = compute4_ptr[0];
  }
  if (((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)) < n) {
    *(uint4*)(compute_intermediate_1_2_3_4_ptr + ((min(((((int64_t)((int)((int64_t)blockIdx.x))) * (int64_t)16) + (((int64_t)((int)threadIdx.x)) >> (int64_t)3)), (n - (int64_t)1)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)8))) = *(uint4*)(compute_intermediate_1_2_3_4_out_ptr + (int64_t)0);
  }
}
