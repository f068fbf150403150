extern "C" __global__ void __launch_bounds__(512, 2) main_kernel(float* __restrict__ T_divide_intermediate_ptr, float* __restrict__ compute_intermediate_ptr, float* __restrict__ p0_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float lv_red_partials_warps_ptr[16];
  __shared__ alignas(64) float lv_red_warps_ptr[16];
  extern __shared__ __align__(64) float p0_persistent_ptr[];
  int cse_v1 = (((int)blockIdx.x) * 16384);
  int cse_v2 = (((int)threadIdx.x) >> 8);
  int cse_v3 = (((int)threadIdx.x) & 255);
  int cse_v4 = (((int)threadIdx.x) & 31);
  int cse_v5 = (((int)threadIdx.x) >> 5);
  int cse_v8 = ((519 - ((int)blockIdx.x)) / 264);
  int cse_v9 = ((((int)threadIdx.x) >> 8) * 8192);
  int cse_v10 = ((((int)threadIdx.x) & 255) * 4);
  for (int iteration = 0; iteration < ((519 - ((int)blockIdx.x)) / 264); ++iteration) {
    alignas(64) float p0_loaded_ptr[32];
    #pragma unroll
    for (int step = 0; step < 8; ++step) {
      *(float4*)(p0_loaded_ptr + (step * 4)) = *(float4*)(p0_ptr + (((((iteration * 4325376) + (((int)blockIdx.x) * 16384)) + ((((int)threadIdx.x) >> 8) * 8192)) + (step * 1024)) + ((((int)threadIdx.x) & 255) * 4)));
    }
    alignas(64) float lv_red_partials_partial_ptr[4];
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      lv_red_partials_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
    }
    #pragma unroll
    for (int step_1 = 0; step_1 < 8; ++step_1) {
      #pragma unroll
      for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
        alignas(64) float T_multiply_ptr[1];
        int cse_v11 = ((step_1 * 4) + lane_1);
        T_multiply_ptr[0] = (p0_loaded_ptr[((step_1 * 4) + lane_1)] * p0_loaded_ptr[((step_1 * 4) + lane_1)]);
        lv_red_partials_partial_ptr[lane_1] = (lv_red_partials_partial_ptr[lane_1] + T_multiply_ptr[0]);
      }
    }
    alignas(64) float lv_red_partials_all_ptr[1];
    lv_red_partials_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv_red_partials_partial_ptr[0] + lv_red_partials_partial_ptr[1]) + lv_red_partials_partial_ptr[2]) + lv_red_partials_partial_ptr[3]));
    if ((((int)threadIdx.x) % 32) == 0) {
      lv_red_partials_warps_ptr[(((int)threadIdx.x) >> 5)] = lv_red_partials_all_ptr[0];
    }
    __syncthreads();
    alignas(64) float lv_red_partials_of_warp_ptr[1];
    lv_red_partials_of_warp_ptr[0] = lv_red_partials_warps_ptr[(((((int)threadIdx.x) >> 8) * 8) + (((int)threadIdx.x) & 7))];
    alignas(64) float lv_red_partials_all_ptr_1[1];
    lv_red_partials_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_8(lv_red_partials_of_warp_ptr[0]);
    alignas(64) float lv_red_partials_ptr[1];
    lv_red_partials_ptr[0] = lv_red_partials_all_ptr_1[0];
    if ((((int)threadIdx.x) % 256) == 0) {
      workspace_ptr[(((iteration * 528) + (((int)blockIdx.x) * 2)) + (((int)threadIdx.x) >> 8))] = lv_red_partials_ptr[0];
    }
    #pragma unroll
    for (int step_2 = 0; step_2 < 8; ++step_2) {
      *(float4*)(p0_persistent_ptr + ((((iteration * 16384) + ((((int)threadIdx.x) >> 8) * 8192)) + (step_2 * 1024)) + ((((int)threadIdx.x) & 255) * 4))) = *(float4*)(p0_loaded_ptr + (step_2 * 4));
    }
    __syncthreads();
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  int cse_v12 = ((((0 - ((int)blockIdx.x)) + 264) / 264) - 1);
  for (int iteration_1 = 0; iteration_1 < (((((0 - ((int)blockIdx.x)) + 264) / 264) - 1) + 1); ++iteration_1) {
    alignas(64) float lv_red_partials_loaded_ptr[4];
    int cse_v6 = (((int)threadIdx.x) >> 7);
    int cse_v7 = (((int)threadIdx.x) & 127);
    int cse_v13 = ((((((((0 - ((int)blockIdx.x)) + 264) / 264) - 1) * 1056) + (((int)blockIdx.x) * 4)) + (((int)threadIdx.x) >> 7)) - (iteration_1 * 1056));
    *(float4*)(lv_red_partials_loaded_ptr + 0) = *(float4*)(workspace_ptr + ((min(((((((((0 - ((int)blockIdx.x)) + 264) / 264) - 1) * 1056) + (((int)blockIdx.x) * 4)) + (((int)threadIdx.x) >> 7)) - (iteration_1 * 1056)), 0) * 512) + ((((int)threadIdx.x) & 127) * 4)));
    alignas(64) float lv_red_partial_ptr[4];
    #pragma unroll
    for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
      lv_red_partial_ptr[lane_2] = 0x0p+0f/*0.000000e+00*/;
    }
    #pragma unroll
    for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
      lv_red_partial_ptr[lane_3] = (lv_red_partial_ptr[lane_3] + lv_red_partials_loaded_ptr[lane_3]);
    }
    alignas(64) float lv_red_all_ptr[1];
    lv_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((lv_red_partial_ptr[0] + lv_red_partial_ptr[1]) + lv_red_partial_ptr[2]) + lv_red_partial_ptr[3]));
    if ((((int)threadIdx.x) % 32) == 0) {
      lv_red_warps_ptr[(((int)threadIdx.x) >> 5)] = lv_red_all_ptr[0];
    }
    __syncthreads();
    alignas(64) float lv_red_of_warp_ptr[1];
    lv_red_of_warp_ptr[0] = lv_red_warps_ptr[(((((int)threadIdx.x) >> 7) * 4) + (((int)threadIdx.x) & 3))];
    alignas(64) float lv_red_all_ptr_1[1];
    lv_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_4(lv_red_of_warp_ptr[0]);
    alignas(64) float lv_red_ptr[1];
    lv_red_ptr[0] = lv_red_all_ptr_1[0];
    alignas(64) float T_add_ptr[1];
    T_add_ptr[0] = lv_red_ptr[0];
    alignas(64) float compute_ptr[1];
    compute_ptr[0] = sqrtf(T_add_ptr[0]);
    if (((((int)threadIdx.x) % 128) == 0) && (((((((((0 - ((int)blockIdx.x)) + 264) / 264) - 1) * 1056) + (((int)blockIdx.x) * 4)) + (((int)threadIdx.x) >> 7)) - (iteration_1 * 1056)) < 1)) {
      compute_intermediate_ptr[((((((((0 - ((int)blockIdx.x)) + 264) / 264) - 1) * 1056) + (((int)blockIdx.x) * 4)) + (((int)threadIdx.x) >> 7)) - (iteration_1 * 1056))] = compute_ptr[0];
    }
    __syncthreads();
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  for (int iteration_2 = 0; iteration_2 < ((519 - ((int)blockIdx.x)) / 264); ++iteration_2) {
    alignas(64) float p0_loaded_ptr_1[32];
    #pragma unroll
    for (int step_3 = 0; step_3 < 8; ++step_3) {
      *(float4*)(p0_loaded_ptr_1 + (step_3 * 4)) = *(float4*)(p0_persistent_ptr + ((((((((519 - ((int)blockIdx.x)) / 264) * 16384) + ((((int)threadIdx.x) >> 8) * 8192)) + (step_3 * 1024)) + ((((int)threadIdx.x) & 255) * 4)) - (iteration_2 * 16384)) - 16384));
    }
    alignas(64) float compute_intermediate_of_row_ptr[1];
    compute_intermediate_of_row_ptr[0] = compute_intermediate_ptr[0];
    #pragma unroll
    for (int step_4 = 0; step_4 < 8; ++step_4) {
      alignas(64) float T_divide_intermediate_out_ptr[4];
      #pragma unroll
      for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
        alignas(64) float T_divide_ptr[1];
        T_divide_ptr[0] = (p0_loaded_ptr_1[((step_4 * 4) + lane_4)] / compute_intermediate_of_row_ptr[0]);
        T_divide_intermediate_out_ptr[lane_4] = T_divide_ptr[0];
      }
      *(float4*)(T_divide_intermediate_ptr + (((((((((519 - ((int)blockIdx.x)) / 264) * 4325376) + (((int)blockIdx.x) * 16384)) + ((((int)threadIdx.x) >> 8) * 8192)) + (step_4 * 1024)) + ((((int)threadIdx.x) & 255) * 4)) - (iteration_2 * 4325376)) - 4325376)) = *(float4*)(T_divide_intermediate_out_ptr + 0);
    }
  }
  (&(lv_red_partials_warps_ptr[0]));
  (&(lv_red_warps_ptr[0]));
}
