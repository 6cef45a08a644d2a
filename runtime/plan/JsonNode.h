// Typed access to a JSON document, with errors that carry the path of the field: what a reader of
// plan files is written in. Internal to runtime/plan.
#pragma once

#include "runtime/plan/JsonTree.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/PlanJson.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nano::plan {

/// One value of the document and how it was reached. Nodes live on the stack of the reader, parents
/// outlive children; the path is put together only when there is something to report. What is asked
/// for and is not there throws FieldError.
class JsonNode {
public:
  explicit JsonNode(const JsonTree &tree) : tree(tree), json(tree.root()) {}

  [[noreturn]] void fail(const std::string &problem) const;

  /// Of an array: its items.
  size_t size() const;
  JsonNode operator[](size_t index) const;

  template <typename T> T integer() const {
    if (json.kind == JsonValue::Kind::Negative) {
      if (json.negative < int64_t(std::numeric_limits<T>::min()))
        fail("the number " + std::to_string(json.negative) + " is too small");
      return T(json.negative);
    }
    expect(JsonValue::Kind::Unsigned, "an integer");
    if (json.number > uint64_t(std::numeric_limits<T>::max()))
      fail("the number " + std::to_string(json.number) + " is too large");
    return T(json.number);
  }
  /// Any number, and those that JSON lacks as their names.
  double number() const;
  bool boolean() const;
  bool isString() const { return json.kind == JsonValue::Kind::String; }
  bool isArray() const { return json.kind == JsonValue::Kind::Array; }
  std::string string() const;
  template <typename T> std::vector<T> integers() const {
    std::vector<T> values(size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = (*this)[i].integer<T>();
    return values;
  }
  std::vector<double> numbers() const;
  /// For lists of a fixed length.
  void expectSize(size_t count) const;

  /// "inf", "-inf" and "nan" as numbers; nothing for other texts.
  static std::optional<double> nonFinite(const std::string &text);

private:
  friend class JsonObject;
  JsonNode(const JsonTree &tree, const JsonValue &json, const JsonNode *parent, const char *key,
           size_t index)
      : tree(tree), json(json), parent(parent), key(key), index(index) {}

  void expect(JsonValue::Kind kind, const char *what) const;
  /// "programs[0].commands[3].launch"; empty for the document.
  std::string path() const;

  const JsonTree &tree;
  const JsonValue &json;
  const JsonNode *parent = nullptr;
  const char *key = nullptr;
  size_t index = 0;
};

/// An object whose keys are all known: `close` reports one that nobody asked for.
class JsonObject {
public:
  explicit JsonObject(const JsonNode &node) : node(node) {
    node.expect(JsonValue::Kind::Object, "an object");
  }

  std::optional<JsonNode> find(const char *key);
  /// Whether there is such a key; it counts as asked for only by `find`.
  bool has(const char *key) const;
  /// Throws FieldError when it is missing.
  JsonNode operator[](const char *key);
  /// Throws FieldError for a key that occurs twice or that was not asked for.
  void close() const;

private:
  std::string_view keyAt(size_t i) const { return node.tree.string(node.tree.key(node.json, i)); }

  const JsonNode &node;
  uint64_t seen = 0; ///< by position: was asked for
  size_t found = 0;
};

} // namespace nano::plan
