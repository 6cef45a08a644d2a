// A model file's program in a context, and what nanoc makes of errors.
#pragma once

#include "compiler/HostCompiler.h"
#include "compiler/explore/PassRecords.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <utility>
#include <vector>

namespace nano {

using Overrides = std::vector<std::pair<std::string, std::string>>; ///< -D name=value

/// All dialects of the compiler.
void loadDialects(mlir::MLIRContext &context);

/// Records the model: `scales` is a file of --fp8-scales or empty, `reports` names those that are
/// asked for. Throws ModelError.
frontend::TracedModel trace(mlir::MLIRContext &context, const ModelFile &file,
                            const Overrides &overrides, const std::string &scales = {},
                            const std::vector<std::string> &reports = {},
                            const frontend::KernelTrace &kernels = {});

/// Runs `work` and turns what it throws into a line, with the line of the model that it names, and
/// an exit status; `records`, which may be null, are told why. std::bad_alloc goes on to `main`.
int guarded(llvm::function_ref<void()> work, explore::PassRecords *records = nullptr);

} // namespace nano
