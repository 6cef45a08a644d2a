// Made-up input as a file of the system, for the tests: they read by the same calls as nanorun.
#include "tests/fuzz/Targets.h"

#include <sys/mman.h>
#include <unistd.h>

namespace nano::fuzz {

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

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(descriptor); }

} // namespace nano::fuzz
