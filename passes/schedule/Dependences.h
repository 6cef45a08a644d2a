// Which commands of a program must keep their order: those that touch the same bytes of a buffer,
// at least one of them writing.
#pragma once

#include "ir/step/Step.h"

#include <vector>

namespace nano::schedule {

/// A program's commands, without records and waits, and what each must come after.
struct Dependences {
  std::vector<step::StepCommandOpInterface> commands; ///< in program order
  std::vector<llvm::SmallVector<step::Access>> accesses;
  /// By command, the earlier ones that it conflicts with, ascending; what these imply may be left
  /// out. Parts of a buffer are told apart by the first and the last element that they name.
  std::vector<std::vector<uint32_t>> before;
};

Dependences dependencesOf(step::ProgramOp program, const step::KernelTable &kernels);

/// The same of a list of commands, which may hold no records and waits.
Dependences dependencesOf(std::vector<step::StepCommandOpInterface> commands,
                          const step::KernelTable &kernels);

} // namespace nano::schedule
