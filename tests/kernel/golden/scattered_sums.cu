extern "C" __global__ void __launch_bounds__(256, 1) main_kernel(float* __restrict__ T_add_intermediate_1_ptr, float* __restrict__ T_subtract_intermediate_ptr, int64_t* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ p2_ptr, float* __restrict__ p3_ptr) {
  extern __shared__ __align__(64) uchar buf_dyn_shmem_ptr[];
  (&(((int*)buf_dyn_shmem_ptr)[162]));
  if (((int)threadIdx.x) < 3) {
    ((int*)buf_dyn_shmem_ptr)[(((int)threadIdx.x) + 128)] = 0;
  }
  __syncthreads();
  alignas(64) int64_t scattered_row_ptr[4];
  int64_t cse_v1 = ((int64_t)((int)threadIdx.x));
  int64_t condval;
  if (((int64_t)((int)threadIdx.x)) < (int64_t)100) {
    condval = p0_ptr[((int)threadIdx.x)];
  } else {
    condval = (int64_t)-1;
  }
  scattered_row_ptr[0] = condval;
  scattered_row_ptr[1] = (int64_t)-1;
  scattered_row_ptr[2] = (int64_t)-1;
  scattered_row_ptr[3] = (int64_t)-1;
  alignas(64) int to_ptr[1];
  int condval_1;
  if (((int64_t)0 <= scattered_row_ptr[0]) && (scattered_row_ptr[0] < (int64_t)40)) {
    condval_1 = ((int)scattered_row_ptr[0]);
  } else {
    condval_1 = -1;
  }
  to_ptr[0] = condval_1;
  int cse_v2 = (((int)blockIdx.x) >> 1);
  int condval_2;
  if ((0 <= to_ptr[0]) && ((to_ptr[0] % 40) == (((int)blockIdx.x) >> 1))) {
    condval_2 = (to_ptr[0] / 40);
  } else {
    condval_2 = -1;
  }
  if (0 <= condval_2) {
    int condval_3;
    if ((0 <= to_ptr[0]) && ((to_ptr[0] % 40) == (((int)blockIdx.x) >> 1))) {
      condval_3 = (to_ptr[0] / 40);
    } else {
      condval_3 = -1;
    }
    tvm_stitch_note_int32((&(((int*)buf_dyn_shmem_ptr)[0])), 128, (&(((int*)buf_dyn_shmem_ptr)[130])), ((condval_3 << 8) | ((int)threadIdx.x)));
  }
  alignas(64) int to_ptr_1[1];
  int condval_4;
  if (((int64_t)0 <= scattered_row_ptr[1]) && (scattered_row_ptr[1] < (int64_t)40)) {
    condval_4 = ((int)scattered_row_ptr[1]);
  } else {
    condval_4 = -1;
  }
  to_ptr_1[0] = condval_4;
  int condval_5;
  if ((0 <= to_ptr_1[0]) && ((to_ptr_1[0] % 40) == (((int)blockIdx.x) >> 1))) {
    condval_5 = (to_ptr_1[0] / 40);
  } else {
    condval_5 = -1;
  }
  if (0 <= condval_5) {
    int condval_6;
    if ((0 <= to_ptr_1[0]) && ((to_ptr_1[0] % 40) == (((int)blockIdx.x) >> 1))) {
      condval_6 = (to_ptr_1[0] / 40);
    } else {
      condval_6 = -1;
    }
    tvm_stitch_note_int32((&(((int*)buf_dyn_shmem_ptr)[0])), 128, (&(((int*)buf_dyn_shmem_ptr)[130])), ((condval_6 << 8) | (((int)threadIdx.x) + 256)));
  }
  alignas(64) int to_ptr_2[1];
  int condval_7;
  if (((int64_t)0 <= scattered_row_ptr[2]) && (scattered_row_ptr[2] < (int64_t)40)) {
    condval_7 = ((int)scattered_row_ptr[2]);
  } else {
    condval_7 = -1;
  }
  to_ptr_2[0] = condval_7;
  int condval_8;
  if ((0 <= to_ptr_2[0]) && ((to_ptr_2[0] % 40) == (((int)blockIdx.x) >> 1))) {
    condval_8 = (to_ptr_2[0] / 40);
  } else {
    condval_8 = -1;
  }
  if (0 <= condval_8) {
    int condval_9;
    if ((0 <= to_ptr_2[0]) && ((to_ptr_2[0] % 40) == (((int)blockIdx.x) >> 1))) {
      condval_9 = (to_ptr_2[0] / 40);
    } else {
      condval_9 = -1;
    }
    tvm_stitch_note_int32((&(((int*)buf_dyn_shmem_ptr)[0])), 128, (&(((int*)buf_dyn_shmem_ptr)[130])), ((condval_9 << 8) | (((int)threadIdx.x) + 512)));
  }
  alignas(64) int to_ptr_3[1];
  int condval_10;
  if (((int64_t)0 <= scattered_row_ptr[3]) && (scattered_row_ptr[3] < (int64_t)40)) {
    condval_10 = ((int)scattered_row_ptr[3]);
  } else {
    condval_10 = -1;
  }
  to_ptr_3[0] = condval_10;
  int condval_11;
  if ((0 <= to_ptr_3[0]) && ((to_ptr_3[0] % 40) == (((int)blockIdx.x) >> 1))) {
    condval_11 = (to_ptr_3[0] / 40);
  } else {
    condval_11 = -1;
  }
  if (0 <= condval_11) {
    int condval_12;
    if ((0 <= to_ptr_3[0]) && ((to_ptr_3[0] % 40) == (((int)blockIdx.x) >> 1))) {
      condval_12 = (to_ptr_3[0] / 40);
    } else {
      condval_12 = -1;
    }
    tvm_stitch_note_int32((&(((int*)buf_dyn_shmem_ptr)[0])), 128, (&(((int*)buf_dyn_shmem_ptr)[130])), ((condval_12 << 8) | (((int)threadIdx.x) + 768)));
  }
  __syncthreads();
  tvm_stitch_sort_int32((&(((int*)buf_dyn_shmem_ptr)[0])), (&(((int*)buf_dyn_shmem_ptr)[128])), (&(((int*)buf_dyn_shmem_ptr)[131])), 128, 1, 8);
  __syncthreads();
  alignas(64) float scattered_loaded_ptr[4];
  alignas(64) float p2_loaded_ptr[4];
  alignas(64) float p3_loaded_ptr[4];
  int cse_v5 = ((((int)blockIdx.x) * 32) + (((int)threadIdx.x) * 4));
  if (((int)threadIdx.x) < 8) {
    *(float4*)(p2_loaded_ptr + 0) = *(float4*)(p2_ptr + ((((int)blockIdx.x) * 32) + (((int)threadIdx.x) * 4)));
    *(float4*)(p3_loaded_ptr + 0) = *(float4*)(p3_ptr + ((((int)blockIdx.x) * 32) + (((int)threadIdx.x) * 4)));
  }
  #pragma unroll
  for (int element = 0; element < 4; ++element) {
    scattered_loaded_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) int first_ptr[1];
  first_ptr[0] = ((int*)buf_dyn_shmem_ptr)[128];
  alignas(64) int last_ptr[1];
  last_ptr[0] = ((int*)buf_dyn_shmem_ptr)[129];
  int64_t cse_v6 = ((((int64_t)((int)blockIdx.x)) & (int64_t)1) * (int64_t)32);
  if (((last_ptr[0] - first_ptr[0]) <= 32) && (((int)threadIdx.x) < 8)) {
    for (int64_t group = (int64_t)0; group < (((((int64_t)last_ptr[0]) + (int64_t)1) - ((int64_t)first_ptr[0])) >> (int64_t)1); ++group) {
      alignas(64) int scattered_taken_ptr[2];
      int64_t cse_v3 = (group * (int64_t)2);
      int condval_13;
      if (((group * (int64_t)2) + ((int64_t)first_ptr[0])) < ((int64_t)last_ptr[0])) {
        condval_13 = (((int*)buf_dyn_shmem_ptr)[((group * (int64_t)2) + ((int64_t)first_ptr[0]))] & 255);
      } else {
        condval_13 = -1;
      }
      scattered_taken_ptr[0] = condval_13;
      int condval_14;
      if ((((group * (int64_t)2) + ((int64_t)first_ptr[0])) + (int64_t)1) < ((int64_t)last_ptr[0])) {
        condval_14 = (((int*)buf_dyn_shmem_ptr)[(((group * (int64_t)2) + ((int64_t)first_ptr[0])) + (int64_t)1)] & 255);
      } else {
        condval_14 = -1;
      }
      scattered_taken_ptr[1] = condval_14;
      alignas(64) float p1_fetched_ptr[8];
      int64_t cse_v8 = ((((int64_t)((int)threadIdx.x)) < (int64_t)8) ? (((((int64_t)((int)blockIdx.x)) & (int64_t)1) * (int64_t)32) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) : (int64_t)0);
      *(float4*)(p1_fetched_ptr + (int64_t)0) = *(float4*)(p1_ptr + ((((int64_t)max(scattered_taken_ptr[0], 0)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) < (int64_t)8) ? (((((int64_t)((int)blockIdx.x)) & (int64_t)1) * (int64_t)32) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) : (int64_t)0)));
      *(float4*)(p1_fetched_ptr + (int64_t)4) = *(float4*)(p1_ptr + ((((int64_t)max(scattered_taken_ptr[1], 0)) * (int64_t)64) + ((((int64_t)((int)threadIdx.x)) < (int64_t)8) ? (((((int64_t)((int)blockIdx.x)) & (int64_t)1) * (int64_t)32) + (((int64_t)((int)threadIdx.x)) * (int64_t)4)) : (int64_t)0)));
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        float condval_15;
        if (0 <= scattered_taken_ptr[0]) {
          condval_15 = p1_fetched_ptr[lane];
        } else {
          condval_15 = 0x0p+0f/*0.000000e+00*/;
        }
        scattered_loaded_ptr[lane] = (scattered_loaded_ptr[lane] + condval_15);
      }
      #pragma unroll
      for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
        float condval_16;
        if (0 <= scattered_taken_ptr[1]) {
          condval_16 = p1_fetched_ptr[(lane_1 + 4)];
        } else {
          condval_16 = 0x0p+0f/*0.000000e+00*/;
        }
        scattered_loaded_ptr[lane_1] = (scattered_loaded_ptr[lane_1] + condval_16);
      }
    }
  }
  alignas(64) uint votes_ptr[1];
  votes_ptr[0] = tvm_builtin_ballot_sync((uint)4294967295, (32 < (((int*)buf_dyn_shmem_ptr)[129] - ((int*)buf_dyn_shmem_ptr)[128])));
  if (((uint)0 < votes_ptr[0])) {
    if (((uint)0 < ((votes_ptr[0] >> (uint)0) & (uint)1))) {
      alignas(64) int start_ptr[1];
      start_ptr[0] = (((int*)buf_dyn_shmem_ptr)[128] + ((((((int*)buf_dyn_shmem_ptr)[129] + 31) - ((int*)buf_dyn_shmem_ptr)[128]) >> 5) * (((int)threadIdx.x) >> 3)));
      alignas(64) int end_ptr[1];
      end_ptr[0] = min(((((((int*)buf_dyn_shmem_ptr)[129] + 31) - ((int*)buf_dyn_shmem_ptr)[128]) >> 5) + start_ptr[0]), ((int*)buf_dyn_shmem_ptr)[129]);
      alignas(64) float scattered_partial_ptr[4];
      #pragma unroll
      for (int element_1 = 0; element_1 < 4; ++element_1) {
        scattered_partial_ptr[element_1] = 0x0p+0f/*0.000000e+00*/;
      }
      for (int64_t group_1 = (int64_t)0; group_1 < (((((int64_t)end_ptr[0]) + (int64_t)1) - ((int64_t)start_ptr[0])) >> (int64_t)1); ++group_1) {
        alignas(64) int scattered_taken_ptr_1[2];
        int64_t cse_v4 = (group_1 * (int64_t)2);
        int condval_17;
        if (((group_1 * (int64_t)2) + ((int64_t)start_ptr[0])) < ((int64_t)end_ptr[0])) {
          condval_17 = (((int*)buf_dyn_shmem_ptr)[((group_1 * (int64_t)2) + ((int64_t)start_ptr[0]))] & 255);
        } else {
          condval_17 = -1;
        }
        scattered_taken_ptr_1[0] = condval_17;
        int condval_18;
        if ((((group_1 * (int64_t)2) + ((int64_t)start_ptr[0])) + (int64_t)1) < ((int64_t)end_ptr[0])) {
          condval_18 = (((int*)buf_dyn_shmem_ptr)[(((group_1 * (int64_t)2) + ((int64_t)start_ptr[0])) + (int64_t)1)] & 255);
        } else {
          condval_18 = -1;
        }
        scattered_taken_ptr_1[1] = condval_18;
        alignas(64) float p1_fetched_ptr_1[8];
        int64_t cse_v7 = ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)4);
        *(float4*)(p1_fetched_ptr_1 + (int64_t)0) = *(float4*)(p1_ptr + (((((int64_t)max(scattered_taken_ptr_1[0], 0)) * (int64_t)64) + ((((int64_t)((int)blockIdx.x)) & (int64_t)1) * (int64_t)32)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)4)));
        *(float4*)(p1_fetched_ptr_1 + (int64_t)4) = *(float4*)(p1_ptr + (((((int64_t)max(scattered_taken_ptr_1[1], 0)) * (int64_t)64) + ((((int64_t)((int)blockIdx.x)) & (int64_t)1) * (int64_t)32)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)7) * (int64_t)4)));
        #pragma unroll
        for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
          float condval_19;
          if (0 <= scattered_taken_ptr_1[0]) {
            condval_19 = p1_fetched_ptr_1[lane_2];
          } else {
            condval_19 = 0x0p+0f/*0.000000e+00*/;
          }
          scattered_partial_ptr[lane_2] = (scattered_partial_ptr[lane_2] + condval_19);
        }
        #pragma unroll
        for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
          float condval_20;
          if (0 <= scattered_taken_ptr_1[1]) {
            condval_20 = p1_fetched_ptr_1[(lane_3 + 4)];
          } else {
            condval_20 = 0x0p+0f/*0.000000e+00*/;
          }
          scattered_partial_ptr[lane_3] = (scattered_partial_ptr[lane_3] + condval_20);
        }
      }
      __syncthreads();
      #pragma unroll
      for (int element_2 = 0; element_2 < 4; ++element_2) {
        ((float*)buf_dyn_shmem_ptr)[(((element_2 * 256) + ((int)threadIdx.x)) + 176)] = scattered_partial_ptr[element_2];
      }
      tvm_stitch_combine_sum_float32((&(((float*)buf_dyn_shmem_ptr)[176])), 256, 8, 4);
      __syncthreads();
      #pragma unroll
      for (int element_3 = 0; element_3 < 4; ++element_3) {
        scattered_loaded_ptr[element_3] = (scattered_loaded_ptr[element_3] + ((float*)buf_dyn_shmem_ptr)[(((element_3 * 256) + ((int)threadIdx.x)) + 176)]);
      }
      __syncthreads();
    }
  }
  if (((int)threadIdx.x) < 8) {
    alignas(64) float T_add_intermediate_1_out_ptr[4];
    alignas(64) float T_subtract_intermediate_out_ptr[4];
    #pragma unroll
    for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
      alignas(64) float T_full_ptr[1];
      T_full_ptr[0] = 0x0p+0f/*0.000000e+00*/;
      alignas(64) float scatter_nd_ptr[1];
      scatter_nd_ptr[0] = (T_full_ptr[0] + scattered_loaded_ptr[lane_4]);
      alignas(64) float T_multiply_ptr[1];
      T_multiply_ptr[0] = (p2_loaded_ptr[lane_4] * 0x1p-3f/*1.250000e-01*/);
      alignas(64) float T_multiply1_ptr[1];
      T_multiply1_ptr[0] = (p3_loaded_ptr[lane_4] * 0x1p-1f/*5.000000e-01*/);
      alignas(64) float T_add_ptr[1];
      T_add_ptr[0] = (scatter_nd_ptr[0] + T_multiply_ptr[0]);
      alignas(64) float T_add1_ptr[1];
      T_add1_ptr[0] = (T_multiply1_ptr[0] + T_add_ptr[0]);
      T_add_intermediate_1_out_ptr[lane_4] = T_add1_ptr[0];
      alignas(64) float T_multiply2_ptr[1];
      T_multiply2_ptr[0] = (T_add1_ptr[0] * 0x1p-2f/*2.500000e-01*/);
      alignas(64) float T_subtract_ptr[1];
      T_subtract_ptr[0] = (p2_loaded_ptr[lane_4] - T_multiply2_ptr[0]);
      T_subtract_intermediate_out_ptr[lane_4] = T_subtract_ptr[0];
    }
    *(float4*)(T_add_intermediate_1_ptr + ((((int)blockIdx.x) * 32) + (((int)threadIdx.x) * 4))) = *(float4*)(T_add_intermediate_1_out_ptr + 0);
    *(float4*)(T_subtract_intermediate_ptr + ((((int)blockIdx.x) * 32) + (((int)threadIdx.x) * 4))) = *(float4*)(T_subtract_intermediate_out_ptr + 0);
  }
}
