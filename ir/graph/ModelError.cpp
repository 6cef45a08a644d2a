// The mark is a word in the diagnostic's metadata, which no printer shows.
#include "ir/graph/ModelError.h"

#include "mlir/IR/Operation.h"

using namespace mlir;

namespace nano::graph {

static constexpr llvm::StringLiteral mark = "model error";

InFlightDiagnostic emitModelError(Operation *op) {
  InFlightDiagnostic error = op->emitError();
  // There is none to mark where nobody listens.
  if (Diagnostic *diagnostic = error.getUnderlyingDiagnostic())
    diagnostic->getMetadata().emplace_back(StringRef(mark));
  return error;
}

bool isModelError(Diagnostic &diagnostic) {
  return llvm::any_of(diagnostic.getMetadata(), [](const DiagnosticArgument &argument) {
    return argument.getKind() == DiagnosticArgument::DiagnosticArgumentKind::String &&
           argument.getAsString() == mark;
  });
}

} // namespace nano::graph
