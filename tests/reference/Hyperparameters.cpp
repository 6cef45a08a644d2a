// Declaring, overriding and reading hyperparameters.
#include "tests/reference/Hyperparameters.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace nano::reference {

void Hyperparameters::declareInteger(const std::string &name, int64_t defaultValue, int64_t least) {
  entries[name] = {Entry::integerKind, Real(defaultValue), least, {}};
}

void Hyperparameters::declareReal(const std::string &name, Real defaultValue) {
  entries[name] = {Entry::realKind, defaultValue, 0, {}};
}

void Hyperparameters::declareWord(const std::string &name, std::vector<std::string> known) {
  entries[name] = {Entry::wordKind, 0, 0, std::move(known)};
}

void Hyperparameters::override(const std::string &assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    throw InputError("-D " + assignment + ": write it as name=value");
  const std::string name = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  const auto found = entries.find(name);
  if (found == entries.end()) {
    std::string known;
    for (const auto &[other, entry] : entries)
      known += (known.empty() ? "" : ", ") + other;
    throw InputError("-D " + assignment + ": no hyperparameter '" + name + "'; known are " + known);
  }

  Entry &entry = found->second;
  const char *end = text.data() + text.size();
  switch (entry.kind) {
  case Entry::wordKind: {
    const auto word = std::find(entry.words.begin(), entry.words.end(), text);
    if (word == entry.words.end()) {
      std::string known;
      for (const std::string &other : entry.words)
        known += (known.empty() ? "" : ", ") + name + "=" + other;
      throw InputError("-D " + assignment + ": the reference knows only " + known);
    }
    std::iter_swap(entry.words.begin(), word);
    return;
  }
  case Entry::integerKind: {
    int64_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < entry.least || value > (int64_t(1) << 31))
      throw InputError("-D " + assignment + ": " + name + " takes an integer from " +
                       std::to_string(entry.least) + " to 2^31");
    entry.value = Real(value);
    return;
  }
  case Entry::realKind: {
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || !std::isfinite(value))
      throw InputError("-D " + assignment + ": " + name + " takes a number");
    entry.value = value;
    return;
  }
  }
}

int64_t Hyperparameters::integer(const std::string &name) const {
  return int64_t(entries.at(name).value);
}

Real Hyperparameters::real(const std::string &name) const { return entries.at(name).value; }

const std::string &Hyperparameters::word(const std::string &name) const {
  return entries.at(name).words.front();
}

} // namespace nano::reference
