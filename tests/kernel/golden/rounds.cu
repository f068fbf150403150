extern "C" __global__ void __launch_bounds__(495, 3) main_kernel(float* __restrict__ compute_intermediate_1_ptr, float* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float rows_ptr[495];
  extern __shared__ __align__(64) float p0_persistent_ptr[];
  int cse_v1 = (((int)blockIdx.x) * 8250);
  int cse_v2 = (((int)threadIdx.x) % 33);
  int cse_v5 = (((int)threadIdx.x) / 33);
  int cse_v6 = (((int)threadIdx.x) + 99);
  int cse_v7 = (((int)threadIdx.x) + 198);
  int cse_v8 = (((int)threadIdx.x) + 297);
  int cse_v9 = (((int)threadIdx.x) + 396);
  int cse_v10 = (((int)threadIdx.x) + 33);
  int cse_v11 = (((int)threadIdx.x) + 66);
  int cse_v12 = (((int)blockIdx.x) * 33);
  int cse_v21 = ((595 - ((int)blockIdx.x)) / 396);
  for (int iteration = 0; iteration < ((595 - ((int)blockIdx.x)) / 396); ++iteration) {
    alignas(64) float p0_red_partials_sums_ptr[1];
    p0_red_partials_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red1_partials_sums_ptr[1];
    p0_red1_partials_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr[1];
    int cse_v22 = ((iteration * 3267000) + (((int)blockIdx.x) * 8250));
    p0_of_columns_ptr[0] = p0_ptr[(((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (((int)threadIdx.x) % 33))];
    int cse_v4 = (iteration * 8415);
    for (int iteration_1 = 0; iteration_1 < 4; ++iteration_1) {
      alignas(64) float p0_loaded_ptr[1];
      int cse_v3 = (iteration_1 * 1980);
      int cse_v26 = ((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1980)) + ((int)threadIdx.x));
      p0_loaded_ptr[0] = p0_ptr[((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1980)) + ((int)threadIdx.x))];
      alignas(64) float p0_loaded_ptr_1[1];
      p0_loaded_ptr_1[0] = p0_ptr[(((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 495)];
      alignas(64) float p0_loaded_ptr_2[1];
      p0_loaded_ptr_2[0] = p0_ptr[(((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 990)];
      alignas(64) float p0_loaded_ptr_3[1];
      p0_loaded_ptr_3[0] = p0_ptr[(((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 1485)];
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr[0] - p0_of_columns_ptr[0]));
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr[0] - p0_of_columns_ptr[0])));
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_1[0] - p0_of_columns_ptr[0]));
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_1[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_1[0] - p0_of_columns_ptr[0])));
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_2[0] - p0_of_columns_ptr[0]));
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_2[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_2[0] - p0_of_columns_ptr[0])));
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_3[0] - p0_of_columns_ptr[0]));
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_3[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_3[0] - p0_of_columns_ptr[0])));
      int cse_v24 = (((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x));
      p0_persistent_ptr[(((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x))] = p0_loaded_ptr[0];
      p0_persistent_ptr[((((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 495)] = p0_loaded_ptr_1[0];
      p0_persistent_ptr[((((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 990)] = p0_loaded_ptr_2[0];
      p0_persistent_ptr[((((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 1485)] = p0_loaded_ptr_3[0];
    }
    alignas(64) float p0_loaded_ptr_4[1];
    p0_loaded_ptr_4[0] = p0_ptr[((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (min(((((int)threadIdx.x) / 33) + 240), 249) * 33)) + (((int)threadIdx.x) % 33))];
    if (((int)threadIdx.x) < 330) {
      p0_red_partials_sums_ptr[0] = (p0_red_partials_sums_ptr[0] + (p0_loaded_ptr_4[0] - p0_of_columns_ptr[0]));
    }
    if (((int)threadIdx.x) < 330) {
      p0_red1_partials_sums_ptr[0] = (p0_red1_partials_sums_ptr[0] + ((p0_loaded_ptr_4[0] - p0_of_columns_ptr[0]) * (p0_loaded_ptr_4[0] - p0_of_columns_ptr[0])));
    }
    p0_persistent_ptr[(((iteration * 8415) + ((int)threadIdx.x)) + 7920)] = p0_loaded_ptr_4[0];
    rows_ptr[((int)threadIdx.x)] = p0_red_partials_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 99) {
      rows_ptr[((int)threadIdx.x)] = ((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 99)]) + rows_ptr[(((int)threadIdx.x) + 198)]) + rows_ptr[(((int)threadIdx.x) + 297)]) + rows_ptr[(((int)threadIdx.x) + 396)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 33) == 0) {
      p0_red_partials_sums_ptr[0] = ((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 33)]) + rows_ptr[(((int)threadIdx.x) + 66)]);
    }
    __syncthreads();
    rows_ptr[((int)threadIdx.x)] = p0_red1_partials_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 99) {
      rows_ptr[((int)threadIdx.x)] = ((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 99)]) + rows_ptr[(((int)threadIdx.x) + 198)]) + rows_ptr[(((int)threadIdx.x) + 297)]) + rows_ptr[(((int)threadIdx.x) + 396)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 33) == 0) {
      p0_red1_partials_sums_ptr[0] = ((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 33)]) + rows_ptr[(((int)threadIdx.x) + 66)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 33) == 0) {
      alignas(64) float p0_red_partials_ptr[1];
      p0_red_partials_ptr[0] = p0_red_partials_sums_ptr[0];
      int cse_v25 = (((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x));
      workspace_ptr[(((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x))] = p0_red_partials_ptr[0];
      alignas(64) float p0_red1_partials_ptr[1];
      p0_red1_partials_ptr[0] = p0_red1_partials_sums_ptr[0];
      workspace_ptr[((((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 6656)] = p0_red1_partials_ptr[0];
    }
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  int cse_v23 = ((((0 - ((int)blockIdx.x)) + 396) / 396) - 1);
  for (int iteration_2 = 0; iteration_2 < (((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) + 1); ++iteration_2) {
    alignas(64) float p0_red_offset_sums_ptr[1];
    p0_red_offset_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red_around_sums_ptr[1];
    p0_red_around_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr_1[1];
    p0_of_columns_ptr_1[0] = p0_ptr[(((int)threadIdx.x) % 33)];
    alignas(64) float p0_red_partials_of_columns_ptr[1];
    p0_red_partials_of_columns_ptr[0] = workspace_ptr[(((int)threadIdx.x) % 33)];
    alignas(64) float p0_red_partials_loaded_ptr[1];
    alignas(64) float p0_red1_partials_loaded_ptr[1];
    int cse_v13 = (iteration_2 * 2613600);
    int cse_v27 = ((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600));
    int cse_v29 = (((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x));
    p0_red_partials_loaded_ptr[0] = workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 5940) - (iteration_2 * 2613600))];
    p0_red1_partials_loaded_ptr[0] = workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 12596) - (iteration_2 * 2613600))];
    alignas(64) float p0_red_partials_loaded_ptr_1[1];
    alignas(64) float p0_red1_partials_loaded_ptr_1[1];
    int cse_v32 = ((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + (min(((((int)threadIdx.x) / 33) + 195), 199) * 33)) + (((int)threadIdx.x) % 33));
    p0_red_partials_loaded_ptr_1[0] = workspace_ptr[(((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + (min(((((int)threadIdx.x) / 33) + 195), 199) * 33)) + (((int)threadIdx.x) % 33)) - (iteration_2 * 2613600))];
    p0_red1_partials_loaded_ptr_1[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + (min(((((int)threadIdx.x) / 33) + 195), 199) * 33)) + (((int)threadIdx.x) % 33)) + 6656) - (iteration_2 * 2613600))];
    int cse_v14 = (iteration_2 * 653400000);
    int cse_v33 = ((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33));
    int cse_v36 = ((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1485000) - (iteration_2 * 653400000));
    p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1485000) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
    p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr[0] - ((p0_red_partials_loaded_ptr[0] * p0_red_partials_loaded_ptr[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1485000) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1485000) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    int cse_v37 = ((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1608750) - (iteration_2 * 653400000));
    if (((int)threadIdx.x) < 165) {
      p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1608750) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
    }
    if (((int)threadIdx.x) < 165) {
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_1[0] - ((p0_red_partials_loaded_ptr_1[0] * p0_red_partials_loaded_ptr_1[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1608750) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1608750) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    }
    for (int iteration_3 = 0; iteration_3 < 3; ++iteration_3) {
      alignas(64) float p0_red_partials_loaded_ptr_2[1];
      alignas(64) float p0_red1_partials_loaded_ptr_2[1];
      int cse_v15 = (iteration_3 * 1980);
      p0_red_partials_loaded_ptr_2[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 3960) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      p0_red1_partials_loaded_ptr_2[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 10616) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      alignas(64) float p0_red_partials_loaded_ptr_3[1];
      alignas(64) float p0_red1_partials_loaded_ptr_3[1];
      p0_red_partials_loaded_ptr_3[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 4455) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      p0_red1_partials_loaded_ptr_3[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 11111) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      alignas(64) float p0_red_partials_loaded_ptr_4[1];
      alignas(64) float p0_red1_partials_loaded_ptr_4[1];
      p0_red_partials_loaded_ptr_4[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 4950) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      p0_red1_partials_loaded_ptr_4[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 11606) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      alignas(64) float p0_red_partials_loaded_ptr_5[1];
      alignas(64) float p0_red1_partials_loaded_ptr_5[1];
      p0_red_partials_loaded_ptr_5[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 5445) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      p0_red1_partials_loaded_ptr_5[0] = workspace_ptr[((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 2613600) + (((int)blockIdx.x) * 6600)) + ((int)threadIdx.x)) + 12101) - (iteration_3 * 1980)) - (iteration_2 * 2613600))];
      int cse_v16 = (iteration_3 * 495000);
      int cse_v38 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 990000) - (iteration_3 * 495000)) - (iteration_2 * 653400000));
      p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 990000) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_2[0] - ((p0_red_partials_loaded_ptr_2[0] * p0_red_partials_loaded_ptr_2[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 990000) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 990000) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
      int cse_v39 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1113750) - (iteration_3 * 495000)) - (iteration_2 * 653400000));
      p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1113750) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_3[0] - ((p0_red_partials_loaded_ptr_3[0] * p0_red_partials_loaded_ptr_3[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1113750) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1113750) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
      int cse_v40 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1237500) - (iteration_3 * 495000)) - (iteration_2 * 653400000));
      p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1237500) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_4[0] - ((p0_red_partials_loaded_ptr_4[0] * p0_red_partials_loaded_ptr_4[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1237500) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1237500) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
      int cse_v41 = (((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1361250) - (iteration_3 * 495000)) - (iteration_2 * 653400000));
      p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1361250) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_5[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_5[0] - ((p0_red_partials_loaded_ptr_5[0] * p0_red_partials_loaded_ptr_5[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1361250) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_5[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 653400000) + (((int)blockIdx.x) * 1650000)) + ((((int)threadIdx.x) / 33) * 8250)) + (((int)threadIdx.x) % 33)) + 1361250) - (iteration_3 * 495000)) - (iteration_2 * 653400000))] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_5[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    }
    rows_ptr[((int)threadIdx.x)] = p0_red_offset_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 99) {
      rows_ptr[((int)threadIdx.x)] = ((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 99)]) + rows_ptr[(((int)threadIdx.x) + 198)]) + rows_ptr[(((int)threadIdx.x) + 297)]) + rows_ptr[(((int)threadIdx.x) + 396)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 33) == 0) {
      p0_red_offset_sums_ptr[0] = ((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 33)]) + rows_ptr[(((int)threadIdx.x) + 66)]);
    }
    __syncthreads();
    rows_ptr[((int)threadIdx.x)] = p0_red_around_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 99) {
      rows_ptr[((int)threadIdx.x)] = ((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 99)]) + rows_ptr[(((int)threadIdx.x) + 198)]) + rows_ptr[(((int)threadIdx.x) + 297)]) + rows_ptr[(((int)threadIdx.x) + 396)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 33) == 0) {
      p0_red_around_sums_ptr[0] = ((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 33)]) + rows_ptr[(((int)threadIdx.x) + 66)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 33) == 0) {
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
      int cse_v17 = (iteration_2 * 13068);
      int cse_v30 = (((((((0 - ((int)blockIdx.x)) + 396) / 396) - 1) * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x));
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
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  for (int iteration_4 = 0; iteration_4 < ((595 - ((int)blockIdx.x)) / 396); ++iteration_4) {
    alignas(64) float T_divide_intermediate_of_columns_ptr[1];
    T_divide_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) % 33) + 13312)];
    alignas(64) float compute_intermediate_of_columns_ptr[1];
    compute_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) % 33) + 13376)];
    alignas(64) float p1_of_columns_ptr[1];
    p1_of_columns_ptr[0] = p1_ptr[(((int)threadIdx.x) % 33)];
    alignas(64) float p0_loaded_ptr_5[1];
    int cse_v18 = (iteration_4 * 8415);
    int cse_v28 = ((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x));
    p0_loaded_ptr_5[0] = p0_persistent_ptr[((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_4 * 8415)) - 495)];
    alignas(64) float T_subtract_ptr[1];
    T_subtract_ptr[0] = (p0_loaded_ptr_5[0] - T_divide_intermediate_of_columns_ptr[0]);
    alignas(64) float T_multiply1_ptr[1];
    T_multiply1_ptr[0] = (T_subtract_ptr[0] * compute_intermediate_of_columns_ptr[0]);
    alignas(64) float T_multiply2_ptr[1];
    T_multiply2_ptr[0] = (T_multiply1_ptr[0] * p1_of_columns_ptr[0]);
    alignas(64) float compute1_ptr[1];
    compute1_ptr[0] = max(T_multiply2_ptr[0], 0x0p+0f/*0.000000e+00*/);
    int cse_v19 = (iteration_4 * 3267000);
    int cse_v31 = (((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x));
    if (((int)threadIdx.x) < 330) {
      compute_intermediate_1_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_4 * 3267000)) - 3259080)] = compute1_ptr[0];
    }
    for (int iteration_5 = 0; iteration_5 < 4; ++iteration_5) {
      alignas(64) float p0_loaded_ptr_6[1];
      int cse_v20 = (iteration_5 * 1980);
      int cse_v34 = ((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 8415));
      p0_loaded_ptr_6[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 8415)) - 2475)];
      alignas(64) float p0_loaded_ptr_7[1];
      p0_loaded_ptr_7[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 8415)) - 1980)];
      alignas(64) float p0_loaded_ptr_8[1];
      p0_loaded_ptr_8[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 8415)) - 1485)];
      alignas(64) float p0_loaded_ptr_9[1];
      p0_loaded_ptr_9[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 8415)) - 990)];
      alignas(64) float T_subtract_ptr_1[1];
      T_subtract_ptr_1[0] = (p0_loaded_ptr_6[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_1[1];
      T_multiply1_ptr_1[0] = (T_subtract_ptr_1[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_1[1];
      T_multiply2_ptr_1[0] = (T_multiply1_ptr_1[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_1[1];
      compute1_ptr_1[0] = max(T_multiply2_ptr_1[0], 0x0p+0f/*0.000000e+00*/);
      int cse_v35 = (((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 3267000));
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 3267000)) - 3261060)] = compute1_ptr_1[0];
      alignas(64) float T_subtract_ptr_2[1];
      T_subtract_ptr_2[0] = (p0_loaded_ptr_7[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_2[1];
      T_multiply1_ptr_2[0] = (T_subtract_ptr_2[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_2[1];
      T_multiply2_ptr_2[0] = (T_multiply1_ptr_2[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_2[1];
      compute1_ptr_2[0] = max(T_multiply2_ptr_2[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 3267000)) - 3260565)] = compute1_ptr_2[0];
      alignas(64) float T_subtract_ptr_3[1];
      T_subtract_ptr_3[0] = (p0_loaded_ptr_8[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_3[1];
      T_multiply1_ptr_3[0] = (T_subtract_ptr_3[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_3[1];
      T_multiply2_ptr_3[0] = (T_multiply1_ptr_3[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_3[1];
      compute1_ptr_3[0] = max(T_multiply2_ptr_3[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 3267000)) - 3260070)] = compute1_ptr_3[0];
      alignas(64) float T_subtract_ptr_4[1];
      T_subtract_ptr_4[0] = (p0_loaded_ptr_9[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_4[1];
      T_multiply1_ptr_4[0] = (T_subtract_ptr_4[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_4[1];
      T_multiply2_ptr_4[0] = (T_multiply1_ptr_4[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_4[1];
      compute1_ptr_4[0] = max(T_multiply2_ptr_4[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_5 * 1980)) - (iteration_4 * 3267000)) - 3259575)] = compute1_ptr_4[0];
    }
  }
  (&(rows_ptr[0]));
}
