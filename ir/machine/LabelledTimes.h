// Times of commands that a run has measured, by what the commands are called.
#pragma once

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace nano::machine {

/// Seconds of commands by program and label. Labels name kernels and buffers, so that the times of
/// one plan of a model serve for the next.
class LabelledTimes {
public:
  /// Errors are one line that begins with the path: not readable, or no file of times.
  static llvm::Expected<LabelledTimes> read(llvm::StringRef path);
  /// From the file's text; `name` is the file's in messages.
  static llvm::Expected<LabelledTimes> parse(llvm::StringRef text, llvm::StringRef name);

  /// The mean of one run of the commands with this label in the program; of all programs, where
  /// that program has none; nothing, where no program has.
  std::optional<double> find(llvm::StringRef program, llvm::StringRef label) const;

private:
  struct Sum {
    double seconds = 0, runs = 0;
  };
  llvm::StringMap<Sum> inProgram; ///< "program\nlabel"
  llvm::StringMap<Sum> anywhere;  ///< label
};

} // namespace nano::machine
