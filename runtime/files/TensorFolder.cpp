// Opens the shards of a folder and holds its index against them.
#include "runtime/files/TensorFolder.h"

#include "base/JsonDepth.h"
#include "runtime/files/JsonKeys.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *singleName = "model.safetensors";
constexpr const char *indexName = "model.safetensors.index.json";
constexpr InputKind indexKind = {"an index of safetensors files", 256 * input::mebibyte, ""};

bool isThere(const std::string &path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// Why a folder has no tensors, as far as its files tell.
std::string adviceFor(const std::string &path) {
  std::error_code error;
  for (const fs::directory_entry &entry : fs::directory_iterator(path, error)) {
    const std::string file = entry.path().filename();
    if (entry.path().extension() == ".safetensors")
      return fmt::format("it has {}; a folder of several files needs {}", file, indexName);
    if (file.rfind("pytorch_model", 0) == 0)
      return fmt::format("{} is of PyTorch's format; load it with transformers and save it again "
                         "with save_pretrained",
                         file);
  }
  return "name a folder that save_pretrained wrote";
}

} // namespace

TensorFolder::TensorFolder(SafetensorsFile file) : name(file.path()) {
  files.push_back(std::move(file));
}

Result<TensorFolder> TensorFolder::open(const std::string &path) {
  TensorFolder folder;
  folder.name = path;
  const std::string single = fmt::format("{}/{}", path, singleName),
                    index = fmt::format("{}/{}", path, indexName);
  const bool hasIndex = isThere(index);
  if (!hasIndex && !isThere(single))
    return badInput(
        fmt::format("{}: has neither {} nor {}; {}", path, singleName, indexName, adviceFor(path)));
  if (hasIndex && isThere(single))
    return badInput(fmt::format("{}: has both {} and {}; remove the one that is not meant", path,
                                singleName, indexName));
  if (hasIndex) {
    Status status = folder.openShards(index);
    return status ? Result<TensorFolder>(std::move(folder)) : status.error();
  }
  Result<SafetensorsFile> file = SafetensorsFile::open(single);
  if (!file)
    return file.error();
  folder.files.push_back(std::move(*file));
  return folder;
}

Status TensorFolder::openShards(const std::string &indexPath) {
  auto wrong = [&](const std::string &what) {
    return badInput(fmt::format("{}: {}", indexPath, what));
  };
  Result<std::string> text = readInput(indexPath, indexKind);
  if (!text)
    return text.error();
  if (nestsTooDeep(*text))
    return wrong(fmt::format("it {}", tooDeepText));
  if (const std::optional<std::string> twice = repeatedKey(*text))
    return wrong(fmt::format("'{}' is listed twice", *twice));
  const json index = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object() ||
      index["weight_map"].empty())
    return wrong("is not an index: it has no object weight_map of tensors");

  std::map<std::string, std::vector<std::string>> shards; // tensors by file
  for (const auto &[tensor, file] : index["weight_map"].items()) {
    if (!file.is_string())
      return wrong(fmt::format("'{}' has no file's name", tensor));
    const std::string shard = file.get<std::string>();
    if (shard.empty() || shard == "." || shard == ".." ||
        shard.find_first_of(std::string("/\0", 2)) != std::string::npos)
      return wrong(fmt::format("says that '{}' lies in '{}', which is no file of this folder",
                               tensor, shard));
    shards[shard].push_back(tensor);
  }
  for (const auto &[shard, listed] : shards) {
    const std::string path = fmt::format("{}/{}", name, shard);
    if (!isThere(path))
      return badInput(fmt::format("{}: lacks {}, which {} says holds '{}' and {} other tensors; "
                                  "copy the whole folder",
                                  name, shard, indexName, listed.front(), listed.size() - 1));
    Result<SafetensorsFile> file = SafetensorsFile::open(path);
    if (!file)
      return file.error();
    for (const std::string &tensor : listed)
      if (!file->tensors().count(tensor))
        return wrong(fmt::format("says that {} holds '{}', which it does not", shard, tensor));
    for (const auto &[tensor, entry] : file->tensors())
      if (!index["weight_map"].contains(tensor) || index["weight_map"][tensor] != shard)
        return wrong(fmt::format("does not say that {} holds '{}', which it does", shard, tensor));
    files.push_back(std::move(*file));
  }
  return ok();
}

std::map<std::string, TensorFolder::Place> TensorFolder::tensors() const {
  std::map<std::string, Place> places;
  for (const SafetensorsFile &file : files)
    for (const auto &[tensor, entry] : file.tensors())
      places[tensor] = {&file, &entry};
  return places;
}

Result<uint64_t> TensorFolder::hash() const {
  uint64_t hash = files.size();
  for (const SafetensorsFile &file : files) {
    Result<uint64_t> checksum = file.checksum();
    if (!checksum)
      return checksum;
    hash = XXH3_64bits_withSeed(&*checksum, sizeof *checksum, hash);
  }
  return hash;
}

} // namespace nano
