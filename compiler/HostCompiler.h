// Compiles a model file with the host compiler and loads what it defines.
#pragma once

#include "compiler/TraceModel.h"

#include <optional>
#include <string>

namespace nano {

/// Bad input: one line for the user; exit status 2.
using frontend::ModelError;

/// A model file, compiled and loaded. Stays loaded until the end of the process: exceptions and
/// texts of the model may outlive this object.
class ModelFile {
public:
  /// Compiles with $CXX, or c++. Of its messages what hostErrors keeps goes to stderr, or all with
  /// `isVerbose`. `knownAs`: the path by which locations name the file, and those beside it; empty:
  /// its own. Throws ModelError when the file cannot be read, does not compile, or defines no
  /// NANO_MODEL.
  explicit ModelFile(const std::string &path, bool isVerbose = false,
                     const std::string &knownAs = "");

  /// Body and defaults; the caller adds overrides.
  frontend::TraceInput input() const { return loaded; }
  /// The model file's text.
  const std::string &source() const { return text; }

private:
  frontend::TraceInput loaded;
  std::string text;
};

/// The text of a model file that the locations of a program name; nothing where there is no such
/// file.
std::optional<std::string> modelText(const std::string &file);

} // namespace nano
