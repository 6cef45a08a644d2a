// The names that an ELF shared object defines, read from its bytes without loading it.
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace nano::plan {

struct ElfSymbol {
  bool isFunction = false;
  bool isAbsolute = false; ///< a number, not a place
  uint64_t value = 0;
};

/// The dynamic symbols that `elf` (64-bit, little-endian, a shared object) defines; the names point
/// into `elf`. Fails when the bytes are no such object or any of its tables lies outside of them.
Result<std::unordered_map<std::string_view, ElfSymbol>> definedSymbols(std::string_view elf);

} // namespace nano::plan
