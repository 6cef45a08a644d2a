// From which command to which a program's buffers must keep their bytes to themselves.
#pragma once

#include "ir/step/Step.h"
#include "passes/memory/Packing.h"
#include "passes/memory/StepStates.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

#include <vector>

namespace nano::memory {

/// A buffer of one program, or a state that lives within a step, and the program's commands, by
/// position in program order, during which its bytes are its own; begin > end when no command
/// touches it.
struct Lifetime {
  graph::PlacedOpInterface buffer;
  int64_t begin = 0, end = -1;
  int64_t bytes = 0;
  /// Where commands touch it from its start on, one part after the other, as many that put a tensor
  /// together: how far they have come. Empty where the first command reaches its end.
  std::vector<Growth> growth = {};
};

/// A program's commands and the lifetimes of its buffers, both in program order, then those of the
/// states that live within a step and that it touches.
struct Lifetimes {
  std::vector<step::StepCommandOpInterface> commands;
  std::vector<Lifetime> buffers;
};

/// Which of a program's buffers.
enum class Space : uint8_t {
  Arena, ///< those of the device's memory
  Host,  ///< those in the host's
};

/// Buffers that only stream 0 touches live from their first to their last access, what lies behind
/// all that was touched so far not yet. Where another
/// stream touches a buffer, its life begins at the first command that may still run when that
/// stream's first access starts, and ends at the last command that may start before its last access
/// has finished: commands of the first stream and of those behind its own. What two streams do
/// beside each other thus lies within the life of one of the buffers, which meets that of the
/// other. So buffers whose lives do not meet are never in use at the same time, whatever the
/// streams do. What a state holds from before lives from the start of the program, and what is read
/// after it until its end.
Lifetimes lifetimesOf(step::ProgramOp program, const step::KernelTable &kernels,
                      llvm::ArrayRef<StepState> states = {}, Space space = Space::Arena);

/// Large outputs that one program alone touches, and that program: the host has read them before
/// another program runs, which may use their bytes.
llvm::MapVector<step::InputOp, step::ProgramOp> ownOutputs(mlir::ModuleOp module);

/// The states that sampling keeps, and the programs that touch each: for others its bytes are free.
llvm::MapVector<graph::StateOp, llvm::SmallPtrSet<mlir::Operation *, 2>>
cachePrograms(mlir::ModuleOp module);

} // namespace nano::memory
