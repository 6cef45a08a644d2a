// The manifest's JSON.
#include "runtime/files/Manifest.h"

#include "base/JsonDepth.h"
#include "runtime/files/JsonKeys.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

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

/// A whole number that T holds. Throws json::exception where it is none: json's own conversion cuts
/// fractions off and wraps what does not fit.
template <typename T> T wholeNumber(const json &value) {
  if (value.is_number_unsigned()
          ? std::in_range<T>(value.get<uint64_t>())
          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>()))
    return value.get<T>();
  throw json::type_error::create(302, "not a whole number that fits", &value);
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
    record.bytes = wholeNumber<uint64_t>(file.at("bytes"));
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
  for (auto &[name, info] : object.items()) {
    std::vector<int64_t> shape;
    for (const json &size : info.at("shape").get<std::vector<json>>())
      shape.push_back(wholeNumber<int64_t>(size));
    table[name] = {info.at("dtype").get<std::string>(), std::move(shape)};
  }
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
    run.from.emplace_back(each.at("id").get<std::string>(), wholeNumber<int64_t>(each.at("step")));
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
    const auto version = wholeNumber<int64_t>(content.at("version"));
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
    manifest.step = wholeNumber<int64_t>(content.at("step"));
    const json &data = content.at("data");
    manifest.shard = wholeNumber<uint64_t>(data.at("shard"));
    manifest.shardFile = data.at("file").get<std::string>();
    manifest.position = wholeNumber<uint64_t>(data.at("position"));
    manifest.epoch = wholeNumber<uint64_t>(data.at("epoch"));
    // These came later.
    manifest.data.rule = data.value("rule", manifest.data.rule);
    manifest.data.files = wholeNumber<uint64_t>(data.value("files", json(0u)));
    manifest.data.tokens = wholeNumber<uint64_t>(data.value("tokens", json(0u)));
    manifest.data.fingerprint = data.value("fingerprint", std::string());
    manifest.seed = wholeNumber<uint64_t>(content.at("seed"));
    manifest.planHash = content.at("plan_hash").get<std::string>();
    manifest.model = content.at("model").get<std::string>();
    manifest.world = wholeNumber<int64_t>(content.at("world"));
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
