// Remarks that explain one of many decisions: a page shows them at their lines, a terminal would be
// full of them.
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace nano {

inline constexpr llvm::StringLiteral detailMark = "detail";

/// A remark on the op that is marked as a detail.
inline mlir::InFlightDiagnostic emitDetail(mlir::Operation *op) {
  mlir::InFlightDiagnostic remark = op->emitRemark();
  if (mlir::Diagnostic *diagnostic = remark.getUnderlyingDiagnostic())
    diagnostic->getMetadata().emplace_back(detailMark);
  return remark;
}

/// Whether a remark is one of these.
inline bool isDetail(mlir::Diagnostic &diagnostic) {
  for (const mlir::DiagnosticArgument &argument : diagnostic.getMetadata())
    if (argument.getKind() == mlir::DiagnosticArgument::DiagnosticArgumentKind::String &&
        argument.getAsString() == detailMark)
      return true;
  return false;
}

} // namespace nano
