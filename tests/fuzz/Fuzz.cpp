// The entry that libFuzzer calls, of the target that the build names NANO_FUZZ_TARGET.
#include "tests/fuzz/Targets.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  nano::fuzz::NANO_FUZZ_TARGET({reinterpret_cast<const char *>(data), size});
  return 0;
}
