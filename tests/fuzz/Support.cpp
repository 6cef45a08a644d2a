// Files in memory, and promises that end the process.
#include "tests/fuzz/Targets.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace nano::fuzz {

void require(bool holds, const char *promise) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n", promise);
  std::abort();
}

MemoryFile::MemoryFile(std::string_view bytes)
    : descriptor(::memfd_create("nano-fuzz", MFD_CLOEXEC)) {
  require(descriptor >= 0, "memfd_create makes a file");
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    require(written > 0, "the file takes its bytes");
    bytes.remove_prefix(size_t(written));
  }
}

MemoryFile::~MemoryFile() { ::close(descriptor); }

} // namespace nano::fuzz
