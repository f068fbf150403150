extern "C" __global__ void __launch_bounds__(512, 2) main_kernel(float* __restrict__ p0_ptr, float* __restrict__ p0_red_intermediate_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float rows_ptr[2048];
  __shared__ alignas(64) float p0_red_partials_ptr[512];
  alignas(64) float p0_red_sums_ptr[4];
  #pragma unroll
  for (int element = 0; element < 4; ++element) {
    p0_red_sums_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) float p0_next_ptr[4];
  int cse_v1 = (((int)blockIdx.x) & 7);
  int cse_v2 = (((int)threadIdx.x) & 31);
  int cse_v3 = (((int)blockIdx.x) >> 3);
  int cse_v4 = (((int)threadIdx.x) >> 5);
  int cse_v7 = ((((int)blockIdx.x) & 7) * 16);
  int cse_v8 = ((((int)blockIdx.x) >> 3) * 16000);
  int cse_v9 = ((((int)threadIdx.x) >> 5) * 1000);
  int cse_v10 = ((((int)blockIdx.x) & 7) * 128);
  int cse_v11 = ((((int)threadIdx.x) & 31) * 4);
  int cse_v12 = (((((int)blockIdx.x) & 7) * 16) + ((((int)threadIdx.x) & 31) >> 1));
  if ((((((int)blockIdx.x) & 7) * 16) + ((((int)threadIdx.x) & 31) >> 1)) < 125) {
    *(float4*)(p0_next_ptr + 0) = *(float4*)(p0_ptr + (((((((int)blockIdx.x) >> 3) * 16000) + ((((int)threadIdx.x) >> 5) * 1000)) + ((((int)blockIdx.x) & 7) * 128)) + ((((int)threadIdx.x) & 31) * 4)));
  }
  int cse_v13 = ((288 - (((int)blockIdx.x) >> 3)) / 33);
  for (int iteration = 0; iteration < ((288 - (((int)blockIdx.x) >> 3)) / 33); ++iteration) {
    alignas(64) float p0_loaded_ptr[4];
    #pragma unroll
    for (int element_1 = 0; element_1 < 4; ++element_1) {
      p0_loaded_ptr[element_1] = p0_next_ptr[element_1];
    }
    if ((iteration + 1) < ((288 - (((int)blockIdx.x) >> 3)) / 33)) {
      if ((((((int)blockIdx.x) & 7) * 16) + ((((int)threadIdx.x) & 31) >> 1)) < 125) {
        *(float4*)(p0_next_ptr + 0) = *(float4*)(p0_ptr + ((((((iteration * 528000) + ((((int)blockIdx.x) >> 3) * 16000)) + ((((int)threadIdx.x) >> 5) * 1000)) + ((((int)blockIdx.x) & 7) * 128)) + ((((int)threadIdx.x) & 31) * 4)) + 528000));
      }
    }
    if ((((((int)blockIdx.x) & 7) * 16) + ((((int)threadIdx.x) & 31) >> 1)) < 125) {
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        p0_red_sums_ptr[lane] = (p0_red_sums_ptr[lane] + p0_loaded_ptr[lane]);
      }
    }
  }
  #pragma unroll
  for (int element_2 = 0; element_2 < 4; ++element_2) {
    rows_ptr[((((((int)threadIdx.x) >> 5) * 128) + (element_2 * 32)) + (((int)threadIdx.x) & 31))] = p0_red_sums_ptr[element_2];
  }
  __syncthreads();
  rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 512)]) + rows_ptr[(((int)threadIdx.x) + 1024)]) + rows_ptr[(((int)threadIdx.x) + 1536)]);
  __syncthreads();
  if (((int)threadIdx.x) < 128) {
    rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 128)]) + rows_ptr[(((int)threadIdx.x) + 256)]) + rows_ptr[(((int)threadIdx.x) + 384)]);
  }
  __syncthreads();
  if ((((int)threadIdx.x) >> 5) == 0) {
    #pragma unroll
    for (int element_3 = 0; element_3 < 4; ++element_3) {
      p0_red_sums_ptr[element_3] = rows_ptr[((element_3 * 32) + ((int)threadIdx.x))];
    }
  }
  __syncthreads();
  if ((((int)threadIdx.x) >> 5) == 0) {
    if ((((((int)blockIdx.x) & 7) * 16) + (((int)threadIdx.x) >> 1)) < 125) {
      *(float4*)(workspace_ptr + ((((((int)blockIdx.x) >> 3) * 1000) + ((((int)blockIdx.x) & 7) * 128)) + (((int)threadIdx.x) * 4))) = *(float4*)(p0_red_sums_ptr + 0);
    }
  }
  tvm_builtin_cuda_grid_sync();
  for (int task = 0; task < ((295 - ((int)blockIdx.x)) / 264); ++task) {
    alignas(64) float p0_red_own_ptr[1];
    p0_red_own_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    int cse_v5 = (task * 8448);
    int cse_v6 = (((int)blockIdx.x) * 32);
    int cse_v14 = (((task * 1056) + (((int)blockIdx.x) * 4)) + ((((int)threadIdx.x) & 31) >> 3));
    if ((((task * 1056) + (((int)blockIdx.x) * 4)) + ((((int)threadIdx.x) & 31) >> 3)) < 125) {
      for (int iteration_1 = 0; iteration_1 < 3; ++iteration_1) {
        if (((iteration_1 * 16) + (((int)threadIdx.x) >> 5)) < 33) {
          p0_red_own_ptr[0] = (p0_red_own_ptr[0] + workspace_ptr[(((((iteration_1 * 16000) + (task * 8448)) + ((((int)threadIdx.x) >> 5) * 1000)) + (((int)blockIdx.x) * 32)) + (((int)threadIdx.x) & 31))]);
        }
      }
    }
    p0_red_partials_ptr[((int)threadIdx.x)] = p0_red_own_ptr[0];
    __syncthreads();
    if ((((int)threadIdx.x) < 32) && ((((task * 1056) + (((int)blockIdx.x) * 4)) + ((((int)threadIdx.x) & 31) >> 3)) < 125)) {
      alignas(64) float p0_red_ptr[1];
      p0_red_ptr[0] = p0_red_partials_ptr[((int)threadIdx.x)];
      for (int other = 0; other < 15; ++other) {
        p0_red_ptr[0] = (p0_red_ptr[0] + p0_red_partials_ptr[(((other * 32) + ((int)threadIdx.x)) + 32)]);
      }
      p0_red_intermediate_ptr[(((task * 8448) + (((int)blockIdx.x) * 32)) + ((int)threadIdx.x))] = p0_red_ptr[0];
    }
    __syncthreads();
  }
  (&(rows_ptr[0]));
  (&(p0_red_partials_ptr[0]));
}
