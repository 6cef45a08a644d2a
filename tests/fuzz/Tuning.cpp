// Tuning files.
#include "runtime/Tuning.h"
#include "tests/fuzz/Targets.h"

namespace nano::fuzz {

void tuning(std::string_view bytes) {
  const MemoryFile memory(bytes);
  Tuning tuning = Tuning::open(memory.path(), "GPU", [](const std::string &) {});
  (void)tuning.find("1 2 3");
  (void)tuning.findWay("1 2 3");
  (void)tuning.text();
}

} // namespace nano::fuzz
