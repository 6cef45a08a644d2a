// Goes through the pipeline pass by pass until one is wrong.
#pragma once

#include "compiler/Stages.h"
#include "compiler/bisect/Judge.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <optional>
#include <string>

namespace nano::bisect {

/// A pass that is wrong.
struct Finding {
  std::string stage, pass; ///< names; the stage is empty where one is not known
  std::string text;        ///< the pass with its options, for --pass-pipeline
  std::string why;         ///< where the step is wrong behind it
  mlir::OwningOpRef<mlir::ModuleOp> before = {}; ///< the program that it was given
};

/// Told of each pass that has changed something.
using OnPass =
    std::function<void(const std::string &stage, const std::string &pass, const Verdict &verdict)>;

/// Runs the passes of `stages` on `module`, each alone, and stops at the first behind which a step
/// is wrong; nothing where none is. The context has no other threads. Failed: the program cannot be
/// run before any pass; a pass fails.
Result<std::optional<Finding>> findFirst(mlir::ModuleOp module, llvm::ArrayRef<Stage> stages,
                                         const PipelineOptions &pipeline, const Settings &settings,
                                         const OnPass &onPass);

/// The same for one pass with its options.
Result<std::optional<Finding>> judgePass(mlir::ModuleOp module, const std::string &text,
                                         const Settings &settings, const OnPass &onPass);

/// The smallest program found within `seconds` before which the step is right, and behind the
/// finding's pass is not.
mlir::OwningOpRef<mlir::ModuleOp> reduce(const Finding &finding, const Settings &settings,
                                         double seconds);

} // namespace nano::bisect
