// The line of a model file that a message is about, as compilers show it.
#pragma once

#include <string>
#include <string_view>

namespace nano {

/// Where in its line a message is.
enum class Column {
  Exact, ///< the byte that a compiler names, from 1
  Call,  ///< what Line::here() finds: the name or the parenthesis of a call, else nothing of use
};

/// Two lines, or one where nothing can be marked:
///
///    41 |   y = matmul(x, w);
///       |       ^~~~~~
///
/// Empty where the text has no such line.
std::string excerpt(std::string_view text, unsigned line, unsigned column, Column kind);

/// The same for a message that begins with "FILE:LINE: ", where FILE is a file of C++ that can be
/// read (see modelText); else empty.
std::string excerptOf(const std::string &message, unsigned column);

} // namespace nano
