// Stands in for the driver's events where there is none: time passes when a library says so.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT float stand_in_milliseconds = 0;
EXPORT int stand_in_captures = 0;

static float recorded[2];
static int made = 0;

EXPORT int cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  *event = &recorded[made++ % 2];
  return 0;
}

EXPORT int cuEventDestroy_v2(void* event) { return event == 0; }

EXPORT int cuEventRecord(void* event, void* stream) {
  (void)stream;
  *(float*)event = stand_in_milliseconds;
  return 0;
}

EXPORT int cuEventSynchronize(void* event) { return event == 0; }

EXPORT int cuEventElapsedTime(float* took, void* begin, void* end) {
  *took = *(float*)end - *(float*)begin;
  return 0;
}

EXPORT int cuStreamIsCapturing(void* stream, int* status) {
  (void)stream;
  *status = stand_in_captures;
  return 0;
}

EXPORT int cuMemsetD8Async(uintptr_t memory, unsigned char value, size_t bytes, void* stream) {
  (void)stream;
  memset((void*)memory, value, bytes);
  return 0;
}
