// The tuning file: JSON, algorithms as hexadecimal text.
#include "runtime/cuda/Tuning.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>

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

/// The file's JSON, null when it is missing; discarded when it is no JSON.
Json read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return {};
  std::string text{std::istreambuf_iterator<char>(file), {}};
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
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
  auto number = [&](const char *key) { return json.contains(key) && json[key].is_number(); };
  TunedChoice choice;
  if (!json.is_object() || !json.contains("algorithm") || !json["algorithm"].is_string() ||
      !parseHex(json["algorithm"], choice.algorithm) || !number("us") || !number("first_us") ||
      !number("chosen") || !number("candidates"))
    return std::nullopt;
  choice.seconds = 1e-6 * json["us"].get<double>();
  choice.firstSeconds = 1e-6 * json["first_us"].get<double>();
  choice.chosen = json["chosen"];
  choice.candidates = json["candidates"];
  return choice;
}

} // namespace

Tuning Tuning::open(const std::string &path, const std::string &machine, const Report &report) {
  Tuning tuning;
  tuning.path = path;
  tuning.machine = machine;
  Json json = read(path);
  if (json.is_null())
    return tuning;
  bool isGood = isTuningFile(json);
  if (isGood && json["machines"].contains(machine)) {
    const Json &mine = json["machines"][machine];
    isGood = mine.is_object();
    if (isGood)
      for (const auto &item : mine.items()) {
        std::optional<TunedChoice> choice = choiceOf(item.value());
        isGood &= choice.has_value();
        if (choice)
          tuning.choices[item.key()] = *choice;
      }
  }
  if (!isGood && report)
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

Status Tuning::save() const {
  Json json = read(path);
  if (!isTuningFile(json))
    json = {{"format", 1}, {"machines", Json::object()}};
  Json mine = Json::object();
  for (const auto &[product, choice] : choices)
    mine[product] = toJson(choice);
  json["machines"][machine] = std::move(mine);

  std::string temporary = path + ".tmp" + std::to_string(::getpid());
  std::ofstream file(temporary, std::ios::trunc);
  file << json.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.flush();
  if (file.good() && std::rename(temporary.c_str(), path.c_str()) == 0)
    return ok();
  Error error = badInput("--tune: " + path + " cannot be written (" + std::strerror(errno) +
                         "); put the plan into a folder that can be written");
  ::unlink(temporary.c_str());
  return error;
}

} // namespace nano::cuda
