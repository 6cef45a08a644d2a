// Reading and writing of safetensors files.
#include "tests/reference/Safetensors.h"

#include "tests/reference/Data.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstring>
#include <fstream>

namespace nano::reference {

using json = nlohmann::json;

namespace {

std::string shapeText(const Shape &shape) { return json(shape).dump(); }

/// `count` values at `bytes`, little-endian F32 or BF16 (the upper half of an F32).
Vec decode(const char *bytes, int64_t count, bool isBf16) {
  Vec values(count);
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    if (isBf16)
      std::memcpy(reinterpret_cast<char *>(&bits) + 2, bytes + 2 * i, 2);
    else
      std::memcpy(&bits, bytes + 4 * i, 4);
    float value;
    std::memcpy(&value, &bits, 4);
    values[i] = value;
  }
  return values;
}

Tensor readTensor(const std::string &where, const json &entry, const Shape &expected,
                  const std::string &data) {
  const Shape shape = entry.at("shape").get<Shape>();
  require(shape == expected,
          where + ": shape " + shapeText(shape) + ", the model has " + shapeText(expected));
  const std::string type = entry.at("dtype").get<std::string>();
  require(type == "F32" || type == "BF16", where + ": type " + type + "; give F32 or BF16");
  const auto [begin, end] = entry.at("data_offsets").get<std::array<uint64_t, 2>>();
  const uint64_t bytes = elementCount(shape) * (type == "BF16" ? 2 : 4);
  require(begin <= end && end <= data.size() && end - begin == bytes,
          where + ": its data offsets do not fit its shape or the file");
  return {shape, decode(data.data() + begin, elementCount(shape), type == "BF16")};
}

} // namespace

Tensors readSafetensors(const std::string &path, const Shapes &expected) {
  const std::string bytes = readFile(path);
  uint64_t headerSize = 0;
  require(bytes.size() >= 8, path + ": too short for a safetensors file");
  std::memcpy(&headerSize, bytes.data(), 8);
  require(headerSize <= bytes.size() - 8, path + ": its header is longer than the file");
  const std::string data = bytes.substr(8 + headerSize);

  Tensors tensors;
  std::map<uint64_t, uint64_t> extents; // of all tensors, by where they begin
  try {
    json header = json::parse(bytes.substr(8, headerSize));
    header.erase("__metadata__");
    for (const auto &[name, entry] : header.items()) {
      const auto found = expected.find(name);
      require(found != expected.end(), path + ": tensor " + name + " is not a parameter");
      tensors[name] = readTensor(path + ": tensor " + name, entry, found->second, data);
      const auto [begin, end] = entry.at("data_offsets").get<std::array<uint64_t, 2>>();
      require(extents.emplace(begin, end).second, path + ": tensor " + name + " overlaps another");
    }
  } catch (const json::exception &) {
    throw InputError(path + ": its header is not that of a safetensors file");
  }

  uint64_t covered = 0;
  for (const auto &[begin, end] : extents) {
    require(begin == covered, path + ": its tensors overlap or leave gaps");
    covered = end;
  }
  require(covered == data.size(), path + ": data remains after its last tensor");
  for (const auto &[name, shape] : expected)
    require(tensors.count(name), path + ": tensor " + name + " is missing");
  return tensors;
}

void writeSafetensors(const std::string &path, const Tensors &tensors) {
  json header = json::object();
  uint64_t offset = 0;
  for (const auto &[name, tensor] : tensors) {
    const uint64_t end = offset + 4 * tensor.data.size();
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t headerSize = text.size();

  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(&headerSize), 8);
  file << text;
  for (const auto &[name, tensor] : tensors) {
    const std::vector<float> values(tensor.data.begin(), tensor.data.end());
    file.write(reinterpret_cast<const char *>(values.data()), 4 * values.size());
  }
  file.close();
  require(file.good(), path + ": cannot be written");
}

} // namespace nano::reference
