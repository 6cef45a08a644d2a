// One task on this machine, for every width of vectors, and on the emulator, for comparisons with
// the interpreter.
#pragma once

#include "tests/codegen/TaskRunner.h"

#include <functional>
#include <string>
#include <vector>

namespace nano::test {

/// The text of a program of one task: `ins` and `outs` are memref types without "memref<" and ">",
/// as "3x130xf32", and `body` names the operands %a0, %a1, … and yields.
std::string taskText(const std::vector<std::string> &ins, const std::vector<std::string> &outs,
                     const std::string &body);

/// Runs the task's kernel of rows or elements with these operands everywhere. `check` is called
/// once a place, with what its results are.
void runEverywhere(const std::string &text, const std::vector<TensorValue> &inputs,
                   const std::function<void(const std::vector<TensorValue> &results)> &check);

/// The same, and expects of every result what the interpreter makes of the operands, bit for bit.
void expectExact(const std::string &text, const std::vector<TensorValue> &inputs);

} // namespace nano::test
