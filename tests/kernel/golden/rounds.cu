extern "C" __global__ void __launch_bounds__(495, 3) main_kernel(float* __restrict__ compute_intermediate_1_ptr, float* __restrict__ p0_ptr, float* __restrict__ p1_ptr, float* __restrict__ workspace_ptr) {
  __shared__ alignas(64) float rows_ptr[495];
  extern __shared__ __align__(64) float p0_persistent_ptr[];
  int cse_v1 = (((int)blockIdx.x) * 8250);
  int cse_v2 = (((int)threadIdx.x) % 33);
  int cse_v6 = (((int)threadIdx.x) + 99);
  int cse_v7 = (((int)threadIdx.x) + 198);
  int cse_v8 = (((int)threadIdx.x) + 297);
  int cse_v9 = (((int)threadIdx.x) + 396);
  int cse_v10 = (((int)threadIdx.x) + 33);
  int cse_v11 = (((int)threadIdx.x) + 66);
  int cse_v26 = ((595 - ((int)blockIdx.x)) / 396);
  for (int iteration = 0; iteration < ((595 - ((int)blockIdx.x)) / 396); ++iteration) {
    alignas(64) float p0_red_partials_sums_ptr[1];
    p0_red_partials_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red1_partials_sums_ptr[1];
    p0_red1_partials_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr[1];
    int cse_v27 = ((iteration * 3267000) + (((int)blockIdx.x) * 8250));
    p0_of_columns_ptr[0] = p0_ptr[(((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (((int)threadIdx.x) % 33))];
    int cse_v4 = (iteration * 8415);
    for (int iteration_1 = 0; iteration_1 < 4; ++iteration_1) {
      alignas(64) float p0_loaded_ptr[1];
      int cse_v3 = (iteration_1 * 1980);
      int cse_v34 = ((((iteration * 3267000) + (((int)blockIdx.x) * 8250)) + (iteration_1 * 1980)) + ((int)threadIdx.x));
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
      int cse_v30 = (((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x));
      p0_persistent_ptr[(((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x))] = p0_loaded_ptr[0];
      p0_persistent_ptr[((((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 495)] = p0_loaded_ptr_1[0];
      p0_persistent_ptr[((((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 990)] = p0_loaded_ptr_2[0];
      p0_persistent_ptr[((((iteration * 8415) + (iteration_1 * 1980)) + ((int)threadIdx.x)) + 1485)] = p0_loaded_ptr_3[0];
    }
    alignas(64) float p0_loaded_ptr_4[1];
    int cse_v5 = (((int)threadIdx.x) / 33);
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
      int cse_v31 = (((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x));
      workspace_ptr[(((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x))] = p0_red_partials_ptr[0];
      alignas(64) float p0_red1_partials_ptr[1];
      p0_red1_partials_ptr[0] = p0_red1_partials_sums_ptr[0];
      workspace_ptr[((((iteration * 13068) + (((int)blockIdx.x) * 33)) + ((int)threadIdx.x)) + 6656)] = p0_red1_partials_ptr[0];
    }
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  int cse_v28 = ((398 - ((int)blockIdx.x)) / 396);
  for (int iteration_2 = 0; iteration_2 < ((398 - ((int)blockIdx.x)) / 396); ++iteration_2) {
    alignas(64) float p0_red_offset_sums_ptr[1];
    p0_red_offset_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_red_around_sums_ptr[1];
    p0_red_around_sums_ptr[0] = 0x0p+0f/*0.000000e+00*/;
    alignas(64) float p0_of_columns_ptr_1[1];
    int cse_v12 = (((int)threadIdx.x) % 11);
    int cse_v29 = ((((int)blockIdx.x) % 3) * 11);
    int cse_v32 = (((((int)blockIdx.x) % 3) * 11) + (((int)threadIdx.x) % 11));
    p0_of_columns_ptr_1[0] = p0_ptr[(((((int)blockIdx.x) % 3) * 11) + (((int)threadIdx.x) % 11))];
    alignas(64) float p0_red_partials_of_columns_ptr[1];
    p0_red_partials_of_columns_ptr[0] = workspace_ptr[(((((int)blockIdx.x) % 3) * 11) + (((int)threadIdx.x) % 11))];
    alignas(64) float p0_red_partials_loaded_ptr[1];
    alignas(64) float p0_red1_partials_loaded_ptr[1];
    int cse_v13 = (((int)blockIdx.x) / 3);
    int cse_v14 = (((int)threadIdx.x) / 11);
    int cse_v15 = (iteration_2 * 871200);
    int cse_v35 = ((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600));
    int cse_v41 = ((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + (min(((((int)threadIdx.x) / 11) + 180), 199) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200));
    p0_red_partials_loaded_ptr[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + (min(((((int)threadIdx.x) / 11) + 180), 199) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 871200)];
    p0_red1_partials_loaded_ptr[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + (min(((((int)threadIdx.x) / 11) + 180), 199) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 864544)];
    int cse_v42 = ((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000));
    int cse_v44 = (((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216315000);
    if (((int)threadIdx.x) < 220) {
      p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216315000)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
    }
    if (((int)threadIdx.x) < 220) {
      p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr[0] - ((p0_red_partials_loaded_ptr[0] * p0_red_partials_loaded_ptr[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216315000)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216315000)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    }
    alignas(64) float p0_red_partials_loaded_ptr_1[1];
    alignas(64) float p0_red1_partials_loaded_ptr_1[1];
    int cse_v43 = ((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200));
    p0_red_partials_loaded_ptr_1[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 871200)];
    p0_red1_partials_loaded_ptr_1[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 864544)];
    alignas(64) float p0_red_partials_loaded_ptr_2[1];
    alignas(64) float p0_red1_partials_loaded_ptr_2[1];
    p0_red_partials_loaded_ptr_2[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 869715)];
    p0_red1_partials_loaded_ptr_2[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 863059)];
    alignas(64) float p0_red_partials_loaded_ptr_3[1];
    alignas(64) float p0_red1_partials_loaded_ptr_3[1];
    p0_red_partials_loaded_ptr_3[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 868230)];
    p0_red1_partials_loaded_ptr_3[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 861574)];
    alignas(64) float p0_red_partials_loaded_ptr_4[1];
    alignas(64) float p0_red1_partials_loaded_ptr_4[1];
    p0_red_partials_loaded_ptr_4[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 866745)];
    p0_red1_partials_loaded_ptr_4[0] = workspace_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 871200) + ((((int)blockIdx.x) / 3) * 6600)) + ((((int)threadIdx.x) / 11) * 33)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 871200)) - 860089)];
    int cse_v45 = (((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217800000);
    p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217800000)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
    p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_1[0] - ((p0_red_partials_loaded_ptr_1[0] * p0_red_partials_loaded_ptr_1[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217800000)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217800000)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_1[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    int cse_v46 = (((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217428750);
    p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217428750)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
    p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_2[0] - ((p0_red_partials_loaded_ptr_2[0] * p0_red_partials_loaded_ptr_2[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217428750)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217428750)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_2[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    int cse_v47 = (((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217057500);
    p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217057500)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
    p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_3[0] - ((p0_red_partials_loaded_ptr_3[0] * p0_red_partials_loaded_ptr_3[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217057500)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 217057500)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_3[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    int cse_v48 = (((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216686250);
    p0_red_offset_sums_ptr[0] = (p0_red_offset_sums_ptr[0] + ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216686250)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))));
    p0_red_around_sums_ptr[0] = (p0_red_around_sums_ptr[0] + ((p0_red1_partials_loaded_ptr_4[0] - ((p0_red_partials_loaded_ptr_4[0] * p0_red_partials_loaded_ptr_4[0]) / 0x1.f4p+7f/*2.500000e+02*/)) + ((0x1.f4p+7f/*2.500000e+02*/ * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216686250)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/)))) * ((p0_ptr[(((((((((398 - ((int)blockIdx.x)) / 396) * 217800000) + ((((int)blockIdx.x) / 3) * 1650000)) + ((((int)threadIdx.x) / 11) * 8250)) + ((((int)blockIdx.x) % 3) * 11)) + (((int)threadIdx.x) % 11)) - (iteration_2 * 217800000)) - 216686250)] - p0_of_columns_ptr_1[0]) + ((p0_red_partials_loaded_ptr_4[0] / 0x1.f4p+7f/*2.500000e+02*/) - (p0_red_partials_of_columns_ptr[0] / 0x1.f4p+7f/*2.500000e+02*/))))));
    rows_ptr[((int)threadIdx.x)] = p0_red_offset_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 99) {
      rows_ptr[((int)threadIdx.x)] = ((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 99)]) + rows_ptr[(((int)threadIdx.x) + 198)]) + rows_ptr[(((int)threadIdx.x) + 297)]) + rows_ptr[(((int)threadIdx.x) + 396)]);
    }
    __syncthreads();
    int cse_v16 = (((int)threadIdx.x) + 11);
    int cse_v17 = (((int)threadIdx.x) + 22);
    int cse_v18 = (((int)threadIdx.x) + 44);
    int cse_v19 = (((int)threadIdx.x) + 55);
    int cse_v20 = (((int)threadIdx.x) + 77);
    int cse_v21 = (((int)threadIdx.x) + 88);
    if (((int)threadIdx.x) < 11) {
      rows_ptr[((int)threadIdx.x)] = ((((((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 11)]) + rows_ptr[(((int)threadIdx.x) + 22)]) + rows_ptr[(((int)threadIdx.x) + 33)]) + rows_ptr[(((int)threadIdx.x) + 44)]) + rows_ptr[(((int)threadIdx.x) + 55)]) + rows_ptr[(((int)threadIdx.x) + 66)]) + rows_ptr[(((int)threadIdx.x) + 77)]) + rows_ptr[(((int)threadIdx.x) + 88)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 11) == 0) {
      p0_red_offset_sums_ptr[0] = rows_ptr[((int)threadIdx.x)];
    }
    __syncthreads();
    rows_ptr[((int)threadIdx.x)] = p0_red_around_sums_ptr[0];
    __syncthreads();
    if (((int)threadIdx.x) < 99) {
      rows_ptr[((int)threadIdx.x)] = ((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 99)]) + rows_ptr[(((int)threadIdx.x) + 198)]) + rows_ptr[(((int)threadIdx.x) + 297)]) + rows_ptr[(((int)threadIdx.x) + 396)]);
    }
    __syncthreads();
    if (((int)threadIdx.x) < 11) {
      rows_ptr[((int)threadIdx.x)] = ((((((((rows_ptr[((int)threadIdx.x)] + rows_ptr[(((int)threadIdx.x) + 11)]) + rows_ptr[(((int)threadIdx.x) + 22)]) + rows_ptr[(((int)threadIdx.x) + 33)]) + rows_ptr[(((int)threadIdx.x) + 44)]) + rows_ptr[(((int)threadIdx.x) + 55)]) + rows_ptr[(((int)threadIdx.x) + 66)]) + rows_ptr[(((int)threadIdx.x) + 77)]) + rows_ptr[(((int)threadIdx.x) + 88)]);
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 11) == 0) {
      p0_red_around_sums_ptr[0] = rows_ptr[((int)threadIdx.x)];
    }
    __syncthreads();
    if ((((int)threadIdx.x) / 11) == 0) {
      alignas(64) float p0_red_offset_ptr[1];
      p0_red_offset_ptr[0] = p0_red_offset_sums_ptr[0];
      alignas(64) float p0_red_around_ptr[1];
      p0_red_around_ptr[0] = p0_red_around_sums_ptr[0];
      alignas(64) float p0_red_ptr[1];
      int cse_v33 = (((((int)blockIdx.x) % 3) * 11) + ((int)threadIdx.x));
      p0_red_ptr[0] = (0x1.f4p+7f/*2.500000e+02*/ * ((0x1.9p+7f/*2.000000e+02*/ * (p0_ptr[(((((int)blockIdx.x) % 3) * 11) + ((int)threadIdx.x))] + (workspace_ptr[(((((int)blockIdx.x) % 3) * 11) + ((int)threadIdx.x))] / 0x1.f4p+7f/*2.500000e+02*/))) + p0_red_offset_ptr[0]));
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
      int cse_v22 = (iteration_2 * 4356);
      int cse_v37 = (((((398 - ((int)blockIdx.x)) / 396) * 4356) + (((int)blockIdx.x) * 11)) + ((int)threadIdx.x));
      workspace_ptr[(((((((398 - ((int)blockIdx.x)) / 396) * 4356) + (((int)blockIdx.x) * 11)) + ((int)threadIdx.x)) + 8956) - (iteration_2 * 4356))] = T_divide_ptr[0];
      alignas(64) float T_divide1_ptr[1];
      T_divide1_ptr[0] = (p0_red1_ptr[0] / 0x1.86ap+15f/*5.000000e+04*/);
      alignas(64) float T_add_ptr[1];
      T_add_ptr[0] = (T_divide1_ptr[0] + 0x1.4f8b58p-17f/*1.000000e-05*/);
      alignas(64) float compute_ptr[1];
      compute_ptr[0] = rsqrtf(T_add_ptr[0]);
      workspace_ptr[(((((((398 - ((int)blockIdx.x)) / 396) * 4356) + (((int)blockIdx.x) * 11)) + ((int)threadIdx.x)) + 9020) - (iteration_2 * 4356))] = compute_ptr[0];
    }
  }
  tvm_builtin_cuda_grid_sync();
  __syncthreads();
  for (int iteration_3 = 0; iteration_3 < ((595 - ((int)blockIdx.x)) / 396); ++iteration_3) {
    alignas(64) float T_divide_intermediate_of_columns_ptr[1];
    T_divide_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) % 33) + 13312)];
    alignas(64) float compute_intermediate_of_columns_ptr[1];
    compute_intermediate_of_columns_ptr[0] = workspace_ptr[((((int)threadIdx.x) % 33) + 13376)];
    alignas(64) float p1_of_columns_ptr[1];
    p1_of_columns_ptr[0] = p1_ptr[(((int)threadIdx.x) % 33)];
    alignas(64) float p0_loaded_ptr_5[1];
    int cse_v23 = (iteration_3 * 8415);
    int cse_v36 = ((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x));
    p0_loaded_ptr_5[0] = p0_persistent_ptr[((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_3 * 8415)) - 495)];
    alignas(64) float T_subtract_ptr[1];
    T_subtract_ptr[0] = (p0_loaded_ptr_5[0] - T_divide_intermediate_of_columns_ptr[0]);
    alignas(64) float T_multiply1_ptr[1];
    T_multiply1_ptr[0] = (T_subtract_ptr[0] * compute_intermediate_of_columns_ptr[0]);
    alignas(64) float T_multiply2_ptr[1];
    T_multiply2_ptr[0] = (T_multiply1_ptr[0] * p1_of_columns_ptr[0]);
    alignas(64) float compute1_ptr[1];
    compute1_ptr[0] = max(T_multiply2_ptr[0], 0x0p+0f/*0.000000e+00*/);
    int cse_v24 = (iteration_3 * 3267000);
    int cse_v38 = (((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x));
    if (((int)threadIdx.x) < 330) {
      compute_intermediate_1_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_3 * 3267000)) - 3259080)] = compute1_ptr[0];
    }
    for (int iteration_4 = 0; iteration_4 < 4; ++iteration_4) {
      alignas(64) float p0_loaded_ptr_6[1];
      int cse_v25 = (iteration_4 * 1980);
      int cse_v39 = ((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 8415));
      p0_loaded_ptr_6[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 8415)) - 2475)];
      alignas(64) float p0_loaded_ptr_7[1];
      p0_loaded_ptr_7[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 8415)) - 1980)];
      alignas(64) float p0_loaded_ptr_8[1];
      p0_loaded_ptr_8[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 8415)) - 1485)];
      alignas(64) float p0_loaded_ptr_9[1];
      p0_loaded_ptr_9[0] = p0_persistent_ptr[(((((((595 - ((int)blockIdx.x)) / 396) * 8415) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 8415)) - 990)];
      alignas(64) float T_subtract_ptr_1[1];
      T_subtract_ptr_1[0] = (p0_loaded_ptr_6[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_1[1];
      T_multiply1_ptr_1[0] = (T_subtract_ptr_1[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_1[1];
      T_multiply2_ptr_1[0] = (T_multiply1_ptr_1[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_1[1];
      compute1_ptr_1[0] = max(T_multiply2_ptr_1[0], 0x0p+0f/*0.000000e+00*/);
      int cse_v40 = (((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 3267000));
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 3267000)) - 3261060)] = compute1_ptr_1[0];
      alignas(64) float T_subtract_ptr_2[1];
      T_subtract_ptr_2[0] = (p0_loaded_ptr_7[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_2[1];
      T_multiply1_ptr_2[0] = (T_subtract_ptr_2[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_2[1];
      T_multiply2_ptr_2[0] = (T_multiply1_ptr_2[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_2[1];
      compute1_ptr_2[0] = max(T_multiply2_ptr_2[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 3267000)) - 3260565)] = compute1_ptr_2[0];
      alignas(64) float T_subtract_ptr_3[1];
      T_subtract_ptr_3[0] = (p0_loaded_ptr_8[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_3[1];
      T_multiply1_ptr_3[0] = (T_subtract_ptr_3[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_3[1];
      T_multiply2_ptr_3[0] = (T_multiply1_ptr_3[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_3[1];
      compute1_ptr_3[0] = max(T_multiply2_ptr_3[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 3267000)) - 3260070)] = compute1_ptr_3[0];
      alignas(64) float T_subtract_ptr_4[1];
      T_subtract_ptr_4[0] = (p0_loaded_ptr_9[0] - T_divide_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply1_ptr_4[1];
      T_multiply1_ptr_4[0] = (T_subtract_ptr_4[0] * compute_intermediate_of_columns_ptr[0]);
      alignas(64) float T_multiply2_ptr_4[1];
      T_multiply2_ptr_4[0] = (T_multiply1_ptr_4[0] * p1_of_columns_ptr[0]);
      alignas(64) float compute1_ptr_4[1];
      compute1_ptr_4[0] = max(T_multiply2_ptr_4[0], 0x0p+0f/*0.000000e+00*/);
      compute_intermediate_1_ptr[((((((((595 - ((int)blockIdx.x)) / 396) * 3267000) + (((int)blockIdx.x) * 8250)) + ((int)threadIdx.x)) - (iteration_4 * 1980)) - (iteration_3 * 3267000)) - 3259575)] = compute1_ptr_4[0];
    }
  }
  (&(rows_ptr[0]));
}
