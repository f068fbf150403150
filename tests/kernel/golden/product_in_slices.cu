extern "C" __global__ void __launch_bounds__(32) main_kernel(float* __restrict__ T_add_intermediate_1_2_ptr, float* __restrict__ T_multiply_intermediate_1_2_ptr, float* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ p2_ptr, float* __restrict__ p3_ptr, float* __restrict__ p4_ptr, float* __restrict__ p5_ptr) {
  extern __shared__ __align__(64) uchar buf_dyn_shmem_ptr[];
  int cse_v1 = (((int)threadIdx.x) & 1);
  int cse_v3 = ((((int)threadIdx.x) >> 3) * 36);
  int cse_v4 = ((((int)threadIdx.x) & 7) * 4);
  int cse_v5 = ((((int)threadIdx.x) >> 1) * 16);
  int cse_v6 = ((((int)blockIdx.x) & 1) * 8);
  int cse_v7 = ((((int)threadIdx.x) & 1) * 4);
  #pragma unroll
  for (int copy = 0; copy < 4; ++copy) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(((float*)buf_dyn_shmem_ptr)[((((copy * 144) + ((((int)threadIdx.x) >> 3) * 36)) + ((((int)threadIdx.x) & 7) * 4)) + 160)]))), (&(p4_ptr[((((copy * 256) + ((((int)threadIdx.x) >> 1) * 16)) + ((((int)blockIdx.x) & 1) * 8)) + ((((int)threadIdx.x) & 1) * 4))])));
  }
  #pragma unroll
  for (int copy_1 = 0; copy_1 < 4; ++copy_1) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(((float*)buf_dyn_shmem_ptr)[((((copy_1 * 144) + ((((int)threadIdx.x) >> 3) * 36)) + ((((int)threadIdx.x) & 7) * 4)) + 736)]))), (&(p3_ptr[((((copy_1 * 256) + ((((int)threadIdx.x) >> 1) * 16)) + ((((int)blockIdx.x) & 1) * 8)) + ((((int)threadIdx.x) & 1) * 4))])));
  }
  int cse_v8 = ((((int)blockIdx.x) >> 1) * 64);
  int cse_v10 = (((((int)threadIdx.x) >> 2) * 20) + ((((int)threadIdx.x) & 3) * 4));
  int cse_v11 = (((((int)blockIdx.x) >> 1) * 64) + (((int)threadIdx.x) * 4));
  if (((int)threadIdx.x) < 16) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(((float*)buf_dyn_shmem_ptr)[(((((int)threadIdx.x) >> 2) * 20) + ((((int)threadIdx.x) & 3) * 4))]))), (&(p1_ptr[(((((int)blockIdx.x) >> 1) * 64) + (((int)threadIdx.x) * 4))])));
  }
  if (((int)threadIdx.x) < 16) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(((float*)buf_dyn_shmem_ptr)[((((((int)threadIdx.x) >> 2) * 20) + ((((int)threadIdx.x) & 3) * 4)) + 80)]))), (&(p0_ptr[(((((int)blockIdx.x) >> 1) * 64) + (((int)threadIdx.x) * 4))])));
  }
  alignas(64) float p5_early_ptr[4];
  int cse_v9 = ((((int)threadIdx.x) & 15) >> 1);
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
      uint v_ = tvm_stitch_load_b32((&(p5_ptr[(((step * 16) + ((((int)blockIdx.x) & 1) * 8)) + ((((int)threadIdx.x) & 15) >> 1))])));
    p5_early_ptr[step] = (*(float *)(&(v_)));
  }
  alignas(64) float p2_early_ptr[1];
  int cse_v2 = (((int)threadIdx.x) >> 4);
  int cse_v13 = ((((((((int)blockIdx.x) >> 1) * 64) + ((((int)threadIdx.x) >> 4) * 32)) + ((((int)threadIdx.x) & 1) * 16)) + ((((int)blockIdx.x) & 1) * 8)) + ((((int)threadIdx.x) & 15) >> 1));
    uint v__1 = tvm_stitch_load_b32((&(p2_ptr[((((((((int)blockIdx.x) >> 1) * 64) + ((((int)threadIdx.x) >> 4) * 32)) + ((((int)threadIdx.x) & 1) * 16)) + ((((int)blockIdx.x) & 1) * 8)) + ((((int)threadIdx.x) & 15) >> 1))])));
  p2_early_ptr[0] = (*(float *)(&(v__1)));
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  tvm_builtin_ptx_cp_async_wait_group_async_wait_group_0();
  __syncthreads();
  alignas(64) float matmul_total_ptr[4];
  #pragma unroll
  for (int element = 0; element < 4; ++element) {
    matmul_total_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  int cse_v12 = (((((int)threadIdx.x) >> 4) * 40) + ((((int)threadIdx.x) & 1) * 20));
  for (int chunk = 0; chunk < 4; ++chunk) {
    alignas(64) float own_ptr[4];
    *(float4*)(own_ptr + 0) = *(float4*)(((float*)buf_dyn_shmem_ptr) + (((((((int)threadIdx.x) >> 4) * 40) + ((((int)threadIdx.x) & 1) * 20)) + (chunk * 4)) + 80));
    alignas(64) float shared_ptr[4];
    #pragma unroll
    for (int step_1 = 0; step_1 < 4; ++step_1) {
      #pragma unroll
      for (int near = 0; near < 4; ++near) {
        shared_ptr[near] = ((float*)buf_dyn_shmem_ptr)[(((((chunk * 144) + (near * 36)) + (step_1 * 8)) + ((((int)threadIdx.x) & 15) >> 1)) + 736)];
      }
      #pragma unroll
      for (int near_1 = 0; near_1 < 4; ++near_1) {
        matmul_total_ptr[step_1] = (matmul_total_ptr[step_1] + (own_ptr[near_1] * shared_ptr[near_1]));
      }
    }
  }
  alignas(64) float matmul1_total_ptr[4];
  #pragma unroll
  for (int element_1 = 0; element_1 < 4; ++element_1) {
    matmul1_total_ptr[element_1] = 0x0p+0f/*0.000000e+00*/;
  }
  for (int chunk_1 = 0; chunk_1 < 4; ++chunk_1) {
    alignas(64) float own_ptr_1[4];
    *(float4*)(own_ptr_1 + 0) = *(float4*)(((float*)buf_dyn_shmem_ptr) + ((((((int)threadIdx.x) >> 4) * 40) + ((((int)threadIdx.x) & 1) * 20)) + (chunk_1 * 4)));
    alignas(64) float shared_ptr_1[4];
    #pragma unroll
    for (int step_2 = 0; step_2 < 4; ++step_2) {
      #pragma unroll
      for (int near_2 = 0; near_2 < 4; ++near_2) {
        shared_ptr_1[near_2] = ((float*)buf_dyn_shmem_ptr)[(((((chunk_1 * 144) + (near_2 * 36)) + (step_2 * 8)) + ((((int)threadIdx.x) & 15) >> 1)) + 160)];
      }
      #pragma unroll
      for (int near_3 = 0; near_3 < 4; ++near_3) {
        matmul1_total_ptr[step_2] = (matmul1_total_ptr[step_2] + (own_ptr_1[near_3] * shared_ptr_1[near_3]));
      }
    }
  }
  alignas(64) float T_add_ptr[4];
  #pragma unroll
  for (int step_3 = 0; step_3 < 4; ++step_3) {
    T_add_ptr[step_3] = (matmul_total_ptr[step_3] + matmul1_total_ptr[step_3]);
  }
  alignas(64) float T_add1_ptr[4];
  #pragma unroll
  for (int step_4 = 0; step_4 < 4; ++step_4) {
    T_add1_ptr[step_4] = (T_add_ptr[step_4] + p5_early_ptr[step_4]);
  }
  alignas(64) float T_split_sections_ptr[1];
  T_split_sections_ptr[0] = T_add1_ptr[0];
  alignas(64) float T_split_sections_1_ptr[1];
  T_split_sections_1_ptr[0] = T_add1_ptr[1];
  alignas(64) float T_split_sections_2_ptr[1];
  T_split_sections_2_ptr[0] = T_add1_ptr[2];
  alignas(64) float T_split_sections_3_ptr[1];
  T_split_sections_3_ptr[0] = T_add1_ptr[3];
  alignas(64) float compute_ptr[1];
  compute_ptr[0] = (0x1p+0f/*1.000000e+00*/ / (0x1p+0f/*1.000000e+00*/ + expf((0x0p+0f/*0.000000e+00*/ - T_split_sections_ptr[0]))));
  alignas(64) float compute1_ptr[1];
  compute1_ptr[0] = (0x1p+0f/*1.000000e+00*/ / (0x1p+0f/*1.000000e+00*/ + expf((0x0p+0f/*0.000000e+00*/ - T_split_sections_1_ptr[0]))));
  alignas(64) float compute2_ptr[1];
  compute2_ptr[0] = (0x1p+0f/*1.000000e+00*/ / (0x1p+0f/*1.000000e+00*/ + expf((0x0p+0f/*0.000000e+00*/ - T_split_sections_3_ptr[0]))));
  alignas(64) float compute3_ptr[1];
  compute3_ptr[0] = tanhf(T_split_sections_2_ptr[0]);
  alignas(64) float T_multiply_ptr[1];
  T_multiply_ptr[0] = (compute_ptr[0] * compute3_ptr[0]);
  alignas(64) float T_multiply1_ptr[1];
  T_multiply1_ptr[0] = (compute1_ptr[0] * p2_early_ptr[0]);
  alignas(64) float T_add2_ptr[1];
  T_add2_ptr[0] = (T_multiply1_ptr[0] + T_multiply_ptr[0]);
  T_add_intermediate_1_2_ptr[((((((((int)blockIdx.x) >> 1) * 64) + ((((int)threadIdx.x) >> 4) * 32)) + ((((int)threadIdx.x) & 1) * 16)) + ((((int)blockIdx.x) & 1) * 8)) + ((((int)threadIdx.x) & 15) >> 1))] = T_add2_ptr[0];
  alignas(64) float compute4_ptr[1];
  compute4_ptr[0] = tanhf(T_add2_ptr[0]);
  alignas(64) float T_multiply2_ptr[1];
  T_multiply2_ptr[0] = (compute2_ptr[0] * compute4_ptr[0]);
  T_multiply_intermediate_1_2_ptr[((((((((int)blockIdx.x) >> 1) * 64) + ((((int)threadIdx.x) >> 4) * 32)) + ((((int)threadIdx.x) & 1) * 16)) + ((((int)blockIdx.x) & 1) * 8)) + ((((int)threadIdx.x) & 15) >> 1))] = T_multiply2_ptr[0];
  (&(((float*)buf_dyn_shmem_ptr)[160]));
  (&(((float*)buf_dyn_shmem_ptr)[736]));
  (&(((float*)buf_dyn_shmem_ptr)[0]));
  (&(((float*)buf_dyn_shmem_ptr)[80]));
}
