extern "C" __global__ void __launch_bounds__(128) main_kernel(half* __restrict__ T_add_intermediate_ptr, half* __restrict__ p0_ptr) {
  __shared__ alignas(64) half p0_tile_ptr[4096];
  alignas(64) half p0_lines_ptr[32];
  int cse_v1 = (((int)blockIdx.x) & 1);
  int cse_v2 = (((int)threadIdx.x) >> 3);
  int cse_v3 = (((int)blockIdx.x) >> 1);
  int cse_v7 = ((((int)threadIdx.x) & 7) * 8);
  #pragma unroll
  for (int iteration = 0; iteration < 4; ++iteration) {
    *(uint4*)(p0_lines_ptr + (iteration * 8)) = *(uint4*)(p0_ptr + ((((((((int)blockIdx.x) & 1) * 12288) + (iteration * 3072)) + ((((int)threadIdx.x) >> 3) * 192)) + ((((int)blockIdx.x) >> 1) * 64)) + ((((int)threadIdx.x) & 7) * 8)));
  }
  int64_t cse_v4 = ((int64_t)((int)threadIdx.x));
  int64_t cse_v8 = (((int64_t)((int)threadIdx.x)) & (int64_t)7);
  #pragma unroll
  for (int64_t iteration_1 = (int64_t)0; iteration_1 < (int64_t)4; ++iteration_1) {
    *(uint4*)(p0_tile_ptr + (((iteration_1 * (int64_t)1024) + ((((int64_t)((int)threadIdx.x)) >> (int64_t)3) * (int64_t)64)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)7) ^ ((iteration_1 * (int64_t)2) + (((int64_t)((int)threadIdx.x)) >> (int64_t)6))) * (int64_t)8))) = *(uint4*)(p0_lines_ptr + (iteration_1 * (int64_t)8));
  }
  __syncthreads();
  alignas(64) half p0_across_ptr[32];
  #pragma unroll
  for (int64_t iteration_2 = (int64_t)0; iteration_2 < (int64_t)2; ++iteration_2) {
    #pragma unroll
    for (int64_t lane = (int64_t)0; lane < (int64_t)8; ++lane) {
      *(half2*)(p0_across_ptr + ((iteration_2 * (int64_t)16) + (lane * (int64_t)2))) = *(half2*)(p0_tile_ptr + (((((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)512) + (lane * (int64_t)64)) + ((((iteration_2 * (int64_t)4) + (((int64_t)((int)threadIdx.x)) >> (int64_t)5)) ^ (((int64_t)((int)threadIdx.x)) & (int64_t)7)) * (int64_t)8)) + (((((int64_t)((int)threadIdx.x)) & (int64_t)31) >> (int64_t)3) * (int64_t)2)));
    }
  }
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
    alignas(64) half T_add_intermediate_out_ptr[8];
    int cse_v5 = (step >> 1);
    int cse_v6 = (step & 1);
    #pragma unroll
    for (int lane_1 = 0; lane_1 < 8; ++lane_1) {
      alignas(64) half T_transpose_ptr[1];
      T_transpose_ptr[0] = p0_across_ptr[((((step >> 1) * 16) + (lane_1 * 2)) + (step & 1))];
      alignas(64) half T_add_ptr[1];
      T_add_ptr[0] = (T_transpose_ptr[0] + T_transpose_ptr[0]);
      T_add_intermediate_out_ptr[lane_1] = T_add_ptr[0];
    }
    *(uint4*)(T_add_intermediate_ptr + (((((((((int)blockIdx.x) >> 1) * 8192) + ((step >> 1) * 4096)) + ((((int)threadIdx.x) >> 3) * 256)) + ((step & 1) * 128)) + ((((int)blockIdx.x) & 1) * 64)) + ((((int)threadIdx.x) & 7) * 8))) = *(uint4*)(T_add_intermediate_out_ptr + 0);
  }
  (&(p0_tile_ptr[0]));
}
