// Random instances of every op of the graph dialect that has a derivative, for checks against
// finite differences.
#pragma once

#include "ir/graph/GraphBuilder.h"
#include "tests/support/Interpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <optional>
#include <random>

namespace nano::test {

/// One op in a function that takes the op's operands, and values for them.
class Instance {
public:
  Instance(mlir::MLIRContext &context, std::mt19937_64 &random);

  /// A tensor type of element type f32 or, one time in four, bf16; rank 0 to 4 unless a shape is
  /// given, sizes 1 to 4.
  mlir::RankedTensorType floatType(std::optional<std::vector<int64_t>> shape = {});
  std::vector<int64_t> shape(int64_t leastRank = 0, int64_t mostRank = 4);
  int64_t draw(int64_t low, int64_t high); ///< Both included.
  bool flip() { return draw(0, 1) == 1; }
  mlir::RankedTensorType f32(const std::vector<int64_t> &shape);
  mlir::RankedTensorType i32(const std::vector<int64_t> &shape);

  /// A new operand with standard normal elements; `map` is applied to each.
  mlir::Value operand(mlir::RankedTensorType type, double (*map)(double) = nullptr);
  /// A new i32 operand with elements in [0, limit).
  mlir::Value indices(const std::vector<int64_t> &shape, int64_t limit);
  mlir::Value operand(mlir::RankedTensorType type, TensorValue value);

  std::mt19937_64 &random;
  mlir::OpBuilder builder;
  mlir::Location location; ///< A line of a model file, for the op.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Block *block = nullptr;
  mlir::Operation *op = nullptr; ///< What the generator made.
  llvm::SmallVector<TensorValue> operands;
};

/// Makes `instance.op`, an op of the generator's name, and its operands.
using Generator = std::function<void(Instance &instance)>;

/// The generator for an op's name ("nano.exp"), or null.
const Generator *findGenerator(llvm::StringRef name);

} // namespace nano::test
