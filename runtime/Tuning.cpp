// The tuning file: JSON, algorithms as hexadecimal text.
#include "runtime/Tuning.h"
#include "runtime/files/FileWriter.h"
#include "runtime/plan/InputFile.h"
#include "runtime/plan/JsonDepth.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <sys/stat.h>
#include <utility>

namespace nano {
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
         json.contains("machines") && json["machines"].is_object() &&
         (!json.contains("kernels") || json["kernels"].is_object());
}

/// What a section of the file has for the machine, null where it has nothing.
Json ofMachine(const Json &file, const char *section, const std::string &machine) {
  return file.contains(section) && file[section].contains(machine) ? file[section][machine]
                                                                   : Json();
}

/// "A; B": whose choices a file holds.
std::string machinesOf(const Json &file) {
  std::string names;
  for (const char *section : {"machines", "kernels"})
    if (file.contains(section))
      for (const auto &item : file[section].items())
        if (names.find(item.key()) == std::string::npos)
          names += (names.empty() ? "" : "; ") + item.key();
  return names;
}

Json toJson(const TunedChoice &choice) {
  return {{"algorithm", hexOf(choice.algorithm)},
          {"us", 1e6 * choice.seconds},
          {"first_us", 1e6 * choice.firstSeconds},
          {"chosen", choice.chosen},
          {"candidates", choice.candidates}};
}

/// A number of microseconds, in seconds; fewer than nobody measures so many.
bool secondsOf(const Json &json, double &value) {
  constexpr double mostSeconds = 1e6;
  if (!json.is_number())
    return false;
  value = 1e-6 * json.get<double>();
  return value >= 0 && value <= mostSeconds;
}

std::optional<TunedChoice> choiceOf(const Json &json) {
  TunedChoice choice;
  constexpr int64_t mostCandidates = 1 << 20; // more than anybody measures
  auto seconds = [&](const char *key, double &value) {
    return json.contains(key) && secondsOf(json[key], value);
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

Json toJson(const TunedWay &way) {
  Json us = Json::object();
  for (const auto &[name, seconds] : way.seconds)
    us[name] = 1e6 * seconds;
  return {{"chosen", way.chosen}, {"us", us}};
}

std::optional<TunedWay> wayOf(const Json &json) {
  TunedWay way;
  if (!json.is_object() || !json.contains("chosen") || !json["chosen"].is_string() ||
      !json.contains("us") || !json["us"].is_object() || !json["us"].contains(json["chosen"]))
    return std::nullopt;
  way.chosen = json["chosen"].get<std::string>();
  for (const auto &item : json["us"].items())
    if (!secondsOf(item.value(), way.seconds.emplace_back(item.key(), 0).second))
      return std::nullopt;
  return way;
}

/// Adds the object's choices to `choices`; false when something in it is none.
template <typename Choice, typename Of>
bool addChoices(const Json &json, std::map<std::string, Choice> &choices, Of choiceOf) {
  if (json.is_null())
    return true;
  if (!json.is_object())
    return false;
  bool isGood = true;
  for (const auto &item : json.items()) {
    std::optional<Choice> choice = choiceOf(item.value());
    isGood &= choice.has_value();
    if (choice)
      choices[item.key()] = *choice;
  }
  return isGood;
}

template <typename Choice> Json toJson(const std::map<std::string, Choice> &choices) {
  Json json = Json::object();
  for (const auto &[name, choice] : choices)
    json[name] = toJson(choice);
  return json;
}

std::string textOf(const Json &json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

Tuning Tuning::open(const std::string &path, const std::string &machine, const Report &report,
                    bool tunes) {
  Tuning tuning;
  tuning.path = path;
  tuning.machine = machine;
  Result<Json> json = read(path);
  if (json && json->is_null())
    return tuning;
  bool isGood = json && isTuningFile(*json);
  if (isGood) {
    const Json products = ofMachine(*json, "machines", machine),
               kernels = ofMachine(*json, "kernels", machine);
    isGood = addChoices(products, tuning.choices, choiceOf);
    isGood &= addChoices(kernels, tuning.ways, wayOf);
    const std::string others = machinesOf(*json);
    if (isGood && products.is_null() && kernels.is_null() && !others.empty() && !tunes && report)
      report(path + ": measured on " + others + "; this is " + machine +
             ", for which nothing of it is used; run with --tune to measure here");
  }
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

std::optional<TunedWay> Tuning::findWay(const std::string &command) const {
  auto found = ways.find(command);
  if (found == ways.end())
    return std::nullopt;
  return found->second;
}

std::string Tuning::text() const {
  return textOf({{"products", toJson(choices)}, {"kernels", toJson(ways)}});
}

void Tuning::take(const std::string &text) {
  choices.clear();
  ways.clear();
  const Json json = parse(text);
  if (!json.is_object())
    return;
  addChoices(json.value("products", Json()), choices, choiceOf);
  addChoices(json.value("kernels", Json()), ways, wayOf);
}

Status Tuning::save() const {
  Result<Json> kept = read(path);
  Json json = kept && isTuningFile(*kept) ? std::move(*kept)
                                          : Json{{"format", 1}, {"machines", Json::object()}};
  json["machines"][machine] = toJson(choices);
  if (!ways.empty())
    json["kernels"][machine] = toJson(ways);
  Result<AtomicFile> file = AtomicFile::create(path);
  Status status = file ? file->writer().append(textOf(json)) : Status(file.error());
  if (status)
    status = file->publish();
  if (!status)
    return badInput("--tune: " + status.error().message +
                    "; put the plan into a folder that can be written");
  return ok();
}

} // namespace nano
