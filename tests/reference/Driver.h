// The command nano-reference as a function, so that tests can call it in their own process.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace nano::reference {

/// Runs the command with `arguments` (without the program's name): JSON lines go to `out`, notes
/// and the one line of an error to `err`. Returns the exit status: 0, 2 for bad usage or input,
/// 1 when the training itself fails.
int runReference(const std::vector<std::string> &arguments, std::ostream &out, std::ostream &err);

} // namespace nano::reference
