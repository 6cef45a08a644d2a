// Writing the page's document: JSON whose numbers and texts browsers always read.
#pragma once

#include "llvm/Support/JSON.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nano::explore {

/// Names may hold any bytes; JSON is UTF-8.
inline std::string utf8(std::string_view text) {
  const llvm::StringRef bytes(text.data(), text.size());
  return llvm::json::isUTF8(bytes) ? bytes.str() : llvm::json::fixUTF8(bytes);
}

/// null for what is no number.
inline void writeNumber(llvm::json::OStream &json, double value) {
  if (!std::isfinite(value))
    json.value(nullptr);
  else if (value == std::floor(value) && std::abs(value) < 9e15)
    json.value(int64_t(value));
  else
    json.value(value);
}

/// Texts that occur often, by number.
class Texts {
public:
  int64_t add(const std::string &text) {
    auto [found, isNew] = numbers.try_emplace(text, int64_t(all.size()));
    if (isNew)
      all.push_back(text);
    return found->second;
  }
  void write(llvm::json::OStream &json) const {
    json.array([&] {
      for (const std::string &text : all)
        json.value(utf8(text));
    });
  }

private:
  std::map<std::string, int64_t> numbers;
  std::vector<std::string> all;
};

/// An attribute that is an array of what `write` writes of each element.
template <typename Range, typename Write>
void writeArray(llvm::json::OStream &json, const char *name, const Range &range,
                const Write &write) {
  json.attributeArray(name, [&] {
    for (const auto &each : range)
      write(each);
  });
}

} // namespace nano::explore
