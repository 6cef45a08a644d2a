// Kernels for tests of the CPU device, with the signature of plan::Kernel; compiled to a shared object that tests read as bytes.
#include <stdint.h>
#include <string.h>

// Says how much scratch memory a kernel uses, as plans' native code does.
#define SCRATCH(name, bytes) __asm__(".globl " #name ".scratch\n.set " #name ".scratch, " #bytes)
SCRATCH(add_scaled, 0);
SCRATCH(count_runs, 0);
SCRATCH(own_scratch, 1024);
SCRATCH(halve, 0);

// args: x (f32, read), factor (f32, one value), y (f32, read and written): y[i] += factor * x[i]
void add_scaled(void *const *args, void *scratch, int64_t begin, int64_t end) {
  const float *x = args[0], *factor = args[1];
  float *y = args[2];
  for (int64_t i = begin; i < end; ++i)
    y[i] += *factor * x[i];
}

// args: counts (i32, read and written): how often each iteration has run
void count_runs(void *const *args, void *scratch, int64_t begin, int64_t end) {
  int32_t *counts = args[0];
  for (int64_t i = begin; i < end; ++i)
    ++counts[i];
}

// args: out (i32, written): 1 where 1024 bytes of scratch kept what this call wrote into them, and are aligned to 64 bytes
void own_scratch(void *const *args, void *scratch, int64_t begin, int64_t end) {
  int32_t *out = args[0];
  for (int64_t i = begin; i < end; ++i) {
    unsigned char *bytes = scratch;
    memset(bytes, (int)(i & 255), 1024);
    int kept = (uintptr_t)scratch % 64 == 0;
    for (int round = 0; round < 50; ++round)
      for (int j = 0; j < 1024; ++j)
        kept &= ((volatile unsigned char *)bytes)[j] == (i & 255);
    out[i] = kept;
  }
}

// args: x (f32, read), y (f32, written): y[i] = x[i] / 2
void halve(void *const *args, void *scratch, int64_t begin, int64_t end) {
  const float *x = args[0];
  float *y = args[1];
  for (int64_t i = begin; i < end; ++i)
    y[i] = x[i] * 0.5f;
}

// A kernel that does not say how much scratch memory it uses.
void silent(void *const *args, void *scratch, int64_t begin, int64_t end) {}
