// Commands of step IR as commands of a plan.
#pragma once

#include "ir/step/Step.h"
#include "runtime/plan/Plan.h"

namespace nano::codegen {

/// What commands refer to: indices of the plan's buffers and kernels, and where in a plan buffer a
/// step buffer begins.
struct PlanIndex {
  struct Start {
    uint32_t buffer = 0;
    uint64_t offset = 0; ///< bytes from the plan buffer's start
  };
  llvm::DenseMap<const void *, Start> buffers; ///< by step::bufferKey
  llvm::DenseMap<mlir::StringAttr, uint32_t> kernels;
};

/// The plan's name for an element type.
plan::DType dtypeOf(mlir::Type type);
/// The plan's name for a set of ranks.
plan::Ranks planRanks(graph::RankSet ranks);
/// A location's model line; line 0 when it has none.
plan::Location planLocation(mlir::Location location);

/// The matrices that a kernel's bulk loads see its arguments as, from its tensor maps.
std::vector<plan::TensorMap> tensorMapsOf(kernel::FuncOp kernel);

/// The program with all its commands. Errors, at the command: a kernel that the plan does not have.
mlir::FailureOr<plan::Program> planProgram(step::ProgramOp program, const PlanIndex &index,
                                           const step::KernelTable &kernels);

} // namespace nano::codegen
