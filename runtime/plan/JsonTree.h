// A parsed JSON document as compact values in three flat arrays: a plan has some hundred thousand
// of them, and a tree with an allocation for each takes three times as long to build. Internal to
// runtime/plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nano::plan {

/// One value. Strings, arrays and objects are ranges of the tree's arrays; an object's range
/// alternates keys and values.
struct JsonValue {
  enum class Kind : uint8_t { Null, Boolean, Unsigned, Negative, Fraction, String, Array, Object };
  explicit JsonValue(Kind kind = Kind::Null, uint32_t count = 0) : kind(kind), count(count) {}

  Kind kind;
  uint32_t count; ///< String: bytes; Array: items; Object: pairs
  union {
    uint64_t number = 0; ///< Unsigned; Boolean: 0 or 1
    int64_t negative;
    double fraction;
    uint64_t first; ///< String: index into `text`; Array, Object: index into `children`
  };
};

/// A document.
class JsonTree {
public:
  /// Nothing when `text` is not JSON, or nests deeper than `maxJsonDepth`.
  static std::optional<JsonTree> parse(std::string_view text);

  const JsonValue &root() const { return top; }
  std::string_view string(const JsonValue &value) const {
    return std::string_view(text).substr(value.first, value.count);
  }
  const JsonValue &item(const JsonValue &array, size_t index) const {
    return children[array.first + index];
  }
  const JsonValue &key(const JsonValue &object, size_t index) const {
    return children[object.first + 2 * index];
  }
  const JsonValue &value(const JsonValue &object, size_t index) const {
    return children[object.first + 2 * index + 1];
  }

private:
  friend class JsonTreeBuilder;
  JsonValue top;
  std::vector<JsonValue> children;
  std::string text;
};

} // namespace nano::plan
