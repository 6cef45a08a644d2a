// A second shared object with a kernel of the same name as one in Kernels.c and another meaning.
#include <stdint.h>

// Says how much scratch memory a kernel uses, as plans' native code does.
#define SCRATCH(name, bytes) __asm__(".globl " #name ".scratch\n.set " #name ".scratch, " #bytes)
SCRATCH(halve, 0);

// args: x (f32, read), y (f32, written): y[i] = 3 * x[i]
void halve(void *const *args, void *scratch, int64_t begin, int64_t end) {
  const float *x = args[0];
  float *y = args[1];
  for (int64_t i = begin; i < end; ++i)
    y[i] = x[i] * 3.0f;
}
