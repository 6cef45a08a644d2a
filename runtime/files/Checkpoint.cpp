// Saving, finding and verifying checkpoints.
#include "runtime/files/Checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

namespace {

using nlohmann::json;

constexpr const char *formatName = "nano checkpoint";
constexpr int64_t formatVersion = 1;
constexpr const char *parametersName = "params.safetensors";
constexpr const char *optimizerName = "optimizer.safetensors";
constexpr const char *manifestName = "manifest.json";
constexpr std::string_view stepPrefix = "step-";
constexpr std::string_view temporaryPrefix = ".step-";
constexpr std::string_view temporaryInfix = ".tmp-";
constexpr uint64_t maxManifestBytes = 16 << 20;

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

/// Checksum of a manifest without its own checksum.
std::string checksumOf(const json &manifest) {
  std::string text = manifest.dump();
  return hex(XXH3_64bits(text.data(), text.size()));
}

/// What a manifest says of one file.
struct FileRecord {
  uint64_t bytes = 0;
  std::string checksum;
};

json toJson(const Manifest &manifest) {
  json hyperparameters = json::object();
  for (const plan::Hyperparameter &h : manifest.hyperparameters)
    hyperparameters[h.name] = h.value;
  return {{"format", formatName},
          {"version", formatVersion},
          {"step", manifest.step},
          {"data",
           {{"shard", manifest.shard},
            {"file", manifest.shardFile},
            {"position", manifest.position},
            {"epoch", manifest.epoch}}},
          {"seed", manifest.seed},
          {"plan_hash", manifest.planHash},
          {"model", manifest.model},
          {"world", manifest.world},
          {"hyperparameters", hyperparameters},
          {"files", json::array()}};
}

/// Writes one safetensors file of a checkpoint and records it in the manifest.
Status saveFile(const std::string &temporary, const std::string &shown, const char *name,
                const std::vector<const plan::State *> &states, const ReadState &read,
                json &manifest) {
  Result<FileWriter> file =
      FileWriter::create(fmt::format("{}/{}", temporary, name), fmt::format("{}/{}", shown, name));
  if (!file)
    return file.error();
  if (Status status = storeStates(states, read, /*requireFinite=*/true, *file); !status)
    return status;
  manifest["files"].push_back(
      {{"name", name}, {"bytes", file->size()}, {"xxh3", hex(file->checksum())}});
  return file->finish();
}

/// Writes everything into the directory `temporary`, durably.
Status saveContent(const std::string &temporary, const std::string &shown, const Manifest &manifest,
                   const plan::Plan &plan, const ReadState &read) {
  using Role = plan::State::Role;
  json content = toJson(manifest);
  if (Status status = saveFile(temporary, shown, parametersName, statesOf(plan, Role::Parameter),
                               read, content);
      !status)
    return status;
  if (Status status =
          saveFile(temporary, shown, optimizerName, statesOf(plan, Role::Optimizer), read, content);
      !status)
    return status;
  content["checksum"] = checksumOf(content);
  Result<FileWriter> file = FileWriter::create(fmt::format("{}/{}", temporary, manifestName),
                                               fmt::format("{}/{}", shown, manifestName));
  if (!file)
    return file.error();
  if (Status status = file->append(content.dump(2) + "\n"); !status)
    return status;
  if (Status status = file->finish(); !status)
    return status;
  return syncDirectory(temporary);
}

/// Removes what saves of processes that no longer run have left.
void removeLeftovers(const std::string &directory) {
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    size_t infix = name.find(temporaryInfix);
    if (name.rfind(temporaryPrefix, 0) != 0 || infix == std::string::npos)
      continue;
    auto process = pid_t(std::strtol(name.c_str() + infix + temporaryInfix.size(), nullptr, 10));
    if (process > 0 && process != ::getpid() && ::kill(process, 0) != 0 && errno == ESRCH)
      removeTree(entry.path().string());
  }
}

/// Puts the directory `temporary` in the place of `path`, which may exist.
Status replaceDirectory(const std::string &temporary, const std::string &path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0)
    return ok();
  if (errno != ENOTEMPTY && errno != EEXIST)
    return writeError(path, errno);
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
    return failed(fmt::format("{}: exists and cannot be replaced: {}; save to another directory",
                              path, std::strerror(errno)));
  removeTree(temporary);
  return ok();
}

/// The number in "step-000123"; none when the name is another.
std::optional<int64_t> stepOf(const std::string &name) {
  if (name.rfind(stepPrefix, 0) != 0 || name.size() == stepPrefix.size() ||
      name.size() > stepPrefix.size() + 18)
    return std::nullopt;
  int64_t step = 0;
  for (char c : name.substr(stepPrefix.size())) {
    if (c < '0' || c > '9')
      return std::nullopt;
    step = 10 * step + (c - '0');
  }
  return step;
}

/// Reads the manifest's fields; the error is what is wrong, without the file. nlohmann's exceptions
/// end in the catch.
Result<Manifest> parseManifest(const std::string &text, std::map<std::string, FileRecord> &files) {
  json content = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!content.is_object())
    return badInput("it is not a JSON object");
  try {
    if (content.at("format").get<std::string>() != formatName)
      return badInput("it is not the manifest of a checkpoint");
    if (auto version = content.at("version").get<int64_t>(); version != formatVersion)
      return badInput(fmt::format("version {} is not known to this nanorun", version));
    auto checksum = content.at("checksum").get<std::string>();
    content.erase("checksum");
    if (checksum != checksumOf(content))
      return badInput("its checksum does not agree");
    Manifest manifest;
    manifest.step = content.at("step").get<int64_t>();
    const json &data = content.at("data");
    manifest.shard = data.at("shard").get<uint64_t>();
    manifest.shardFile = data.at("file").get<std::string>();
    manifest.position = data.at("position").get<uint64_t>();
    manifest.epoch = data.at("epoch").get<uint64_t>();
    manifest.seed = content.at("seed").get<uint64_t>();
    manifest.planHash = content.at("plan_hash").get<std::string>();
    manifest.model = content.at("model").get<std::string>();
    manifest.world = content.at("world").get<int64_t>();
    for (auto &[name, value] : content.at("hyperparameters").items())
      manifest.hyperparameters.push_back({name, value.get<std::string>()});
    for (const json &file : content.at("files"))
      files[file.at("name").get<std::string>()] = {file.at("bytes").get<uint64_t>(),
                                                   file.at("xxh3").get<std::string>()};
    if (manifest.step < 0)
      return badInput("its step is negative");
    return manifest;
  } catch (const json::exception &) {
    return badInput("a field is missing or has another type");
  }
}

/// Opens one of the checkpoint's files and compares it with the manifest's record.
Result<SafetensorsFile> openFile(const std::string &path, const char *name,
                                 const std::map<std::string, FileRecord> &files) {
  auto record = files.find(name);
  if (record == files.end())
    return badInput(fmt::format("{}/{}: the manifest does not list {}", path, manifestName, name));
  Result<SafetensorsFile> file = SafetensorsFile::open(fmt::format("{}/{}", path, name));
  if (!file)
    return file;
  std::span<const std::byte> content = file->content();
  if (content.size() != record->second.bytes)
    return badInput(fmt::format("{}: has {} bytes, the manifest says {}", file->path(),
                                content.size(), record->second.bytes));
  if (hex(XXH3_64bits(content.data(), content.size())) != record->second.checksum)
    return badInput(fmt::format("{}: its checksum is not the manifest's; it was changed or damaged",
                                file->path()));
  for (const auto &[tensor, entry] : file->tensors())
    file->release(entry);
  return file;
}

/// "num_iterations 100 → 200, …"
std::string differences(const std::vector<plan::Hyperparameter> &before,
                        const std::vector<plan::Hyperparameter> &now) {
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const plan::Hyperparameter &h : before)
    values[h.name] = {h.value, "absent"};
  for (const plan::Hyperparameter &h : now) {
    auto [place, isNew] = values.try_emplace(h.name, "absent", h.value);
    place->second.second = h.value;
  }
  std::vector<std::string> parts;
  for (const auto &[name, pair] : values)
    if (pair.first != pair.second)
      parts.push_back(fmt::format("{} was {}, is {}", name, pair.first, pair.second));
  return fmt::format("{}", fmt::join(parts, ", "));
}

} // namespace

Manifest manifestOf(const plan::Plan &plan, const std::string &planHash) {
  Manifest manifest;
  manifest.planHash = planHash;
  manifest.model = plan.model;
  manifest.hyperparameters = plan.hyperparameters;
  return manifest;
}

std::string checkpointName(int64_t step) { return fmt::format("{}{:06}", stepPrefix, step); }

Result<std::string> saveCheckpoint(const std::string &directory, const Manifest &manifest,
                                   const plan::Plan &plan, const ReadState &read) {
  if (Status status = makeDirectories(directory); !status)
    return status.error();
  removeLeftovers(directory);
  std::string name = checkpointName(manifest.step);
  std::string path = fmt::format("{}/{}", directory, name);
  std::string temporary = fmt::format("{}/.{}{}{}", directory, name, temporaryInfix, ::getpid());
  removeTree(temporary);
  if (::mkdir(temporary.c_str(), 0777) != 0)
    return badInput(fmt::format("{}: cannot be created: {}", path, std::strerror(errno)));
  Status status = saveContent(temporary, path, manifest, plan, read);
  if (status)
    status = replaceDirectory(temporary, path);
  if (!status) {
    removeTree(temporary);
    return status.error();
  }
  if (Status synced = syncDirectory(directory); !synced)
    return synced.error();
  return path;
}

Result<Checkpoint> openCheckpoint(const std::string &path) {
  std::string manifestPath = fmt::format("{}/{}", path, manifestName);
  Result<std::string> text = readFile(manifestPath, maxManifestBytes);
  if (!text)
    return text.error();
  std::map<std::string, FileRecord> files;
  Result<Manifest> manifest = parseManifest(*text, files);
  if (!manifest)
    return badInput(fmt::format("{}: {}", manifestPath, manifest.error().message));
  Result<SafetensorsFile> parameters = openFile(path, parametersName, files);
  if (!parameters)
    return parameters.error();
  Result<SafetensorsFile> optimizer = openFile(path, optimizerName, files);
  if (!optimizer)
    return optimizer.error();
  return Checkpoint{path, std::move(*manifest), std::move(*parameters), std::move(*optimizer)};
}

Result<Checkpoint> findCheckpoint(const std::string &directory, const Report &report) {
  std::error_code error;
  if (std::filesystem::exists(fmt::format("{}/{}", directory, manifestName), error))
    return openCheckpoint(directory);
  std::vector<std::pair<int64_t, std::string>> found;
  for (const auto &entry : std::filesystem::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    if (std::optional<int64_t> step = stepOf(name))
      found.emplace_back(*step, fmt::format("{}/{}", directory, name));
  }
  if (error)
    return badInput(fmt::format("{}: cannot be read: {}", directory, error.message()));
  std::sort(found.rbegin(), found.rend());
  for (const auto &[step, path] : found) {
    Result<Checkpoint> checkpoint = openCheckpoint(path);
    if (checkpoint)
      return checkpoint;
    report(fmt::format("skipping checkpoint {}: {}", path, checkpoint.error().message));
  }
  return badInput(fmt::format("{}: holds no complete checkpoint", directory));
}

Status checkPlan(const Checkpoint &checkpoint, const plan::Plan &plan, const std::string &planHash,
                 const Report &report) {
  using Role = plan::State::Role;
  Status status = checkTensors(checkpoint.parameters, statesOf(plan, Role::Parameter));
  if (status)
    status = checkTensors(checkpoint.optimizer, statesOf(plan, Role::Optimizer));
  const Manifest &manifest = checkpoint.manifest;
  std::string changed = differences(manifest.hyperparameters, plan.hyperparameters);
  if (manifest.model != plan.model)
    changed = fmt::format("model was {}, is {}{}{}", manifest.model, plan.model,
                          changed.empty() ? "" : ", ", changed);
  if (changed.empty())
    changed = "same model name and hyperparameters, compiled otherwise";
  if (!status)
    return badInput(fmt::format("checkpoint {} was made by another plan ({}): {}", checkpoint.path,
                                changed, status.error().message));
  if (manifest.planHash != planHash)
    report(fmt::format(
        "checkpoint {} was made by another plan ({}); its states fit, so the run goes on from it",
        checkpoint.path, changed));
  return ok();
}

} // namespace nano
