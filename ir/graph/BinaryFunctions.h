// What is known of an element-wise function of two floats, beside its op: what passes, code
// generators and tests ask.
#pragma once

#include "ir/graph/UnaryFunctions.h"

#include <optional>

namespace mlir {
class Operation;
} // namespace mlir

namespace nano::graph {

/// A function of the dialect: its op's name, as "nano.logaddexp", f in f64, and its traits.
struct BinaryFunction {
  llvm::StringRef op;
  double (*evaluate)(double a, double b);
  FunctionTraits traits;
};

/// All of them, ordered by the names of their ops.
llvm::ArrayRef<BinaryFunction> binaryFunctions();

/// The one that an op is; null where it is none.
const BinaryFunction *binaryFunctionOf(mlir::Operation *op);

/// The traits of the function that an op is, of one float or of two; nothing where it is none.
std::optional<FunctionTraits> traitsOf(mlir::Operation *op);

} // namespace nano::graph
