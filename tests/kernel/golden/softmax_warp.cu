extern "C" __global__ void __launch_bounds__(32, 16) main_kernel(float* __restrict__ T_divide_intermediate_ptr, float* __restrict__ x_ptr) {
  alignas(64) float compute_intermediate_kept_ptr[4];
  alignas(64) float x_kept_ptr[4];
  int cse_v1 = (((int)threadIdx.x) & 7);
  int cse_v2 = (((((int)blockIdx.x) * 80) + ((((int)threadIdx.x) >> 3) * 20)) + ((((int)threadIdx.x) & 7) * 4));
  if ((((int)threadIdx.x) & 7) < 5) {
    *(float4*)(x_kept_ptr + 0) = *(float4*)(x_ptr + (((((int)blockIdx.x) * 80) + ((((int)threadIdx.x) >> 3) * 20)) + ((((int)threadIdx.x) & 7) * 4)));
  }
  alignas(64) float x_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    x_red_partial_ptr[lane] = -0x1.fffffep+127f/*-3.402823e+38*/;
  }
  if ((((int)threadIdx.x) & 7) < 5) {
    #pragma unroll
    for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
      x_red_partial_ptr[lane_1] = max(x_red_partial_ptr[lane_1], x_kept_ptr[lane_1]);
    }
  }
  alignas(64) float x_red_all_ptr[1];
  x_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_max_8(max(max(max(x_red_partial_ptr[0], x_red_partial_ptr[1]), x_red_partial_ptr[2]), x_red_partial_ptr[3]));
  alignas(64) float x_red_ptr[1];
  x_red_ptr[0] = x_red_all_ptr[0];
  alignas(64) float lv2_red_partial_ptr[4];
  #pragma unroll
  for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
    lv2_red_partial_ptr[lane_2] = 0x0p+0f/*0.000000e+00*/;
  }
  if ((((int)threadIdx.x) & 7) < 5) {
    #pragma unroll
    for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
      alignas(64) float T_subtract_ptr[1];
      T_subtract_ptr[0] = (x_kept_ptr[lane_3] - x_red_ptr[0]);
      alignas(64) float compute_ptr[1];
      compute_ptr[0] = expf(T_subtract_ptr[0]);
      compute_intermediate_kept_ptr[lane_3] = compute_ptr[0];
      lv2_red_partial_ptr[lane_3] = (lv2_red_partial_ptr[lane_3] + compute_ptr[0]);
    }
  }
  alignas(64) float lv2_red_all_ptr[1];
  lv2_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_8((((lv2_red_partial_ptr[0] + lv2_red_partial_ptr[1]) + lv2_red_partial_ptr[2]) + lv2_red_partial_ptr[3]));
  alignas(64) float lv2_red_ptr[1];
  lv2_red_ptr[0] = lv2_red_all_ptr[0];
  if ((((int)threadIdx.x) & 7) < 5) {
    alignas(64) float T_divide_intermediate_out_ptr[4];
    #pragma unroll
    for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
      alignas(64) float T_divide_ptr[1];
      T_divide_ptr[0] = (compute_intermediate_kept_ptr[lane_4] / lv2_red_ptr[0]);
      T_divide_intermediate_out_ptr[lane_4] = T_divide_ptr[0];
    }
    *(float4*)(T_divide_intermediate_ptr + (((((int)blockIdx.x) * 80) + ((((int)threadIdx.x) >> 3) * 20)) + ((((int)threadIdx.x) & 7) * 4))) = *(float4*)(T_divide_intermediate_out_ptr + 0);
  }
}
