// The tuning file: JSON, algorithms as hexadecimal text.
#include "runtime/Tuning.h"
#include "base/InputFile.h"
#include "base/JsonDepth.h"
#include "runtime/files/FileWriter.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <numeric>
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

/// Numbers of a file, in a thousandth or millionth of what is kept: none has such large ones.
constexpr double perMicro = 1e-6, perMilli = 1e-3, mostMeasured = 1e6;
constexpr int64_t mostCandidates = 1 << 20;

bool numberOf(const Json &json, double unit, double &value) {
  if (!json.is_number())
    return false;
  value = unit * json.get<double>();
  return value >= 0 && value <= mostMeasured;
}

bool numberOf(const Json &object, const char *key, double unit, double &value) {
  return object.contains(key) && numberOf(object[key], unit, value);
}

/// Of a number that need not be there.
bool countedOf(const Json &object, const char *key, double unit, double &value) {
  return !object.contains(key) || numberOf(object[key], unit, value);
}

bool countOf(const Json &json, int &value) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > uint64_t(mostCandidates))
    return false;
  value = json.get<int>();
  return true;
}

Json toJson(const TunedChoice &choice) {
  Json json = {{"algorithm", hexOf(choice.algorithm)},
               {"us", choice.cost.seconds / perMicro},
               {"first_us", choice.first.seconds / perMicro},
               {"chosen", choice.chosen},
               {"candidates", choice.candidates}};
  if (choice.cost.joules > 0)
    json["mj"] = choice.cost.joules / perMilli;
  if (choice.first.joules > 0)
    json["first_mj"] = choice.first.joules / perMilli;
  if (choice.limit > 0)
    json["limit_w"] = choice.limit;
  for (const auto &[number, cost] : choice.held)
    json["held"].push_back(
        {{"chosen", number}, {"us", cost.seconds / perMicro}, {"mj", cost.joules / perMilli}});
  return json;
}

std::optional<TunedChoice> choiceOf(const Json &json) {
  TunedChoice choice;
  if (!json.is_object() || !json.contains("algorithm") || !json["algorithm"].is_string() ||
      !parseHex(json["algorithm"], choice.algorithm) ||
      !numberOf(json, "us", perMicro, choice.cost.seconds) ||
      !numberOf(json, "first_us", perMicro, choice.first.seconds) ||
      !countedOf(json, "mj", perMilli, choice.cost.joules) ||
      !countedOf(json, "first_mj", perMilli, choice.first.joules) ||
      !countedOf(json, "limit_w", 1, choice.limit) || !json.contains("chosen") ||
      !countOf(json["chosen"], choice.chosen) || !json.contains("candidates") ||
      !countOf(json["candidates"], choice.candidates))
    return std::nullopt;
  if (!json.contains("held"))
    return choice;
  if (!json["held"].is_array())
    return std::nullopt;
  for (const Json &each : json["held"]) {
    auto &[number, cost] = choice.held.emplace_back();
    if (!each.is_object() || !each.contains("chosen") || !countOf(each["chosen"], number) ||
        !numberOf(each, "us", perMicro, cost.seconds) ||
        !numberOf(each, "mj", perMilli, cost.joules))
      return std::nullopt;
  }
  return choice;
}

Json toJson(const TunedWay &way) {
  Json us = Json::object(), millijoules = Json::object();
  for (const auto &[name, cost] : way.costs) {
    us[name] = cost.seconds / perMicro;
    if (cost.joules > 0)
      millijoules[name] = cost.joules / perMilli;
  }
  Json json = {{"chosen", way.chosen}, {"us", us}};
  if (!millijoules.empty())
    json["mj"] = millijoules;
  if (way.limit > 0)
    json["limit_w"] = way.limit;
  return json;
}

std::optional<TunedWay> wayOf(const Json &json) {
  TunedWay way;
  if (!json.is_object() || !json.contains("chosen") || !json["chosen"].is_string() ||
      !json.contains("us") || !json["us"].is_object() || !json["us"].contains(json["chosen"]) ||
      !countedOf(json, "limit_w", 1, way.limit) || (json.contains("mj") && !json["mj"].is_object()))
    return std::nullopt;
  way.chosen = json["chosen"].get<std::string>();
  for (const auto &item : json["us"].items()) {
    RunCost &cost = way.costs.emplace_back(item.key(), RunCost()).second;
    if (!numberOf(item.value(), perMicro, cost.seconds) ||
        (json.contains("mj") && !countedOf(json["mj"], item.key().c_str(), perMilli, cost.joules)))
      return std::nullopt;
  }
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

std::string textOf(const RunCost &cost) {
  std::string text = fmt::format("{:.1f} us", cost.seconds / perMicro);
  if (cost.joules > 0)
    text += fmt::format(" {:.1f} mJ", cost.joules / perMilli);
  return text;
}

std::vector<size_t> byTime(const std::vector<RunCost> &costs) {
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return costs[a].seconds < costs[b].seconds; });
  return order;
}

size_t leastCost(const std::vector<RunCost> &costs, const std::vector<size_t> &fastest,
                 double limit) {
  constexpr double noise = 0.02;
  const bool areCounted =
      std::any_of(costs.begin(), costs.end(), [](const RunCost &each) { return each.joules > 0; });
  std::vector<size_t> known = fastest;
  if (areCounted)
    std::erase_if(known, [&](size_t each) { return costs[each].joules <= 0; });
  double least = costs[known.front()].inStep(limit);
  for (size_t each : known)
    least = std::min(least, costs[each].inStep(limit));
  return *std::find_if(known.begin(), known.end(), [&](size_t each) {
    return costs[each].inStep(limit) <= (1 + noise) * least;
  });
}

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

static std::string lineOf(const std::string &product, const TunedChoice &choice) {
  std::string others;
  for (const auto &[number, cost] : choice.held)
    if (number != choice.chosen)
      others += fmt::format("; algorithm {}: {}", number + 1, textOf(cost));
  return fmt::format("  {}: algorithm {} of {} by {}, {} (the first: {}{})\n", product,
                     choice.chosen + 1, choice.candidates, choice.limit > 0 ? "joules" : "time",
                     textOf(choice.cost), textOf(choice.first), others);
}

static std::string lineOf(const std::string &, const TunedWay &way) {
  std::string others, own;
  for (const auto &[name, cost] : way.costs)
    if (name == way.chosen)
      own = textOf(cost);
    else
      others += fmt::format("{}{} {}", others.empty() ? "" : ", ", name, textOf(cost));
  return fmt::format("  {} by {}, {}, beside {}\n", way.chosen, way.limit > 0 ? "joules" : "time",
                     own, others);
}

std::string Tuning::describe(const std::string &path) {
  const Result<Json> json = read(path);
  if (json && json->is_null())
    return "";
  if (!json || !isTuningFile(*json))
    return path + ": not a whole tuning file\n";
  std::string text;
  auto add = [&](const char *section, const auto &choiceOf) {
    if (!json->contains(section))
      return;
    for (const auto &machine : (*json)[section].items()) {
      text += fmt::format("chosen by --tune on {}\n", machine.key());
      if (!machine.value().is_object())
        continue;
      for (const auto &item : machine.value().items())
        if (const auto choice = choiceOf(item.value()))
          text += lineOf(item.key(), *choice);
    }
  };
  add("machines", choiceOf);
  add("kernels", wayOf);
  return text;
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
