extern "C" __global__ void __launch_bounds__(512, 2) main_kernel(nv_bfloat16* __restrict__ b_ptr, nv_bfloat16* __restrict__ compute_intermediate_1_2_ptr, nv_bfloat16* __restrict__ w_ptr, nv_bfloat16* __restrict__ x_ptr) {
  __shared__ alignas(64) uint64_t arrivals_ptr[1];
  __shared__ alignas(64) float lv_red_warps_ptr[32];
  __shared__ alignas(64) float lv_red1_warps_ptr[32];
  extern __shared__ __align__(64) nv_bfloat16 x_kept_ptr[];
  if (((int)threadIdx.x) == 0) {
    tvm_builtin_ptx_mbarrier_init_init_shared__cta_b64(tvm_builtin_cuda_cvta_generic_to_shared((&(arrivals_ptr[0]))), (uint)1);
    tvm_builtin_ptx_mbarrier_arrive_expect_tx_arrive_expect_tx_shared__cta_b64(tvm_builtin_cuda_cvta_generic_to_shared((&(arrivals_ptr[0]))), (uint)256);
    tvm_builtin_ptx_fence_mbarrier_init_mbarrier_init_release_cluster();
  }
  tvm_builtin_ptx_barrier_cluster_arrive_cluster_arrive_relaxed_aligned();
  int cse_v1 = (((int)threadIdx.x) * 8);
  int cse_v2 = (((int)blockIdx.x) & 1);
  int cse_v10 = ((((int)blockIdx.x) >> 1) * 65536);
  int cse_v11 = ((((int)blockIdx.x) & 1) * 4096);
  #pragma unroll
  for (int copy = 0; copy < 2; ++copy) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(x_kept_ptr[((copy * 4096) + (((int)threadIdx.x) * 8))]))), (&(x_ptr[(((((((int)blockIdx.x) >> 1) * 65536) + (copy * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8))])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int copy_1 = 0; copy_1 < 2; ++copy_1) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(x_kept_ptr[(((copy_1 * 4096) + (((int)threadIdx.x) * 8)) + 8192)]))), (&(x_ptr[((((((((int)blockIdx.x) >> 1) * 65536) + (copy_1 * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8)) + 16384)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int copy_2 = 0; copy_2 < 2; ++copy_2) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(x_kept_ptr[(((copy_2 * 4096) + (((int)threadIdx.x) * 8)) + 16384)]))), (&(x_ptr[((((((((int)blockIdx.x) >> 1) * 65536) + (copy_2 * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8)) + 32768)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  #pragma unroll
  for (int copy_3 = 0; copy_3 < 2; ++copy_3) {
    tvm_builtin_ptx_cp_async_cg_async_cg_shared_global_16(tvm_builtin_cuda_cvta_generic_to_shared((&(x_kept_ptr[(((copy_3 * 4096) + (((int)threadIdx.x) * 8)) + 24576)]))), (&(x_ptr[((((((((int)blockIdx.x) >> 1) * 65536) + (copy_3 * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8)) + 49152)])));
  }
  tvm_builtin_ptx_cp_async_commit_group_async_commit_group();
  alignas(64) float lv_red_partial_ptr[4];
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    lv_red_partial_ptr[lane] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) float lv_red1_partial_ptr[4];
  #pragma unroll
  for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
    lv_red1_partial_ptr[lane_1] = 0x0p+0f/*0.000000e+00*/;
  }
  tvm_builtin_ptx_cp_async_wait_group_async_wait_group_3();
  alignas(64) nv_bfloat16 x_back_ptr[8];
  *(uint4*)(x_back_ptr + 0) = *(uint4*)(x_kept_ptr + (((int)threadIdx.x) * 8));
  alignas(64) float compute_ptr[1];
  compute_ptr[0] = tvm_stitch_widen((&(x_back_ptr[0])), 0);
  alignas(64) float first_ptr[1];
  first_ptr[0] = compute_ptr[0];
  #pragma unroll
  for (int step = 0; step < 2; ++step) {
    alignas(64) nv_bfloat16 x_back_ptr_1[8];
    *(uint4*)(x_back_ptr_1 + 0) = *(uint4*)(x_kept_ptr + ((step * 4096) + (((int)threadIdx.x) * 8)));
    #pragma unroll
    for (int lane_2 = 0; lane_2 < 8; ++lane_2) {
      alignas(64) float compute_ptr_1[1];
      compute_ptr_1[0] = tvm_stitch_widen((&(x_back_ptr_1[0])), lane_2);
      int cse_v3 = (lane_2 & 3);
      lv_red_partial_ptr[(lane_2 & 3)] = (lv_red_partial_ptr[(lane_2 & 3)] + (compute_ptr_1[0] - first_ptr[0]));
      lv_red1_partial_ptr[(lane_2 & 3)] = (lv_red1_partial_ptr[(lane_2 & 3)] + ((compute_ptr_1[0] - first_ptr[0]) * (compute_ptr_1[0] - first_ptr[0])));
    }
  }
  tvm_builtin_ptx_cp_async_wait_group_async_wait_group_2();
  #pragma unroll
  for (int step_1 = 0; step_1 < 2; ++step_1) {
    alignas(64) nv_bfloat16 x_back_ptr_2[8];
    *(uint4*)(x_back_ptr_2 + 0) = *(uint4*)(x_kept_ptr + (((step_1 * 4096) + (((int)threadIdx.x) * 8)) + 8192));
    #pragma unroll
    for (int lane_3 = 0; lane_3 < 8; ++lane_3) {
      alignas(64) float compute_ptr_2[1];
      compute_ptr_2[0] = tvm_stitch_widen((&(x_back_ptr_2[0])), lane_3);
      int cse_v4 = (lane_3 & 3);
      lv_red_partial_ptr[(lane_3 & 3)] = (lv_red_partial_ptr[(lane_3 & 3)] + (compute_ptr_2[0] - first_ptr[0]));
      lv_red1_partial_ptr[(lane_3 & 3)] = (lv_red1_partial_ptr[(lane_3 & 3)] + ((compute_ptr_2[0] - first_ptr[0]) * (compute_ptr_2[0] - first_ptr[0])));
    }
  }
  tvm_builtin_ptx_cp_async_wait_group_async_wait_group_1();
  #pragma unroll
  for (int step_2 = 0; step_2 < 2; ++step_2) {
    alignas(64) nv_bfloat16 x_back_ptr_3[8];
    *(uint4*)(x_back_ptr_3 + 0) = *(uint4*)(x_kept_ptr + (((step_2 * 4096) + (((int)threadIdx.x) * 8)) + 16384));
    #pragma unroll
    for (int lane_4 = 0; lane_4 < 8; ++lane_4) {
      alignas(64) float compute_ptr_3[1];
      compute_ptr_3[0] = tvm_stitch_widen((&(x_back_ptr_3[0])), lane_4);
      int cse_v5 = (lane_4 & 3);
      lv_red_partial_ptr[(lane_4 & 3)] = (lv_red_partial_ptr[(lane_4 & 3)] + (compute_ptr_3[0] - first_ptr[0]));
      lv_red1_partial_ptr[(lane_4 & 3)] = (lv_red1_partial_ptr[(lane_4 & 3)] + ((compute_ptr_3[0] - first_ptr[0]) * (compute_ptr_3[0] - first_ptr[0])));
    }
  }
  tvm_builtin_ptx_cp_async_wait_group_async_wait_group_0();
  #pragma unroll
  for (int step_3 = 0; step_3 < 2; ++step_3) {
    alignas(64) nv_bfloat16 x_back_ptr_4[8];
    *(uint4*)(x_back_ptr_4 + 0) = *(uint4*)(x_kept_ptr + (((step_3 * 4096) + (((int)threadIdx.x) * 8)) + 24576));
    #pragma unroll
    for (int lane_5 = 0; lane_5 < 8; ++lane_5) {
      alignas(64) float compute_ptr_4[1];
      compute_ptr_4[0] = tvm_stitch_widen((&(x_back_ptr_4[0])), lane_5);
      int cse_v6 = (lane_5 & 3);
      lv_red_partial_ptr[(lane_5 & 3)] = (lv_red_partial_ptr[(lane_5 & 3)] + (compute_ptr_4[0] - first_ptr[0]));
      lv_red1_partial_ptr[(lane_5 & 3)] = (lv_red1_partial_ptr[(lane_5 & 3)] + ((compute_ptr_4[0] - first_ptr[0]) * (compute_ptr_4[0] - first_ptr[0])));
    }
  }
  tvm_builtin_ptx_barrier_cluster_wait_cluster_wait_acquire_aligned();
  alignas(64) float distance_ptr[1];
  distance_ptr[0] = (((lv_red_partial_ptr[0] + lv_red_partial_ptr[1]) + lv_red_partial_ptr[2]) + lv_red_partial_ptr[3]);
  alignas(64) float own_ptr[1];
  own_ptr[0] = (distance_ptr[0] + (first_ptr[0] * 0x1p+6f/*6.400000e+01*/));
  alignas(64) float lv_red_all_ptr[1];
  lv_red_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32(own_ptr[0]);
  alignas(64) float mean_ptr[1];
  mean_ptr[0] = (lv_red_all_ptr[0] * 0x1p-11f/*4.882812e-04*/);
  alignas(64) float offset_ptr[1];
  offset_ptr[0] = ((own_ptr[0] * 0x1p-6f/*1.562500e-02*/) - mean_ptr[0]);
  alignas(64) float lv_red1_all_ptr[1];
  lv_red1_all_ptr[0] = tvm_builtin_cuda_warp_reduce_sum_32((((((lv_red1_partial_ptr[0] + lv_red1_partial_ptr[1]) + lv_red1_partial_ptr[2]) + lv_red1_partial_ptr[3]) - ((distance_ptr[0] * distance_ptr[0]) * 0x1p-6f/*1.562500e-02*/)) + ((offset_ptr[0] * offset_ptr[0]) * 0x1p+6f/*6.400000e+01*/)));
  int cse_v7 = (((int)threadIdx.x) & 31);
  if ((((int)threadIdx.x) & 31) < 2) {
    uint cse_v12 = ((uint)(((int)threadIdx.x) & 31));
    int cse_v14 = (((((int)blockIdx.x) & 1) * 16) + (((int)threadIdx.x) >> 5));
    tvm_stitch_send_float32((&(lv_red_warps_ptr[(((((int)blockIdx.x) & 1) * 16) + (((int)threadIdx.x) >> 5))])), lv_red_all_ptr[0], (&(arrivals_ptr[0])), ((uint)(((int)threadIdx.x) & 31)));
    tvm_stitch_send_float32((&(lv_red1_warps_ptr[(((((int)blockIdx.x) & 1) * 16) + (((int)threadIdx.x) >> 5))])), lv_red1_all_ptr[0], (&(arrivals_ptr[0])), ((uint)(((int)threadIdx.x) & 31)));
  }
  tvm_stitch_wait((&(arrivals_ptr[0])), (uint)0);
  alignas(64) float lv_red_of_warp_ptr[1];
  lv_red_of_warp_ptr[0] = lv_red_warps_ptr[(((int)threadIdx.x) & 31)];
  alignas(64) float lv_red1_of_warp_ptr[1];
  lv_red1_of_warp_ptr[0] = lv_red1_warps_ptr[(((int)threadIdx.x) & 31)];
  alignas(64) float lv_red_all_ptr_1[1];
  lv_red_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_32(lv_red_of_warp_ptr[0]);
  alignas(64) float mean_ptr_1[1];
  mean_ptr_1[0] = (lv_red_all_ptr_1[0] * 0x1p-16f/*1.525879e-05*/);
  alignas(64) float offset_ptr_1[1];
  offset_ptr_1[0] = ((lv_red_of_warp_ptr[0] * 0x1p-11f/*4.882812e-04*/) - mean_ptr_1[0]);
  alignas(64) float lv_red1_all_ptr_1[1];
  lv_red1_all_ptr_1[0] = tvm_builtin_cuda_warp_reduce_sum_32((lv_red1_of_warp_ptr[0] + ((offset_ptr_1[0] * offset_ptr_1[0]) * 0x1p+11f/*2.048000e+03*/)));
  alignas(64) float lv_red_ptr[1];
  lv_red_ptr[0] = lv_red_all_ptr_1[0];
  alignas(64) float lv_red1_ptr[1];
  lv_red1_ptr[0] = lv_red1_all_ptr_1[0];
  alignas(64) float T_divide_ptr[1];
  T_divide_ptr[0] = (lv_red_ptr[0] / 0x1p+16f/*6.553600e+04*/);
  alignas(64) float T_divide1_ptr[1];
  T_divide1_ptr[0] = (lv_red1_ptr[0] / 0x1p+16f/*6.553600e+04*/);
  alignas(64) float T_add_ptr[1];
  T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
  alignas(64) float compute1_ptr[1];
  compute1_ptr[0] = rsqrtf(T_add_ptr[0]);
  for (int batch = 0; batch < 2; ++batch) {
    alignas(64) nv_bfloat16 w_vector_ptr[32];
    alignas(64) nv_bfloat16 b_vector_ptr[32];
    int cse_v8 = (batch * 32768);
    #pragma unroll
    for (int vector = 0; vector < 4; ++vector) {
      int cse_v9 = (vector * 8);
      int cse_v15 = ((((batch * 32768) + (vector * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8));
      *(uint4*)(w_vector_ptr + (vector * 8)) = *(uint4*)(w_ptr + ((((batch * 32768) + (vector * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8)));
      *(uint4*)(b_vector_ptr + (vector * 8)) = *(uint4*)(b_ptr + ((((batch * 32768) + (vector * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8)));
    }
    #pragma unroll
    for (int step_4 = 0; step_4 < 4; ++step_4) {
      alignas(64) nv_bfloat16 x_back_ptr_5[8];
      *(uint4*)(x_back_ptr_5 + 0) = *(uint4*)(x_kept_ptr + (((batch * 16384) + (step_4 * 4096)) + (((int)threadIdx.x) * 8)));
      alignas(64) nv_bfloat16 compute_intermediate_1_2_out_ptr[8];
      #pragma unroll
      for (int lane_6 = 0; lane_6 < 8; ++lane_6) {
        alignas(64) float compute_ptr_5[1];
        compute_ptr_5[0] = tvm_stitch_widen((&(x_back_ptr_5[0])), lane_6);
        alignas(64) float T_subtract_ptr[1];
        T_subtract_ptr[0] = (compute_ptr_5[0] - T_divide_ptr[0]);
        alignas(64) float T_multiply1_ptr[1];
        T_multiply1_ptr[0] = (T_subtract_ptr[0] * compute1_ptr[0]);
        alignas(64) float T_multiply2_ptr[1];
        int cse_v13 = ((step_4 * 8) + lane_6);
        T_multiply2_ptr[0] = (T_multiply1_ptr[0] * tvm_stitch_widen((&(w_vector_ptr[0])), ((step_4 * 8) + lane_6)));
        alignas(64) float T_add1_ptr[1];
        T_add1_ptr[0] = (T_multiply2_ptr[0] + tvm_stitch_widen((&(b_vector_ptr[0])), ((step_4 * 8) + lane_6)));
        alignas(64) nv_bfloat16 compute2_ptr[1];
        compute2_ptr[0] = ((nv_bfloat16)T_add1_ptr[0]);
        compute_intermediate_1_2_out_ptr[lane_6] = compute2_ptr[0];
      }
      *(uint4*)(compute_intermediate_1_2_ptr + ((((((((int)blockIdx.x) >> 1) * 65536) + (batch * 32768)) + (step_4 * 8192)) + ((((int)blockIdx.x) & 1) * 4096)) + (((int)threadIdx.x) * 8))) = *(uint4*)(compute_intermediate_1_2_out_ptr + 0);
    }
  }
  (&(arrivals_ptr[0]));
  (&(lv_red_warps_ptr[0]));
  (&(lv_red1_warps_ptr[0]));
}
