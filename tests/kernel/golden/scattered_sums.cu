extern "C" __global__ void __launch_bounds__(32) main_kernel(float* __restrict__ T_add_intermediate_1_ptr, float* __restrict__ T_subtract_intermediate_ptr, int64_t* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ p2_ptr, float* __restrict__ p3_ptr) {
  __shared__ alignas(64) int scattered_updates_ptr[256];
  __shared__ alignas(64) int scattered_rows_ptr[256];
  __shared__ alignas(64) int scattered_counts_ptr[1];
  alignas(64) float scattered_ahead_ptr[16];
  alignas(64) float p2_ahead_ptr[16];
  alignas(64) float p3_ahead_ptr[16];
  int cse_v1 = (((int)threadIdx.x) >> 2);
  int cse_v11 = ((((int)threadIdx.x) & 3) * 4);
  int cse_v21 = ((((int)blockIdx.x) * 512) + ((((int)threadIdx.x) >> 2) * 64));
  #pragma unroll
  for (int step = 0; step < 4; ++step) {
    int cse_v2 = (step * 4);
    int cse_v23 = ((((((int)blockIdx.x) * 512) + ((((int)threadIdx.x) >> 2) * 64)) + (step * 16)) + ((((int)threadIdx.x) & 3) * 4));
    *(float4*)(p2_ahead_ptr + (step * 4)) = *(float4*)(p2_ptr + ((((((int)blockIdx.x) * 512) + ((((int)threadIdx.x) >> 2) * 64)) + (step * 16)) + ((((int)threadIdx.x) & 3) * 4)));
    *(float4*)(p3_ahead_ptr + (step * 4)) = *(float4*)(p3_ptr + ((((((int)blockIdx.x) * 512) + ((((int)threadIdx.x) >> 2) * 64)) + (step * 16)) + ((((int)threadIdx.x) & 3) * 4)));
  }
  #pragma unroll
  for (int element = 0; element < 16; ++element) {
    scattered_ahead_ptr[element] = 0x0p+0f/*0.000000e+00*/;
  }
  alignas(64) int scattered_row_ptr[8];
  alignas(64) uint scattered_votes_ptr[8];
  alignas(64) int scattered_mine_ptr[1];
  scattered_mine_ptr[0] = 0;
  alignas(64) int64_t to_ptr[1];
  to_ptr[0] = p0_ptr[((int)threadIdx.x)];
  int64_t cse_v3 = ((int64_t)((int)blockIdx.x));
  int64_t cse_v12 = (((int64_t)((int)blockIdx.x)) * (int64_t)8);
  int condval;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr[0] >> (int64_t)3)) {
    condval = ((int)(to_ptr[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval = -1;
  }
  scattered_row_ptr[0] = condval;
  alignas(64) int64_t to_ptr_1[1];
  int cse_v4 = (((int)threadIdx.x) + 32);
  to_ptr_1[0] = p0_ptr[(((int)threadIdx.x) + 32)];
  int condval_1;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr_1[0] >> (int64_t)3)) {
    condval_1 = ((int)(to_ptr_1[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval_1 = -1;
  }
  scattered_row_ptr[1] = condval_1;
  alignas(64) int64_t to_ptr_2[1];
  int cse_v5 = (((int)threadIdx.x) + 64);
  to_ptr_2[0] = p0_ptr[(((int)threadIdx.x) + 64)];
  int condval_2;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr_2[0] >> (int64_t)3)) {
    condval_2 = ((int)(to_ptr_2[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval_2 = -1;
  }
  scattered_row_ptr[2] = condval_2;
  alignas(64) int64_t to_ptr_3[1];
  int64_t cse_v6 = ((int64_t)((int)threadIdx.x));
  int cse_v7 = (((int)threadIdx.x) + 96);
  int64_t condval_3;
  if (((int64_t)((int)threadIdx.x)) < (int64_t)4) {
    condval_3 = p0_ptr[(((int)threadIdx.x) + 96)];
  } else {
    condval_3 = (int64_t)-1;
  }
  to_ptr_3[0] = condval_3;
  int condval_4;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr_3[0] >> (int64_t)3)) {
    condval_4 = ((int)(to_ptr_3[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval_4 = -1;
  }
  scattered_row_ptr[3] = condval_4;
  alignas(64) int64_t to_ptr_4[1];
  to_ptr_4[0] = (int64_t)-1;
  int condval_5;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr_4[0] >> (int64_t)3)) {
    condval_5 = ((int)(to_ptr_4[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval_5 = -1;
  }
  scattered_row_ptr[4] = condval_5;
  alignas(64) int64_t to_ptr_5[1];
  to_ptr_5[0] = (int64_t)-1;
  int condval_6;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr_5[0] >> (int64_t)3)) {
    condval_6 = ((int)(to_ptr_5[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval_6 = -1;
  }
  scattered_row_ptr[5] = condval_6;
  alignas(64) int64_t to_ptr_6[1];
  to_ptr_6[0] = (int64_t)-1;
  int condval_7;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr_6[0] >> (int64_t)3)) {
    condval_7 = ((int)(to_ptr_6[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval_7 = -1;
  }
  scattered_row_ptr[6] = condval_7;
  alignas(64) int64_t to_ptr_7[1];
  to_ptr_7[0] = (int64_t)-1;
  int condval_8;
  if (((int64_t)((int)blockIdx.x)) == (to_ptr_7[0] >> (int64_t)3)) {
    condval_8 = ((int)(to_ptr_7[0] - (((int64_t)((int)blockIdx.x)) * (int64_t)8)));
  } else {
    condval_8 = -1;
  }
  scattered_row_ptr[7] = condval_8;
  scattered_votes_ptr[0] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[0]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[0])));
  scattered_votes_ptr[1] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[1]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[1])));
  scattered_votes_ptr[2] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[2]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[2])));
  scattered_votes_ptr[3] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[3]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[3])));
  scattered_votes_ptr[4] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[4]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[4])));
  scattered_votes_ptr[5] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[5]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[5])));
  scattered_votes_ptr[6] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[6]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[6])));
  scattered_votes_ptr[7] = tvm_builtin_ballot_sync((uint)4294967295, (0 <= scattered_row_ptr[7]));
  scattered_mine_ptr[0] = (scattered_mine_ptr[0] + ((int)__popc(scattered_votes_ptr[7])));
  if (((int)threadIdx.x) == 0) {
    scattered_counts_ptr[0] = scattered_mine_ptr[0];
  }
  __syncthreads();
  alignas(64) int scattered_before_ptr[1];
  alignas(64) int scattered_total_ptr[1];
  scattered_before_ptr[0] = 0;
  scattered_total_ptr[0] = 0;
  scattered_total_ptr[0] = (scattered_total_ptr[0] + scattered_counts_ptr[0]);
  alignas(64) uint lower_ptr[1];
  lower_ptr[0] = (((uint)1 << ((uint)((int)threadIdx.x))) - (uint)1);
  alignas(64) int slot_ptr[1];
  slot_ptr[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[0] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[0]) {
    scattered_updates_ptr[slot_ptr[0]] = ((int)threadIdx.x);
    scattered_rows_ptr[slot_ptr[0]] = scattered_row_ptr[0];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[0])));
  alignas(64) int slot_ptr_1[1];
  slot_ptr_1[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[1] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[1]) {
    scattered_updates_ptr[slot_ptr_1[0]] = (((int)threadIdx.x) + 32);
    scattered_rows_ptr[slot_ptr_1[0]] = scattered_row_ptr[1];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[1])));
  alignas(64) int slot_ptr_2[1];
  slot_ptr_2[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[2] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[2]) {
    scattered_updates_ptr[slot_ptr_2[0]] = (((int)threadIdx.x) + 64);
    scattered_rows_ptr[slot_ptr_2[0]] = scattered_row_ptr[2];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[2])));
  alignas(64) int slot_ptr_3[1];
  slot_ptr_3[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[3] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[3]) {
    scattered_updates_ptr[slot_ptr_3[0]] = (((int)threadIdx.x) + 96);
    scattered_rows_ptr[slot_ptr_3[0]] = scattered_row_ptr[3];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[3])));
  alignas(64) int slot_ptr_4[1];
  slot_ptr_4[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[4] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[4]) {
    scattered_updates_ptr[slot_ptr_4[0]] = (((int)threadIdx.x) + 128);
    scattered_rows_ptr[slot_ptr_4[0]] = scattered_row_ptr[4];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[4])));
  alignas(64) int slot_ptr_5[1];
  slot_ptr_5[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[5] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[5]) {
    scattered_updates_ptr[slot_ptr_5[0]] = (((int)threadIdx.x) + 160);
    scattered_rows_ptr[slot_ptr_5[0]] = scattered_row_ptr[5];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[5])));
  alignas(64) int slot_ptr_6[1];
  slot_ptr_6[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[6] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[6]) {
    scattered_updates_ptr[slot_ptr_6[0]] = (((int)threadIdx.x) + 192);
    scattered_rows_ptr[slot_ptr_6[0]] = scattered_row_ptr[6];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[6])));
  alignas(64) int slot_ptr_7[1];
  slot_ptr_7[0] = (scattered_before_ptr[0] + ((int)__popc((scattered_votes_ptr[7] & lower_ptr[0]))));
  if (0 <= scattered_row_ptr[7]) {
    scattered_updates_ptr[slot_ptr_7[0]] = (((int)threadIdx.x) + 224);
    scattered_rows_ptr[slot_ptr_7[0]] = scattered_row_ptr[7];
  }
  scattered_before_ptr[0] = (scattered_before_ptr[0] + ((int)__popc(scattered_votes_ptr[7])));
  __syncthreads();
  for (int group = 0; group < ((int)((((int64_t)scattered_total_ptr[0]) + (int64_t)3) >> (int64_t)2)); ++group) {
    alignas(64) int scattered_taken_ptr[4];
    int cse_v8 = (group * 4);
    int condval_9;
    if (((group * 4) < scattered_total_ptr[0]) && (scattered_rows_ptr[(group * 4)] == (((int)threadIdx.x) >> 2))) {
      condval_9 = scattered_updates_ptr[(group * 4)];
    } else {
      condval_9 = -1;
    }
    scattered_taken_ptr[0] = condval_9;
    int cse_v13 = ((group * 4) + 1);
    int condval_10;
    if ((((group * 4) + 1) < scattered_total_ptr[0]) && (scattered_rows_ptr[((group * 4) + 1)] == (((int)threadIdx.x) >> 2))) {
      condval_10 = scattered_updates_ptr[((group * 4) + 1)];
    } else {
      condval_10 = -1;
    }
    scattered_taken_ptr[1] = condval_10;
    int cse_v14 = ((group * 4) + 2);
    int condval_11;
    if ((((group * 4) + 2) < scattered_total_ptr[0]) && (scattered_rows_ptr[((group * 4) + 2)] == (((int)threadIdx.x) >> 2))) {
      condval_11 = scattered_updates_ptr[((group * 4) + 2)];
    } else {
      condval_11 = -1;
    }
    scattered_taken_ptr[2] = condval_11;
    int cse_v15 = ((group * 4) + 3);
    int condval_12;
    if ((((group * 4) + 3) < scattered_total_ptr[0]) && (scattered_rows_ptr[((group * 4) + 3)] == (((int)threadIdx.x) >> 2))) {
      condval_12 = scattered_updates_ptr[((group * 4) + 3)];
    } else {
      condval_12 = -1;
    }
    scattered_taken_ptr[3] = condval_12;
    if ((((0 <= scattered_taken_ptr[0]) || (0 <= scattered_taken_ptr[1])) || (0 <= scattered_taken_ptr[2])) || (0 <= scattered_taken_ptr[3])) {
      #pragma unroll
      for (int64_t step_1 = (int64_t)0; step_1 < (int64_t)4; ++step_1) {
        alignas(64) float p1_fetched_ptr[16];
        int64_t cse_v9 = (step_1 * (int64_t)16);
        int64_t cse_v22 = ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)4);
        if (0 <= scattered_taken_ptr[0]) {
          *(float4*)(p1_fetched_ptr + (int64_t)0) = *(float4*)(p1_ptr + (((((int64_t)scattered_taken_ptr[0]) * (int64_t)64) + (step_1 * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)4)));
        }
        if (0 <= scattered_taken_ptr[1]) {
          *(float4*)(p1_fetched_ptr + (int64_t)4) = *(float4*)(p1_ptr + (((((int64_t)scattered_taken_ptr[1]) * (int64_t)64) + (step_1 * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)4)));
        }
        if (0 <= scattered_taken_ptr[2]) {
          *(float4*)(p1_fetched_ptr + (int64_t)8) = *(float4*)(p1_ptr + (((((int64_t)scattered_taken_ptr[2]) * (int64_t)64) + (step_1 * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)4)));
        }
        if (0 <= scattered_taken_ptr[3]) {
          *(float4*)(p1_fetched_ptr + (int64_t)12) = *(float4*)(p1_ptr + (((((int64_t)scattered_taken_ptr[3]) * (int64_t)64) + (step_1 * (int64_t)16)) + ((((int64_t)((int)threadIdx.x)) & (int64_t)3) * (int64_t)4)));
        }
        int64_t cse_v10 = (step_1 * (int64_t)4);
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          int64_t cse_v16 = ((step_1 * (int64_t)4) + ((int64_t)lane));
          float condval_13;
          if (0 <= scattered_taken_ptr[0]) {
            condval_13 = p1_fetched_ptr[lane];
          } else {
            condval_13 = 0x0p+0f/*0.000000e+00*/;
          }
          scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane))] = (scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane))] + condval_13);
        }
        #pragma unroll
        for (int lane_1 = 0; lane_1 < 4; ++lane_1) {
          int64_t cse_v17 = ((step_1 * (int64_t)4) + ((int64_t)lane_1));
          float condval_14;
          if (0 <= scattered_taken_ptr[1]) {
            condval_14 = p1_fetched_ptr[(lane_1 + 4)];
          } else {
            condval_14 = 0x0p+0f/*0.000000e+00*/;
          }
          scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane_1))] = (scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane_1))] + condval_14);
        }
        #pragma unroll
        for (int lane_2 = 0; lane_2 < 4; ++lane_2) {
          int64_t cse_v18 = ((step_1 * (int64_t)4) + ((int64_t)lane_2));
          float condval_15;
          if (0 <= scattered_taken_ptr[2]) {
            condval_15 = p1_fetched_ptr[(lane_2 + 8)];
          } else {
            condval_15 = 0x0p+0f/*0.000000e+00*/;
          }
          scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane_2))] = (scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane_2))] + condval_15);
        }
        #pragma unroll
        for (int lane_3 = 0; lane_3 < 4; ++lane_3) {
          int64_t cse_v19 = ((step_1 * (int64_t)4) + ((int64_t)lane_3));
          float condval_16;
          if (0 <= scattered_taken_ptr[3]) {
            condval_16 = p1_fetched_ptr[(lane_3 + 12)];
          } else {
            condval_16 = 0x0p+0f/*0.000000e+00*/;
          }
          scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane_3))] = (scattered_ahead_ptr[((step_1 * (int64_t)4) + ((int64_t)lane_3))] + condval_16);
        }
      }
    }
  }
  #pragma unroll
  for (int step_2 = 0; step_2 < 4; ++step_2) {
    alignas(64) float T_add_intermediate_1_out_ptr[4];
    alignas(64) float T_subtract_intermediate_out_ptr[4];
    #pragma unroll
    for (int lane_4 = 0; lane_4 < 4; ++lane_4) {
      alignas(64) float T_full_ptr[1];
      T_full_ptr[0] = 0x0p+0f/*0.000000e+00*/;
      alignas(64) float scatter_nd_ptr[1];
      int cse_v20 = ((step_2 * 4) + lane_4);
      scatter_nd_ptr[0] = (T_full_ptr[0] + scattered_ahead_ptr[((step_2 * 4) + lane_4)]);
      alignas(64) float T_multiply_ptr[1];
      T_multiply_ptr[0] = (p2_ahead_ptr[((step_2 * 4) + lane_4)] * 0x1p-3f/*1.250000e-01*/);
      alignas(64) float T_multiply1_ptr[1];
      T_multiply1_ptr[0] = (p3_ahead_ptr[((step_2 * 4) + lane_4)] * 0x1p-1f/*5.000000e-01*/);
      alignas(64) float T_add_ptr[1];
      T_add_ptr[0] = (scatter_nd_ptr[0] + T_multiply_ptr[0]);
      alignas(64) float T_add1_ptr[1];
      T_add1_ptr[0] = (T_multiply1_ptr[0] + T_add_ptr[0]);
      T_add_intermediate_1_out_ptr[lane_4] = T_add1_ptr[0];
      alignas(64) float T_multiply2_ptr[1];
      T_multiply2_ptr[0] = (T_add1_ptr[0] * 0x1p-2f/*2.500000e-01*/);
      alignas(64) float T_subtract_ptr[1];
      T_subtract_ptr[0] = (p2_ahead_ptr[((step_2 * 4) + lane_4)] - T_multiply2_ptr[0]);
      T_subtract_intermediate_out_ptr[lane_4] = T_subtract_ptr[0];
    }
    int cse_v24 = ((((((int)blockIdx.x) * 512) + ((((int)threadIdx.x) >> 2) * 64)) + (step_2 * 16)) + ((((int)threadIdx.x) & 3) * 4));
    *(float4*)(T_add_intermediate_1_ptr + ((((((int)blockIdx.x) * 512) + ((((int)threadIdx.x) >> 2) * 64)) + (step_2 * 16)) + ((((int)threadIdx.x) & 3) * 4))) = *(float4*)(T_add_intermediate_1_out_ptr + 0);
    *(float4*)(T_subtract_intermediate_ptr + ((((((int)blockIdx.x) * 512) + ((((int)threadIdx.x) >> 2) * 64)) + (step_2 * 16)) + ((((int)threadIdx.x) & 3) * 4))) = *(float4*)(T_subtract_intermediate_out_ptr + 0);
  }
  (&(scattered_updates_ptr[0]));
  (&(scattered_rows_ptr[0]));
  (&(scattered_counts_ptr[0]));
}
