// Builds the tree from the events of nlohmann's parser.
#include "runtime/plan/JsonTree.h"

#include "base/JsonDepth.h"

#include <nlohmann/json.hpp>

namespace nano::plan {

using Kind = JsonValue::Kind;

/// Receives the parser's events. Values wait on a stack until the array or object around them ends;
/// then they move, side by side, into the tree.
class JsonTreeBuilder : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit JsonTreeBuilder(JsonTree &tree) : tree(tree) {}

  bool null() override { return push(JsonValue()); }
  bool boolean(bool value) override {
    JsonValue json(Kind::Boolean);
    json.number = value;
    return push(json);
  }
  bool number_integer(int64_t value) override {
    JsonValue json(Kind::Negative);
    json.negative = value;
    return push(json);
  }
  bool number_unsigned(uint64_t value) override {
    JsonValue json(Kind::Unsigned);
    json.number = value;
    return push(json);
  }
  bool number_float(double value, const std::string &) override {
    JsonValue json(Kind::Fraction);
    json.fraction = value;
    return push(json);
  }
  bool string(std::string &value) override {
    JsonValue json(Kind::String, uint32_t(value.size()));
    json.first = tree.text.size();
    tree.text += value;
    return push(json);
  }
  bool key(std::string &value) override { return string(value); }
  bool start_object(std::size_t) override { return start(); }
  bool start_array(std::size_t) override { return start(); }
  bool end_object() override { return end(Kind::Object, 2); }
  bool end_array() override { return end(Kind::Array, 1); }
  bool binary(nlohmann::json::binary_t &) override { return false; }
  bool parse_error(std::size_t, const std::string &, const nlohmann::json::exception &) override {
    return false;
  }

  JsonValue result() const { return waiting.front(); }

private:
  bool push(const JsonValue &value) {
    waiting.push_back(value);
    return true;
  }
  bool start() {
    if (starts.size() >= size_t(maxJsonDepth))
      return false;
    starts.push_back(waiting.size());
    return true;
  }
  bool end(Kind kind, size_t valuesPerItem) {
    auto first = waiting.begin() + long(starts.back());
    starts.pop_back();
    JsonValue json(kind, uint32_t(size_t(waiting.end() - first) / valuesPerItem));
    json.first = tree.children.size();
    tree.children.insert(tree.children.end(), first, waiting.end());
    waiting.erase(first, waiting.end());
    return push(json);
  }

  JsonTree &tree;
  std::vector<JsonValue> waiting;
  std::vector<size_t> starts; ///< of the arrays and objects that have not ended
};

std::optional<JsonTree> JsonTree::parse(std::string_view text) {
  if (text.size() > UINT32_MAX)
    return std::nullopt;
  JsonTree tree;
  JsonTreeBuilder builder(tree);
  if (!nlohmann::json::sax_parse(text, &builder))
    return std::nullopt;
  tree.top = builder.result();
  return tree;
}

} // namespace nano::plan
