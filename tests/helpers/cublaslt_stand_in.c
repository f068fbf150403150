/* What the shim uses of cuBLASLt, computed plainly on the CPU: for tests where there is no GPU.

   It takes what the documentation of cublasLtMatmul states, and refuses the rest. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { R_32F = 0, R_16F = 2, R_16BF = 14, INVALID = 7, NOT_SUPPORTED = 15, BY_TF32 = 77 };

typedef struct {
  int compute, scale, trans_a, trans_b, epilogue, bias_type;
  const void *bias;
} Desc;

typedef struct {
  int type, batch;
  uint64_t rows, cols;
  int64_t ld, stride;
} Layout;

typedef struct {
  uint64_t workspace;
  uint32_t reduction, alignment[4];
} Preference;

typedef struct {
  uint64_t data[8];
} Algo;

typedef struct {
  Algo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Result;

/* What tests ask for: how often something was done, and with which values last. */
static struct {
  int64_t created, chosen, multiplied, epilogue, reduction, workspace, stream, alignment, algorithm;
} seen;

/* Algorithms by their first number, and what each takes by the clock of a driver that stands in as
   well. One is only said to be possible, another is not said to be. */
enum { ALGORITHMS = 4, FIRST = 42, CANNOT = 44, WILL_NOT = 45 };
static const float milliseconds[ALGORITHMS] = {0.3f, 0.1f, 0, 0.05f};

static void let_pass(uint64_t algorithm) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  float *clock = driver == NULL ? NULL : dlsym(driver, "stand_in_milliseconds");
  const float times = getenv("STAND_IN_SLOW") == NULL ? 1 : 10;
  if (clock != NULL) *clock += times * milliseconds[algorithm - FIRST];
}

int64_t stand_in_seen(int field) { return ((int64_t *)&seen)[field]; }

static int fails(const char *what) {
  const char *named = getenv("STAND_IN_FAILS");
  return named != NULL && strcmp(named, what) == 0;
}

const char *cublasLtGetStatusString(int status) {
  return status == NOT_SUPPORTED ? "the requested functionality is not supported"
                                 : "an unsupported value or parameter was passed";
}

int cublasLtCreate(void **handle) {
  seen.created++;
  *handle = &seen;
  return 0;
}

int cublasLtDestroy(void *handle) { return handle == &seen ? 0 : INVALID; }

int cublasLtMatmulDescCreate(void **made, int compute, int scale) {
  Desc *desc = calloc(1, sizeof(Desc));
  desc->compute = compute, desc->scale = scale, desc->epilogue = 1, desc->bias_type = -1;
  *made = desc;
  return (compute == 68 || compute == BY_TF32) && scale == R_32F ? 0 : INVALID;
}

int cublasLtMatmulDescSetAttribute(void *to, int attribute, const void *value, size_t bytes) {
  Desc *desc = to;
  if (bytes != (attribute == 8 ? 8 : 4)) return INVALID;
  switch (attribute) {
    case 3: desc->trans_a = *(const int *)value; return 0;
    case 4: desc->trans_b = *(const int *)value; return 0;
    case 7: desc->epilogue = *(const int *)value; return 0;
    case 8: desc->bias = *(void *const *)value; return 0;
    case 26: desc->bias_type = *(const int *)value; return 0;
  }
  return INVALID;
}

int cublasLtMatmulDescDestroy(void *desc) { free(desc); return 0; }

int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  Layout *layout = calloc(1, sizeof(Layout));
  layout->type = type, layout->rows = rows, layout->cols = cols, layout->ld = ld;
  layout->batch = 1;
  *made = layout;
  return ld >= (int64_t)rows ? 0 : INVALID;
}

int cublasLtMatrixLayoutSetAttribute(void *to, int attribute, const void *value, size_t bytes) {
  Layout *layout = to;
  if (attribute == 5 && bytes == 4) layout->batch = *(const int *)value;
  else if (attribute == 6 && bytes == 8) layout->stride = *(const int64_t *)value;
  else return INVALID;
  return 0;
}

int cublasLtMatrixLayoutDestroy(void *layout) { free(layout); return 0; }

int cublasLtMatmulPreferenceCreate(void **made) {
  *made = calloc(1, sizeof(Preference));
  return 0;
}

int cublasLtMatmulPreferenceSetAttribute(void *to, int attribute, const void *value, size_t bytes) {
  Preference *preference = to;
  if (attribute == 1 && bytes == 8) preference->workspace = *(const uint64_t *)value;
  else if (attribute == 3 && bytes == 4) preference->reduction = *(const uint32_t *)value;
  else if (attribute >= 5 && attribute <= 8 && bytes == 4)
    preference->alignment[attribute - 5] = *(const uint32_t *)value;
  else return INVALID;
  return 0;
}

int cublasLtMatmulPreferenceDestroy(void *preference) { free(preference); return 0; }

int cublasLtMatmulAlgoGetHeuristic(void *handle, const Desc *desc, const Layout *a,
                                   const Layout *b, const Layout *c, const Layout *d,
                                   const Preference *preference, int requested, Result *results,
                                   int *returned) {
  (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d;
  seen.chosen++;
  seen.workspace = preference->workspace, seen.reduction = preference->reduction;
  seen.alignment = preference->alignment[0];
  *returned = fails("heuristic") ? 0 : requested < ALGORITHMS ? requested : ALGORITHMS;
  memset(results, 0, *returned * sizeof(Result));
  for (int n = 0; n < *returned; n++) {
    results[n].algo.data[0] = FIRST + n;
    results[n].state = FIRST + n == WILL_NOT ? NOT_SUPPORTED : 0;
  }
  return 0;
}

static float half_bits(uint16_t bits) {
  _Float16 half;
  memcpy(&half, &bits, 2);
  return half;
}

static float get(const void *from, int type, int64_t at) {
  if (type == R_32F) return ((const float *)from)[at];
  uint16_t bits = ((const uint16_t *)from)[at];
  if (type == R_16F) return half_bits(bits);
  uint32_t wide = (uint32_t)bits << 16;
  float found;
  memcpy(&found, &wide, 4);
  return found;
}

/* A factor: with 10 bits of mantissa, to nearest, where it is asked for. */
static float factor(const void *from, int type, int64_t at, int compute) {
  float found = get(from, type, at);
  if (compute != BY_TF32 || type != R_32F) return found;
  uint32_t bits;
  memcpy(&bits, &found, 4);
  bits = (bits + 0x1000) & 0xffffe000;
  memcpy(&found, &bits, 4);
  return found;
}

static void put(void *into, int type, int64_t at, float value) {
  uint32_t wide;
  memcpy(&wide, &value, 4);
  if (type == R_32F) {
    ((float *)into)[at] = value;
  } else if (type == R_16F) {
    _Float16 half = (_Float16)value;
    memcpy((uint16_t *)into + at, &half, 2);
  } else {
    ((uint16_t *)into)[at] = (wide + 0x7fff + (wide >> 16 & 1)) >> 16;
  }
}

static float activated(float value, int epilogue) {
  if (epilogue & 2) return value > 0 ? value : 0;
  if (epilogue & 32)
    return value / 2 * (1 + tanhf(0.7978845608f * (value + 0.044715f * value * value * value)));
  return value;
}

int cublasLtMatmul(void *handle, const Desc *desc, const float *alpha, const void *a,
                   const Layout *la, const void *b, const Layout *lb, const float *beta,
                   const void *c, const Layout *lc, void *d, const Layout *ld, const Algo *algo,
                   void *workspace, size_t bytes, void *stream) {
  uint64_t depth = desc->trans_a ? la->rows : la->cols;
  uint64_t rows = desc->trans_a ? la->cols : la->rows;
  uint64_t cols = desc->trans_b ? lb->rows : lb->cols;
  uint64_t other = desc->trans_b ? lb->cols : lb->rows;
  seen.multiplied++;
  seen.epilogue = desc->epilogue, seen.stream = (int64_t)stream;
  if (fails("matmul")) return NOT_SUPPORTED;
  seen.algorithm = algo->data[0];
  if (seen.algorithm == CANNOT) return NOT_SUPPORTED;
  if (handle != &seen || seen.algorithm < FIRST || seen.algorithm >= WILL_NOT) return INVALID;
  if (bytes && !workspace) return INVALID;
  let_pass(seen.algorithm);
  if (depth != other || rows != ld->rows || cols != ld->cols || la->type != lb->type)
    return INVALID;
  if (la->batch != ld->batch || lb->batch != ld->batch || lc->batch != ld->batch) return INVALID;
  if ((desc->epilogue & 4) && (desc->bias == NULL || desc->bias_type != ld->type)) return INVALID;
  for (int64_t batch = 0; batch < ld->batch; batch++)
    for (uint64_t col = 0; col < cols; col++)
      for (uint64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (uint64_t k = 0; k < depth; k++) {
          int64_t at = desc->trans_a ? row * la->ld + k : k * la->ld + row;
          int64_t bt = desc->trans_b ? k * lb->ld + col : col * lb->ld + k;
          sum += (double)factor(a, la->type, at + batch * la->stride, desc->compute) *
                 factor(b, lb->type, bt + batch * lb->stride, desc->compute);
        }
        int64_t to = col * ld->ld + row + batch * ld->stride;
        float value = *alpha * (float)sum;
        if (*beta != 0) value += *beta * get(c, lc->type, to);
        if (desc->epilogue & 4) value += get(desc->bias, ld->type, row);
        put(d, ld->type, to, activated(value, desc->epilogue));
      }
  return 0;
}
