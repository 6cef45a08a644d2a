// Reads and writes the mapping to other programs' checkpoints; what has its default is left out.
#include "runtime/plan/InterchangeJson.h"

#include <nlohmann/json.hpp>

#include <iterator>

namespace nano::plan {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char *checkNames[] = {"equal", "atLeast", "none"};

std::vector<std::string> texts(const JsonNode &node) {
  std::vector<std::string> list;
  for (size_t i = 0; i < node.size(); ++i)
    list.push_back(node[i].string());
  return list;
}

/// Of a part: `[tensor, first row, rows]`, and `"transposed"` where it is.
Json toJson(const ForeignPart &part) {
  Json list = Json::array({part.tensor, part.first, part.rows});
  if (part.transposed)
    list.push_back("transposed");
  return list;
}

ForeignPart readPart(const JsonNode &node) {
  if (node.size() != 4)
    node.expectSize(3);
  ForeignPart part;
  part.tensor = node[0].string();
  part.first = node[1].integer<int64_t>();
  part.rows = node[2].integer<int64_t>();
  part.transposed = node.size() == 4;
  if (part.transposed && node[3].string() != "transposed")
    node[3].fail("expected \"transposed\"");
  return part;
}

Json toJson(const ConfigField &field) {
  Json json = {{"names", field.names}, {"value", field.value}};
  if (field.check != ConfigField::Check::Equal)
    json["check"] = checkNames[size_t(field.check)];
  if (!field.accepted.empty())
    json["accepted"] = field.accepted;
  if (!field.absent.empty())
    json["absent"] = field.absent;
  if (!field.hyperparameter.empty())
    json["hyperparameter"] = field.hyperparameter;
  if (!field.isWritten)
    json["written"] = false;
  return json;
}

ConfigField readField(const JsonNode &node) {
  JsonObject object(node);
  ConfigField field;
  field.names = texts(object["names"]);
  field.value = object["value"].string();
  if (auto check = object.find("check")) {
    size_t kind = 0;
    while (kind < std::size(checkNames) && check->string() != checkNames[kind])
      ++kind;
    if (kind == std::size(checkNames))
      check->fail("expected equal, atLeast or none");
    field.check = ConfigField::Check(kind);
  }
  if (auto accepted = object.find("accepted"))
    field.accepted = texts(*accepted);
  if (auto absent = object.find("absent"))
    field.absent = absent->string();
  if (auto name = object.find("hyperparameter"))
    field.hyperparameter = name->string();
  if (auto written = object.find("written"))
    field.isWritten = written->boolean();
  object.close();
  return field;
}

} // namespace

Json toJson(const Interchange &interchange) {
  Json parameters = Json::array(), config = Json::array();
  for (const ForeignParameter &parameter : interchange.parameters) {
    Json parts = Json::array();
    for (const ForeignPart &part : parameter.parts)
      parts.push_back(toJson(part));
    parameters.push_back({{"name", parameter.name}, {"parts", std::move(parts)}});
  }
  for (const ConfigField &field : interchange.config)
    config.push_back(toJson(field));
  return {{"prefix", interchange.prefix},
          {"unused", interchange.unused},
          {"parameters", std::move(parameters)},
          {"config", std::move(config)}};
}

Interchange readInterchange(const JsonNode &node) {
  JsonObject object(node);
  Interchange interchange;
  interchange.prefix = object["prefix"].string();
  interchange.unused = texts(object["unused"]);
  const JsonNode parameters = object["parameters"], config = object["config"];
  for (size_t i = 0; i < parameters.size(); ++i) {
    const JsonNode item = parameters[i];
    JsonObject each(item);
    ForeignParameter parameter;
    parameter.name = each["name"].string();
    const JsonNode parts = each["parts"];
    for (size_t part = 0; part < parts.size(); ++part)
      parameter.parts.push_back(readPart(parts[part]));
    each.close();
    interchange.parameters.push_back(std::move(parameter));
  }
  for (size_t i = 0; i < config.size(); ++i)
    interchange.config.push_back(readField(config[i]));
  object.close();
  return interchange;
}

} // namespace nano::plan
