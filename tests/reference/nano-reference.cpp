// The command nano-reference: an independent trainer to compare the compiler's results with.
#include "tests/reference/Driver.h"

#include <iostream>
#include <malloc.h>

int main(int argc, char **argv) {
  // Tensors come and go by the thousand: their memory is not given back in between.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return nano::reference::runReference({argv + 1, argv + argc}, std::cout, std::cerr);
}
