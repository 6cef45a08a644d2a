// What is known of a function of rows, beside its op: what passes, interpreter, front end and tests
// ask.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace nano::graph {

struct RowFunctionTraits {
  int64_t mostColumns; ///< of a row
};

/// A function of the dialect: its op's name, as "nano.sparsemax", what it makes of a row in f64,
/// and its traits.
struct RowFunction {
  llvm::StringRef op;
  void (*evaluate)(llvm::ArrayRef<double> x, llvm::MutableArrayRef<double> y);
  RowFunctionTraits traits;
};

/// All of them, ordered by the names of their ops.
llvm::ArrayRef<RowFunction> rowFunctions();

/// The one of that name; null where there is none.
const RowFunction *rowFunctionNamed(llvm::StringRef op);
/// The one that an op is; null where it is none.
const RowFunction *rowFunctionOf(mlir::Operation *op);

/// That the op's operand is a matrix of no more columns than the function takes.
llvm::LogicalResult verifyRowFunction(mlir::Operation *op, RowFunctionTraits traits);

} // namespace nano::graph
