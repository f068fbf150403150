extern "C" __global__ void __launch_bounds__(1024, 2) main_kernel(float* __restrict__ p0_ptr, float* __restrict__ p0_red_intermediate_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float rows_ptr[4096];
  __shared__ alignas(64) float p0_red_partials_ptr[1024];
  alignas(64) float p0_red_sums_ptr[4];
  #pragma unroll
  for (int element = 0; element < 4; ++element) {
    p0_red_sums_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) float p0_next_ptr[4];
  int cse_v1 = (((int)threadIdx.x) & 255);
  int cse_v2 = (((int)blockIdx.x) * 4000);
  int cse_v3 = (((int)threadIdx.x) >> 8);
  int cse_v7 = ((((int)threadIdx.x) >> 8) * 1000);
  int cse_v8 = ((((int)threadIdx.x) & 255) * 4);
  if ((((int)threadIdx.x) & 255) < 250) {
    *(float4*)(p0_next_ptr + 0) = *(float4*)(p0_ptr + (((((int)blockIdx.x) * 4000) + ((((int)threadIdx.x) >> 8) * 1000)) + ((((int)threadIdx.x) & 255) * 4)));
  }
  for (int iteration = 0; iteration < 4; ++iteration) {
    alignas(64) float p0_loaded_ptr[4];
    #pragma unroll
    for (int element_1 = 0; element_1 < 4; ++element_1) {
      p0_loaded_ptr[element_1] = p0_next_ptr[element_1];
    }
    if (iteration < 3) {
      if ((((int)threadIdx.x) & 255) < 250) {
        *(float4*)(p0_next_ptr + 0) = *(float4*)(p0_ptr + (((((iteration * 1024000) + (((int)blockIdx.x) * 4000)) + ((((int)threadIdx.x) >> 8) * 1000)) + ((((int)threadIdx.x) & 255) * 4)) + 1024000));
      }
    }
    if ((((int)threadIdx.x) & 255) < 250) {
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        p0_red_sums_ptr[lane] = (p0_red_sums_ptr[lane] + p0_loaded_ptr[lane]);
      }
    }
  }
  #pragma unroll
  for (int element_2 = 0; element_2 < 4; ++element_2) {
    rows_ptr[((((((int)threadIdx.x) >> 8) * 1024) + (element_2 * 256)) + (((int)threadIdx.x) & 255))] = p0_red_sums_ptr[element_2];
  }
  __syncthreads();
  rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 1024)]) + rows_ptr[(((int)threadIdx.x) + 2048)]) + rows_ptr[(((int)threadIdx.x) + 3072)]);
  __syncthreads();
  if ((((int)threadIdx.x) >> 8) == 0) {
    #pragma unroll
    for (int element_3 = 0; element_3 < 4; ++element_3) {
      p0_red_sums_ptr[element_3] = rows_ptr[((element_3 * 256) + ((int)threadIdx.x))];
    }
  }
  __syncthreads();
  if ((((int)threadIdx.x) >> 8) == 0) {
    if (((int)threadIdx.x) < 250) {
      *(float4*)(workspace_ptr + ((((int)blockIdx.x) * 1000) + (((int)threadIdx.x) * 4))) = *(float4*)(p0_red_sums_ptr + 0);
    }
  }
  tvm_builtin_cuda_grid_sync();
  for (int task = 0; task < ((287 - ((int)blockIdx.x)) >> 8); ++task) {
    alignas(64) float p0_red_own_ptr[1];
    p0_red_own_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    int cse_v4 = (((int)threadIdx.x) & 31);
    int cse_v5 = (task * 8192);
    int cse_v6 = (((int)blockIdx.x) * 32);
    int cse_v9 = (((task * 1024) + (((int)blockIdx.x) * 4)) + ((((int)threadIdx.x) & 31) >> 3));
    if ((((task * 1024) + (((int)blockIdx.x) * 4)) + ((((int)threadIdx.x) & 31) >> 3)) < 125) {
      for (int iteration_1 = 0; iteration_1 < 8; ++iteration_1) {
        p0_red_own_ptr[0] = (p0_red_own_ptr[0] + workspace_ptr[(((((iteration_1 * 32000) + (task * 8192)) + ((((int)threadIdx.x) >> 5) * 1000)) + (((int)blockIdx.x) * 32)) + (((int)threadIdx.x) & 31))]);
      }
    }
    p0_red_partials_ptr[((int)threadIdx.x)] = p0_red_own_ptr[0];
    __syncthreads();
    if ((((int)threadIdx.x) < 32) && ((((task * 1024) + (((int)blockIdx.x) * 4)) + ((((int)threadIdx.x) & 31) >> 3)) < 125)) {
      alignas(64) float p0_red_ptr[1];
      p0_red_ptr[0] = p0_red_partials_ptr[((int)threadIdx.x)];
      for (int warp = 0; warp < 31; ++warp) {
        p0_red_ptr[0] = (p0_red_ptr[0] + p0_red_partials_ptr[(((warp * 32) + ((int)threadIdx.x)) + 32)]);
      }
      p0_red_intermediate_ptr[(((task * 8192) + (((int)blockIdx.x) * 32)) + ((int)threadIdx.x))] = p0_red_ptr[0];
    }
    __syncthreads();
  }
  (&(rows_ptr[0]));
  (&(p0_red_partials_ptr[0]));
}
