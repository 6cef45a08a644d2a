// Made-up input that is read where it lies: InputFile and MemoryFile without the system, in place
// of files/InputFile.cpp and MemoryFile.cpp. Programs of libFuzzer link it: making, opening
// and closing a file took them longer than reading it. What InputFile.cpp itself does has its own
// tests.
#include "base/InputFile.h"
#include "tests/fuzz/Targets.h"

#include <cstring>

namespace nano {

namespace {

std::string_view content; ///< of the one file that there is

} // namespace

namespace fuzz {

MemoryFile::MemoryFile(std::string_view bytes) : descriptor(-1) { content = bytes; }
MemoryFile::~MemoryFile() { content = {}; }

/// A path that exists, for readers that look whether it does, and is no folder.
std::string MemoryFile::path() const { return "/dev/null"; }

} // namespace fuzz

const char *nameOfType(mode_t) { return "a file in memory"; }

Result<InputFile> InputFile::open(const std::string &path, const InputKind &kind) {
  InputFile file;
  file.name = path;
  file.kind = &kind;
  file.bytes = content.size();
  if (file.bytes > kind.maxBytes)
    return badInput(path + ": is too large");
  return file;
}

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(descriptor, other.descriptor);
  std::swap(bytes, other.bytes);
  std::swap(name, other.name);
  std::swap(kind, other.kind);
  return *this;
}

InputFile::~InputFile() = default;

Status InputFile::read(uint64_t offset, void *data, uint64_t count) const {
  if (offset > content.size() || count > content.size() - offset)
    return failed(name + ": ends before byte " + std::to_string(offset));
  if (count > 0)
    std::memcpy(data, content.data() + offset, count);
  return ok();
}

void InputFile::willNeed(uint64_t, uint64_t) const {}

Result<std::string> InputFile::all() const { return std::string(content); }

Result<std::string> readInput(const std::string &path, const InputKind &kind) {
  Result<InputFile> file = InputFile::open(path, kind);
  return file ? file->all() : Result<std::string>(file.error());
}

} // namespace nano
