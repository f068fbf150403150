extern "C" __global__ void __launch_bounds__(256) main_kernel(half* __restrict__ compute_intermediate_1_2_ptr, half* __restrict__ x_ptr) {
  __shared__ alignas(64) float lv_red_warps_ptr[8];
  __shared__ alignas(64) float lv3_red_warps_ptr[8];
  alignas(64) int first_column_ptr[1];
  first_column_ptr[0] = (0 - ((((int)blockIdx.x) * 3) & 7));
  alignas(64) float compute_intermediate_1_kept_ptr[8];
  #pragma unroll
  for (int element = 0; element < 8; ++element) {
    compute_intermediate_1_kept_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) half x_kept_ptr[8];
  #pragma unroll
  for (int element_1 = 0; element_1 < 8; ++element_1) {
    x_kept_ptr[element_1] = __float2half_rn(0x0p+0f/*0.000000e+00*/);
  }
  int cse_v1 = (((int)threadIdx.x) * 8);
  int cse_v2 = (((int)threadIdx.x) * 2);
  int cse_v8 = ((((((int)blockIdx.x) * 1027) >> 3) * 8) + (((int)threadIdx.x) * 8));
  if ((0 <= ((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7))) && (((((int)threadIdx.x) * 2) + (max(min(first_column_ptr[0], 0), -7) >> 2)) < 255)) {
    *(uint4*)(x_kept_ptr + 0) = *(uint4*)(x_ptr + ((((((int)blockIdx.x) * 1027) >> 3) * 8) + (((int)threadIdx.x) * 8)));
  } else {
    #pragma unroll
    for (int lane = 0; lane < 8; ++lane) {
      if ((0 <= (((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane)) && ((((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane) < 1027)) {
        x_kept_ptr[lane] = x_ptr[(((((((int)blockIdx.x) * 1027) >> 3) * 8) + (((int)threadIdx.x) * 8)) + lane)];
      }
    }
  }
  alignas(64) float lv_red_partial_ptr[4];
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
    lv_red_partial_ptr[lane_1] = -0x1.fffffep+127f/*-3.402823e+38*/;
  }
  #pragma unroll
  for (int lane_2 = 0; lane_2 < 8; ++lane_2) {
    if ((0 <= (((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_2)) && ((((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_2) < 1027)) {
      alignas(64) float compute_ptr[1];
      compute_ptr[0] = ((float)x_kept_ptr[lane_2]);
      int cse_v3 = (lane_2 & 3);
      lv_red_partial_ptr[(lane_2 & 3)] = max(lv_red_partial_ptr[(lane_2 & 3)], compute_ptr[0]);
    }
  }
  alignas(64) float lv_red_all_ptr[1];
  lv_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_max_32(max(max(max(lv_red_partial_ptr[0], lv_red_partial_ptr[1]), lv_red_partial_ptr[2]), lv_red_partial_ptr[3]));
  int cse_v4 = (((int)threadIdx.x) & 31);
  int cse_v5 = (((int)threadIdx.x) >> 5);
  if ((((int)threadIdx.x) % 32) == 0) {
    lv_red_warps_ptr[(((int)threadIdx.x) >> 5)] = lv_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float lv_red_of_warp_ptr[1];
  int cse_v6 = (((int)threadIdx.x) & 7);
  lv_red_of_warp_ptr[0] = lv_red_warps_ptr[(((int)threadIdx.x) & 7)];
  alignas(64) float lv_red_all_ptr_1[1];
  lv_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_max_8(lv_red_of_warp_ptr[0]);
  alignas(64) float lv_red_ptr[1];
  lv_red_ptr[0] = lv_red_all_ptr_1[0];
  alignas(64) float lv3_red_partial_ptr[4];
  #pragma unroll
  for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
    lv3_red_partial_ptr[lane_3] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_4 = 0; lane_4 < 8; ++lane_4) {
    if ((0 <= (((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_4)) && ((((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_4) < 1027)) {
      alignas(64) float compute_ptr_1[1];
      compute_ptr_1[0] = ((float)x_kept_ptr[lane_4]);
      alignas(64) float T_subtract_ptr[1];
      T_subtract_ptr[0] = (compute_ptr_1[0] - lv_red_ptr[0]);
      alignas(64) float compute1_ptr[1];
      compute1_ptr[0] = expf(T_subtract_ptr[0]);
      compute_intermediate_1_kept_ptr[lane_4] = compute1_ptr[0];
      int cse_v7 = (lane_4 & 3);
      lv3_red_partial_ptr[(lane_4 & 3)] = (lv3_red_partial_ptr[(lane_4 & 3)] + compute1_ptr[0]);
    }
  }
  alignas(64) float lv3_red_all_ptr[1];
  lv3_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv3_red_partial_ptr[0] + lv3_red_partial_ptr[1]) + lv3_red_partial_ptr[2]) + lv3_red_partial_ptr[3]));
  if ((((int)threadIdx.x) % 32) == 0) {
    lv3_red_warps_ptr[(((int)threadIdx.x) >> 5)] = lv3_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float lv3_red_of_warp_ptr[1];
  lv3_red_of_warp_ptr[0] = lv3_red_warps_ptr[(((int)threadIdx.x) & 7)];
  alignas(64) float lv3_red_all_ptr_1[1];
  lv3_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_8(lv3_red_of_warp_ptr[0]);
  alignas(64) float lv3_red_ptr[1];
  lv3_red_ptr[0] = lv3_red_all_ptr_1[0];
  alignas(64) half compute_intermediate_1_2_out_ptr[8];
  #pragma unroll
  for (int lane_5 = 0; lane_5 < 8; ++lane_5) {
    if ((0 <= (((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_5)) && ((((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_5) < 1027)) {
      alignas(64) float T_divide_ptr[1];
      T_divide_ptr[0] = (compute_intermediate_1_kept_ptr[lane_5] / lv3_red_ptr[0]);
      alignas(64) half compute2_ptr[1];
      compute2_ptr[0] = ((half)T_divide_ptr[0]);
      compute_intermediate_1_2_out_ptr[lane_5] = compute2_ptr[0];
    }
  }
  if ((0 <= ((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7))) && (((((int)threadIdx.x) * 2) + (max(min(first_column_ptr[0], 0), -7) >> 2)) < 255)) {
    *(uint4*)(compute_intermediate_1_2_ptr + ((((((int)blockIdx.x) * 1027) >> 3) * 8) + (((int)threadIdx.x) * 8))) = *(uint4*)(compute_intermediate_1_2_out_ptr + 0);
  } else {
    #pragma unroll
    for (int lane_6 = 0; lane_6 < 8; ++lane_6) {
      if ((0 <= (((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_6)) && ((((((int)threadIdx.x) * 8) + max(min(first_column_ptr[0], 0), -7)) + lane_6) < 1027)) {
        compute_intermediate_1_2_ptr[(((((((int)blockIdx.x) * 1027) >> 3) * 8) + (((int)threadIdx.x) * 8)) + lane_6)] = compute_intermediate_1_2_out_ptr[lane_6];
      }
    }
  }
  (&(lv_red_warps_ptr[0]));
  (&(lv3_red_warps_ptr[0]));
}
