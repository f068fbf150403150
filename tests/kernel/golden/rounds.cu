extern "C" __global__ void __launch_bounds__(512, 3) main_kernel(float* __restrict__ compute_intermediate_1_ptr, float* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float rows_ptr[512];
  extern __shared__ __align__(64) float p0_persistent_ptr[];
  int cse_v1 = (((int)threadIdx.x) & 63);
  int cse_v2 = (((int)blockIdx.x) * 8250);
  int cse_v4 = (((int)threadIdx.x) >> 6);
  int cse_v6 = (((int)threadIdx.x) + 128);
  int cse_v7 = (((int)threadIdx.x) + 256);
  int cse_v8 = (((int)threadIdx.x) + 384);
  int cse_v9 = (((int)threadIdx.x) + 64);
  int cse_v10 = (((int)blockIdx.x) * 33);
  int cse_v19 = ((595 - ((int)blockIdx.x)) / 396);
  int cse_v21 = ((((int)threadIdx.x) >> 6) * 33);
  for (int iteration = 0; iteration < ((595 - ((int)blockIdx.x)) / 396); ++iteration) {
    alignas(64) float p0_red_partials_sums_ptr[1];
    p0_red_partials_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red1_partials_sums_ptr[1];
    p0_red1_partials_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr[1];
    int cse_v20 = ((iteration * 3267000) + (((int)blockIdx.x) * 8250));
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_of_columns_ptr[0] = p0_ptr[(((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (((int)threadIdx.x) & 63))];
    }
    int cse_v5 = (iteration * 8448);
    for (int iteration_1 = 0; iteration_1 < 7; ++iteration_1) {
      alignas(64) float p0_loaded_ptr[1];
      int cse_v3 = (iteration_1 * 1056);
      int cse_v27 = (((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63));
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr[0] = p0_ptr[(((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63))];
      }
      alignas(64) float p0_loaded_ptr_1[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr_1[0] = p0_ptr[((((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 264)];
      }
      alignas(64) float p0_loaded_ptr_2[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr_2[0] = p0_ptr[((((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 528)];
      }
      alignas(64) float p0_loaded_ptr_3[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr_3[0] = p0_ptr[((((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 792)];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr[0] - p0_of_columns_ptr[0]));
        p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr[0] - p0_of_columns_ptr[0])));
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_1[0] - p0_of_columns_ptr[0]));
        p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_1[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_1[0] - p0_of_columns_ptr[0])));
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_2[0] - p0_of_columns_ptr[0]));
        p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_2[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_2[0] - p0_of_columns_ptr[0])));
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_3[0] - p0_of_columns_ptr[0]));
        p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_3[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_3[0] - p0_of_columns_ptr[0])));
      }
      int cse_v24 = ((((iteration * 8448) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63));
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_persistent_ptr[((((iteration * 8448) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63))] = p0_loaded_ptr[0];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_persistent_ptr[(((((iteration * 8448) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 264)] = p0_loaded_ptr_1[0];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_persistent_ptr[(((((iteration * 8448) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 528)] = p0_loaded_ptr_2[0];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_persistent_ptr[(((((iteration * 8448) + (iteration_1 * 1056)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 792)] = p0_loaded_ptr_3[0];
      }
    }
    alignas(64) float p0_loaded_ptr_4[1];
    int cse_v25 = ((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63));
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_4[0] = p0_ptr[(((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 7392)];
    }
    alignas(64) float p0_loaded_ptr_5[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_5[0] = p0_ptr[(((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 7656)];
    }
    alignas(64) float p0_loaded_ptr_6[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_6[0] = p0_ptr[(((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 7920)];
    }
    alignas(64) float p0_loaded_ptr_7[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_7[0] = p0_ptr[((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (min(((((int)threadIdx.x) >> 6) + 248), 249) * 33)) + (((int)threadIdx.x) & 63))];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_4[0] - p0_of_columns_ptr[0]));
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_4[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_4[0] - p0_of_columns_ptr[0])));
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_5[0] - p0_of_columns_ptr[0]));
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_5[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_5[0] - p0_of_columns_ptr[0])));
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_6[0] - p0_of_columns_ptr[0]));
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_6[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_6[0] - p0_of_columns_ptr[0])));
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      if (((int)threadIdx.x) < 128) {
        p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_7[0] - p0_of_columns_ptr[0]));
      }
      if (((int)threadIdx.x) < 128) {
        p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_7[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_7[0] - p0_of_columns_ptr[0])));
      }
    }
    int cse_v26 = (((iteration * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63));
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_persistent_ptr[((((iteration * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 7392)] = p0_loaded_ptr_4[0];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_persistent_ptr[((((iteration * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 7656)] = p0_loaded_ptr_5[0];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_persistent_ptr[((((iteration * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 7920)] = p0_loaded_ptr_6[0];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_persistent_ptr[((((iteration * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 8184)] = p0_loaded_ptr_7[0];
    }
    rows_ptr[((int)threadIdx.x)] = p0_red_partials_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 128) {
      rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 128)]) + rows_ptr[(((int)threadIdx.x) + 256)]) + rows_ptr[(((int)threadIdx.x) + 384)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red_partials_sums_ptr[0] = (rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 64)]);
    }
    __syncthreads();
    rows_ptr[((int)threadIdx.x)] = p0_red1_partials_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 128) {
      rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 128)]) + rows_ptr[(((int)threadIdx.x) + 256)]) + rows_ptr[(((int)threadIdx.x) + 384)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red1_partials_sums_ptr[0] = (rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 64)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      if (((int)threadIdx.x) < 33) {
        alignas(64) float p0_red_partials_ptr[1];
        p0_red_partials_ptr[0] = p0_red_partials_sums_ptr[0];
        int cse_v23 = (((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x));
        workspace_ptr[(((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x))] = p0_red_partials_ptr[0];
        alignas(64) float p0_red1_partials_ptr[1];
        p0_red1_partials_ptr[0] = p0_red1_partials_sums_ptr[0];
        workspace_ptr[((((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 6656)] = p0_red1_partials_ptr[0];
      }
    }
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  int cse_v22 = ((((0 - ((int)blockIdx.x)) + 396) / 396) - 1);
  for (int iteration_2 = 0; iteration_2 < (((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) + 1); ++iteration_2) {
    alignas(64) float p0_red_offset_sums_ptr[1];
    p0_red_offset_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red_around_sums_ptr[1];
    p0_red_around_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr_1[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_of_columns_ptr_1[0] = p0_ptr[(((int)threadIdx.x) & 63)];
    }
    alignas(64) float p0_red_partials_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_red_partials_of_columns_ptr[0] = workspace_ptr[(((int)threadIdx.x) & 63)];
    }
    alignas(64) float p0_red_partials_loaded_ptr[1];
    alignas(64) float p0_red1_partials_loaded_ptr[1];
    int cse_v11 = (iteration_2 * 2613600);
    int cse_v30 = ((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63));
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_red_partials_loaded_ptr[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 6336) - (iteration_2 * 2613600))];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_red1_partials_loaded_ptr[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 12992) - (iteration_2 * 2613600))];
    }
    int cse_v12 = (iteration_2 * 653400000);
    int cse_v31 = ((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63));
    if ((((int)threadIdx.x) & 63) < 33) {
      int cse_v36 = ((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1584000) - (iteration_2 * 653400000));
      p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1584000) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr[0] - ((p0_red_partials_loaded_ptr[0] * p0_red_partials_loaded_ptr[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1584000) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1584000) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    }
    for (int iteration_3 = 0; iteration_3 < 6; ++iteration_3) {
      alignas(64) float p0_red_partials_loaded_ptr_1[1];
      alignas(64) float p0_red1_partials_loaded_ptr_1[1];
      int cse_v13 = (iteration_3 * 1056);
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_loaded_ptr_1[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 5280) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red1_partials_loaded_ptr_1[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 11936) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      alignas(64) float p0_red_partials_loaded_ptr_2[1];
      alignas(64) float p0_red1_partials_loaded_ptr_2[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_loaded_ptr_2[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 5544) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red1_partials_loaded_ptr_2[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 12200) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      alignas(64) float p0_red_partials_loaded_ptr_3[1];
      alignas(64) float p0_red1_partials_loaded_ptr_3[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_loaded_ptr_3[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 5808) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red1_partials_loaded_ptr_3[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 12464) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      alignas(64) float p0_red_partials_loaded_ptr_4[1];
      alignas(64) float p0_red1_partials_loaded_ptr_4[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red_partials_loaded_ptr_4[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 6072) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_red1_partials_loaded_ptr_4[0] = workspace_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) + 12728) - (iteration_3 * 1056)) - (iteration_2 * 2613600))];
      }
      int cse_v14 = (iteration_3 * 264000);
      if ((((int)threadIdx.x) & 63) < 33) {
        int cse_v38 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1320000) - (iteration_3 * 264000)) - (iteration_2 * 653400000));
        p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1320000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
        p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_1[0] - ((p0_red_partials_loaded_ptr_1[0] * p0_red_partials_loaded_ptr_1[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1320000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1320000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        int cse_v39 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1386000) - (iteration_3 * 264000)) - (iteration_2 * 653400000));
        p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1386000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
        p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_2[0] - ((p0_red_partials_loaded_ptr_2[0] * p0_red_partials_loaded_ptr_2[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1386000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1386000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        int cse_v40 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1452000) - (iteration_3 * 264000)) - (iteration_2 * 653400000));
        p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1452000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
        p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_3[0] - ((p0_red_partials_loaded_ptr_3[0] * p0_red_partials_loaded_ptr_3[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1452000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1452000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        int cse_v41 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1518000) - (iteration_3 * 264000)) - (iteration_2 * 653400000));
        p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1518000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
        p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_4[0] - ((p0_red_partials_loaded_ptr_4[0] * p0_red_partials_loaded_ptr_4[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1518000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) >> 6) * 8250)) + (((int)threadIdx.x) & 63)) + 1518000) - (iteration_3 * 264000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
      }
    }
    rows_ptr[((int)threadIdx.x)] = p0_red_offset_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 128) {
      rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 128)]) + rows_ptr[(((int)threadIdx.x) + 256)]) + rows_ptr[(((int)threadIdx.x) + 384)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red_offset_sums_ptr[0] = (rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 64)]);
    }
    __syncthreads();
    rows_ptr[((int)threadIdx.x)] = p0_red_around_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 128) {
      rows_ptr[((int)threadIdx.x)] = (((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 128)]) + rows_ptr[(((int)threadIdx.x) + 256)]) + rows_ptr[(((int)threadIdx.x) + 384)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      p0_red_around_sums_ptr[0] = (rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 64)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) >> 6) == 0) {
      if (((int)threadIdx.x) < 33) {
        alignas(64) float p0_red_offset_ptr[1];
        p0_red_offset_ptr[0] = p0_red_offset_sums_ptr[0];
        alignas(64) float p0_red_around_ptr[1];
        p0_red_around_ptr[0] = p0_red_around_sums_ptr[0];
        alignas(64) float p0_red_ptr[1];
        p0_red_ptr[0] = (0x1.f4p+7f/*2.500000e+02*/ * ((0x1.9p+7f/*2.000000e+02*/ * (p0_ptr[((int)threadIdx.x)] + (workspace_ptr[((int)threadIdx.x)] / 0x1.f4p+7f/*2.500000e+02*/))) + p0_red_offset_ptr[0]));
        alignas(64) float p0_red1_ptr[1];
        float condval;
        if ((p0_red_around_ptr[0] - ((0x1.4p+0f/*1.250000e+00*/ * p0_red_offset_ptr[0]) * p0_red_offset_ptr[0])) < 0x0p+0f/*0.000000e+00*/) {
          condval = 0x0p+0f/*0.000000e+00*/;
        } else {
          condval = (p0_red_around_ptr[0] - ((0x1.4p+0f/*1.250000e+00*/ * p0_red_offset_ptr[0]) * p0_red_offset_ptr[0]));
        }
        p0_red1_ptr[0] = condval;
        alignas(64) float T_divide_ptr[1];
        T_divide_ptr[0] = (p0_red_ptr[0] / 0x1.86ap+15f/*5.000000e+04*/);
        int cse_v15 = (iteration_2 * 13068);
        int cse_v28 = (((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x));
        workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 13312) - (iteration_2 * 13068))] = T_divide_ptr[0];
        alignas(64) float T_divide1_ptr[1];
        T_divide1_ptr[0] = (p0_red1_ptr[0] / 0x1.86ap+15f/*5.000000e+04*/);
        alignas(64) float T_add_ptr[1];
        T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
        alignas(64) float compute_ptr[1];
        compute_ptr[0] = rsqrtf(T_add_ptr[0]);
        workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 13376) - (iteration_2 * 13068))] = compute_ptr[0];
      }
    }
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  for (int iteration_4 = 0; iteration_4 < ((595 - ((int)blockIdx.x)) / 396); ++iteration_4) {
    alignas(64) float T_divide_intermediate_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      T_divide_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) & 63) + 13312)];
    }
    alignas(64) float compute_intermediate_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      compute_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) & 63) + 13376)];
    }
    alignas(64) float p1_of_columns_ptr[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p1_of_columns_ptr[0] = p1_ptr[(((int)threadIdx.x) & 63)];
    }
    alignas(64) float p0_loaded_ptr_8[1];
    int cse_v16 = (iteration_4 * 8448);
    int cse_v29 = (((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63));
    int cse_v32 = ((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 8448));
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_8[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 8448)) - 1056)];
    }
    alignas(64) float p0_loaded_ptr_9[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_9[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 8448)) - 792)];
    }
    alignas(64) float p0_loaded_ptr_10[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_10[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 8448)) - 528)];
    }
    alignas(64) float p0_loaded_ptr_11[1];
    if ((((int)threadIdx.x) & 63) < 33) {
      p0_loaded_ptr_11[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 8448)) - 264)];
    }
    int cse_v17 = (iteration_4 * 3267000);
    int cse_v33 = ((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63));
    int cse_v34 = (((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 3267000));
    if ((((int)threadIdx.x) & 63) < 33) {
      alignas(64) float T_subtract_ptr[1];
      T_subtract_ptr[0] = (p0_loaded_ptr_8[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr[1];
      T_multiply1_ptr[0] = (T_subtract_ptr[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr[1];
      T_multiply2_ptr[0] = (T_multiply1_ptr[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr[1];
      compute1_ptr[0] = max(T_multiply2_ptr[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 3267000)) - 3259608)] = compute1_ptr[0];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      alignas(64) float T_subtract_ptr_1[1];
      T_subtract_ptr_1[0] = (p0_loaded_ptr_9[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_1[1];
      T_multiply1_ptr_1[0] = (T_subtract_ptr_1[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_1[1];
      T_multiply2_ptr_1[0] = (T_multiply1_ptr_1[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_1[1];
      compute1_ptr_1[0] = max(T_multiply2_ptr_1[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 3267000)) - 3259344)] = compute1_ptr_1[0];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      alignas(64) float T_subtract_ptr_2[1];
      T_subtract_ptr_2[0] = (p0_loaded_ptr_10[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_2[1];
      T_multiply1_ptr_2[0] = (T_subtract_ptr_2[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_2[1];
      T_multiply2_ptr_2[0] = (T_multiply1_ptr_2[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_2[1];
      compute1_ptr_2[0] = max(T_multiply2_ptr_2[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 3267000)) - 3259080)] = compute1_ptr_2[0];
    }
    if ((((int)threadIdx.x) & 63) < 33) {
      alignas(64) float T_subtract_ptr_3[1];
      T_subtract_ptr_3[0] = (p0_loaded_ptr_11[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_3[1];
      T_multiply1_ptr_3[0] = (T_subtract_ptr_3[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_3[1];
      T_multiply2_ptr_3[0] = (T_multiply1_ptr_3[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_3[1];
      compute1_ptr_3[0] = max(T_multiply2_ptr_3[0], 0x0p+0f/*0.000000e+00*/);
      if (((int)threadIdx.x) < 128) {
        compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_4 * 3267000)) - 3258816)] = compute1_ptr_3[0];
      }
    }
    for (int iteration_5 = 0; iteration_5 < 7; ++iteration_5) {
      alignas(64) float p0_loaded_ptr_12[1];
      int cse_v18 = (iteration_5 * 1056);
      int cse_v35 = (((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 8448));
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr_12[0] = p0_persistent_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 8448)) - 2112)];
      }
      alignas(64) float p0_loaded_ptr_13[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr_13[0] = p0_persistent_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 8448)) - 1848)];
      }
      alignas(64) float p0_loaded_ptr_14[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr_14[0] = p0_persistent_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 8448)) - 1584)];
      }
      alignas(64) float p0_loaded_ptr_15[1];
      if ((((int)threadIdx.x) & 63) < 33) {
        p0_loaded_ptr_15[0] = p0_persistent_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 8448) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 8448)) - 1320)];
      }
      int cse_v37 = ((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 3267000));
      if ((((int)threadIdx.x) & 63) < 33) {
        alignas(64) float T_subtract_ptr_4[1];
        T_subtract_ptr_4[0] = (p0_loaded_ptr_12[0] - T_divide_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply1_ptr_4[1];
        T_multiply1_ptr_4[0] = (T_subtract_ptr_4[0] * compute_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply2_ptr_4[1];
        T_multiply2_ptr_4[0] = (T_multiply1_ptr_4[0] * p1_of_columns_ptr[0]);
        alignas(64) float compute1_ptr_4[1];
        compute1_ptr_4[0] = max(T_multiply2_ptr_4[0], 0x0p+0f/*0.000000e+00*/);
        compute_intermediate_1_ptr[(((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 3267000)) - 3260664)] = compute1_ptr_4[0];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        alignas(64) float T_subtract_ptr_5[1];
        T_subtract_ptr_5[0] = (p0_loaded_ptr_13[0] - T_divide_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply1_ptr_5[1];
        T_multiply1_ptr_5[0] = (T_subtract_ptr_5[0] * compute_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply2_ptr_5[1];
        T_multiply2_ptr_5[0] = (T_multiply1_ptr_5[0] * p1_of_columns_ptr[0]);
        alignas(64) float compute1_ptr_5[1];
        compute1_ptr_5[0] = max(T_multiply2_ptr_5[0], 0x0p+0f/*0.000000e+00*/);
        compute_intermediate_1_ptr[(((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 3267000)) - 3260400)] = compute1_ptr_5[0];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        alignas(64) float T_subtract_ptr_6[1];
        T_subtract_ptr_6[0] = (p0_loaded_ptr_14[0] - T_divide_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply1_ptr_6[1];
        T_multiply1_ptr_6[0] = (T_subtract_ptr_6[0] * compute_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply2_ptr_6[1];
        T_multiply2_ptr_6[0] = (T_multiply1_ptr_6[0] * p1_of_columns_ptr[0]);
        alignas(64) float compute1_ptr_6[1];
        compute1_ptr_6[0] = max(T_multiply2_ptr_6[0], 0x0p+0f/*0.000000e+00*/);
        compute_intermediate_1_ptr[(((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 3267000)) - 3260136)] = compute1_ptr_6[0];
      }
      if ((((int)threadIdx.x) & 63) < 33) {
        alignas(64) float T_subtract_ptr_7[1];
        T_subtract_ptr_7[0] = (p0_loaded_ptr_15[0] - T_divide_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply1_ptr_7[1];
        T_multiply1_ptr_7[0] = (T_subtract_ptr_7[0] * compute_intermediate_of_columns_ptr[0]);
        alignas(64) float T_multiply2_ptr_7[1];
        T_multiply2_ptr_7[0] = (T_multiply1_ptr_7[0] * p1_of_columns_ptr[0]);
        alignas(64) float compute1_ptr_7[1];
        compute1_ptr_7[0] = max(T_multiply2_ptr_7[0], 0x0p+0f/*0.000000e+00*/);
        compute_intermediate_1_ptr[(((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((((int)threadIdx.x) >> 6) * 33)) + (((int)threadIdx.x) & 63)) - (iteration_5 * 1056)) - (iteration_4 * 3267000)) - 3259872)] = compute1_ptr_7[0];
      }
    }
  }
  (&(rows_ptr[0]));
}
