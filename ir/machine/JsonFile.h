// JSON files that people name, read as every other file of theirs is, and what their numbers can
// be.
#pragma once

#include "base/InputFile.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace nano::machine {

/// The text as JSON. An error, one line: it is none, or nests too deep for a parser.
llvm::Expected<llvm::json::Value> parseJson(llvm::StringRef text);

/// The text of a file. Errors are one line that begins with the path, as those of `readInput`.
llvm::Expected<std::string> readText(llvm::StringRef path, const InputKind &kind);

/// Whether a file of times can say that so many runs took so many milliseconds: a whole number of
/// runs, and neither negative nor beyond 1e12.
bool isTimeOfRuns(double runs, double milliseconds);

} // namespace nano::machine
