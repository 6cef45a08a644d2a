// IR of a stage as --stop-after and --dump-ir have written it, perhaps edited since: what
// `nanoc compile --from` goes on from.
#pragma once

#include "compiler/Stages.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nano {

/// Programs that have come so far.
struct StageFile {
  std::string model; ///< its name
  /// The program; of stages that have one for each number of ranks, these, as `worlds`.
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> programs;
  std::vector<int64_t> worlds; ///< empty where the program is for all
  std::string source; ///< the text of the model file that the programs name; empty where it is gone
};

/// Parses one program of a file, whose text begins behind `lines` of its lines. Throws ModelError,
/// with the file and its line: it is no IR, an op does not verify.
mlir::OwningOpRef<mlir::ModuleOp> parseProgram(mlir::MLIRContext &context, const std::string &path,
                                               llvm::StringRef text, int64_t lines = 0);

/// Reads IR that is to be of `stage`. Throws ModelError, with the file and its line: it cannot be
/// read or parsed, an op does not verify, it is no such program.
StageFile readStageFile(mlir::MLIRContext &context, const std::string &path, const Stage &stage);

} // namespace nano
