extern "C" __global__ void __launch_bounds__(512, 3) main_kernel(float* __restrict__ compute_intermediate_1_ptr, float* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float rows_ptr[512];
  extern __shared__ __align__(64) float p0_staying_ptr[];
  int cse_v1 = (((int)threadIdx.x) & 63);
  int cse_v2 = (((int)blockIdx.x) * 330);
  int cse_v3 = (((int)threadIdx.x) >> 6);
  int cse_v4 = (((int)threadIdx.x) >> 7);
  int cse_v5 = (((int)threadIdx.x) + 64);
  int cse_v6 = (((int)threadIdx.x) + 128);
  int cse_v7 = (((int)threadIdx.x) + 192);
  int cse_v8 = (((int)threadIdx.x) + 256);
  int cse_v9 = (((int)threadIdx.x) + 320);
  int cse_v10 = (((int)threadIdx.x) + 384);
  int cse_v11 = (((int)threadIdx.x) + 448);
  int cse_v12 = (((int)blockIdx.x) * 33);
  int cse_v15 = ((445 - ((int)blockIdx.x)) / 396);
  int cse_v18 = ((((int)threadIdx.x) >> 6) * 33);
  for (int turn = 0; turn < ((445 - ((int)blockIdx.x)) / 396); ++turn) {
    alignas(64) float p0_red_shares_sums_ptr[1];
    p0_red_shares_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red1_shares_sums_ptr[1];
    p0_red1_shares_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr[1];
    int cse_v16 = ((turn * 130680) + (((int)blockIdx.x) * 330));
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_of_columns_ptr[0] = p0_ptr[(((turn * 130680) + (((int)blockIdx.x) * 330)) + (((int)threadIdx.x) & 63))];
    }
    for (int turn_1 = 0; turn_1 < 2; ++turn_1) {
      alignas(64) float p0_ahead_ptr[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_ahead_ptr[0] = p0_ptr[((((turn * 130680) + (((int)blockIdx.x) * 330)) + (min(((turn_1 * 8) + (((int)threadIdx.x) >> 6)), 9) * 33)) + (((int)threadIdx.x) & 63))];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        int cse_v17 = ((turn_1 * 4) + (((int)threadIdx.x) >> 7));
        if (((turn_1 * 4) + (((int)threadIdx.x) >> 7)) < 5) {
          p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + (p0_ahead_ptr[0] - p0_of_columns_ptr[0]));
        }
        if (((turn_1 * 4) + (((int)threadIdx.x) >> 7)) < 5) {
          p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + ((p0_ahead_ptr[0] - p0_of_columns_ptr[0]) * (p0_ahead_ptr[0] - p0_of_columns_ptr[0])));
        }
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_staying_ptr[((((turn * 528) + (turn_1 * 264)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63))] = p0_ahead_ptr[0];
      }
    }
    rows_ptr[((int)threadIdx.x)] = p0_red_shares_sums_ptr[0];
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 64)]);
      p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 128)]);
      p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 192)]);
      p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 256)]);
      p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 320)]);
      p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 384)]);
      p0_red_shares_sums_ptr[0] = (p0_red_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 448)]);
    }
    __syncthreads();
    rows_ptr[((int)threadIdx.x)] = p0_red1_shares_sums_ptr[0];
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 64)]);
      p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 128)]);
      p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 192)]);
      p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 256)]);
      p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 320)]);
      p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 384)]);
      p0_red1_shares_sums_ptr[0] = (p0_red1_shares_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 448)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      if (((int)threadIdx.x) < 33) {
        alignas(64) float p0_red_shares_ptr[1];
        p0_red_shares_ptr[0] = p0_red_shares_sums_ptr[0];
        int cse_v21 = (((turn * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x));
        workspace_ptr[(((turn * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x))] = p0_red_shares_ptr[0];
        alignas(64) float p0_red1_shares_ptr[1];
        p0_red1_shares_ptr[0] = p0_red1_shares_sums_ptr[0];
        workspace_ptr[((((turn * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 1664)] = p0_red1_shares_ptr[0];
      }
    }
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  int cse_v19 = ((((0 - ((int)blockIdx.x)) + 396) / 396) - 1);
  for (int turn_2 = 0; turn_2 < (((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) + 1); ++turn_2) {
    alignas(64) float p0_red_apart_sums_ptr[1];
    p0_red_apart_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red_around_sums_ptr[1];
    p0_red_around_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr_1[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_of_columns_ptr_1[0] = p0_ptr[(((int)threadIdx.x) & 63)];
    }
    alignas(64) float p0_red_shares_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_red_shares_of_columns_ptr[0] = workspace_ptr[(((int)threadIdx.x) & 63)];
    }
    for (int turn_3 = 0; turn_3 < 7; ++turn_3) {
      alignas(64) float p0_red_shares_ahead_ptr[1];
      alignas(64) float p0_red1_shares_ahead_ptr[1];
      int cse_v13 = (turn_2 * 653400);
      int cse_v22 = min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49);
      int cse_v24 = ((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400) + (((int)blockIdx.x) * 1650)) + (min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49) * 33)) + (((int)threadIdx.x) & 63));
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_shares_ahead_ptr[0] = workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400) + (((int)blockIdx.x) * 1650)) + (min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49) * 33)) + (((int)threadIdx.x) & 63)) - (turn_2 * 653400))];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red1_shares_ahead_ptr[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400) + (((int)blockIdx.x) * 1650)) + (min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49) * 33)) + (((int)threadIdx.x) & 63)) + 1664) - (turn_2 * 653400))];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        int cse_v20 = ((((int)threadIdx.x) >> 7) - (turn_3 * 4));
        int cse_v25 = (((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 6534000) + (((int)blockIdx.x) * 16500)) + (min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49) * 330)) + (((int)threadIdx.x) & 63)) - (turn_2 * 6534000));
        if (((((int)threadIdx.x) >> 7) - (turn_3 * 4)) < 1) {
          p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + ((p0_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 6534000) + (((int)blockIdx.x) * 16500)) + (min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49) * 330)) + (((int)threadIdx.x) & 63)) - (turn_2 * 6534000))] - p0_of_columns_ptr_1[0]) + ((p0_red_shares_ahead_ptr[0] - p0_red_shares_of_columns_ptr[0]) / 0x1.4p+3f/*1.000000e+01*/)));
        }
        if (((((int)threadIdx.x) >> 7) - (turn_3 * 4)) < 1) {
          p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_shares_ahead_ptr[0] - ((p0_red_shares_ahead_ptr[0] * p0_red_shares_ahead_ptr[0]) / 0x1.4p+3f/*1.000000e+01*/)) + ((0x1.4p+3f/*1.000000e+01*/ * ((p0_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 6534000) + (((int)blockIdx.x) * 16500)) + (min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49) * 330)) + (((int)threadIdx.x) & 63)) - (turn_2 * 6534000))] - p0_of_columns_ptr_1[0]) + ((p0_red_shares_ahead_ptr[0] - p0_red_shares_of_columns_ptr[0]) / 0x1.4p+3f/*1.000000e+01*/))) * ((p0_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 6534000) + (((int)blockIdx.x) * 16500)) + (min((((((int)threadIdx.x) >> 6) + 48) - (turn_3 * 8)), 49) * 330)) + (((int)threadIdx.x) & 63)) - (turn_2 * 6534000))] - p0_of_columns_ptr_1[0]) + ((p0_red_shares_ahead_ptr[0] - p0_red_shares_of_columns_ptr[0]) / 0x1.4p+3f/*1.000000e+01*/)))));
        }
      }
    }
    rows_ptr[((int)threadIdx.x)] = p0_red_apart_sums_ptr[0];
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 64)]);
      p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 128)]);
      p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 192)]);
      p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 256)]);
      p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 320)]);
      p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 384)]);
      p0_red_apart_sums_ptr[0] = (p0_red_apart_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 448)]);
    }
    __syncthreads();
    rows_ptr[((int)threadIdx.x)] = p0_red_around_sums_ptr[0];
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 64)]);
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 128)]);
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 192)]);
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 256)]);
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 320)]);
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 384)]);
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + rows_ptr[(((int)threadIdx.x) + 448)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      if (((int)threadIdx.x) < 33) {
        alignas(64) float p0_red_apart_ptr[1];
        p0_red_apart_ptr[0] = p0_red_apart_sums_ptr[0];
        alignas(64) float p0_red_around_ptr[1];
        p0_red_around_ptr[0] = p0_red_around_sums_ptr[0];
        alignas(64) float p0_red_ptr[1];
        p0_red_ptr[0] = (0x1.4p+3f/*1.000000e+01*/ * ((0x1.9p+5f/*5.000000e+01*/ * (p0_ptr[((int)threadIdx.x)] + (workspace_ptr[((int)threadIdx.x)] / 0x1.4p+3f/*1.000000e+01*/))) + p0_red_apart_ptr[0]));
        alignas(64) float p0_red1_ptr[1];
        p0_red1_ptr[0] = (p0_red_around_ptr[0] - ((0x1.99999ap-3f/*2.000000e-01*/ * p0_red_apart_ptr[0]) * p0_red_apart_ptr[0]));
        alignas(64) float T_divide_ptr[1];
        T_divide_ptr[0] = (p0_red_ptr[0] / 0x1.f4p+8f/*5.000000e+02*/);
        int cse_v14 = (turn_2 * 13068);
        int cse_v23 = (((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x));
        workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 3328) - (turn_2 * 13068))] = T_divide_ptr[0];
        alignas(64) float T_divide1_ptr[1];
        T_divide1_ptr[0] = (p0_red1_ptr[0] / 0x1.f4p+8f/*5.000000e+02*/);
        alignas(64) float T_add_ptr[1];
        T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
        alignas(64) float compute_ptr[1];
        compute_ptr[0] = rsqrtf(T_add_ptr[0]);
        workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 3392) - (turn_2 * 13068))] = compute_ptr[0];
      }
    }
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  for (int turn_4 = 0; turn_4 < ((445 - ((int)blockIdx.x)) / 396); ++turn_4) {
    alignas(64) float T_divide_intermediate_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      T_divide_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) & 63) + 3328)];
    }
    alignas(64) float compute_intermediate_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      compute_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) & 63) + 3392)];
    }
    alignas(64) float p1_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p1_of_columns_ptr[0] = p1_ptr[(((int)threadIdx.x) & 63)];
    }
    for (int turn_5 = 0; turn_5 < 2; ++turn_5) {
      alignas(64) float p0_ahead_ptr_1[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_ahead_ptr_1[0] = p0_staying_ptr[((((((((445 - ((int)blockIdx.x)) / 396) * 528) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (turn_5 * 264)) - (turn_4 * 528)) - 264)];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        alignas(64) float T_subtract_ptr[1];
        T_subtract_ptr[0] = (p0_ahead_ptr_1[0] - T_divide_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply1_ptr[1];
        T_multiply1_ptr[0] = (T_subtract_ptr[0] * compute_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply2_ptr[1];
        T_multiply2_ptr[0] = (T_multiply1_ptr[0] * p1_of_columns_ptr[0]);
        alignas(64) float compute1_ptr[1];
        compute1_ptr[0] = max(T_multiply2_ptr[0], 0x0p+0f/*0.000000e+00*/);
        if (((((int)threadIdx.x) >> 7) - (turn_5 * 4)) < 1) {
          compute_intermediate_1_ptr[((((((((445 - ((int)blockIdx.x)) / 396) * 130680) + (((int)blockIdx.x) * 330)) + (min((((((int)threadIdx.x) >> 6) + 8) - (turn_5 * 8)), 9) * 33)) + (((int)threadIdx.x) & 63)) - (turn_4 * 130680)) - 130680)] = compute1_ptr[0];
        }
      }
    }
  }
  (&(rows_ptr[0]));
}
