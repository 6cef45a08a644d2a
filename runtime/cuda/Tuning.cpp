// The tuning file: JSON, algorithms as hexadecimal text.
#include "runtime/cuda/Tuning.h"
#include "runtime/files/FileWriter.h"
#include "runtime/plan/InputFile.h"
#include "runtime/plan/JsonDepth.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <sys/stat.h>
#include <utility>

namespace nano::cuda {
namespace {

using Json = nlohmann::ordered_json;

std::string hexOf(const std::array<uint64_t, 8> &words) {
  std::string text;
  char word[20];
  for (uint64_t each : words) {
    std::snprintf(word, sizeof word, "%016llx", static_cast<unsigned long long>(each));
    text += word;
  }
  return text;
}

bool parseHex(const std::string &text, std::array<uint64_t, 8> &words) {
  if (text.size() != 16 * words.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return false;
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = std::stoull(text.substr(16 * i, 16), nullptr, 16);
  return true;
}

/// Discarded when the text is no JSON, or nests too deep.
Json parse(const std::string &text) {
  return nestsTooDeep(text) ? Json(Json::value_t::discarded)
                            : Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// The file's JSON, null when it is missing. An error: it cannot be read or is no JSON.
Result<Json> read(const std::string &path) {
  struct stat found = {};
  if (::lstat(path.c_str(), &found) != 0)
    return Json();
  Result<std::string> text = readInput(path, input::tuning);
  if (!text)
    return text.error();
  Json json = parse(*text);
  return json.is_discarded()
             ? Result<Json>(badInput(path + ": not a whole tuning file; run with --tune to make it "
                                            "again"))
             : Result<Json>(std::move(json));
}

bool isTuningFile(const Json &json) {
  return json.is_object() && json.contains("format") && json["format"] == 1 &&
         json.contains("machines") && json["machines"].is_object();
}

Json toJson(const TunedChoice &choice) {
  return {{"algorithm", hexOf(choice.algorithm)},
          {"us", 1e6 * choice.seconds},
          {"first_us", 1e6 * choice.firstSeconds},
          {"chosen", choice.chosen},
          {"candidates", choice.candidates}};
}

std::optional<TunedChoice> choiceOf(const Json &json) {
  TunedChoice choice;
  // More seconds, and more algorithms, than anybody measures.
  constexpr double mostSeconds = 1e6;
  constexpr int64_t mostCandidates = 1 << 20;
  auto seconds = [&](const char *key, double &value) {
    if (!json.contains(key) || !json[key].is_number())
      return false;
    value = 1e-6 * json[key].get<double>();
    return value >= 0 && value <= mostSeconds;
  };
  auto count = [&](const char *key, int &value) {
    if (!json.contains(key) || !json[key].is_number_unsigned() ||
        json[key].get<uint64_t>() > uint64_t(mostCandidates))
      return false;
    value = json[key].get<int>();
    return true;
  };
  if (!json.is_object() || !json.contains("algorithm") || !json["algorithm"].is_string() ||
      !parseHex(json["algorithm"], choice.algorithm) || !seconds("us", choice.seconds) ||
      !seconds("first_us", choice.firstSeconds) || !count("chosen", choice.chosen) ||
      !count("candidates", choice.candidates))
    return std::nullopt;
  return choice;
}

/// Adds the object's choices to `choices`; false when something in it is no choice.
bool addChoices(const Json &json, std::map<std::string, TunedChoice> &choices) {
  if (!json.is_object())
    return false;
  bool isGood = true;
  for (const auto &item : json.items()) {
    std::optional<TunedChoice> choice = choiceOf(item.value());
    isGood &= choice.has_value();
    if (choice)
      choices[item.key()] = *choice;
  }
  return isGood;
}

Json toJson(const std::map<std::string, TunedChoice> &choices) {
  Json json = Json::object();
  for (const auto &[product, choice] : choices)
    json[product] = toJson(choice);
  return json;
}

std::string textOf(const Json &json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

Tuning Tuning::open(const std::string &path, const std::string &machine, const Report &report) {
  Tuning tuning;
  tuning.path = path;
  tuning.machine = machine;
  Result<Json> json = read(path);
  if (json && json->is_null())
    return tuning;
  bool isGood = json && isTuningFile(*json);
  if (isGood && (*json)["machines"].contains(machine))
    isGood = addChoices((*json)["machines"][machine], tuning.choices);
  if (!json && report)
    report(json.error().message + "; the run goes on without it");
  else if (!isGood && report)
    report(path + ": not a whole tuning file; what is wrong in it is left aside; run with --tune "
                  "to make it again");
  return tuning;
}

std::optional<TunedChoice> Tuning::find(const std::string &product) const {
  auto found = choices.find(product);
  if (found == choices.end())
    return std::nullopt;
  return found->second;
}

std::string Tuning::text() const { return textOf(toJson(choices)); }

void Tuning::take(const std::string &text) {
  choices.clear();
  addChoices(parse(text), choices);
}

Status Tuning::save() const {
  Result<Json> kept = read(path);
  Json json = kept && isTuningFile(*kept) ? std::move(*kept)
                                          : Json{{"format", 1}, {"machines", Json::object()}};
  json["machines"][machine] = toJson(choices);
  Result<AtomicFile> file = AtomicFile::create(path);
  Status status = file ? file->writer().append(textOf(json)) : Status(file.error());
  if (status)
    status = file->publish();
  if (!status)
    return badInput("--tune: " + status.error().message +
                    "; put the plan into a folder that can be written");
  return ok();
}

} // namespace nano::cuda
