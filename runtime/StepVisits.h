// The commands of an optimizer step in the order of a single thread, and which tensors are whole
// behind each: where two runs of a step can be held against each other.
#pragma once

#include "runtime/plan/Plan.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nano {

/// A buffer whose value is whole behind a command.
struct Capture {
  uint32_t buffer = 0;
  /// What the value is called in every plan of the model; empty where nothing says what it is.
  std::string key;
};

/// A command of the step.
struct Visit {
  const plan::Program *program = nullptr;
  size_t command = 0;
  /// Buffers that begin with it, where what lay in their bytes is read by nobody behind it.
  std::vector<uint32_t> clears;
  std::vector<Capture> captures;
  const plan::Command &operator*() const { return program->commands[command]; }
};

/// "gpt2.cpp:93", without folders; "" where there is none.
std::string shortLine(const plan::Location &location);

/// The commands of these programs, one after the other. A tensor is whole behind the last command
/// of a program that writes a part of it or adds to it: plans do so in other orders. A buffer with
/// a name of the model's (a state, a report, the loss) is called by it. One of a program's own is
/// called by the op and model line that it was made for and by its shape: "matmul of gpt2.cpp:93,
/// [256,64]", since its number in the plan is nobody else's. Where a command for another line puts
/// its result in the place of what it reads, that is a tensor too, with the line behind its name;
/// where kernels for its own line do, which may be the line of many layers, their number is.
std::vector<Visit> visitsOf(const plan::Plan &plan,
                            const std::vector<const plan::Program *> &programs);

/// The same, for another run of the same plan: every write of every command is a value, called by
/// the command's place and the buffer.
std::vector<Visit> everyWriteOf(const plan::Plan &plan,
                                const std::vector<const plan::Program *> &programs);

} // namespace nano
