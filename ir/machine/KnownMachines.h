// The files of machines/ as text, embedded by the build.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <utility>

namespace nano::machine {

/// (name, JSON) of each, by name.
llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> knownMachineFiles();

} // namespace nano::machine
