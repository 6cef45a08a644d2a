// Anonymous mappings with huge pages, and the two places where Linux says how much memory is left.
#include "runtime/cpu/Memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace nano::cpu {
namespace {

constexpr uint64_t hugePage = uint64_t(2) << 20;

std::string gibibytes(uint64_t bytes) {
  char text[32];
  if (bytes >= uint64_t(1) << 29)
    std::snprintf(text, sizeof text, "%.1f GiB", double(bytes) / double(uint64_t(1) << 30));
  else
    std::snprintf(text, sizeof text, "%.1f MiB", double(bytes) / double(uint64_t(1) << 20));
  return text;
}

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

Error outOfMemory(const plan::Plan &plan, int ranks, uint64_t available) {
  std::vector<const plan::Buffer *> largest;
  for (const plan::Buffer &buffer : plan.buffers)
    largest.push_back(&buffer);
  size_t shown = std::min<size_t>(3, largest.size());
  std::partial_sort(largest.begin(), largest.begin() + shown, largest.end(),
                    [](auto *a, auto *b) { return a->bytes > b->bytes; });
  std::string text = "out of memory: the plan needs " + gibibytes(plan.arenaBytes);
  if (ranks > 1)
    text += " for each of " + std::to_string(ranks) + " ranks";
  text += " and " + gibibytes(available) + " are available; largest buffers: ";
  for (size_t i = 0; i < shown; ++i) {
    text += (i ? ", " : "") + largest[i]->name + " " + gibibytes(largest[i]->bytes);
    if (largest[i]->location.line)
      text +=
          " (" + largest[i]->location.file + ":" + std::to_string(largest[i]->location.line) + ")";
  }
  text += "; compile the model with a smaller seq_len (-D seq_len=...)";
  if (ranks > 1)
    text += ", or use fewer ranks";
  return badInput(text);
}

} // namespace nano::cpu
