// Files of tensors.
#include "runtime/files/Safetensors.h"
#include "tests/fuzz/Targets.h"

namespace nano::fuzz {

void safetensors(std::string_view bytes) {
  const MemoryFile memory(bytes);
  const Result<SafetensorsFile> file = SafetensorsFile::open(memory.path());
  if (!file)
    return;
  (void)file->checksum();
  std::string data;
  for (const auto &[name, entry] : file->tensors()) {
    require(entry.begin <= entry.end && entry.end <= bytes.size(), "a tensor lies in its file");
    data.resize(entry.end - entry.begin);
    require(bool(file->read(entry, 0, data.data(), data.size())), "a tensor can be read");
  }
  (void)checkTensors("the file", file->table(), {});
}

} // namespace nano::fuzz
