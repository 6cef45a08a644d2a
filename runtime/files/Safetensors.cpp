// Reading, checking and laying out safetensors files.
#include "runtime/files/Safetensors.h"

#include "base/JsonDepth.h"
#include "runtime/files/JsonKeys.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and are used as they lie");

namespace {

using nlohmann::json;

/// Bytes of a file that are read for its checksum at a time.
constexpr uint64_t pieceBytes = uint64_t(1) << 20;

struct TypeName {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<TypeName, 16> knownTypes = {{{"F64", 8},
                                                  {"F32", 4},
                                                  {"F16", 2},
                                                  {"BF16", 2},
                                                  {"F8_E4M3", 1},
                                                  {"F8_E5M2", 1},
                                                  {"I64", 8},
                                                  {"I32", 4},
                                                  {"I16", 2},
                                                  {"I8", 1},
                                                  {"U64", 8},
                                                  {"U32", 4},
                                                  {"U16", 2},
                                                  {"U8", 1},
                                                  {"BOOL", 1},
                                                  {"C64", 8}}};

/// Parses the header; an object in which no key of the top level or of a tensor appears twice, else
/// null. Twice over the text: the parser's own way to look on takes a time that grows with the
/// square of the number of tensors.
json parseHeader(std::string_view text) {
  if (repeatedKey(text))
    return {};
  json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return header.is_object() ? header : json();
}

/// One tensor's header entry, checked against the size of the data section. The error is what is
/// wrong, without the file.
Result<TensorEntry> parseEntry(const std::string &name, const json &value, uint64_t dataBytes) {
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("tensor '{}': {}", name, what));
  };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets"))
    return wrong("the header must give dtype, shape and data_offsets, and nothing else");
  const json &type = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!type.is_string() || !bytesOfType(type.get<std::string>()))
    return wrong(
        fmt::format("unknown dtype {}", type.dump(-1, ' ', true, json::error_handler_t::replace)));

  TensorEntry entry;
  entry.name = name;
  entry.type = type.get<std::string>();
  uint64_t bytes = *bytesOfType(entry.type);
  if (!shape.is_array() || shape.size() > 64)
    return wrong("shape must be a list of sizes");
  for (const json &size : shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t(INT64_MAX) ||
        __builtin_mul_overflow(bytes, size.get<uint64_t>(), &bytes))
      return wrong("shape must be a list of sizes whose product fits in 64 bits");
    entry.shape.push_back(int64_t(size.get<uint64_t>()));
  }
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    return wrong("data_offsets must be two byte offsets");
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end || entry.end > dataBytes)
    return wrong(fmt::format("data_offsets [{}, {}] do not lie in the {} bytes of data; the file "
                             "is truncated or damaged",
                             entry.begin, entry.end, dataBytes));
  if (entry.end - entry.begin != bytes)
    return wrong(fmt::format("shape {} of {} takes {} bytes, data_offsets give {}",
                             shapeText(entry.shape), entry.type, bytes, entry.end - entry.begin));
  return entry;
}

/// "a, b and 3 more"
std::string someOf(const std::vector<std::string> &items) {
  constexpr size_t shown = 6;
  std::string text = fmt::format(
      "{}", fmt::join(items.begin(), items.begin() + std::min(items.size(), shown), ", "));
  return items.size() > shown ? fmt::format("{} and {} more", text, items.size() - shown) : text;
}

} // namespace

std::optional<uint64_t> bytesOfType(std::string_view name) {
  for (const TypeName &type : knownTypes)
    if (type.name == name)
      return type.bytes;
  return std::nullopt;
}

const char *safetensorsName(plan::DType type) {
  switch (type) {
  case plan::DType::F32:
    return "F32";
  case plan::DType::BF16:
    return "BF16";
  case plan::DType::F8E4M3FN:
    return "F8_E4M3";
  case plan::DType::F8E5M2:
    return "F8_E5M2";
  case plan::DType::I32:
    return "I32";
  case plan::DType::U16:
    return "U16";
  }
  return "";
}

std::string shapeText(const std::vector<int64_t> &shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

uint64_t bytesOf(const plan::State &state) {
  uint64_t bytes = plan::sizeOf(state.type);
  for (int64_t size : state.shape)
    bytes *= uint64_t(size);
  return bytes;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  Result<InputFile> opened = InputFile::open(path, input::tensors);
  if (!opened)
    return opened.error();
  SafetensorsFile result;
  result.file = std::move(*opened);
  const InputFile &file = result.file;
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("{}: not a valid safetensors file: {}", path, what));
  };

  uint64_t headerBytes = 0;
  if (file.size() < sizeof headerBytes)
    return wrong(fmt::format("it has {} bytes, too few for a header", file.size()));
  if (Status status = file.read(0, &headerBytes, sizeof headerBytes); !status)
    return status.error();
  if (headerBytes > maxHeaderBytes)
    return wrong(fmt::format("the header says that it is {} bytes long; at most {} are allowed",
                             headerBytes, maxHeaderBytes));
  if (headerBytes > file.size() - sizeof headerBytes)
    return wrong(fmt::format(
        "the header says that it is {} bytes long, the file has {}; it is truncated or damaged",
        headerBytes, file.size()));
  result.dataStart = sizeof headerBytes + headerBytes;
  uint64_t dataBytes = file.size() - result.dataStart;

  std::string text(size_t(headerBytes), '\0');
  if (Status status = file.read(sizeof headerBytes, text.data(), headerBytes); !status)
    return status.error();
  if (nestsTooDeep(text))
    return wrong(fmt::format("the header {}", tooDeepText));
  json header = parseHeader(text);
  if (header.is_null())
    return wrong("the header is not a JSON object in which every name appears once");
  for (auto &[name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object() ||
          !std::all_of(value.begin(), value.end(), [](const json &v) { return v.is_string(); }))
        return wrong("__metadata__ must be an object of strings");
      continue;
    }
    Result<TensorEntry> entry = parseEntry(name, value, dataBytes);
    if (!entry)
      return wrong(entry.error().message);
    result.entries.emplace(name, std::move(*entry));
  }

  std::vector<const TensorEntry *> byOffset;
  for (const auto &[name, entry] : result.entries)
    byOffset.push_back(&entry);
  std::sort(byOffset.begin(), byOffset.end(), [](const TensorEntry *a, const TensorEntry *b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t covered = 0;
  std::string last;
  for (const TensorEntry *entry : byOffset) {
    if (entry->begin < covered)
      return wrong(fmt::format("tensors '{}' and '{}' overlap", last, entry->name));
    if (entry->begin > covered)
      return wrong(fmt::format("{} bytes before tensor '{}' belong to no tensor",
                               entry->begin - covered, entry->name));
    covered = entry->end;
    last = entry->name;
  }
  if (covered != dataBytes)
    return wrong(fmt::format("{} bytes at the end belong to no tensor", dataBytes - covered));
  return result;
}

Result<uint64_t> SafetensorsFile::checksum() const {
  std::vector<std::byte> piece(std::min(file.size(), pieceBytes));
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    const uint64_t count = std::min<uint64_t>(piece.size(), file.size() - at);
    if (Status status = file.read(at, piece.data(), count); !status)
      return status.error();
    XXH3_64bits_update(&state, piece.data(), count);
  }
  return XXH3_64bits_digest(&state);
}

TensorTable SafetensorsFile::table() const {
  TensorTable table;
  for (const auto &[name, entry] : entries)
    table[name] = {entry.type, entry.shape};
  return table;
}

Status checkTensors(const std::string &what, const TensorTable &found, const TensorTable &wanted) {
  std::vector<std::string> missing, extra, different;
  for (const auto &[name, info] : wanted) {
    auto place = found.find(name);
    if (place == found.end())
      missing.push_back(name);
    else if (place->second != info)
      different.push_back(fmt::format("{} is {} {}, the plan has {} {}", name, place->second.type,
                                      shapeText(place->second.shape), info.type,
                                      shapeText(info.shape)));
  }
  for (const auto &[name, info] : found)
    if (!wanted.count(name))
      extra.push_back(name);

  std::vector<std::string> parts;
  if (!missing.empty())
    parts.push_back("missing: " + someOf(missing));
  if (!extra.empty())
    parts.push_back("not in the plan: " + someOf(extra));
  if (!different.empty())
    parts.push_back("different: " + someOf(different));
  if (parts.empty())
    return ok();
  return badInput(fmt::format("{}: does not fit the plan; {}", what, fmt::join(parts, "; ")));
}

std::string safetensorsHeader(const std::vector<std::pair<std::string, TensorInfo>> &ordered) {
  // Entry by entry: an ordered object looks through all that it has for each new one.
  std::string text = R"({"__metadata__":{"format":"pt"})";
  uint64_t offset = 0;
  for (const auto &[name, info] : ordered) {
    uint64_t end = offset + bytesOfType(info.type).value_or(0);
    for (int64_t size : info.shape)
      end = offset + (end - offset) * uint64_t(size);
    const nlohmann::ordered_json entry = {
        {"dtype", info.type}, {"shape", info.shape}, {"data_offsets", {offset, end}}};
    text += fmt::format(",{}:{}", json(name).dump(), entry.dump());
    offset = end;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + text;
}

} // namespace nano
