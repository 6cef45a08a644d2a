// Step IR and kernels' code to a plan: the last thing that the compiler does.
#pragma once

#include "codegen/IndexGroups.h"
#include "codegen/KernelReaches.h"
#include "runtime/plan/Plan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace nano::codegen {

/// What a plan holds beside the program.
struct PlanParts {
  std::string target = "cpu";
  int64_t world = 1;                    ///< number of ranks that it runs on
  std::string code;                     ///< CPU: ELF bytes that define the kernels
  std::vector<plan::Source> sources;    ///< CUDA: "<kernel>.cu" of each kernel, and headers
  std::vector<std::string> cpuFeatures; ///< what the code needs
  std::string source;                   ///< the model file's text
  /// What the plan lists as kernels, which contain the module's own; null: those.
  mlir::ModuleOp kernels;
  /// CUDA: the most sets of operands of a launch, by kernel; those of the module when `kernels` is
  /// null.
  llvm::StringMap<int64_t> segments;
  /// How far launches reach, by kernel; those of the module when `kernels` is null.
  KernelReaches reaches;
  /// Which operands and buffers hold the same integers; those of the module when `kernels` is null.
  IndexGroups indices;
};

/// The plan of a module after memory planning. Errors, at the op: something has no offset, a launch
/// names no kernel, a schedule computes what the runtime has no operation for, an input or a size
/// of the training is missing. Whether the result obeys all rules of plans is for plan::validate to
/// say.
mlir::FailureOr<plan::Plan> writePlan(mlir::ModuleOp module, PlanParts parts);

} // namespace nano::codegen
