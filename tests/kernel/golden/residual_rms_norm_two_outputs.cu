extern "C" __global__ void __launch_bounds__(64) main_kernel(nv_bfloat16* __restrict__ T_add_intermediate_ptr, nv_bfloat16* __restrict__ compute_intermediate_1_2_ptr, nv_bfloat16* __restrict__ r_ptr, nv_bfloat16* __restrict__ w_ptr, nv_bfloat16* __restrict__ x_ptr) {
  __shared__ alignas(64) float lv2_red_warps_ptr[2];
  alignas(64) nv_bfloat16 T_add_intermediate_kept_ptr[8];
  alignas(64) nv_bfloat16 x_loaded_ptr[8];
  alignas(64) nv_bfloat16 r_loaded_ptr[8];
  int cse_v1 = (((int)threadIdx.x) * 8);
  int cse_v3 = ((((int)blockIdx.x) * 512) + (((int)threadIdx.x) * 8));
  *(uint4*)(x_loaded_ptr + 0) = *(uint4*)(x_ptr + ((((int)blockIdx.x) * 512) + (((int)threadIdx.x) * 8)));
  *(uint4*)(r_loaded_ptr + 0) = *(uint4*)(r_ptr + ((((int)blockIdx.x) * 512) + (((int)threadIdx.x) * 8)));
  alignas(64) float lv2_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    lv2_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) nv_bfloat16 T_add_intermediate_out_ptr[8];
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 8; ++lane_1) {
    alignas(64) nv_bfloat16 T_add_ptr[1];
    T_add_ptr[0] = (x_loaded_ptr[lane_1] + r_loaded_ptr[lane_1]);
    T_add_intermediate_kept_ptr[lane_1] = T_add_ptr[0];
    T_add_intermediate_out_ptr[lane_1] = T_add_ptr[0];
    alignas(64) float compute_ptr[1];
    compute_ptr[0] = ((float)T_add_ptr[0]);
    alignas(64) float T_multiply_ptr[1];
    T_multiply_ptr[0] = (compute_ptr[0] * compute_ptr[0]);
    int cse_v2 = (lane_1 & 3);
    lv2_red_partial_ptr[(lane_1 & 3)] = (lv2_red_partial_ptr[(lane_1 & 3)] + T_multiply_ptr[0]);
  }
  *(uint4*)(T_add_intermediate_ptr + ((((int)blockIdx.x) * 512) + (((int)threadIdx.x) * 8))) = *(uint4*)(T_add_intermediate_out_ptr + 0);
  alignas(64) float lv2_red_all_ptr[1];
  lv2_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv2_red_partial_ptr[0] + lv2_red_partial_ptr[1]) + lv2_red_partial_ptr[2]) + lv2_red_partial_ptr[3]));
  if ((((int)threadIdx.x) % 32) == 0) {
    lv2_red_warps_ptr[(((int)threadIdx.x) >> 5)] = lv2_red_all_ptr[0];
  }
  __syncthreads();
  alignas(64) float lv2_red_of_warp_ptr[1];
  lv2_red_of_warp_ptr[0] = lv2_red_warps_ptr[(((int)threadIdx.x) & 1)];
  alignas(64) float lv2_red_all_ptr_1[1];
  lv2_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_2(lv2_red_of_warp_ptr[0]);
  alignas(64) float lv2_red_ptr[1];
  lv2_red_ptr[0] = lv2_red_all_ptr_1[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (lv2_red_ptr[0] / 0x1p+9f/*5.120000e+02*/);
  alignas(64) float T_add1_ptr[1];
  T_add1_ptr[0] = (T_divide_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute1_ptr[1];
  compute1_ptr[0] = rsqrtf(T_add1_ptr[0]);
  alignas(64) nv_bfloat16 w_vector_ptr[8];
  *(uint4*)(w_vector_ptr + 0) = *(uint4*)(w_ptr + (((int)threadIdx.x) * 8));
  alignas(64) nv_bfloat16 compute_intermediate_1_2_out_ptr[8];
  #pragma unroll
  for (int lane_2 = 0; lane_2 < 8; ++lane_2) {
    alignas(64) float compute_ptr_1[1];
    compute_ptr_1[0] = tvm_stitch_widen((&(T_add_intermediate_kept_ptr[0])), lane_2);
    alignas(64) float T_multiply1_ptr[1];
    T_multiply1_ptr[0] = (compute_ptr_1[0] * compute1_ptr[0]);
    alignas(64) float T_multiply2_ptr[1];
    T_multiply2_ptr[0] = (T_multiply1_ptr[0] * tvm_stitch_widen((&(w_vector_ptr[0])), lane_2));
    alignas(64) nv_bfloat16 compute2_ptr[1];
    compute2_ptr[0] = ((nv_bfloat16)T_multiply2_ptr[0]);
    compute_intermediate_1_2_out_ptr[lane_2] = compute2_ptr[0];
  }
  *(uint4*)(compute_intermediate_1_2_ptr + ((((int)blockIdx.x) * 512) + (((int)threadIdx.x) * 8))) = *(uint4*)(compute_intermediate_1_2_out_ptr + 0);
  (&(lv2_red_warps_ptr[0]));
}
