// Indexes entries of safetensors files by the tensors that they are parts of.
#include "runtime/files/StoredTensors.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

namespace {

/// The tensor and the elements [first, end) that an entry's name tells.
struct EntryPart {
  std::string tensor;
  uint64_t first = 0, end = 0;
};

/// Reads "NAME[first:end]"; nothing when the name has another form.
std::optional<EntryPart> parsePart(const std::string &name) {
  size_t open = name.rfind('['), colon = name.rfind(':');
  if (open == std::string::npos || colon == std::string::npos || colon < open || name.back() != ']')
    return std::nullopt;
  EntryPart part{name.substr(0, open), 0, 0};
  auto number = [&](size_t begin, size_t end, uint64_t &value) {
    const char *last = name.data() + end;
    auto [rest, error] = std::from_chars(name.data() + begin, last, value);
    return error == std::errc() && rest == last;
  };
  if (!number(open + 1, colon, part.first) || !number(colon + 1, name.size() - 1, part.end) ||
      part.first >= part.end)
    return std::nullopt;
  return part;
}

/// Elements that are read at a time.
constexpr uint64_t pieceElements = uint64_t(1) << 20;

/// Number of elements; the sizes fit into 64 bits, which is checked when a file is opened and by
/// the comparison with the files' entries.
std::optional<uint64_t> elementsIn(const TensorInfo &info) {
  uint64_t count = 1;
  for (int64_t size : info.shape)
    if (size < 0 || __builtin_mul_overflow(count, uint64_t(size), &count))
      return std::nullopt;
  return count;
}

} // namespace

std::string entryName(const std::string &tensor, uint64_t first, uint64_t count) {
  return fmt::format("{}[{}:{}]", tensor, first, first + count);
}

StoredTensors::StoredTensors(SafetensorsFile file) : table(file.table()) {
  files.push_back(std::move(file));
  for (const auto &[name, entry] : files[0].tensors())
    parts[name][0] = {0, &entry, elementsIn(table.at(name)).value_or(0)};
}

Result<StoredTensors> StoredTensors::open(std::vector<SafetensorsFile> files, TensorTable table) {
  StoredTensors stored;
  for (size_t i = 0; i < files.size(); ++i)
    for (const auto &[name, entry] : files[i].tensors()) {
      auto wrong = [&](const std::string &what) {
        return badInput(fmt::format("{}: tensor '{}': {}", files[i].path(), name, what));
      };
      EntryPart part{name, 0, 0};
      auto found = table.find(name);
      const bool isWhole = found != table.end();
      if (!isWhole) {
        std::optional<EntryPart> parsed = parsePart(name);
        if (parsed)
          found = table.find(parsed->tensor);
        if (found == table.end())
          return wrong("the manifest does not list it");
        part = std::move(*parsed);
      }
      std::optional<uint64_t> count = elementsIn(found->second);
      if (!count)
        return wrong("the manifest gives it a shape that cannot be");
      if (isWhole)
        part.end = *count;
      const TensorInfo expected{found->second.type,
                                isWhole ? found->second.shape
                                        : std::vector<int64_t>{int64_t(part.end - part.first)}};
      if (part.end > *count || expected != TensorInfo{entry.type, entry.shape})
        return wrong(fmt::format("is {} {}, the manifest lists {} {}", entry.type,
                                 shapeText(entry.shape), found->second.type,
                                 shapeText(found->second.shape)));
      if (!stored.parts[part.tensor]
               .try_emplace(part.first, Part{i, &entry, part.end - part.first})
               .second)
        return wrong("some of its elements are in another file too");
    }
  for (const auto &[name, info] : table) {
    uint64_t covered = 0;
    bool isWhole = true;
    for (const auto &[first, part] : stored.parts[name]) {
      isWhole = isWhole && first == covered;
      covered = first + part.count;
    }
    if (const uint64_t count = elementsIn(info).value_or(0); !isWhole || covered != count)
      return badInput(
          fmt::format("tensor '{}': its {} elements are not each in one file", name, count));
  }
  stored.files = std::move(files);
  stored.table = std::move(table);
  return stored;
}

Result<uint64_t> StoredTensors::hash() const {
  uint64_t hash = files.size();
  for (const SafetensorsFile &file : files) {
    Result<uint64_t> checksum = file.checksum();
    if (!checksum)
      return checksum;
    hash = XXH3_64bits_withSeed(&*checksum, sizeof *checksum, hash);
  }
  return hash;
}

Status StoredTensors::read(const std::string &tensor, uint64_t first, uint64_t count,
                           const Take &take) const {
  const std::map<uint64_t, Part> &all = parts.at(tensor);
  const uint64_t size = bytesOfType(table.at(tensor).type).value_or(0), end = first + count;
  std::vector<std::byte> bytes; // of a piece
  auto at = all.upper_bound(first);
  if (at != all.begin())
    --at; // the part that has the first element
  for (; at != all.end() && at->first < end; ++at) {
    const auto &[begin, part] = *at;
    const uint64_t from = std::max(first, begin), to = std::min(end, begin + part.count);
    if (from >= to)
      continue;
    const SafetensorsFile &file = files[part.file];
    for (uint64_t piece = from; piece < to; piece += pieceElements) {
      const uint64_t elements = std::min(pieceElements, to - piece);
      bytes.resize(elements * size);
      Status status = file.read(*part.entry, (piece - begin) * size, bytes.data(), bytes.size());
      if (status)
        status = take({piece, bytes, file.path()});
      if (!status)
        return status;
    }
  }
  return ok();
}

} // namespace nano
