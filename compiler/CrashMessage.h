// One line instead of silence when the compiler, or a model's body, crashes.
#pragma once

#include <string>

namespace nano {

/// From now on a crash prints one line that says in which phase it happened, and ends the process
/// with exit status 1.
void catchCrashes();

/// What the line names: "differentiate", "the model's body".
void setCrashPhase(const std::string &phase);

} // namespace nano
