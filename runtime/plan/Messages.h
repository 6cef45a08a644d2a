// What devices say to the user in terms of the plan.
#pragma once

#include "base/Status.h"
#include "runtime/plan/Plan.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nano::plan {

/// "models/gpt2.cpp:93"; the file alone where there is no line; empty where there is neither.
std::string textOf(const Location &location);
/// The model lines that a command is for; of a launch that has none its kernel's.
std::vector<Location> linesOf(const Plan &plan, const Command &command);
/// The first of them. Line 0: there is none.
Location lineOf(const Plan &plan, const Command &command);

/// "program 'first', command 5 'y' (models/m.cpp:20)": program, number, label, and the model line,
/// or those of the command's kernel.
std::string placeOf(const Plan &plan, const Program &program, size_t command);

/// The error with the command that it came from, as `placeOf` names it.
Error inCommand(const Plan &plan, const Program &program, size_t command, const Error &error);

/// The line for the user when `ranks` arenas of the plan, with `besides` bytes for each, do not fit
/// into `available` bytes: the need, the rest, the largest buffers with their model lines (one a
/// line), and what to change.
Error outOfMemory(const Plan &plan, int ranks, uint64_t available, uint64_t besides = 0);

/// "blocks.3.grad (models/m.cpp:20)": what one part of a collective is about, for the messages of
/// other ranks; `part` is what it takes. The model line is the command's, else the buffer's.
std::string nameOfExchange(const Plan &plan, const Command &command, const Ref &part);

/// What the numbers say that a program wrote for its checks, one for each:
/// "models/m.cpp:12: gather: index 556 is outside of [0, 400)", of the first check that failed;
/// empty where none did.
std::string indexOutOfRange(const IndexChecks &checks, const int32_t *numbers);

/// The line for the user who asks for `world` ranks, where a plan is for others: those of `worlds`.
Error notForWorld(const std::vector<int64_t> &worlds, int64_t world);

/// "0.2 s".
std::string secondsText(std::chrono::milliseconds time);

/// Failed when the buffer does not exist or has no such bytes.
Status checkRange(const Plan &plan, uint32_t buffer, uint64_t offset, uint64_t bytes);

/// Of what a compiler of kernels says: its first line with "error", else its first line.
std::string firstError(const std::string &log);

/// The model lines of the kernels in that source, " (models/m.cpp:3, models/m.cpp:7)"; empty where
/// there are none.
std::string modelLines(const Plan &plan, const std::string &source);

} // namespace nano::plan
