// What lives of gradients from program to program, through all steps that a run may take.
#pragma once

#include "ir/step/StepOrder.h"
#include "passes/verify/PlannedProgram.h"

#include "llvm/ADT/MapVector.h"

namespace nano::verify {

/// What a program does to a gradient's bytes; those in none of these it leaves as they were.
struct GradientUse {
  ByteIntervals needed; ///< read as they were before
  ByteIntervals made;   ///< its own at the end, whatever they were
  ByteIntervals lost;   ///< something else at the end, or nothing
  /// The commands that read bytes as they were before, and these bytes.
  std::vector<std::pair<mlir::Operation *, ByteSet>> readers;
};
using GradientUses = llvm::MapVector<mlir::Operation *, GradientUse>; // by state

/// Follows a run: step upon step, each of any stage, through all phases in turn, with any other
/// programs between steps, as often as they like. What a program needs of a gradient must hold on
/// every way to it: where ways meet, what holds is what holds on all of them.
///
/// At first a gradient's bytes hold what it starts with, but for those where something else lies
/// that lives from step to step: the one is written over the other.
class GradientLives {
public:
  GradientLives(mlir::ModuleOp module, const PersistentBuffers &persistent)
      : module(module), persistent(persistent), orders(step::stepOrders(module)) {}

  void add(step::ProgramOp program, GradientUses found) { uses[program] = std::move(found); }
  /// Fails, with an error at the command, where a program reads what may not be there.
  llvm::LogicalResult check();

private:
  llvm::LogicalResult check(const PlannedBuffer &gradient);
  /// Lets a program run.
  llvm::LogicalResult run(step::ProgramOp program, const PlannedBuffer &gradient,
                          ByteIntervals &valid);
  /// Lets some programs run in any order, any number of times.
  llvm::LogicalResult runAny(llvm::ArrayRef<step::ProgramOp> programs,
                             const PlannedBuffer &gradient, ByteIntervals &valid);
  llvm::LogicalResult report(step::ProgramOp program, const PlannedBuffer &gradient,
                             const GradientUse &use, const ByteIntervals &valid);
  ByteIntervals atFirst(const PlannedBuffer &gradient) const;

  mlir::ModuleOp module;
  const PersistentBuffers &persistent;
  llvm::SmallVector<step::StepOrder> orders;
  llvm::DenseMap<mlir::Operation *, GradientUses> uses; ///< by program
};

} // namespace nano::verify
