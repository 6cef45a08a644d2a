// Typed access to a JSON document.
#include "runtime/plan/JsonNode.h"

namespace nano::plan {

using Kind = JsonValue::Kind;

void JsonNode::fail(const std::string &problem) const {
  std::string where = path();
  throw FieldError((where.empty() ? "" : where + ": ") + problem);
}

size_t JsonNode::size() const {
  expect(Kind::Array, "an array");
  return json.count;
}

JsonNode JsonNode::operator[](size_t index) const {
  if (index >= size())
    fail("expected more than " + std::to_string(index) + " items");
  return JsonNode(tree, tree.item(json, index), this, nullptr, index);
}

double JsonNode::number() const {
  if (json.kind == Kind::Unsigned)
    return double(json.number);
  if (json.kind == Kind::Negative)
    return double(json.negative);
  if (isString())
    if (auto value = nonFinite(string()))
      return *value;
  expect(Kind::Fraction, "a number");
  return json.fraction;
}

bool JsonNode::boolean() const {
  expect(Kind::Boolean, "true or false");
  return json.number != 0;
}

std::string JsonNode::string() const {
  expect(Kind::String, "a string");
  return std::string(tree.string(json));
}

std::vector<double> JsonNode::numbers() const {
  std::vector<double> values(size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (*this)[i].number();
  return values;
}

void JsonNode::expectSize(size_t count) const {
  if (size() != count)
    fail("expected " + std::to_string(count) + " items, found " + std::to_string(size()));
}

std::optional<double> JsonNode::nonFinite(const std::string &text) {
  if (text == "inf")
    return std::numeric_limits<double>::infinity();
  if (text == "-inf")
    return -std::numeric_limits<double>::infinity();
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

void JsonNode::expect(Kind kind, const char *what) const {
  static constexpr const char *found[] = {"null",       "true or false", "an integer", "an integer",
                                          "a fraction", "a string",      "an array",   "an object"};
  if (json.kind != kind)
    fail(std::string("expected ") + what + ", found " + found[size_t(json.kind)]);
}

std::string JsonNode::path() const {
  if (!parent)
    return "";
  std::string before = parent->path();
  if (!key)
    return before + "[" + std::to_string(index) + "]";
  return before.empty() ? key : before + "." + key;
}

std::optional<JsonNode> JsonObject::find(const char *key) {
  for (size_t i = 0; i < node.json.count; ++i)
    if (keyAt(i) == key) {
      seen |= uint64_t(1) << (i % 64);
      ++found;
      return JsonNode(node.tree, node.tree.value(node.json, i), &node, key, 0);
    }
  return std::nullopt;
}

bool JsonObject::has(const char *key) const {
  for (size_t i = 0; i < node.json.count; ++i)
    if (keyAt(i) == key)
      return true;
  return false;
}

JsonNode JsonObject::operator[](const char *key) {
  if (auto value = find(key))
    return *value;
  node.fail(std::string("the field '") + key + "' is missing");
}

void JsonObject::close() const {
  if (found == node.json.count)
    return;
  for (size_t i = 0; i < node.json.count; ++i) {
    if (i < 64 && (seen >> i & 1))
      continue;
    bool isRepeated = false;
    for (size_t j = 0; j < i; ++j)
      isRepeated |= keyAt(j) == keyAt(i);
    node.fail("the field '" + std::string(keyAt(i)) +
              (isRepeated ? "' occurs twice" : "' is unknown"));
  }
}

} // namespace nano::plan
