// Errors that the author of a model makes and can mend, told apart from those of the compiler:
// nanoc answers them with one line and exit status 2, and keeps nothing to reproduce them.
#pragma once

#include "mlir/IR/Diagnostics.h"

namespace nano::graph {

/// An error at the op, marked as one of the model's.
mlir::InFlightDiagnostic emitModelError(mlir::Operation *op);

/// Whether it came from emitModelError.
bool isModelError(mlir::Diagnostic &diagnostic);

} // namespace nano::graph
