extern "C" __global__ void __launch_bounds__(512) main_kernel(float* __restrict__ T_add_intermediate_1_ptr, float* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ p2_ptr) {
  __shared__ alignas(64) float p0_red_warps_ptr[128];
  __shared__ alignas(64) float p0_red1_warps_ptr[128];
  alignas(64) float p0_kept_ptr[13];
  int cse_v1 = (((int)threadIdx.x) & 7);
  int cse_v3 = ((((int)threadIdx.x) >> 3) * 300);
  int cse_v8 = min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299);
  #pragma unroll
  for (int step = 0; step < 12; ++step) {
    p0_kept_ptr[step] = p0_ptr[(((step * 19200) + ((((int)threadIdx.x) >> 3) * 300)) + min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299))];
  }
  int cse_v11 = ((((((int)threadIdx.x) >> 3) * 300) + min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299)) + 230400);
  if (((int)threadIdx.x) < 72) {
    p0_kept_ptr[12] = p0_ptr[((((((int)threadIdx.x) >> 3) * 300) + min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299)) + 230400)];
  }
  alignas(64) float p0_red_partial_ptr[1];
  p0_red_partial_ptr[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int step_1 = 0; step_1 < 12; ++step_1) {
    p0_red_partial_ptr[0] = (p0_red_partial_ptr[0] + p0_kept_ptr[step_1]);
  }
  if (((int)threadIdx.x) < 72) {
    p0_red_partial_ptr[0] = (p0_red_partial_ptr[0] + p0_kept_ptr[12]);
  }
  alignas(64) float p0_red_mine_ptr[1];
  p0_red_mine_ptr[0] = p0_red_partial_ptr[0];
  alignas(64) float p0_red_all_ptr[1];
  p0_red_all_ptr[0] = (p0_red_mine_ptr[0] + __shfl_xor_sync((uint)4294967295, p0_red_mine_ptr[0], 16, 32));
  alignas(64) float p0_red_mine_ptr_1[1];
  p0_red_mine_ptr_1[0] = p0_red_all_ptr[0];
  alignas(64) float p0_red_all_ptr_1[1];
  p0_red_all_ptr_1[0] = (p0_red_mine_ptr_1[0] + __shfl_xor_sync((uint)4294967295, p0_red_mine_ptr_1[0], 8, 32));
  int cse_v2 = (((int)threadIdx.x) & 31);
  int cse_v4 = ((((int)threadIdx.x) & 31) >> 3);
  int cse_v9 = (((((int)threadIdx.x) >> 5) * 8) + (((int)threadIdx.x) & 7));
  if (((((int)threadIdx.x) & 31) >> 3) == 0) {
    p0_red_warps_ptr[(((((int)threadIdx.x) >> 5) * 8) + (((int)threadIdx.x) & 7))] = p0_red_all_ptr_1[0];
  }
  __syncthreads();
  alignas(64) float p0_red_of_warp_ptr[1];
  p0_red_of_warp_ptr[0] = p0_red_warps_ptr[(((int)threadIdx.x) & 31)];
  alignas(64) float p0_red_of_warp_ptr_1[1];
  int cse_v5 = ((((int)threadIdx.x) & 31) + 32);
  p0_red_of_warp_ptr_1[0] = p0_red_warps_ptr[((((int)threadIdx.x) & 31) + 32)];
  alignas(64) float p0_red_of_warp_ptr_2[1];
  int cse_v6 = ((((int)threadIdx.x) & 31) + 64);
  p0_red_of_warp_ptr_2[0] = p0_red_warps_ptr[((((int)threadIdx.x) & 31) + 64)];
  alignas(64) float p0_red_of_warp_ptr_3[1];
  int cse_v7 = ((((int)threadIdx.x) & 31) + 96);
  p0_red_of_warp_ptr_3[0] = p0_red_warps_ptr[((((int)threadIdx.x) & 31) + 96)];
  alignas(64) float p0_red_mine_ptr_2[1];
  p0_red_mine_ptr_2[0] = (((p0_red_of_warp_ptr[0] + p0_red_of_warp_ptr_1[0]) + p0_red_of_warp_ptr_2[0]) + p0_red_of_warp_ptr_3[0]);
  alignas(64) float p0_red_all_ptr_2[1];
  p0_red_all_ptr_2[0] = (p0_red_mine_ptr_2[0] + __shfl_xor_sync((uint)4294967295, p0_red_mine_ptr_2[0], 16, 32));
  alignas(64) float p0_red_mine_ptr_3[1];
  p0_red_mine_ptr_3[0] = p0_red_all_ptr_2[0];
  alignas(64) float p0_red_all_ptr_3[1];
  p0_red_all_ptr_3[0] = (p0_red_mine_ptr_3[0] + __shfl_xor_sync((uint)4294967295, p0_red_mine_ptr_3[0], 8, 32));
  alignas(64) float p0_red_ptr[1];
  p0_red_ptr[0] = p0_red_all_ptr_3[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (p0_red_ptr[0] / 0x1.848p+9f/*7.770000e+02*/);
  alignas(64) float p0_red1_partial_ptr[1];
  p0_red1_partial_ptr[0] = 0x0p+0f/*0.000000e+00*/;
  #pragma unroll
  for (int step_2 = 0; step_2 < 12; ++step_2) {
    alignas(64) float T_subtract_ptr[1];
    T_subtract_ptr[0] = (p0_kept_ptr[step_2] - T_divide_ptr[0]);
    alignas(64) float T_multiply_ptr[1];
    T_multiply_ptr[0] = (T_subtract_ptr[0] * T_subtract_ptr[0]);
    p0_red1_partial_ptr[0] = (p0_red1_partial_ptr[0] + T_multiply_ptr[0]);
  }
  if (((int)threadIdx.x) < 72) {
    alignas(64) float T_subtract_ptr_1[1];
    T_subtract_ptr_1[0] = (p0_kept_ptr[12] - T_divide_ptr[0]);
    alignas(64) float T_multiply_ptr_1[1];
    T_multiply_ptr_1[0] = (T_subtract_ptr_1[0] * T_subtract_ptr_1[0]);
    p0_red1_partial_ptr[0] = (p0_red1_partial_ptr[0] + T_multiply_ptr_1[0]);
  }
  alignas(64) float p0_red1_mine_ptr[1];
  p0_red1_mine_ptr[0] = p0_red1_partial_ptr[0];
  alignas(64) float p0_red1_all_ptr[1];
  p0_red1_all_ptr[0] = (p0_red1_mine_ptr[0] + __shfl_xor_sync((uint)4294967295, p0_red1_mine_ptr[0], 16, 32));
  alignas(64) float p0_red1_mine_ptr_1[1];
  p0_red1_mine_ptr_1[0] = p0_red1_all_ptr[0];
  alignas(64) float p0_red1_all_ptr_1[1];
  p0_red1_all_ptr_1[0] = (p0_red1_mine_ptr_1[0] + __shfl_xor_sync((uint)4294967295, p0_red1_mine_ptr_1[0], 8, 32));
  if (((((int)threadIdx.x) & 31) >> 3) == 0) {
    p0_red1_warps_ptr[(((((int)threadIdx.x) >> 5) * 8) + (((int)threadIdx.x) & 7))] = p0_red1_all_ptr_1[0];
  }
  __syncthreads();
  alignas(64) float p0_red1_of_warp_ptr[1];
  p0_red1_of_warp_ptr[0] = p0_red1_warps_ptr[(((int)threadIdx.x) & 31)];
  alignas(64) float p0_red1_of_warp_ptr_1[1];
  p0_red1_of_warp_ptr_1[0] = p0_red1_warps_ptr[((((int)threadIdx.x) & 31) + 32)];
  alignas(64) float p0_red1_of_warp_ptr_2[1];
  p0_red1_of_warp_ptr_2[0] = p0_red1_warps_ptr[((((int)threadIdx.x) & 31) + 64)];
  alignas(64) float p0_red1_of_warp_ptr_3[1];
  p0_red1_of_warp_ptr_3[0] = p0_red1_warps_ptr[((((int)threadIdx.x) & 31) + 96)];
  alignas(64) float p0_red1_mine_ptr_2[1];
  p0_red1_mine_ptr_2[0] = (((p0_red1_of_warp_ptr[0] + p0_red1_of_warp_ptr_1[0]) + p0_red1_of_warp_ptr_2[0]) + p0_red1_of_warp_ptr_3[0]);
  alignas(64) float p0_red1_all_ptr_2[1];
  p0_red1_all_ptr_2[0] = (p0_red1_mine_ptr_2[0] + __shfl_xor_sync((uint)4294967295, p0_red1_mine_ptr_2[0], 16, 32));
  alignas(64) float p0_red1_mine_ptr_3[1];
  p0_red1_mine_ptr_3[0] = p0_red1_all_ptr_2[0];
  alignas(64) float p0_red1_all_ptr_3[1];
  p0_red1_all_ptr_3[0] = (p0_red1_mine_ptr_3[0] + __shfl_xor_sync((uint)4294967295, p0_red1_mine_ptr_3[0], 8, 32));
  alignas(64) float p0_red1_ptr[1];
  p0_red1_ptr[0] = p0_red1_all_ptr_3[0];
  alignas(64) float T_divide1_ptr[1];
  T_divide1_ptr[0] = (p0_red1_ptr[0] / 0x1.848p+9f/*7.770000e+02*/);
  alignas(64) float T_add_ptr[1];
  T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute_ptr[1];
  compute_ptr[0] = rsqrtf(T_add_ptr[0]);
  alignas(64) float p1_of_row_ptr[1];
  p1_of_row_ptr[0] = p1_ptr[min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299)];
  alignas(64) float p2_of_row_ptr[1];
  p2_of_row_ptr[0] = p2_ptr[min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299)];
  int cse_v10 = ((((int)blockIdx.x) * 2) + ((((int)threadIdx.x) & 7) >> 2));
  #pragma unroll
  for (int step_3 = 0; step_3 < 12; ++step_3) {
    alignas(64) float T_subtract_ptr_2[1];
    T_subtract_ptr_2[0] = (p0_kept_ptr[step_3] - T_divide_ptr[0]);
    alignas(64) float T_multiply1_ptr[1];
    T_multiply1_ptr[0] = (T_subtract_ptr_2[0] * compute_ptr[0]);
    alignas(64) float T_multiply2_ptr[1];
    T_multiply2_ptr[0] = (T_multiply1_ptr[0] * p1_of_row_ptr[0]);
    alignas(64) float T_add1_ptr[1];
    T_add1_ptr[0] = (T_multiply2_ptr[0] + p2_of_row_ptr[0]);
    if (((((int)blockIdx.x) * 2) + ((((int)threadIdx.x) & 7) >> 2)) < 75) {
      T_add_intermediate_1_ptr[(((step_3 * 19200) + ((((int)threadIdx.x) >> 3) * 300)) + min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299))] = T_add1_ptr[0];
    }
  }
  if (((int)threadIdx.x) < 72) {
    alignas(64) float T_subtract_ptr_3[1];
    T_subtract_ptr_3[0] = (p0_kept_ptr[12] - T_divide_ptr[0]);
    alignas(64) float T_multiply1_ptr_1[1];
    T_multiply1_ptr_1[0] = (T_subtract_ptr_3[0] * compute_ptr[0]);
    alignas(64) float T_multiply2_ptr_1[1];
    T_multiply2_ptr_1[0] = (T_multiply1_ptr_1[0] * p1_of_row_ptr[0]);
    alignas(64) float T_add1_ptr_1[1];
    T_add1_ptr_1[0] = (T_multiply2_ptr_1[0] + p2_of_row_ptr[0]);
    if (((((int)blockIdx.x) * 2) + ((((int)threadIdx.x) & 7) >> 2)) < 75) {
      T_add_intermediate_1_ptr[((((((int)threadIdx.x) >> 3) * 300) + min(((((int)blockIdx.x) * 8) + (((int)threadIdx.x) & 7)), 299)) + 230400)] = T_add1_ptr_1[0];
    }
  }
  (&(p0_red_warps_ptr[0]));
  (&(p0_red1_warps_ptr[0]));
}
