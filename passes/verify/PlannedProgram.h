// A program with a memory plan, as bytes: what each command reads and writes, in addresses of the
// arena and, behind it, of the host's memory.
#pragma once

#include "ir/step/Step.h"
#include "passes/verify/ByteSet.h"

#include <string>
#include <vector>

namespace nano::verify {

/// A buffer of the program, or a state, scalar or input.
struct PlannedBuffer {
  mlir::Operation *op = nullptr; ///< step.buffer, nano.state, nano.scalar or step.input
  std::string name;
  ByteSet bytes;           ///< an interval of the arena, or of the host's memory
  bool persistent = false; ///< lives from step to step
  bool output = false;     ///< has no contents until the program writes it
  /// A gradient: others may write its bytes as long as no program reads what was there; what of it
  /// is valid from program to program `GradientLives` follows.
  bool gradient = false;
  /// The program that alone touches an output, which the host reads before others run; the programs
  /// that touch what sampling keeps. For others its bytes are free. Empty: all programs.
  llvm::SmallVector<mlir::Operation *, 2> owners = {};

  bool isSeenBy(mlir::Operation *program) const {
    return owners.empty() || llvm::is_contained(owners, program);
  }
};

struct PlannedAccess {
  uint32_t buffer = 0; ///< index
  ByteSet bytes;
  mlir::Value value; ///< the operand
  bool reads = false, writes = false;
  uint32_t segment = 0; ///< of a launch; segments run side by side
};

struct PlannedCommand {
  mlir::Operation *op = nullptr;
  uint64_t stream = 0;
  std::vector<PlannedAccess> accesses;
};

/// The buffers of a module that live from step to step. Reading them fails, with an error, when one
/// has no offset or two overlap that a program sees; gradients may lie over each other and over
/// what has owners.
struct PersistentBuffers {
  std::vector<PlannedBuffer> buffers; ///< by offset
};
mlir::FailureOr<PersistentBuffers> readPersistentBuffers(mlir::ModuleOp module);

/// `buffers` starts with the persistent ones, by offset, but for outputs of other programs alone.
/// Of these none overlap but gradients.
struct PlannedProgram {
  std::vector<PlannedBuffer> buffers;
  std::vector<PlannedCommand> commands;
};
/// Fails, with an error, when a buffer has no offset or lies outside the memory that it is of.
mlir::FailureOr<PlannedProgram> readProgram(mlir::ModuleOp module, step::ProgramOp program,
                                            const PersistentBuffers &persistent,
                                            const step::KernelTable &kernels);

/// Reads every program of a module that has a memory plan and runs `check` on it, up to the first
/// that fails.
mlir::LogicalResult forEachProgram(
    mlir::ModuleOp module, const PersistentBuffers &persistent,
    llvm::function_ref<mlir::LogicalResult(step::ProgramOp, const PlannedProgram &)> check);

/// "buffer 'x' (models/x.cpp:41)" or "state 'embed.weight'".
std::string describe(const PlannedBuffer &buffer);

} // namespace nano::verify
