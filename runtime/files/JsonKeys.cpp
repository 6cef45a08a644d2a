// Looks at the keys of every object while a parser goes over the text.
#include "runtime/files/JsonKeys.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace nano {

namespace {

using nlohmann::json;

/// Hears a parser's events, and ends it where an object has a key twice.
class KeyWatch : public nlohmann::json_sax<json> {
public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string &) override { return true; }
  bool string(std::string &) override { return true; }
  bool binary(json::binary_t &) override { return true; }
  bool start_object(size_t) override {
    keys.emplace_back();
    return true;
  }
  bool key(std::string &name) override {
    if (keys.back().insert(name).second)
      return true;
    repeated = name;
    return false;
  }
  bool end_object() override {
    keys.pop_back();
    return true;
  }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string &, const json::exception &) override { return false; }

  std::optional<std::string> repeated;

private:
  std::vector<std::set<std::string>> keys; ///< of the objects around
};

} // namespace

std::optional<std::string> repeatedKey(std::string_view text) {
  KeyWatch watch;
  (void)json::sax_parse(text, &watch);
  return watch.repeated;
}

} // namespace nano
