// Anonymous mappings with huge pages, and the two places where Linux says how much memory is left.
#include "runtime/cpu/Memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace nano::cpu {
namespace {

constexpr uint64_t hugePage = uint64_t(2) << 20;

/// The number behind `key` in a file of "key number" lines; `otherwise` when there is none.
uint64_t entry(const char *path, const std::string &key, uint64_t otherwise) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(key, 0) == 0)
      return std::strtoull(line.c_str() + key.size(), nullptr, 10);
  return otherwise;
}

uint64_t firstNumber(const char *path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t value;
  return file >> value ? value : otherwise;
}

} // namespace

Mapping::Mapping(Mapping &&other) noexcept { *this = std::move(other); }

Mapping &Mapping::operator=(Mapping &&other) noexcept {
  std::swap(mapped, other.mapped);
  std::swap(mappedBytes, other.mappedBytes);
  std::swap(start, other.start);
  return *this;
}

Mapping::~Mapping() {
  if (mapped)
    munmap(mapped, mappedBytes);
}

bool Mapping::allocate(uint64_t bytes) {
  if (bytes > uint64_t(1) << 46)
    return false;
  size_t wanted = size_t((bytes + hugePage - 1) / hugePage + 1) * hugePage;
  void *address = mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return false;
  *this = Mapping();
  mapped = address;
  mappedBytes = wanted;
  uint64_t past = reinterpret_cast<uintptr_t>(address) % hugePage;
  start = static_cast<std::byte *>(address) + (past ? hugePage - past : 0);
  madvise(start, size_t(bytes), MADV_HUGEPAGE);
  return true;
}

uint64_t availableMemory() {
  uint64_t available = UINT64_MAX;
  uint64_t kibibytes = entry("/proc/meminfo", "MemAvailable:", UINT64_MAX);
  if (kibibytes != UINT64_MAX)
    available = kibibytes * 1024;
  uint64_t limit = firstNumber("/sys/fs/cgroup/memory.max", UINT64_MAX);
  if (limit != UINT64_MAX) {
    uint64_t used = firstNumber("/sys/fs/cgroup/memory.current", 0);
    used -= std::min(used, entry("/sys/fs/cgroup/memory.stat", "file ", 0));
    available = std::min(available, limit - std::min(limit, used));
  }
  return available;
}

} // namespace nano::cpu
