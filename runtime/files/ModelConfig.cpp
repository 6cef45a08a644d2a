// Compares and writes config.json.
#include "runtime/files/ModelConfig.h"

#include "base/InputFile.h"
#include "base/JsonDepth.h"
#include "runtime/files/JsonKeys.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>

namespace nano {

namespace {

using Json = nlohmann::ordered_json;
using plan::ConfigField;

constexpr InputKind configKind = {"a config.json", 16 * input::mebibyte, ""};

/// "a.b.c" as its keys.
std::vector<std::string> keysOf(const std::string &name) {
  std::vector<std::string> keys;
  for (size_t begin = 0;;) {
    const size_t end = name.find('.', begin);
    keys.push_back(name.substr(begin, end - begin));
    if (end == std::string::npos)
      return keys;
    begin = end + 1;
  }
}

/// The value under a name with dots; null where there is none, as where it is null.
const Json &valueAt(const Json &object, const std::string &name) {
  static const Json none;
  const Json *at = &object;
  for (const std::string &key : keysOf(name)) {
    if (!at->is_object() || !at->contains(key))
      return none;
    at = &(*at)[key];
  }
  return *at;
}

Json parsed(const std::string &text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// What is wrong with a folder's value; empty when nothing is.
std::string problemOf(const ConfigField &field, const std::string &name, const Json &found) {
  const Json wanted = parsed(field.value);
  if (field.check == ConfigField::Check::AtLeast)
    return found.is_number() && found.get<double>() >= wanted.get<double>()
               ? ""
               : fmt::format("{} is {}, below {}", name, found.dump(), field.value);
  const bool fits = found == wanted ||
                    std::any_of(field.accepted.begin(), field.accepted.end(),
                                [&](const std::string &other) { return found == parsed(other); });
  if (fits)
    return "";
  const std::string text = found.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (found.is_number() || field.hyperparameter.empty())
    return fmt::format("{} is {}, not {}", name, text, field.value);
  return fmt::format("{} is {}, not {} (hyperparameter {})", name, text, field.value,
                     field.hyperparameter);
}

/// The first setting of an object of which the model states some, but not this one.
std::string unknownSetting(const Json &config, const std::vector<ConfigField> &fields) {
  std::set<std::string> objects, known;
  for (const ConfigField &field : fields)
    for (const std::string &name : field.names) {
      known.insert(name);
      if (const size_t dot = name.rfind('.'); dot != std::string::npos)
        objects.insert(name.substr(0, dot));
    }
  for (const std::string &object : objects) {
    const Json &value = valueAt(config, object);
    if (!value.is_object() && !value.is_null())
      return object;
    for (const auto &[key, each] : value.items())
      if (const std::string name = object + '.' + key;
          !known.count(name) && !objects.count(name) && !each.is_null())
        return name;
  }
  return "";
}

} // namespace

Status checkConfig(const std::string &folder, const std::vector<ConfigField> &fields) {
  const std::string path = folder + "/config.json";
  Result<std::string> text = readInput(path, configKind);
  if (!text)
    return text.error();
  auto wrong = [&](const std::string &what) { return badInput(fmt::format("{}: {}", path, what)); };
  if (nestsTooDeep(*text))
    return wrong(fmt::format("it {}", tooDeepText));
  if (const std::optional<std::string> twice = repeatedKey(*text))
    return wrong(fmt::format("'{}' is given twice", *twice));
  const Json config = parsed(*text);
  if (!config.is_object())
    return wrong("is not a JSON object");
  if (const std::string name = unknownSetting(config, fields); !name.empty())
    return wrong(fmt::format("the model knows no setting {}; it would compute something else than "
                             "the folder's model, so choose another model file or folder",
                             name));

  std::vector<std::string> problems, options;
  for (const ConfigField &field : fields) {
    if (field.check == ConfigField::Check::None)
      continue;
    std::string name = field.names.front();
    Json found;
    for (const std::string &each : field.names)
      if (const Json &value = valueAt(config, each); !value.is_null()) {
        name = each;
        found = value;
        break;
      }
    if (found.is_null()) {
      if (field.absent.empty())
        continue;
      found = parsed(field.absent);
    }
    const std::string problem = problemOf(field, name, found);
    if (problem.empty())
      continue;
    problems.push_back(problem);
    if (found.is_number() && !field.hyperparameter.empty())
      options.push_back(fmt::format(" -D {}={}", field.hyperparameter, found.dump()));
  }
  if (problems.empty())
    return ok();
  return wrong(fmt::format(
      "does not fit the plan: {}; {}", fmt::join(problems, ", "),
      options.empty()
          ? std::string("compile the model for this folder, or name another")
          : fmt::format("compile the model for this folder, with{}", fmt::join(options, ""))));
}

std::string configText(const std::vector<ConfigField> &fields, const std::string &type) {
  Json config = Json::object();
  for (const ConfigField &field : fields) {
    if (!field.isWritten)
      continue;
    Json *at = &config;
    for (const std::string &key : keysOf(field.names.front()))
      at = &(*at)[key];
    *at = parsed(field.value);
  }
  config["torch_dtype"] = type;
  return config.dump(2) + "\n";
}

} // namespace nano
