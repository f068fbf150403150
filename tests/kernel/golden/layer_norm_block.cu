extern "C" __global__ void __launch_bounds__(256) main_kernel(float* __restrict__ T_add_intermediate_1_ptr, float* __restrict__ b_ptr, float* __restrict__ w_ptr, float* __restrict__ x_ptr) {
  __shared__ alignas(64) float x_red_warps_ptr[8];
  __shared__ alignas(64) float x_red1_warps_ptr[8];
  alignas(64) float x_kept_ptr[4];
  int cse_v1 = (((int)threadIdx.x) * 4);
  int cse_v5 = ((((int)blockIdx.x) * 1024) + (((int)threadIdx.x) * 4));
  *(float4*)(x_kept_ptr + 0) = *(float4*)(x_ptr + ((((int)blockIdx.x) * 1024) + (((int)threadIdx.x) * 4)));
  alignas(64) float x_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    x_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
    x_red_partial_ptr[lane_1] = (x_red_partial_ptr[lane_1] + x_kept_ptr[lane_1]);
  }
  alignas(64) float x_red_all_ptr[1];
  x_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((x_red_partial_ptr[0] + x_red_partial_ptr[1]) + x_red_partial_ptr[2]) + x_red_partial_ptr[3]));
  int cse_v2 = (((int)threadIdx.x) & 31);
  int cse_v3 = (((int)threadIdx.x) >> 5);
  if ((((int)threadIdx.x) % 32) == 0) {
    x_red_warps_ptr[(((int)threadIdx.x) >> 5)] = x_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float x_red_of_warp_ptr[1];
  int cse_v4 = (((int)threadIdx.x) & 7);
  x_red_of_warp_ptr[0] = x_red_warps_ptr[(((int)threadIdx.x) & 7)];
  alignas(64) float x_red_all_ptr_1[1];
  x_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_8(x_red_of_warp_ptr[0]);
  alignas(64) float x_red_ptr[1];
  x_red_ptr[0] = x_red_all_ptr_1[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (x_red_ptr[0] / 0x1p+10f/*1.024000e+03*/);
  alignas(64) float x_red1_partial_ptr[4];
  #pragma unroll
  for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
    x_red1_partial_ptr[lane_2] = 0x0p+0f/*0.000000e+00*/;
  }
  #pragma unroll
  for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
    alignas(64) float T_subtract_ptr[1];
    T_subtract_ptr[0] = (x_kept_ptr[lane_3] - T_divide_ptr[0]);
    alignas(64) float T_multiply_ptr[1];
    T_multiply_ptr[0] = (T_subtract_ptr[0] * T_subtract_ptr[0]);
    x_red1_partial_ptr[lane_3] = (x_red1_partial_ptr[lane_3] + T_multiply_ptr[0]);
  }
  alignas(64) float x_red1_all_ptr[1];
  x_red1_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((x_red1_partial_ptr[0] + x_red1_partial_ptr[1]) + x_red1_partial_ptr[2]) + x_red1_partial_ptr[3]));
  if ((((int)threadIdx.x) % 32) == 0) {
    x_red1_warps_ptr[(((int)threadIdx.x) >> 5)] = x_red1_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float x_red1_of_warp_ptr[1];
  x_red1_of_warp_ptr[0] = x_red1_warps_ptr[(((int)threadIdx.x) & 7)];
  alignas(64) float x_red1_all_ptr_1[1];
  x_red1_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_8(x_red1_of_warp_ptr[0]);
  alignas(64) float x_red1_ptr[1];
  x_red1_ptr[0] = x_red1_all_ptr_1[0];
  alignas(64) float T_divide1_ptr[1];
  T_divide1_ptr[0] = (x_red1_ptr[0] / 0x1p+10f/*1.024000e+03*/);
  alignas(64) float T_add_ptr[1];
  T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute_ptr[1];
  compute_ptr[0] = rsqrtf(T_add_ptr[0]);
  alignas(64) float w_vector_ptr[4];
  *(float4*)(w_vector_ptr + 0) = *(float4*)(w_ptr + (((int)threadIdx.x) * 4));
  alignas(64) float b_vector_ptr[4];
  *(float4*)(b_vector_ptr + 0) = *(float4*)(b_ptr + (((int)threadIdx.x) * 4));
  alignas(64) float T_add_intermediate_1_out_ptr[4];
  #pragma unroll
  for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
    alignas(64) float T_subtract_ptr_1[1];
    T_subtract_ptr_1[0] = (x_kept_ptr[lane_4] - T_divide_ptr[0]);
    alignas(64) float T_multiply1_ptr[1];
    T_multiply1_ptr[0] = (T_subtract_ptr_1[0] * compute_ptr[0]);
    alignas(64) float T_multiply2_ptr[1];
    T_multiply2_ptr[0] = (T_multiply1_ptr[0] * w_vector_ptr[lane_4]);
    alignas(64) float T_add1_ptr[1];
    T_add1_ptr[0] = (T_multiply2_ptr[0] + b_vector_ptr[lane_4]);
    T_add_intermediate_1_out_ptr[lane_4] = T_add1_ptr[0];
  }
  *(float4*)(T_add_intermediate_1_ptr + ((((int)blockIdx.x) * 1024) + (((int)threadIdx.x) * 4))) = *(float4*)(T_add_intermediate_1_out_ptr + 0);
  (&(x_red_warps_ptr[0]));
  (&(x_red1_warps_ptr[0]));
}
