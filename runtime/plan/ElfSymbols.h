// The names that an ELF shared object defines, read from its bytes without loading it.
#pragma once

#include "runtime/plan/Status.h"

#include <string_view>
#include <unordered_set>

namespace nano::plan {

/// The dynamic symbols that `elf` (64-bit, little-endian, a shared object) defines; the names point
/// into `elf`. Fails when the bytes are no such object or any of its tables lies outside of them.
Result<std::unordered_set<std::string_view>> definedSymbols(std::string_view elf);

} // namespace nano::plan
