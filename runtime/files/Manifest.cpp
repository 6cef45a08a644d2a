// The manifest's JSON.
#include "runtime/files/Manifest.h"

#include "runtime/files/JsonKeys.h"
#include "runtime/plan/JsonDepth.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace nano {

namespace {

using nlohmann::json;
using Role = plan::State::Role;

constexpr const char *formatName = "nano checkpoint";
constexpr int64_t formatVersion = 2;

/// Checksum of a manifest without its own checksum.
std::string checksumOf(const json &manifest) {
  std::string text = manifest.dump();
  return hexText(XXH3_64bits(text.data(), text.size()));
}

json toJson(const std::vector<FileRecord> &files) {
  json list = json::array();
  for (const FileRecord &file : files)
    list.push_back({{"name", file.name},
                    {"holds", file.holds == Role::Parameter ? "parameters" : "optimizer"},
                    {"bytes", file.bytes},
                    {"xxh3", file.checksum}});
  return list;
}

/// Throws json::exception where a field is missing or has another type.
std::vector<FileRecord> toRecords(const json &list) {
  std::vector<FileRecord> files;
  for (const json &file : list) {
    FileRecord record;
    record.name = file.at("name").get<std::string>();
    // Version 1 has two files.
    std::string holds =
        file.value("holds", record.name == "params.safetensors" ? "parameters" : "optimizer");
    record.holds = holds == "parameters" ? Role::Parameter : Role::Optimizer;
    record.bytes = file.at("bytes").get<uint64_t>();
    record.checksum = file.at("xxh3").get<std::string>();
    files.push_back(std::move(record));
  }
  return files;
}

json toJson(const TensorTable &table) {
  json object = json::object();
  for (const auto &[name, info] : table)
    object[name] = {{"dtype", info.type}, {"shape", info.shape}};
  return object;
}

TensorTable toTable(const json &object) {
  TensorTable table;
  for (auto &[name, info] : object.items())
    table[name] = {info.at("dtype").get<std::string>(),
                   info.at("shape").get<std::vector<int64_t>>()};
  return table;
}

json toJson(const RunIdentity &run) {
  json from = json::array();
  for (const auto &[id, step] : run.from)
    from.push_back({{"id", id}, {"step", step}});
  return {{"id", run.id}, {"settings", run.settings}, {"from", from}};
}

RunIdentity toIdentity(const json &object) {
  RunIdentity run{object.at("id").get<std::string>(), object.at("settings").get<std::string>(), {}};
  for (const json &each : object.at("from"))
    run.from.emplace_back(each.at("id").get<std::string>(), each.at("step").get<int64_t>());
  return run;
}

} // namespace

bool RunIdentity::owns(const Manifest &checkpoint) const {
  return checkpoint.run.id == id || std::any_of(from.begin(), from.end(), [&](const auto &before) {
           return before.first == checkpoint.run.id && checkpoint.step <= before.second;
         });
}

std::string hexText(uint64_t value) { return fmt::format("{:016x}", value); }

std::string manifestText(const Manifest &manifest, const Contents &contents) {
  json hyperparameters = json::object();
  for (const plan::Hyperparameter &h : manifest.hyperparameters)
    hyperparameters[h.name] = h.value;
  json content = {{"format", formatName},
                  {"version", formatVersion},
                  {"step", manifest.step},
                  {"data",
                   {{"shard", manifest.shard},
                    {"file", manifest.shardFile},
                    {"position", manifest.position},
                    {"epoch", manifest.epoch},
                    {"rule", manifest.data.rule},
                    {"files", manifest.data.files},
                    {"tokens", manifest.data.tokens},
                    {"fingerprint", manifest.data.fingerprint}}},
                  {"seed", manifest.seed},
                  {"run", toJson(manifest.run)},
                  {"plan_hash", manifest.planHash},
                  {"model", manifest.model},
                  {"world", manifest.world},
                  {"hyperparameters", hyperparameters},
                  {"files", toJson(contents.files)},
                  {"parameters", toJson(contents.parameters.value_or(TensorTable()))},
                  {"optimizer", toJson(contents.optimizer.value_or(TensorTable()))}};
  content["checksum"] = checksumOf(content);
  return content.dump(2) + "\n";
}

// nlohmann's exceptions end in the catch.
Result<Manifest> parseManifest(const std::string &text, Contents &contents) {
  if (nestsTooDeep(text))
    return badInput(fmt::format("it {}", tooDeepText));
  json content = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!content.is_object())
    return badInput("it is not a JSON object");
  // The checksum is made of what the parser keeps of them.
  if (std::optional<std::string> key = repeatedKey(text))
    return badInput(fmt::format("the key '{}' occurs twice in one object", *key));
  try {
    if (content.at("format").get<std::string>() != formatName)
      return badInput("it is not the manifest of a checkpoint");
    const auto version = content.at("version").get<int64_t>();
    if (version < 1 || version > formatVersion)
      return badInput(fmt::format("version {} is not known to this nanorun", version));
    auto checksum = content.at("checksum").get<std::string>();
    content.erase("checksum");
    if (checksum != checksumOf(content))
      return badInput("its checksum does not agree");
    Manifest manifest;
    manifest.checksum = checksum;
    if (content.contains("run"))
      manifest.run = toIdentity(content["run"]);
    manifest.step = content.at("step").get<int64_t>();
    const json &data = content.at("data");
    manifest.shard = data.at("shard").get<uint64_t>();
    manifest.shardFile = data.at("file").get<std::string>();
    manifest.position = data.at("position").get<uint64_t>();
    manifest.epoch = data.at("epoch").get<uint64_t>();
    // These came later.
    manifest.data.rule = data.value("rule", manifest.data.rule);
    manifest.data.files = data.value("files", uint64_t(0));
    manifest.data.tokens = data.value("tokens", uint64_t(0));
    manifest.data.fingerprint = data.value("fingerprint", std::string());
    manifest.seed = content.at("seed").get<uint64_t>();
    manifest.planHash = content.at("plan_hash").get<std::string>();
    manifest.model = content.at("model").get<std::string>();
    manifest.world = content.at("world").get<int64_t>();
    for (auto &[name, value] : content.at("hyperparameters").items())
      manifest.hyperparameters.push_back({name, value.get<std::string>()});
    contents.files = toRecords(content.at("files"));
    if (version > 1) {
      contents.parameters = toTable(content.at("parameters"));
      contents.optimizer = toTable(content.at("optimizer"));
    }
    if (manifest.step < 0)
      return badInput("its step is negative");
    for (const FileRecord &file : contents.files)
      if (file.name.empty() || file.name.find('/') != std::string::npos)
        return badInput(fmt::format("'{}' is no name of a file beside it", file.name));
    return manifest;
  } catch (const json::exception &) {
    return badInput("a field is missing or has another type");
  }
}

std::string recordsText(const std::vector<FileRecord> &files) { return toJson(files).dump(); }

Result<std::vector<FileRecord>> parseRecords(const std::string &text) {
  const auto unreadable = [] { return failed("another rank's list of files cannot be read"); };
  try {
    if (nestsTooDeep(text))
      return unreadable();
    return toRecords(json::parse(text));
  } catch (const json::exception &) {
    return unreadable();
  }
}

} // namespace nano
