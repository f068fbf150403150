extern "C" __global__ void __launch_bounds__(128, 4) main_kernel(float* __restrict__ T_divide_intermediate_ptr, float* __restrict__ lv1_red_intermediate_ptr, float* __restrict__ p0_ptr) {
  __shared__ alignas(64) float lv2_red_warps_ptr[4];
  int cse_v1 = (((int)blockIdx.x) >> 1);
  int cse_v2 = (((int)threadIdx.x) * 4);
  int cse_v3 = ((((int)blockIdx.x) >> 1) * 512);
  if ((((int)blockIdx.x) >> 1) < ((((int)blockIdx.x) + 1) >> 1)) {
    alignas(64) float p0_loaded_ptr[4];
    *(float4*)(p0_loaded_ptr + 0) = *(float4*)(p0_ptr + (((((int)blockIdx.x) >> 1) * 512) + (((int)threadIdx.x) * 4)));
    alignas(64) float lv2_red_partial_ptr[4];
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      lv2_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
    }
    #pragma unroll
    for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
      alignas(64) float compute_ptr[1];
      compute_ptr[0] = max(p0_loaded_ptr[lane_1], 0x0p+0f/*0.000000e+00*/);
      alignas(64) float T_multiply_ptr[1];
      T_multiply_ptr[0] = (compute_ptr[0] * compute_ptr[0]);
      lv2_red_partial_ptr[lane_1] = (lv2_red_partial_ptr[lane_1] + T_multiply_ptr[0]);
    }
    alignas(64) float lv2_red_all_ptr[1];
    lv2_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv2_red_partial_ptr[0] + lv2_red_partial_ptr[1]) + lv2_red_partial_ptr[2]) + lv2_red_partial_ptr[3]));
    if ((((int)threadIdx.x) % 32) == 0) {
      lv2_red_warps_ptr[(((int)threadIdx.x) >> 5)] = lv2_red_all_ptr[0];
    }
    __syncthreads();
    alignas(64) float lv2_red_of_warp_ptr[1];
    lv2_red_of_warp_ptr[0] = lv2_red_warps_ptr[(((int)threadIdx.x) & 3)];
    alignas(64) float lv2_red_all_ptr_1[1];
    lv2_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_4(lv2_red_of_warp_ptr[0]);
    alignas(64) float lv2_red_ptr[1];
    lv2_red_ptr[0] = lv2_red_all_ptr_1[0];
    alignas(64) float T_divide_ptr[1];
    T_divide_ptr[0] = (lv2_red_ptr[0] / 0x1p+9f/*5.120000e+02*/);
    if (((int)threadIdx.x) == 0) {
      T_divide_intermediate_ptr[(((int)blockIdx.x) >> 1)] = T_divide_ptr[0];
    }
  } else {
    alignas(64) float p0_loaded_ptr_1[4];
    *(float4*)(p0_loaded_ptr_1 + 0) = *(float4*)(p0_ptr + (((((int)blockIdx.x) * 512) + (((int)threadIdx.x) * 4)) - ((((int)blockIdx.x) >> 1) * 512)));
    alignas(64) float lv1_red_partial_ptr[4];
    #pragma unroll
    for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
      lv1_red_partial_ptr[lane_2] = -0x1.fffffep+127f/*-3.402823e+38*/;
    }
    #pragma unroll
    for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
      alignas(64) float compute_ptr_1[1];
      compute_ptr_1[0] = max(p0_loaded_ptr_1[lane_3], 0x0p+0f/*0.000000e+00*/);
      alignas(64) float T_reshape_ptr[1];
      T_reshape_ptr[0] = compute_ptr_1[0];
      lv1_red_partial_ptr[lane_3] = max(lv1_red_partial_ptr[lane_3], T_reshape_ptr[0]);
    }
    alignas(64) float lv1_red_all_ptr[1];
    lv1_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_max_2(max(max(max(lv1_red_partial_ptr[0], lv1_red_partial_ptr[1]), lv1_red_partial_ptr[2]), lv1_red_partial_ptr[3]));
    alignas(64) float lv1_red_ptr[1];
    lv1_red_ptr[0] = lv1_red_all_ptr[0];
    if ((((int)threadIdx.x) % 2) == 0) {
      lv1_red_intermediate_ptr[(((((int)blockIdx.x) * 64) + (((int)threadIdx.x) >> 1)) - ((((int)blockIdx.x) >> 1) * 64))] = lv1_red_ptr[0];
    }
  }
  (&(lv2_red_warps_ptr[0]));
}
