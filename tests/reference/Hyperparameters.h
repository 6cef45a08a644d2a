// Named numbers that a model declares with defaults and the command line overrides.
#pragma once

#include "tests/reference/Tensor.h"

namespace nano::reference {

class Hyperparameters {
public:
  /// An integer from `least` to 2^31.
  void declareInteger(const std::string &name, int64_t defaultValue, int64_t least = 1);
  /// A finite real number.
  void declareReal(const std::string &name, Real defaultValue);
  /// One of the words that the reference knows; the first is the default.
  void declareWord(const std::string &name, std::vector<std::string> known);

  /// Applies one `name=value`. InputError for a missing '=', an unknown name (the known ones are
  /// listed) or a value that the name does not take.
  void override(const std::string &assignment);

  /// Values of declared names; asking for another name is a mistake of the caller.
  int64_t integer(const std::string &name) const;
  Real real(const std::string &name) const;
  const std::string &word(const std::string &name) const;

private:
  struct Entry {
    enum { integerKind, realKind, wordKind } kind;
    Real value = 0;
    int64_t least = 0;
    std::vector<std::string> words; ///< the chosen one first
  };
  std::map<std::string, Entry> entries;
};

} // namespace nano::reference
